"""Minimum and maximum of floating-point numbers, with -0.0 below 0.0.

NumPy returns either zero, depending on the instruction that it uses. `arith.minimumf` and `maximumf` are minimum and
maximum of IEEE 754-2019, which order the zeros and propagate NaN. `minnumf` and `maxnumf` return the other operand for
a NaN; PTX's `min` and `max`, to which they lower, order the zeros as well.

>>> maximum(np.array([0.0, -0.0]), np.array([-0.0, 0.0]))
array([0., 0.])
>>> minnum(np.array([np.nan, 0.0]), np.array([2.0, -0.0]))
array([ 2., -0.])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lego_mlir.interp.values import Array


def minimum(a: Array, b: Array) -> Array:
    """The smaller number; NaN if one operand is NaN."""
    return _zeros_ordered(np.minimum(a, b), a, b, np.signbit)


def maximum(a: Array, b: Array) -> Array:
    """The larger number; NaN if one operand is NaN."""
    return _zeros_ordered(np.maximum(a, b), a, b, lambda zero: ~np.signbit(zero))


def minnum(a: Array, b: Array) -> Array:
    """The smaller number; the other operand if one is NaN."""
    return _number_wins(minimum, a, b)


def maxnum(a: Array, b: Array) -> Array:
    """The larger number; the other operand if one is NaN."""
    return _number_wins(maximum, a, b)


def _zeros_ordered(found: Array, a: Array, b: Array, wanted: Callable[[Array], Array]) -> Array:
    """`found`, with the wanted zero where the operands are two zeros."""
    zeros = (a == 0) & (b == 0)
    return np.where(zeros, np.where(wanted(a), a, b), found) if zeros.any() else found


def _number_wins(compute: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, compute(a, b)))
