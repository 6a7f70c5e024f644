"""The number of elements of a layout with partial tiles and padding.

The index along an axis is a number in mixed radix, one digit per level of tiles. Padding limits a digit, and the end of
the axis limits the number, so `numel` counts the numbers below a size whose digits are in range. All numbers with a
smaller leading digit count in full; those with the same leading digit are counted by the remaining digits. The code
works for ints and symbols.

How many numbers below 100 have a last digit below 31, in base 32:

>>> Mixed((WHOLE, Below(WHOLE, 31)), (4, 32), exact=False).count(100)
97
>>> sum(x % 32 < 31 for x in range(100))
97
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.expr.index import minimum, where
from lego_mlir.layout.canonical import Size, product


class Whole:
    """Every value of an axis."""

    def count(self, n: Size) -> Size:
        """The number of allowed values on an axis of this size."""
        return n

    def below(self, x: Size) -> Size:
        """The number of allowed values below x, for 0 <= x <= the axis size."""
        return x

    def allows(self, x: Size) -> Size:
        """1 if the value is allowed, 0 otherwise."""
        return 1


WHOLE: Final = Whole()


@dataclass(frozen=True, slots=True)
class Below(Whole):
    """The allowed values of `digit` that are below `end`; `end` is at most the axis size."""

    digit: Whole
    end: Size

    def count(self, n: Size) -> Size:
        return self.digit.below(self.end)

    def below(self, x: Size) -> Size:
        return self.digit.below(minimum(x, self.end))

    def allows(self, x: Size) -> Size:
        return where(x < self.end, self.digit.allows(x), 0)


@dataclass(frozen=True, slots=True)
class Mixed(Whole):
    """Numbers of several digits, most significant first, with a rule per digit; `exact` if they end with the axis."""

    digits: Sequence[Whole]
    sizes: Sequence[Size]
    exact: bool

    def _counts(self) -> list[Size]:
        return [digit.count(n) for digit, n in zip(self.digits, self.sizes, strict=True)]

    def count(self, n: Size) -> Size:
        return product(self._counts()) if self.exact else self.below(n)

    def below(self, x: Size) -> Size:
        total: Size = 0
        same: Size = 1
        counts = self._counts()
        for level, digit in enumerate(self.digits):
            stride = product(self.sizes[level + 1 :])
            leading, x = x // stride, x % stride
            total = total + same * digit.below(leading) * product(counts[level + 1 :])
            same = same * digit.allows(leading)
        return total

    def allows(self, x: Size) -> Size:
        allowed: Size = 1
        for level, digit in enumerate(self.digits):
            stride = product(self.sizes[level + 1 :])
            leading, x = x // stride, x % stride
            allowed = allowed * digit.allows(leading)
        return allowed


def mixed(digits: Sequence[Whole], sizes: Sequence[Size], exact: bool) -> Whole:
    """Numbers of these digits; WHOLE if every digit is."""
    return WHOLE if all(digit is WHOLE for digit in digits) else Mixed(tuple(digits), tuple(sizes), exact)
