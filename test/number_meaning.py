"""What operations on numbers of each type mean, by NumPy and by exact fractions."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from lego_mlir import (
    bf16,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip

FLOATS = (f16, bf16, f32, f64)
UNSIGNED = (u8, u16, u32, u64)
INTEGERS = (i8, i16, i32, i64, *UNSIGNED)
STORED_ONLY = {f8e4m3fn: 448.0, f8e5m2: 57344.0}  # the largest number of each
APPROXIMATE = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan")},
    "atan": np.arctan,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.array([math.erf(v) for v in x]),
    "pow(_, 1.5)": lambda x: np.power(x, 1.5),
    "pow(2.5, _)": lambda x: np.power(2.5, x),
    "atan2(_, -0.75)": lambda x: np.arctan2(x, -0.75),
    "asin(_ * 0.25)": lambda x: np.arcsin(x * 0.25),
    "acos(_ * -0.25)": lambda x: np.arccos(x * -0.25),
}
EXACT_OF_FLOATS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign}
TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def double(exact):
    """The double nearest to a fraction."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def odd_double(exact):
    """A fraction as the double beside it with an odd last bit, if no double equals it: may be rounded once more."""
    near = double(exact)
    if math.isinf(near) or Fraction(near) == exact:
        return near
    down = near if abs(Fraction(near)) < abs(exact) else math.nextafter(near, 0.0)
    return float((np.float64(down).view(np.uint64) | np.uint64(1)).view(np.float64))


def narrowed(numbers, dtype):
    """Doubles rounded once to a float type: ml_dtypes would round to f32 first. An f8 saturates."""
    numbers = np.asarray(numbers, np.float64)
    if dtype in STORED_ONLY:
        return odd_single(np.clip(numbers, -STORED_ONLY[dtype], STORED_ONLY[dtype])).astype(dtype.numpy)
    if dtype is not bf16:
        return numbers.astype(dtype.numpy)
    return odd_single(numbers).astype(ml_dtypes.bfloat16)


def odd_single(numbers):
    """Doubles as f32 with an odd last bit where it does not hold them: may be rounded once more."""
    single = numbers.astype(np.float32)
    towards = np.abs(single.astype(np.float64)) > np.abs(numbers)
    down = np.where(towards, np.nextafter(single, np.float32(0)), single)
    inexact = np.isfinite(numbers) & np.isfinite(down) & (single.astype(np.float64) != numbers)
    odd = (np.ascontiguousarray(down).view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(inexact, odd, single)


def exactly(fractions, dtype):
    """Fractions rounded once to a float type."""
    return narrowed([double(x) if dtype is f64 else odd_double(x) for x in fractions], dtype)


def fused(a, b, c, dtype):
    plain = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    finite = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64)) & np.isfinite(c.astype(np.float64))
    parts = [[Fraction(float(v)) if ok else Fraction(0) for v, ok in zip(x, finite, strict=True)] for x in (a, b, c)]
    sums = [x * y + z for x, y, z in zip(*parts, strict=True)]
    negative_zero = np.signbit(plain)  # of an exact zero, whose sign a fraction does not have
    rounded = exactly(sums, dtype)
    zero = np.array([s == 0 for s in sums])
    rounded = np.where(zero & negative_zero, np.negative(np.zeros_like(rounded)), rounded)
    return np.where(finite, rounded, plain.astype(dtype.numpy)).astype(dtype.numpy)


def convert(values, source, dtype):
    """What `.to(dtype)` means: floats to nearest even, integers modulo their bits."""
    if source is dtype:
        return values
    if source in FLOATS and dtype in FLOATS:
        return narrowed(values.astype(np.float64), dtype)
    if source in INTEGERS and dtype in FLOATS:
        return exactly([Fraction(int(v)) for v in values], dtype)
    return values.astype(dtype.numpy)


def bit_counts(values, dtype, name):
    """popcount, clz and ctz."""
    counts = {
        "popcount": int.bit_count,
        "clz": lambda b: dtype.bits - b.bit_length(),
        "ctz": lambda b: (b & -b).bit_length() - 1 if b else dtype.bits,
    }
    return np.array([counts[name](int(v) % 2**dtype.bits) for v in values]).astype(dtype.numpy)


def truncated(values, divisors, dtype, wants_quotient):
    """C's division of integers, and its remainder."""
    found = []
    for a, b in zip(values.tolist(), divisors.tolist(), strict=True):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        found.append(quotient if wants_quotient else a - quotient * b)
    return np.array([n % 2**dtype.bits for n in found], f"uint{dtype.bits}").view(dtype.numpy)


def chosen(values, other, dtype, smaller):
    """minimum and maximum: NaN if one is, and -0.0 below 0.0."""
    if dtype in INTEGERS:
        return np.minimum(values, other) if smaller else np.maximum(values, other)
    below = (values < other) | ((values == other) & np.signbit(values) & ~np.signbit(other))
    best = np.where(below == smaller, values, other)
    nan = np.isnan(values.astype(np.float64)) | np.isnan(other.astype(np.float64))
    return np.where(nan, dtype.numpy.type(np.nan), best)
