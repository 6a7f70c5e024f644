"""Compare an array that a kernel wrote with the reference, element by element.

Each element has its own bound, from `runtime.tolerance`; NaNs and infinities must match by position. An infinity is
right for a number that, with its bound, leaves the type; of an f8, which saturates, the largest number is right. Errors
are given in ulps of the element's type: the distance between neighbouring numbers at the expected value.

>>> import numpy
>>> found = numpy.float32([1, 2, 3.5])
>>> print(compare(found, numpy.float64([1, 2, 3]), "f32", numpy.float64([0, 0, 1e-6])).first_wrong)
found 3.5, expected 3.0, off by 2.1e+06 ulps, allowed 4.2 ulps
>>> print(compare(found, numpy.float64([1, 2, 3.5]), "f32", numpy.zeros(3)))
3 elements equal
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy

# NumPy's type for what is in memory; it has no bfloat16 and no f8, whose bits are kept as they are.
STORED: Final = {
    "f8e4m3fn": "uint8",
    "f8e5m2": "uint8",
    "f16": "float16",
    "bf16": "uint16",
    "f32": "float32",
    "f64": "float64",
    "i1": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "index": "int64",
}
WORDS: Final = ("bf16", "f8e4m3fn", "f8e5m2")  # stored as their bits


@dataclass(frozen=True, slots=True)
class Float:
    """A float type: bits of the fraction, exponent of the least normal number, and the largest number."""

    fraction: int
    least: int
    largest: float


FLOATS: Final = {
    "f8e4m3fn": Float(3, -6, 448.0),
    "f8e5m2": Float(2, -14, 57344.0),
    "f16": Float(10, -14, 65504.0),
    "bf16": Float(7, -126, (2 - 2.0**-7) * 2.0**127),
    "f32": Float(23, -126, (2 - 2.0**-23) * 2.0**127),
    "f64": Float(52, -1022, (2 - 2.0**-52) * 2.0**1023),
}
DEFAULT_ULPS: Final = 16  # where data come without bounds; of the element, and of the median of all


@dataclass(frozen=True, slots=True)
class Wrong:
    """An element beyond its bound: its position, both values, and in ulps the error and the bound (integers: units)."""

    position: int
    found: Any
    expected: Any
    error: float
    allowed: float
    unit: str

    def __str__(self) -> str:
        text = f"found {self.found}, expected {self.expected}"
        if self.error == self.error and self.error != float("inf"):
            text += f", off by {_short(self.error)}{self.unit}"
        return f"{text}, {_allowed(self.allowed, self.unit)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many elements there are and are wrong, and the first wrong one.

    `error` and `allowed` are those of the first wrong element, else of the element that is closest to its bound.
    """

    elements: int
    wrong: int
    error: float
    allowed: float
    unit: str
    first_wrong: Wrong | None = None
    overflowed: int = 0  # right elements that are infinite because the expected number overflows the type

    def __bool__(self) -> bool:
        return self.wrong == 0

    @property
    def summary(self) -> str:
        """The verdict without the element."""
        if self.wrong:
            return f"WRONG: {self.wrong} of {self.elements} elements"
        infinite = f"; {self.overflowed} infinite: the expected number overflows the type" if self.overflowed else ""
        if not self.error:
            return f"{self.elements} elements equal{infinite}"
        return (
            f"{self.elements} elements within their bounds, the closest off by {_short(self.error)}{self.unit}, "
            f"{_allowed(self.allowed, self.unit)}{infinite}"
        )

    def __str__(self) -> str:
        if self.first_wrong is None:
            return self.summary
        return f"{self.summary}; first wrong element at position {self.first_wrong.position}: {self.first_wrong}"


def is_f8(dtype: str) -> bool:
    """Whether an element is a float of a byte."""
    return dtype.startswith("f8")


