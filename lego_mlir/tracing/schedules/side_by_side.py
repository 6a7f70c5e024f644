"""Two products of one left operand as one wider product: in each stage, their right operands are side by side.

    lego.mma(ta, tb, gate)
    lego.mma(ta, tb2, up)      -->    ta @ [tb tb2], whose first half of the sums is gate, and the second one up

The matrix unit then reads the left operand once, and an instruction of 256 columns reads fewer bytes of shared memory
for each multiplication than two of 128.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.trace.marks import HeldTile, Rectangle, TileProduct
from lego_mlir.tracing.trace.trace import For, If, Statement
from lego_mlir.tracing.trace.wgmma_products import WIDEST


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two products, which follow each other in a loop."""

    first: TileProduct
    second: TileProduct

    @property
    def names(self) -> tuple[str, str]:
        """The tiles of the right operands."""
        return self.first.b.buffer.name, self.second.b.buffer.name

    def product(self, a: Rectangle, b: Rectangle) -> TileProduct:
        """The wider product of these operands."""
        sums = (*self.first.sums, *self.second.sums)
        return replace(self.first, a=a, b=b, sums=sums, layout=_twice(self.first.layout))


def side_by_side(loops: Iterable[For]) -> dict[int, SideBySide]:
    """The pairs of products of loops by the ids of the two statements; a tile is in one pair at most."""
    found: dict[int, SideBySide] = {}
    partners: dict[str, tuple[str, str]] = {}
    for loop in loops:
        for first, second in pairwise(loop.body):
            pair = _pair(first, second) if id(first) not in found else None
            if pair is not None and all(partners.setdefault(name, pair.names) == pair.names for name in pair.names):
                found[id(first)] = found[id(second)] = pair
    return found


def _pair(first: Statement, second: Statement) -> SideBySide | None:
    marks = [s.mark for s in (first, second) if isinstance(s, If) and isinstance(s.mark, TileProduct)]
    if len(marks) < 2 or any(mark.transposed for mark in marks):
        return None
    (a, b), (left, right) = ((mark.a, mark.b) for mark in marks)
    if isinstance(a, HeldTile):
        return None
    alone = not any(total in marks[1].sums for total in marks[0].sums)
    alike = alone and left == a and marks[0].layout == marks[1].layout and right.layout == b.layout
    apart = len({part.buffer.name for part in (a, b, right)}) == 3
    whole = all(part.at == (0, 0) and part.shape == part.buffer.layout.dims() for part in (b, right))
    fits = 2 * b.shape[1] <= WIDEST and b.buffer.dtype == right.buffer.dtype
    return SideBySide(*marks) if alike and apart and whole and fits and _twice(marks[0].layout) else None


def _twice(layout: LinearLayout | None) -> LinearLayout | None:
    """A layout of twice the columns, the right half in the upper half of the registers; None where they end earlier."""
    if type(layout) is not LinearLayout:
        return None
    (row, rows), (column, columns) = layout.out_sizes.items()
    bases = layout.bases
    if bases["register"][-1] != (0, columns // 2):
        return None
    return LinearLayout({**bases, "register": [*bases["register"], (0, columns)]}, {row: rows, column: 2 * columns})
