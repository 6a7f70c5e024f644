"""The operations on data: one row each, with its MLIR operation for floats and for integers.

| name | floats | integers |
|---|---|---|
| `add` | `arith.addf` | `arith.addi` |
| `floordiv` | none | `arith.floordivsi` |
| `exp` | `math.exp` | none |

A row has the number of operands; the result has the operands' type, or i1 for comparisons, which carry their
predicates. Floats compare ordered (false with a NaN), except `ne`. `minimum` and `maximum` propagate NaN, as NumPy's
do. The functions of `math` on f16 and bf16 are computed in f32 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Operator:
    """`floats` and `integers` name the MLIR operation; empty where undefined."""

    arity: int
    floats: str = ""
    integers: str = ""
    predicates: tuple[int, int] | None = None  # of arith.cmpf and arith.cmpi
    in_f32: bool = False


OPERATORS: Final = {
    "add": Operator(2, "arith.addf", "arith.addi"),
    "sub": Operator(2, "arith.subf", "arith.subi"),
    "mul": Operator(2, "arith.mulf", "arith.muli"),
    "truediv": Operator(2, "arith.divf"),
    "floordiv": Operator(2, integers="arith.floordivsi"),
    "mod": Operator(2, integers="floor remainder"),
    "and": Operator(2, integers="arith.andi"),
    "or": Operator(2, integers="arith.ori"),
    "xor": Operator(2, integers="arith.xori"),
    "lshift": Operator(2, integers="arith.shli"),
    "rshift": Operator(2, integers="arith.shrsi"),
    "minimum": Operator(2, "arith.minimumf", "arith.minsi"),
    "maximum": Operator(2, "arith.maximumf", "arith.maxsi"),
    "neg": Operator(1, "arith.negf", "negation"),
    "abs": Operator(1, "math.absf", "absolute value"),
    "fma": Operator(3, "math.fma"),
    "exp": Operator(1, "math.exp", in_f32=True),
    "exp2": Operator(1, "math.exp2", in_f32=True),
    "log": Operator(1, "math.log", in_f32=True),
    "log2": Operator(1, "math.log2", in_f32=True),
    "sqrt": Operator(1, "math.sqrt", in_f32=True),
    "rsqrt": Operator(1, "math.rsqrt", in_f32=True),
    "tanh": Operator(1, "math.tanh", in_f32=True),
    "sin": Operator(1, "math.sin", in_f32=True),
    "cos": Operator(1, "math.cos", in_f32=True),
    "erf": Operator(1, "math.erf", in_f32=True),
    "eq": Operator(2, "arith.cmpf", "arith.cmpi", (1, 0)),
    "ne": Operator(2, "arith.cmpf", "arith.cmpi", (13, 1)),
    "lt": Operator(2, "arith.cmpf", "arith.cmpi", (4, 2)),
    "le": Operator(2, "arith.cmpf", "arith.cmpi", (5, 3)),
    "gt": Operator(2, "arith.cmpf", "arith.cmpi", (2, 4)),
    "ge": Operator(2, "arith.cmpf", "arith.cmpi", (3, 5)),
    "select": Operator(3, "arith.select", "arith.select"),
}
