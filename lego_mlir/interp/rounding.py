"""Floating point as the hardware rounds it: once, to nearest even, at the end.

NumPy computes f16 through f32 and `ml_dtypes` computes bf16 through f32; for one addition, product, quotient or root
that is exact, since f32 has at least twice their precision plus two bits. Three cases need more:

- a fused multiply-add rounds once. The product of two f32 is exact in f64; the sum is brought back to f32 through
  *rounding to odd* (an inexact result gets an odd last bit), which makes the second rounding correct
  (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008);
- a conversion to f8, f6 or f4 saturates: PTX's `cvt` requires `.satfinite`, so 1000.0 becomes 448 in e4m3. f6 and f4
  have no NaN: the largest number is taken;
- a conversion from f64 to bf16 or f8 goes through f32 rounded to odd, for the same reason as above.

>>> import numpy as np, ml_dtypes
>>> narrow(np.float32([1000.0, -1e9, 0.3]), np.dtype(ml_dtypes.float8_e4m3fn)).astype(np.float32)
array([ 4.480e+02, -4.480e+02,  3.125e-01], dtype=float32)
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Final

import ml_dtypes
import numpy as np

from lego_mlir.interp.values import Array, DType

F32: Final = np.dtype(np.float32)
F64: Final = np.dtype(np.float64)
SATURATING: Final = {
    np.dtype(ml_dtypes.float8_e4m3fn): 448.0,
    np.dtype(ml_dtypes.float8_e5m2): 57344.0,
    np.dtype(ml_dtypes.float4_e2m1fn): 6.0,
    np.dtype(ml_dtypes.float6_e2m3fn): 7.5,
    np.dtype(ml_dtypes.float6_e3m2fn): 28.0,
}
WITHOUT_NAN: Final = frozenset(
    map(np.dtype, (ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn))
)
THROUGH_F32: Final = frozenset({np.dtype(ml_dtypes.bfloat16), *SATURATING})
TF32_DROPPED_BITS: Final = 13
_FEW: Final = 2048
"""Elements below which more calls of NumPy cost more than they save."""
_DROPPED: Final = (1 << 29) - 1  # the bits of an f64 that an f32 has not
_HALFWAY: Final = 1 << 28
_LEAST_NORMAL: Final = np.float32(2.0**-126)
_SAFE: Final = 2.0**900
"""Up to it, and from its reciprocal on, products of f64 can be split and their errors are numbers."""


def narrow(value: Array, dtype: DType) -> Array:
    """Convert between floating-point types as `cvt.rn` does, saturating where the target is an f8."""
    if value.dtype == F64 and dtype in THROUGH_F32:
        value = to_odd_f32(value)
    limit = SATURATING.get(dtype)
    if limit is not None:
        value = np.clip(value.astype(F32), F32.type(-limit), F32.type(limit))
        if dtype in WITHOUT_NAN:
            value = np.where(np.isnan(value), F32.type(limit), value)
    return value.astype(dtype)


def to_odd_f32(value: Array) -> Array:
    """f64 to f32 with the last bit set where the conversion was inexact: safe to round once more."""
    near = value.astype(F32)
    back = near.astype(F64)
    inexact = (back != value) & np.isfinite(value) & np.isfinite(back)
    if not inexact.any():
        return near
    towards_zero = np.where(np.abs(back) > np.abs(value), np.nextafter(near, F32.type(0)), near)
    odd = (np.ascontiguousarray(towards_zero).view(np.uint32) | np.uint32(1)).view(F32)
    return np.where(inexact, odd, near)


def to_odd_f64(value: Array) -> Array:
    """Integers to f64; beyond 53 bits, the last kept bit is set if any dropped bit was."""
    if value.dtype.itemsize < F64.itemsize:
        return value.astype(F64)
    kind, limit = value.dtype.type, 1 << 53
    is_small = value < kind(limit) if value.dtype.kind == "u" else (value < kind(limit)) & (value > kind(-limit))
    low = value & kind(2047)
    return np.where(is_small, value, (value - low) | np.where(low, kind(2048), kind(0))).astype(F64)


def fma(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c`, rounded once."""
    dtype = c.dtype
    if dtype == F64:
        return _fma_f64(a, b, c)
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    if dtype != F32 or product.size < _FEW:
        return narrow(_add_to_odd(product, addend), dtype)
    return _sum_to_f32(product, addend)


def _sum_to_f32(product: Array, addend: Array) -> Array:
    """The sum of two f64 rounded to f32: twice, and again where that is wrong: at ties, and below f32's normals."""
    total = product + addend
    found = np.ascontiguousarray(total.astype(F32))
    halfway = (np.ascontiguousarray(total).view(np.int64) & _DROPPED) == _HALFWAY
    again = np.flatnonzero(halfway | ((np.abs(found) < _LEAST_NORMAL) & (total != 0)))
    if again.size:
        p, q = (np.broadcast_to(x, total.shape).reshape(-1)[again] for x in (product, addend))
        found.reshape(-1)[again] = _add_to_odd(p, q).astype(F32)
    return found


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error, exactly."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _add_to_odd(a: Array, b: Array) -> Array:
    """The f64 sum rounded to odd: one unit towards the error where the sum is inexact and its last bit is even."""
    total, error = _two_sum(a, b)
    total = np.ascontiguousarray(total)
    even = (total.view(np.int64) & 1) == 0
    move = even & (error != 0) & np.isfinite(total)
    return np.where(move, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def _split(a: Array) -> tuple[Array, Array]:
    """Veltkamp: the upper 26 bits of an f64 and the rest."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's algorithm; in fractions where one of its steps would overflow or lose bits below."""
    product = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    error = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    low_sum, low_error = _two_sum(c, error)
    high_sum, high_error = _two_sum(product, low_sum)
    found = high_sum + _add_to_odd(low_error, high_error)
    a, b, c, product = np.broadcast_arrays(a, b, c, product)
    is_plain = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    found = np.where(is_plain, product + c, found)
    sizes = (np.abs(x) for x in (a, b, c, product))
    greatest = functools.reduce(np.maximum, sizes)
    rest = ~is_plain & ((greatest > _SAFE) | (np.abs(product) < 1 / _SAFE))
    for at in map(tuple, np.argwhere(rest)):
        found[at] = _fma_exactly(float(a[at]), float(b[at]), float(c[at]))
    return found


def _fma_exactly(a: float, b: float, c: float) -> float:
    """`a * b + c` of finite numbers, a and b not 0, in fractions."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    sign = -1.0 if total < 0 else 1.0
    try:
        return math.copysign(float(total), sign)
    except OverflowError:
        return math.copysign(math.inf, sign)


def tf32(value: Array) -> Array:
    """An f32 operand as the tensor core reads it: the low 13 bits are ignored."""
    mask = np.uint32(0xFFFFFFFF << TF32_DROPPED_BITS & 0xFFFFFFFF)
    return (np.ascontiguousarray(value).view(np.uint32) & mask).view(F32)


def tf32_even(value: Array) -> Array:
    """The bits of f32 numbers, or of their bits, rounded to tf32, ties to even."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    odd = bits >> np.uint32(13) & np.uint32(1)
    rounded = (bits + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(bits.view(np.float32)), rounded, bits)
