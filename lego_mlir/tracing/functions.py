"""Functions of a kernel's data; `where`, `minimum` and `maximum` also take ints, arrays and indices.

On data these three become instructions; on anything else they are those of `expr.index`. The others take data only.

>>> where(True, 1, 2), minimum(3, 4)
(1, 3)
"""

from __future__ import annotations

import sys

from lego_mlir.aliases import Operand
from lego_mlir.expr import index as _index


def _is_data(*values: Operand) -> bool:
    loaded = sys.modules.get("lego_mlir.tracing.scalar")
    return loaded is not None and any(isinstance(v, loaded.Scalar) for v in values)


def where(condition: Operand, a: Operand, b: Operand) -> Operand:
    """`a` where the condition holds, `b` elsewhere; both are always computed."""
    if _is_data(a, b) or (_is_data(condition) and isinstance(a, float | int) and isinstance(b, float | int)):
        from lego_mlir.tracing.scalar import select

        return select(condition, a, b)
    return _index.where(_index.Condition(condition) if _is_data(condition) else condition, a, b)


def minimum(a: Operand, b: Operand) -> Operand:
    """The smaller of two; NaN if one is NaN."""
    return _compute("minimum", a, b) if _is_data(a, b) else _index.minimum(a, b)


def maximum(a: Operand, b: Operand) -> Operand:
    """The larger of two; NaN if one is NaN."""
    return _compute("maximum", a, b) if _is_data(a, b) else _index.maximum(a, b)


def exp(x: Operand) -> Operand:
    """e to the power x."""
    return _compute("exp", x)


def exp2(x: Operand) -> Operand:
    """2 to the power x."""
    return _compute("exp2", x)


def log(x: Operand) -> Operand:
    """The natural logarithm."""
    return _compute("log", x)


def log2(x: Operand) -> Operand:
    """The logarithm to base 2."""
    return _compute("log2", x)


def sqrt(x: Operand) -> Operand:
    """The square root."""
    return _compute("sqrt", x)


def rsqrt(x: Operand) -> Operand:
    """One over the square root."""
    return _compute("rsqrt", x)


def tanh(x: Operand) -> Operand:
    """The hyperbolic tangent."""
    return _compute("tanh", x)


def sin(x: Operand) -> Operand:
    """The sine of an angle in radians."""
    return _compute("sin", x)


def cos(x: Operand) -> Operand:
    """The cosine of an angle in radians."""
    return _compute("cos", x)


def erf(x: Operand) -> Operand:
    """The error function."""
    return _compute("erf", x)


def fma(a: Operand, b: Operand, c: Operand) -> Operand:
    """a * b + c, rounded once."""
    return _compute("fma", a, b, c)


def _compute(name: str, *operands: Operand) -> Operand:
    from lego_mlir.tracing.scalar import compute

    return compute(name, *operands)
