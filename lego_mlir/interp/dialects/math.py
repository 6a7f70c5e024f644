"""`math`: elementary functions by NumPy, in the precision of the type (f16, bf16 and f8 through f32).

Those of `THROUGH_F64` are computed in f64 and rounded to f32, as NumPy's f32 versions differ between processors.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

import math as scalar
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lego_mlir.interp import rounding, values
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array, unsigned

erf = np.vectorize(scalar.erf, otypes=[np.float64])
erfc = np.vectorize(scalar.erfc, otypes=[np.float64])

FLOATING: Final[dict[str, Callable[..., Any]]] = {
    "absf": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": erf,
    "erfc": erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "powf": np.power,
    "round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
    "roundeven": np.rint,
    "rsqrt": lambda a: 1.0 / np.sqrt(a.astype(np.float64)),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


THROUGH_F64: Final = frozenset(
    {"acos", "asin", "atan", "atan2", "cosh", "expm1", "log1p", "powf", "sinh", "tan"}
)  # fmt: skip


def _in_precision(name: str, compute: Callable[..., Array]) -> Callable[[Operation], Step]:
    def build(op: Operation) -> Step:
        dtype = values.element_dtype(op.result_type())
        wide = np.float64 if dtype == np.float64 or name in THROUGH_F64 else np.float32

        def run(*operands: Array) -> Array:
            return rounding.narrow(np.asarray(compute(*[a.astype(wide) for a in operands])), dtype)

        return op.elementwise(run)

    return build


for _name, _function in FLOATING.items():
    implements(f"math.{_name}")(_in_precision(_name, _function))

for _name, _test in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
    implements(f"math.{_name}")(lambda op, _test=_test: op.elementwise(_test))  # type: ignore[misc]


@implements("math.isnormal")
def isnormal(op: Operation) -> Step:
    return op.elementwise(lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny))


@implements("math.fma", "vector.fma")
def fma(op: Operation) -> Step:
    return op.elementwise(rounding.fma)


@implements("math.absi")
def absi(op: Operation) -> Step:
    return op.elementwise(np.abs)


@implements("math.fpowi")
def fpowi(op: Operation) -> Step:
    dtype = values.element_dtype(op.result_type())
    return op.elementwise(lambda a, n: rounding.narrow(np.power(a.astype(np.float64), n.astype(np.float64)), dtype))


@implements("math.ipowi")
def ipowi(op: Operation) -> Step:
    """Integer power, wrapping; a negative exponent gives 0 except for the bases 1 and -1."""

    def power(a: Array, n: Array) -> Array:
        positive = np.power(a, np.maximum(n, 0))
        inverse = np.where(a == 1, 1, np.where(a == -1, np.where(n % 2 == 0, 1, -1), 0)).astype(a.dtype)
        return np.where(n >= 0, positive, inverse)

    return op.elementwise(power)


@implements("math.ctpop")
def ctpop(op: Operation) -> Step:
    return op.elementwise(lambda a: np.bitwise_count(unsigned(a)).astype(a.dtype))


def _smeared(bits: Array) -> Array:
    """The value with every bit below its highest set bit set as well."""
    shift = 1
    while shift < bits.dtype.itemsize * 8:
        bits = bits | (bits >> bits.dtype.type(shift))
        shift *= 2
    return bits


@implements("math.ctlz")
def ctlz(op: Operation) -> Step:
    def leading(a: Array) -> Array:
        width = a.dtype.itemsize * 8
        return (width - np.bitwise_count(_smeared(unsigned(a)))).astype(a.dtype)

    return op.elementwise(leading)


@implements("math.cttz")
def cttz(op: Operation) -> Step:
    def trailing(a: Array) -> Array:
        bits = unsigned(a)
        return np.bitwise_count((bits & -bits) - bits.dtype.type(1)).astype(a.dtype)

    return op.elementwise(trailing)
