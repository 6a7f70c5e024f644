"""The operations on data: one row each, with its MLIR operation for floats, for integers, and for unsigned ones.

| name | floats | integers | unsigned |
|---|---|---|---|
| `add` | `arith.addf` | `arith.addi` | the same |
| `floordiv` | none | `arith.floordivsi` | `arith.divui` |
| `exp` | `math.exp` | none | none |

A row has the number of operands; the result has the operands' type, or i1 for comparisons, which carry their
predicates, and for tests. Floats compare ordered (false with a NaN), except `ne`. `minimum` and `maximum` propagate
NaN, as NumPy's do. The functions of `math` on f16 and bf16 are computed in f32 and rounded once. A name with a blank is
no operation of MLIR: `emit_functions` expands it. A row "fast sqrt" is the approximate `sqrt`: the same operation with
the flag afn, which `LowerFastFunctions` makes an instruction of f32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.tracing.trace.dtypes import DType


@dataclass(frozen=True, slots=True)
class Operator:
    """`floats`, `integers` and `unsigned` name the MLIR operation; empty where undefined, `unsigned` where the same."""

    arity: int
    floats: str = ""
    integers: str = ""
    unsigned: str = ""
    predicates: tuple[int, int] | None = None  # of arith.cmpf and arith.cmpi
    in_f32: bool = False
    tests: bool = False  # a truth value of a number
    on_truth: bool = False  # also defined for i1
    fast: bool = False  # approximate, of f32

    @property
    def gives_truth(self) -> bool:
        return self.tests or self.predicates is not None

    def on(self, dtype: DType) -> str:
        """The operation for an element type; empty where undefined."""
        if dtype.is_float:
            return "" if dtype.is_f8 and not self.moves else self.floats
        if dtype.family == "bool" and not self.on_truth:
            return ""
        return (dtype.is_unsigned and self.unsigned) or self.integers

    @property
    def moves(self) -> bool:
        """Whether the result is one of the operands."""
        return self.floats == "arith.select"

    def predicate(self, dtype: DType) -> int:
        """The predicate of a comparison of this element type."""
        assert self.predicates is not None
        if dtype.is_float:
            return self.predicates[0]
        signed = self.predicates[1]
        return signed + UNSIGNED_PREDICATES if dtype.is_unsigned and signed >= LEAST_ORDERED else signed


LEAST_ORDERED: Final = 2  # of arith.cmpi: 0 and 1 are eq and ne, 2 to 5 slt, sle, sgt, sge, and 6 to 9 ult to uge
UNSIGNED_PREDICATES: Final = 4

_OPERATORS: Final = {
    "add": Operator(2, "arith.addf", "arith.addi"),
    "sub": Operator(2, "arith.subf", "arith.subi"),
    "mul": Operator(2, "arith.mulf", "arith.muli"),
    "truediv": Operator(2, "arith.divf"),
    "floordiv": Operator(2, "", "arith.floordivsi", "arith.divui"),
    "mod": Operator(2, "", "floor remainder", "arith.remui"),
    "div_trunc": Operator(2, "", "arith.divsi", "arith.divui"),
    "rem_trunc": Operator(2, "", "arith.remsi", "arith.remui"),
    "and": Operator(2, integers="arith.andi", on_truth=True),
    "or": Operator(2, integers="arith.ori", on_truth=True),
    "xor": Operator(2, integers="arith.xori", on_truth=True),
    "lshift": Operator(2, integers="arith.shli"),
    "rshift": Operator(2, "", "arith.shrsi", "arith.shrui"),
    "minimum": Operator(2, "arith.minimumf", "arith.minsi", "arith.minui", on_truth=True),
    "maximum": Operator(2, "arith.maximumf", "arith.maxsi", "arith.maxui", on_truth=True),
    "neg": Operator(1, "arith.negf", "integer negation"),
    "abs": Operator(1, "math.absf", "absolute value", "the number itself"),
    "sign": Operator(1, "sign of float", "sign of integer"),
    "popcount": Operator(1, integers="math.ctpop"),
    "clz": Operator(1, integers="math.ctlz"),
    "ctz": Operator(1, integers="math.cttz"),
    "fma": Operator(3, "math.fma"),
    "floor": Operator(1, "math.floor", in_f32=True),
    "ceil": Operator(1, "math.ceil", in_f32=True),
    "round": Operator(1, "math.roundeven", in_f32=True),
    "trunc": Operator(1, "math.trunc", in_f32=True),
    "copysign": Operator(2, "math.copysign", in_f32=True),
    "exp": Operator(1, "math.exp", in_f32=True),
    "exp2": Operator(1, "math.exp2", in_f32=True),
    "expm1": Operator(1, "math.expm1", in_f32=True),
    "log": Operator(1, "math.log", in_f32=True),
    "log2": Operator(1, "math.log2", in_f32=True),
    "log1p": Operator(1, "math.log1p", in_f32=True),
    "pow": Operator(2, "math.powf", in_f32=True),
    "sqrt": Operator(1, "math.sqrt", in_f32=True),
    "rsqrt": Operator(1, "math.rsqrt", in_f32=True),
    "tanh": Operator(1, "math.tanh", in_f32=True),
    "sinh": Operator(1, "math.sinh", in_f32=True),
    "cosh": Operator(1, "math.cosh", in_f32=True),
    "sin": Operator(1, "math.sin", in_f32=True),
    "cos": Operator(1, "math.cos", in_f32=True),
    "tan": Operator(1, "math.tan", in_f32=True),
    "asin": Operator(1, "math.asin", in_f32=True),
    "acos": Operator(1, "math.acos", in_f32=True),
    "atan": Operator(1, "math.atan", in_f32=True),
    "atan2": Operator(2, "math.atan2", in_f32=True),
    "erf": Operator(1, "math.erf", in_f32=True),
    "isnan": Operator(1, "test for NaN", tests=True),
    "isinf": Operator(1, "test for infinity", tests=True),
    "isfinite": Operator(1, "test for finite", tests=True),
    "eq": Operator(2, "arith.cmpf", "arith.cmpi", predicates=(1, 0), on_truth=True),
    "ne": Operator(2, "arith.cmpf", "arith.cmpi", predicates=(13, 1), on_truth=True),
    "lt": Operator(2, "arith.cmpf", "arith.cmpi", predicates=(4, 2), on_truth=True),
    "le": Operator(2, "arith.cmpf", "arith.cmpi", predicates=(5, 3), on_truth=True),
    "gt": Operator(2, "arith.cmpf", "arith.cmpi", predicates=(2, 4), on_truth=True),
    "ge": Operator(2, "arith.cmpf", "arith.cmpi", predicates=(3, 5), on_truth=True),
    "select": Operator(3, "arith.select", "arith.select", on_truth=True),
}

WITH_FAST: Final = ("truediv", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos")
"""The operations that have an approximate form."""


def fast_form(name: str) -> str:
    """The name of an operation's approximate form."""
    return f"fast {name}"


OPERATORS: Final = {
    **_OPERATORS,
    **{fast_form(name): replace(_OPERATORS[name], in_f32=True, fast=True) for name in WITH_FAST},
}