def compare(
    found: numpy.ndarray, expected: numpy.ndarray, dtype: str, allowed: numpy.ndarray | None = None
) -> Comparison:
    """Compare what is in memory (as `STORED` keeps it) with the expected numbers, within `allowed` of each."""
    import numpy

    values, expected = numbers(found, dtype).reshape(-1), numpy.asarray(expected).reshape(-1)
    if allowed is None:
        allowed = default_allowed(expected, dtype)
    if is_f8(dtype):
        expected = numpy.clip(expected, -FLOATS[dtype].largest, FLOATS[dtype].largest)
    allowed = numpy.asarray(allowed).reshape(-1)
    with numpy.errstate(all="ignore"):
        right = _right(values, expected, allowed, dtype)
        errors, bounds = _in_units(values, expected, allowed, dtype)
    unit = " ulps" if dtype in FLOATS else ""
    if right.all():
        overflowed = ~numpy.isfinite(errors)
        finite = numpy.where(overflowed, 0.0, errors)
        parts = numpy.divide(finite, bounds, out=numpy.zeros(finite.shape), where=bounds > 0)
        worst = int(numpy.argmax(parts)) if errors.size else None
        error, bound = (0.0, 0.0) if worst is None else (float(finite[worst]), float(bounds[worst]))
        return Comparison(values.size, 0, error, bound, unit, overflowed=int(overflowed.sum()))
    first = int(numpy.argmin(right))
    error, bound = float(errors[first]), float(bounds[first])
    shown = Wrong(first, values[first].item(), expected[first].item(), error, bound, unit)
    return Comparison(values.size, int(values.size - right.sum()), error, bound, unit, shown)


def _right(found: numpy.ndarray, expected: numpy.ndarray, allowed: numpy.ndarray, dtype: str) -> numpy.ndarray:
    import numpy

    same = found == expected
    if dtype not in FLOATS:
        if not allowed.any():
            return same
        return same | (numpy.abs(found.astype(numpy.float64) - expected.astype(numpy.float64)) <= allowed)
    a, b = found.astype(numpy.float64), expected.astype(numpy.float64)
    close = numpy.isfinite(a) & numpy.isfinite(b) & (numpy.abs(a - b) <= allowed)
    leaves = numpy.isinf(a) & (numpy.sign(a) == numpy.sign(b)) & (numpy.abs(b) + allowed > FLOATS[dtype].largest)
    return same | close | leaves | (numpy.isnan(a) & numpy.isnan(b))


def _in_units(
    found: numpy.ndarray, expected: numpy.ndarray, allowed: numpy.ndarray, dtype: str
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Errors and bounds in ulps; 0 where two values are the same, infinite or NaN where one of them is."""
    import numpy

    a, b = found.astype(numpy.float64), expected.astype(numpy.float64)
    same = (found == expected) | (numpy.isnan(a) & numpy.isnan(b))
    unit = ulp(b, dtype) if dtype in FLOATS else numpy.ones(b.shape)
    return numpy.where(same, 0.0, numpy.abs(a - b) / unit), allowed / unit


def ulp(value: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """The distance between neighbouring numbers of the type at each value; of the least ones at 0.

    >>> import numpy
    >>> ulp(numpy.float64([0, 1, 1.5, 2]), "f16") * 2.0**24
    array([1.0000e+00, 1.6384e+04, 1.6384e+04, 3.2768e+04])
    """
    import numpy

    kind = FLOATS[dtype]
    size = numpy.minimum(numpy.abs(numpy.where(numpy.isfinite(value), value, 0.0)), kind.largest)
    exponent = numpy.maximum(numpy.frexp(size)[1] - 1, kind.least)
    return numpy.ldexp(1.0, numpy.where(size == 0, kind.least, exponent) - kind.fraction)


def default_allowed(expected: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """Bounds where none came with the data: integers are equal, floats within DEFAULT_ULPS."""
    import numpy

    if dtype not in FLOATS or not expected.size:
        return numpy.zeros(expected.shape)
    size = numpy.abs(numpy.where(numpy.isfinite(expected), expected, 0.0).astype(numpy.float64))
    return DEFAULT_ULPS * ulp(numpy.maximum(size, numpy.median(size)), dtype)


def numbers(stored: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """The numbers in an array as stored: the array itself, except that bfloat16 and f8 are decoded from their bits."""
    import numpy

    if is_f8(dtype) and stored.dtype == numpy.uint8:
        from lego_mlir.runtime import f8

        return f8.decode(stored, dtype)
    if dtype != "bf16" or stored.dtype != numpy.uint16:
        return stored
    return (stored.astype(numpy.uint32) << 16).view(numpy.float32)


def _short(value: float) -> str:
    if 100 <= value < 1e6:
        return f"{value:.0f}"
    return f"{value:.2g}" if 0.01 <= value < 100 or not value else f"{value:.1e}"


def _allowed(bound: float, unit: str) -> str:
    return f"allowed {_short(bound)}{unit}" if bound else "must be equal"
