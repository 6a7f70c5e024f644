"""The numbers of the f8 types from their bytes, and back, without the package that has them as NumPy types.

A machine that only launches kernels keeps f8 tensors as bytes. All 256 numbers of a type fit a table:

>>> import numpy
>>> decode(numpy.uint8([0x38, 0x7E, 0x7F]), "f8e4m3fn").tolist()
[1.0, 448.0, nan]
>>> [hex(encode(x, "f8e4m3fn")) for x in (1.0, 1.0625, 1000.0)]  # a tie rounds to even, too large saturates
['0x38', '0x38', '0x7e']

Formats: Micikevicius et al., "FP8 formats for deep learning", 2022; saturation: PTX ISA, `cvt`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy

FRACTION_BITS: Final = {"f8e4m3fn": 3, "f8e5m2": 2}
_SIGN: Final = 0x80
_NAN: Final = 0x7F


@cache
def _numbers(dtype: str) -> numpy.ndarray:
    """The number of every byte."""
    bits = FRACTION_BITS[dtype]
    byte = numpy.arange(256)
    exponent, fraction = (byte & _NAN) >> bits, byte & ((1 << bits) - 1)
    bias = (1 << (6 - bits)) - 1
    size = numpy.ldexp(fraction + (exponent > 0) * 2.0**bits, numpy.maximum(exponent, 1) - bias - bits)
    if dtype == "f8e5m2":
        top = exponent == exponent.max()
        size = numpy.where(top, numpy.where(fraction == 0, numpy.inf, numpy.nan), size)
    else:
        size = numpy.where(byte & _NAN == _NAN, numpy.nan, size)
    return numpy.where(byte & _SIGN, -size, size).astype(numpy.float32)


def decode(stored: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """Bytes as float32 numbers."""
    return numpy.asarray(_numbers(dtype)[stored])


def encode(value: float, dtype: str) -> int:
    """The byte of the nearest number, of two as near that with an even byte; beyond the largest, the largest."""
    if value != value:
        return _NAN
    positive = _numbers(dtype)[: _SIGN - 1].astype(numpy.float64)
    distances = numpy.abs(
        positive[numpy.isfinite(positive)] - min(abs(value), float(positive[numpy.isfinite(positive)].max()))
    )
    nearest = numpy.flatnonzero(distances == distances.min())
    byte = int(nearest[0] if len(nearest) == 1 or nearest[0] % 2 == 0 else nearest[1])
    return byte | (_SIGN if numpy.signbit(value) else 0)
