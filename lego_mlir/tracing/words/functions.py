"""Functions of a kernel's data; `where`, `minimum` and `maximum` also take ints, arrays and indices.

On data these three become instructions; on anything else they are those of `expr.index`. The others take data only.
Functions with `fast` are approximate where it is true, or where it is left out in a kernel with `fast=True`; each bound
is in docs/reference/kernels.md, "Approximate functions".

>>> where(True, 1, 2), minimum(3, 4)
(1, 3)
"""

from __future__ import annotations

import sys

from lego_mlir.aliases import Operand
from lego_mlir.expr import index as _index


def _is_data(*values: Operand) -> bool:
    scalar = getattr(
        sys.modules.get("lego_mlir.tracing.words.scalar"), "Scalar", ()
    )  # () too while a thread imports it
    return any(isinstance(v, scalar) for v in values)


def _elementwise(*values: Operand) -> _index.PerElement | None:
    return next((v for v in values if isinstance(v, _index.PerElement)), None)


def where(condition: Operand, a: Operand, b: Operand) -> Operand:
    """`a` where the condition holds, `b` elsewhere; both are always computed.

    Of two ints it is an index, and data where it is stored.
    """
    if (several := _elementwise(condition, a, b)) is not None:
        return several.map(where, condition, a, b)
    numbers = isinstance(a, float | int) and isinstance(b, float | int)
    if _is_data(a, b) or (_is_data(condition) and numbers and (isinstance(a, float) or isinstance(b, float))):
        from lego_mlir.tracing.words.scalar import select

        return select(condition, a, b)
    return _index.where(_index.Condition(condition) if _is_data(condition) else condition, a, b)


def minimum(a: Operand, b: Operand) -> Operand:
    """The smaller of two; NaN if one is NaN."""
    if (several := _elementwise(a, b)) is not None:
        return several.map(minimum, a, b)
    return _compute("minimum", a, b) if _is_data(a, b) else _index.minimum(a, b)


def maximum(a: Operand, b: Operand) -> Operand:
    """The larger of two; NaN if one is NaN."""
    if (several := _elementwise(a, b)) is not None:
        return several.map(maximum, a, b)
    return _compute("maximum", a, b) if _is_data(a, b) else _index.maximum(a, b)


def floor(x: Operand) -> Operand:
    """The greatest whole number that is not above x."""
    return _compute("floor", x)


def ceil(x: Operand) -> Operand:
    """The least whole number that is not below x."""
    return _compute("ceil", x)


def nearest_even(x: Operand) -> Operand:
    """The nearest whole number, of two as near the even one: 2.5 becomes 2, as NumPy's `round` has it."""
    return _compute("round", x)


def trunc(x: Operand) -> Operand:
    """The nearest whole number towards zero from x."""
    return _compute("trunc", x)


def copysign(x: Operand, y: Operand) -> Operand:
    """The size of x with the sign of y."""
    return _compute("copysign", x, y)


def sign(x: Operand) -> Operand:
    """1, -1 or 0 by the sign of x; NaN of a NaN. Of -0.0 it is 0.0, as in NumPy."""
    return _compute("sign", x)


def isnan(x: Operand) -> Operand:
    """Whether x is NaN."""
    return _compute("isnan", x)


def isinf(x: Operand) -> Operand:
    """Whether x is an infinity of either sign."""
    return _compute("isinf", x)


def isfinite(x: Operand) -> Operand:
    """Whether x is neither infinite nor NaN."""
    return _compute("isfinite", x)


def popcount(x: Operand) -> Operand:
    """The number of set bits of an integer, in its type."""
    return _compute("popcount", x)


def clz(x: Operand) -> Operand:
    """The number of zero bits above the highest set bit of an integer; its width for 0."""
    return _compute("clz", x)


def ctz(x: Operand) -> Operand:
    """The number of zero bits below the lowest set bit of an integer; its width for 0."""
    return _compute("ctz", x)


