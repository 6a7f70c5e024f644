"""Functions of a kernel's data; `where`, `minimum` and `maximum` also take ints, arrays and indices.

On data these three become instructions; on anything else they are those of `expr.index`. The others take data only.

>>> where(True, 1, 2), minimum(3, 4)
(1, 3)
"""

from __future__ import annotations

import sys
from typing import Any

from lego_mlir.expr import index as _index


def _is_data(*values: Any) -> bool:
    loaded = sys.modules.get("lego_mlir.tracing.scalar")
    return loaded is not None and any(isinstance(v, loaded.Scalar) for v in values)


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, `b` elsewhere; both are always computed."""
    if _is_data(a, b) or (_is_data(condition) and isinstance(a, float | int) and isinstance(b, float | int)):
        from lego_mlir.tracing.scalar import select

        return select(condition, a, b)
    return _index.where(_index.Condition(condition) if _is_data(condition) else condition, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two; NaN if one is NaN."""
    return _compute("minimum", a, b) if _is_data(a, b) else _index.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two; NaN if one is NaN."""
    return _compute("maximum", a, b) if _is_data(a, b) else _index.maximum(a, b)


def exp(x: Any) -> Any:
    """e to the power x."""
    return _compute("exp", x)


def exp2(x: Any) -> Any:
    """2 to the power x."""
    return _compute("exp2", x)


def log(x: Any) -> Any:
    """The natural logarithm."""
    return _compute("log", x)


def log2(x: Any) -> Any:
    """The logarithm to base 2."""
    return _compute("log2", x)


def sqrt(x: Any) -> Any:
    """The square root."""
    return _compute("sqrt", x)


def rsqrt(x: Any) -> Any:
    """One over the square root."""
    return _compute("rsqrt", x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return _compute("tanh", x)


def sin(x: Any) -> Any:
    """The sine of an angle in radians."""
    return _compute("sin", x)


def cos(x: Any) -> Any:
    """The cosine of an angle in radians."""
    return _compute("cos", x)


def erf(x: Any) -> Any:
    """The error function."""
    return _compute("erf", x)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    return _compute("fma", a, b, c)


def _compute(name: str, *operands: Any) -> Any:
    from lego_mlir.tracing.scalar import compute

    return compute(name, *operands)
