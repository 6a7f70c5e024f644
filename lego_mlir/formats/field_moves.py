"""The bits of one field from one format to another, as a nest of digits with a stride on each side.

Both formats cut each axis into digits; their common refinement is a list of (size, stride there, stride here). Merged
where they are dense on both sides, and read in units of up to 16 bytes, that nest is the whole plan of a conversion:
the processor (`host_moves`) and the kernel (`device_moves`) execute the same one.

>>> from lego_mlir.formats.stored_fields import stored
>>> rows = stored("w", "f16", {"r": 2, "f": 4, "k": 32}, "r | f | k", "r f k")
>>> pairs = stored("w", "f16", {"r": 2, "f": 4, "k": 32}, "r | f | k", "f r k")
>>> move(rows, pairs)
Move(digits=((4, 512, 1024), (2, 2048, 512), (4, 128, 128)), unit=128, start=(0, 0))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from lego_mlir.errors import LayoutError
from lego_mlir.formats.stored_fields import PlaceDigit, StoredField
from lego_mlir.layout.canonical import product
from lego_mlir.layout.values import show

UNIT_BITS: Final = 128
"""The widest access: 16 bytes, of a processor's vector register and of one thread's load."""
Digit = tuple[int, int, int]
"""Size, and the stride in bits in the source and in the target."""


@dataclass(frozen=True, slots=True)
class Move:
    """Units of `unit` bits moved: digits of (size, source stride, target stride), outermost in the target first."""

    digits: tuple[Digit, ...]
    unit: int
    start: tuple[int, int]

    @property
    def bits(self) -> int:
        """The bits that are moved."""
        return self.unit * int(product([size for size, _, _ in self.digits]))

    def block(self) -> int:
        """The bits of the smallest aligned block that the move maps to itself: its cycles end inside it.

        The leading digits that have the same stride on both sides, down to the block, repeat one permutation.
        """
        block = self.unit * int(product([size for size, _, _ in self.digits]))
        for size, source, target in sorted(self.digits, key=lambda d: -d[2]):
            if source != target or size * source != block:
                break
            block = source
        return block

    def inverse(self) -> Move:
        """The move back."""
        digits = tuple(sorted(((n, t, s) for n, s, t in self.digits), key=lambda d: -d[2]))
        return Move(digits, self.unit, (self.start[1], self.start[0]))


def refined(source: Sequence[PlaceDigit], target: Sequence[PlaceDigit]) -> list[Digit] | None:
    """The common digits of one axis, innermost first; None where the sizes of neither divide the other's."""
    mine, theirs = ([(int(d.size), int(d.stride)) for d in axis if d.size != 1] for axis in (source, target))
    found: list[Digit] = []
    while mine and theirs:
        (a, s), (b, t) = mine.pop(), theirs.pop()
        n = min(a, b)
        if a % n or b % n:
            return None
        found.append((n, s, t))
        if a > n:
            mine.append((a // n, s * n))
        if b > n:
            theirs.append((b // n, t * n))
    return found


def move(source: StoredField, target: StoredField) -> Move:
    """The move of a field. Raises LayoutError for other shapes or element sizes, or digits without a refinement."""
    if source.shape != target.shape or source.bits != target.bits:
        raise LayoutError(
            f"{source.name} is {source.dtype}{show(source.shape)} there and {target.dtype}{show(target.shape)} here"
        )
    digits: list[Digit] = []
    for a, b in zip(source.axes, target.axes, strict=True):
        common = refined(a, b)
        if common is None:
            raise LayoutError(
                f"{source.name}: the digits {[d.size for d in a]} and {[d.size for d in b]} have no refinement"
            )
        digits += common
    unit = source.bits if source.bits % 8 == 0 else gcd(source.bits, 8)
    if unit < source.bits:  # 6 bits are three parts of 2, none of which crosses a byte
        digits.append((source.bits // unit, unit, unit))
    return _widened(_merged(digits), unit, (int(source.at), int(target.at)))


def _merged(digits: Sequence[Digit]) -> list[Digit]:
    """Digits outermost in the target first; two that are dense in each other on both sides are one."""
    found: list[Digit] = []
    for size, source, target in sorted(digits, key=lambda d: -d[2]):
        if found and (found[-1][1], found[-1][2]) == (size * source, size * target):
            found[-1] = (found[-1][0] * size, source, target)
        else:
            found.append((size, source, target))
    return found


def _widened(digits: Sequence[Digit], bits: int, start: tuple[int, int]) -> Move:
    """The innermost run as units that are as wide, and as aligned on both sides, as possible."""
    rest, unit = list(digits), bits
    if rest and rest[-1][1:] == (bits, bits):
        run = rest[-1][0]
        outer = [stride for _, s, t in rest[:-1] for stride in (s, t)]
        while run % 2 == 0 and unit < UNIT_BITS and not any(x % (2 * unit) for x in (*outer, *start)):
            unit, run = 2 * unit, run // 2
        rest[-1] = (run, unit, unit)
        if run == 1:
            rest.pop()
    return Move(tuple(rest), unit, start)
