"""`x.copy_out`: a spread value leaves through shared memory by tile copies, some rows of a line of 128 bytes at once.

    out = lego.shared(f16, copied_stores.buffers(f16, rows=128, count=2))
    x.to(f16).copy_out(c, at=(row, column), through=out)

For each part: the threads store it into a buffer (`stmatrix` where the layouts allow it), meet at a barrier, and one of
them hands it to the tensor copy unit, which clips what is outside of the tensor. A buffer is filled again when its copy
has read it: the threads wait for it and meet once more. The last line of a tile whose columns are not whole lines
begins earlier and overlaps the one before: the same elements are stored twice.

In the layouts of `wgmma`, and in their transposes, each group of 4 warps has rows or columns of its own. Then each
fills, meets and copies its share of a part by itself: it waits for no other group, which may still multiply. Columns of
a group that are wider than a line, 64 of f32, are several lines next to each other. In a role
of several groups a tile is that of a group, and so are its buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import boxed, padded, shape_of_box
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.tensor_maps import LINE
from lego_mlir.layout import OrderBy, RegP, as_layout
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.reshaping import rectangle
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.marks import CopyOut
from lego_mlir.tracing.trace.shared_lines import copied_lines
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.wgmma_products import ROWS
from lego_mlir.tracing.words.async_copies import commit_copies, copy_async, wait_copies
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.tensor import View
from lego_mlir.tracing.words.warp_roles import WARPGROUP, groups_of
from lego_mlir.tracing.words.warps import group_of_role

PartAt: TypeAlias = Callable[[LinearLayout, tuple[int, int]], Spread]
"""The part of a tile in this layout, from the element at this row and column of the tile on."""


def buffers(dtype: DType, rows: int, count: int = 2, columns: int = LINE) -> Layout:
    """The layout of `count` buffers below each other, for parts of `rows` rows and at least a line of columns."""
    return copied_lines(count * rows, line_of(dtype, columns), dtype.bytes)


def line_of(dtype: DType, columns: int) -> int:
    """The columns of a line of a tile with so many: 128 bytes, or the half, quarter or eighth of it that fits."""
    return next((n for n in (LINE // dtype.bytes >> k for k in range(4)) if n <= columns), columns)


def lines(columns: int, line: int) -> list[int]:
    """The first column of each line."""
    return list(dict.fromkeys(min(first, columns - line) for first in range(0, columns, line)))


@dataclass(frozen=True, slots=True)
class Shares:
    """How groups of warps divide a part of a tile: `rows` x `columns` for each, below each other or `across`.

    Of what is wider than a line, a group has several `panels` of so many columns next to each other.
    """

    groups: int
    rows: int
    columns: int
    across: bool = False
    panels: int = 1

    @property
    def part(self) -> tuple[int, int]:
        """The rows and columns of a part."""
        if self.across:
            return self.rows, self.groups * self.panels * self.columns
        return self.groups * self.rows, self.columns

    @property
    def buffer_rows(self) -> int:
        """The rows of a buffer, which has the panels of all shares below each other."""
        return self.groups * self.panels * self.rows

    def fits(self, part: Part, count: int) -> bool:
        """Whether shares across have buffers that are a whole tile in the layout of `buffers`."""
        layout = buffers(part.view.dtype, self.buffer_rows, max(count, 1), self.columns)
        made = part.view.layout == as_layout(layout)
        return not self.across or (made and part.shape == part.view.dims())

    def filled(self, tracer: Tracer, part: Part, count: int) -> tuple[View, IndexLike]:
        """The buffers as the parts of a tile below each other, and the first row."""
        if not self.across:
            return part.view, part.at[0]
        width = self.groups * self.panels
        panels = RegP([count, self.rows, width, self.columns], [1, 3, 2, 4])
        layout = OrderBy(copied_lines(count * self.buffer_rows, self.columns, part.view.dtype.bytes)).OrderBy(panels)
        of_parts = layout.GroupBy([count * self.rows, width * self.columns])
        return View(tracer, part.view.buffer, of_parts), 0


def shares(layout: LinearLayout, line: int) -> Shares:
    """How the groups divide a part of a line, or of several next to each other; one group where they hold no shares."""
    (rows, columns), warps = shape_of_box(layout), [tuple(basis) for basis in layout.bases["warp"]]
    own = [ROWS // WARPGROUP << k for k in range(len(warps))]
    down, across = (min(1 << max(0, len(warps) - 2), n // ROWS) or 1 for n in (rows, columns))  # a box has fewer groups
    if len(warps) > 1 and warps == [(n, 0) for n in own] and rows % (ROWS * down) == 0:
        return Shares(down, ROWS, line)
    panels = max(ROWS // line, 1)  # of fewer rows, so that buffers are no larger
    if len(warps) > 1 and warps == [(0, n) for n in own] and columns % (ROWS * across) == 0 and panels * line == ROWS:
        return Shares(across, min(ROWS // panels, rows), line, across=True, panels=panels)
    return Shares(1, rows, line)


def copy_out(value: Spread, target: View, at: Sequence[IndexLike], through: View | Part, again: bool = True) -> None:
    """Store a tile by tile copies through buffers; without `again` it is the first one that goes through them.

    Raises LayoutError for buffers of another shape.
    """
    given = value.get()
    copy_out_parts(given.layout, lambda layout, first: rectangle(given, layout, first), target, at, through, again)


def copy_out_parts(
    whole: LinearLayout, part_at: PartAt, target: View, at: Sequence[IndexLike], through: View | Part, again: bool
) -> None:
    """`copy_out` of a tile in the layout `whole` whose parts are made one after another, each when its turn comes."""
    from lego_mlir.tracing.words.control import barrier as meet

    tracer = current("copy_out")
    part = through if isinstance(through, Part) else Part(through, (0, 0), tuple(through.dims()))
    (rows, columns), line = shape_of_box(whole), part.shape[1]
    own = shares(whole, line)
    count, (height, width) = part.shape[0] // own.buffer_rows, own.part
    if part.shape[0] % own.buffer_rows or count < 1 or line > columns or not own.fits(part, count):
        raise tracer.error(
            f"copy_out: a tile of {rows} x {columns} goes through buffers of {own.buffer_rows} rows and at most "
            f"{columns} columns below each other, got {part.shape[0]} x {line}",
            LayoutError,
        )
    places = [(row, column) for row in lines(rows, height) for column in lines(columns, width)]
    filled, top = own.filled(tracer, part, count)
    with tracer.word(CopyOut(part.view.buffer)):
        for number, (row, column) in enumerate(places):
            buffer = number % count
            if again or number >= count:  # the tile before may have ended in any buffer
                wait_copies(0 if number == 0 and len(places) % count else count - 1)
                with groups_of(tracer, own.groups):
                    meet()
            values = part_at(part_of(whole, height, width), (row, column)).to(target.dtype)
            values.store(filled, at=(Index(top) + buffer * height, 0 if own.across else part.at[1]))
            with groups_of(tracer, own.groups):
                meet()
                group = group_of_role(tracer) if own.groups > 1 else 0
                for panel in range(own.panels):
                    place = group * own.panels + panel
                    share = Index(part.at[0]) + (buffer * own.groups * own.panels + place) * own.rows, part.at[1]
                    down, right = (0, place * own.columns) if own.across else (group * own.rows, 0)
                    first = (Index(at[-2]) + row + down, Index(at[-1]) + column + right)
                    copy_async(part.view.part(share, (own.rows, line)), target, at=(*at[:-2], *first))
            commit_copies()


def part_of(layout: LinearLayout, rows: int, columns: int) -> LinearLayout:
    """The layout of the first rows and columns of a tile: the registers that hold no others."""
    bases = layout.bases
    bases["register"] = [basis for basis in bases["register"] if basis[0] < rows and basis[1] < columns]
    sizes = padded((rows, columns))
    return boxed(LinearLayout(bases, {"dim0": sizes[0], "dim1": sizes[1]}), (rows, columns))