def divide(a: Operand, b: Operand, fast: bool | None = None) -> Operand:
    """a / b of floats; `fast`: by an approximate instruction, and 1 / b by an approximate reciprocal."""
    return _compute("truediv", a, b, fast=fast)


def div_trunc(a: Operand, b: Operand) -> Operand:
    """The quotient of two integers rounded towards zero, as in C; `a // b` rounds down."""
    return _compute("div_trunc", a, b)


def rem_trunc(a: Operand, b: Operand) -> Operand:
    """The remainder of `div_trunc`, with the sign of a, as C's %; `a % b` has the sign of b."""
    return _compute("rem_trunc", a, b)


def power(x: Operand, y: Operand) -> Operand:
    """x to the power y, for floats; `x ** y` is the same."""
    from lego_mlir.tracing.words import scalar

    return scalar.power(x, y)


def exp(x: Operand, fast: bool | None = None) -> Operand:
    """e to the power x; `fast`: by `exp2` of a rounded product."""
    return _compute("exp", x, fast=fast)


def exp2(x: Operand, fast: bool | None = None) -> Operand:
    """2 to the power x; `fast`: by one instruction."""
    return _compute("exp2", x, fast=fast)


def expm1(x: Operand) -> Operand:
    """e to the power x, minus 1; accurate also near 0."""
    return _compute("expm1", x)


def log(x: Operand, fast: bool | None = None) -> Operand:
    """The natural logarithm; `fast`: by `log2` times a number."""
    return _compute("log", x, fast=fast)


def log2(x: Operand, fast: bool | None = None) -> Operand:
    """The logarithm to base 2; `fast`: by one instruction."""
    return _compute("log2", x, fast=fast)


def log1p(x: Operand) -> Operand:
    """The natural logarithm of 1 + x; accurate also near 0."""
    return _compute("log1p", x)


def sqrt(x: Operand, fast: bool | None = None) -> Operand:
    """The square root; `fast`: by one instruction."""
    return _compute("sqrt", x, fast=fast)


def rsqrt(x: Operand, fast: bool | None = None) -> Operand:
    """One over the square root; `fast`: by one instruction."""
    return _compute("rsqrt", x, fast=fast)


def tanh(x: Operand) -> Operand:
    """The hyperbolic tangent."""
    return _compute("tanh", x)


def sinh(x: Operand) -> Operand:
    """The hyperbolic sine."""
    return _compute("sinh", x)


def cosh(x: Operand) -> Operand:
    """The hyperbolic cosine."""
    return _compute("cosh", x)


def sin(x: Operand, fast: bool | None = None) -> Operand:
    """The sine of an angle in radians; `fast`: by one instruction."""
    return _compute("sin", x, fast=fast)


def cos(x: Operand, fast: bool | None = None) -> Operand:
    """The cosine of an angle in radians; `fast`: by one instruction."""
    return _compute("cos", x, fast=fast)


def tan(x: Operand) -> Operand:
    """The tangent of an angle in radians."""
    return _compute("tan", x)


def asin(x: Operand) -> Operand:
    """The angle in -pi/2 .. pi/2 of which x is the sine; NaN beyond -1 .. 1."""
    return _compute("asin", x)


def acos(x: Operand) -> Operand:
    """The angle in 0 .. pi of which x is the cosine; NaN beyond -1 .. 1."""
    return _compute("acos", x)


def atan(x: Operand) -> Operand:
    """The angle in -pi/2 .. pi/2 of which x is the tangent."""
    return _compute("atan", x)


def atan2(y: Operand, x: Operand) -> Operand:
    """The angle in -pi .. pi of the point (x, y), as NumPy's `arctan2`."""
    return _compute("atan2", y, x)


def erf(x: Operand) -> Operand:
    """The error function."""
    return _compute("erf", x)


def fma(a: Operand, b: Operand, c: Operand) -> Operand:
    """a * b + c, rounded once."""
    return _compute("fma", a, b, c)


def _compute(name: str, *operands: Operand, fast: bool | None = None) -> Operand:
    from lego_mlir.tracing.words.scalar import compute

    return compute(name, *operands, fast=fast)
