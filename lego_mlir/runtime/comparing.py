"""Whether an array that a kernel wrote is what the reference says: one number, and one bound for each element type.

The number is the norm of the difference over the norm of the reference, in double precision. Integers must be equal.

>>> import numpy
>>> relative_error(numpy.float32([1, 2, 3]), numpy.float64([1, 2, 3]))
0.0
>>> TOLERANCE["f32"] > relative_error(numpy.float32([1, 2, 3.0000003]), numpy.float64([1, 2, 3])) > 0
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy

# NumPy's type for what is in memory; it has no bfloat16, whose 16 bits are kept as they are.
STORED: Final = {
    "f16": "float16",
    "bf16": "uint16",
    "f32": "float32",
    "f64": "float64",
    "i1": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "index": "int64",
}
# About 16 roundings: 2^4 units of the last place (half of 2^-10 for f16, 2^-7 for bf16, 2^-23 for f32, 2^-52 for f64).
TOLERANCE: Final = {"f16": 2.0**-7, "bf16": 2.0**-4, "f32": 2.0**-20, "f64": 2.0**-49}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The error against its bound, and the first element that is wrong by itself: its position and both values."""

    error: float
    tolerance: float
    first_wrong: tuple[int, Any, Any] | None

    def __bool__(self) -> bool:
        return self.error <= self.tolerance

    def __str__(self) -> str:
        verdict = f"relative error {self.error:.2e}, allowed {self.tolerance:.2e}"
        if self or self.first_wrong is None:
            return verdict
        position, found, expected = self.first_wrong
        return f"{verdict}; first wrong element at position {position}: found {found}, expected {expected}"


def compare(found: numpy.ndarray, expected: numpy.ndarray, dtype: str) -> Comparison:
    """Compare what is in memory (as `STORED` keeps it) with the expected numbers."""
    import numpy

    values = numbers(found, dtype)
    tolerance = TOLERANCE.get(dtype, 0.0)
    wrong = ~numpy.isclose(values, expected, rtol=4 * tolerance, atol=tolerance, equal_nan=True)
    position = int(numpy.argmax(wrong)) if wrong.any() else None
    first = None if position is None else (position, values.flat[position].item(), expected.flat[position].item())
    return Comparison(relative_error(values, expected), tolerance, first)


def relative_error(found: numpy.ndarray, expected: numpy.ndarray) -> float:
    """The norm of the difference over the norm of what was expected; infinite where one of the two is NaN alone."""
    import numpy

    if numpy.array_equal(found, expected, equal_nan=found.dtype.kind == "f"):
        return 0.0
    a, b = found.astype(numpy.float64), expected.astype(numpy.float64)
    same = (a == b) | (numpy.isnan(a) & numpy.isnan(b))  # infinities of one sign among them
    difference = float(numpy.linalg.norm(numpy.where(same, 0.0, a - b)))
    norm = float(numpy.linalg.norm(b[numpy.isfinite(b)]))
    return difference / norm if norm and not math.isnan(difference) else math.inf


def numbers(stored: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """The numbers that an array in memory stands for: itself, but for the bits of bfloat16."""
    import numpy

    if dtype != "bf16" or stored.dtype != numpy.uint16:
        return stored
    return (stored.astype(numpy.uint32) << 16).view(numpy.float32)
