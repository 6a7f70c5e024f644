"""The half-open range of a symbol's values.

As in Python, `Range(lo, hi, step)` holds lo, lo + step, ... below hi. Its ends are ints or expressions in sizes, so
that the index of a thread or a loop keeps its bound when the size is a kernel argument:

>>> Range(0, 32)
Range(0, 32)
>>> 31 in Range(0, 32), 33 in Range(0, 64, 2)
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.index import is_symbolic

if TYPE_CHECKING:
    import sympy

    Ranges = Mapping[sympy.Symbol, "Range"]


@dataclass(frozen=True, slots=True, repr=False)
class Range:
    """`lo <= x < hi` and `x == lo (mod step)`. The ends are ints or expressions in sizes.

    Raises ExpressionError for other ends, and for a step that is not an int >= 1.
    """

    lo: Any
    hi: Any
    step: int = 1

    def __post_init__(self) -> None:
        for end in (self.lo, self.hi):
            if not (hasattr(end, "__index__") or is_symbolic(end)):
                raise ExpressionError(f"{self!r}: its ends must be ints or expressions in sizes, got {end!r}")
        if type(self.step) is not int or self.step < 1:
            raise ExpressionError(f"{self!r}: the step must be an int >= 1, got {self.step!r}")

    def __repr__(self) -> str:
        step = f", {self.step}" if self.step != 1 else ""
        return f"Range({self.lo}, {self.hi}{step})"

    def __contains__(self, value: int) -> bool:
        return bool(self.lo <= value < self.hi and (value - self.lo) % self.step == 0)
