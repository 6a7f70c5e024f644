"""The lines of a shared tile: what reads of rectangles need to know of its layout.

A tile consists of lines, its rows or its columns. Where they are contiguous with a constant stride, a rectangle of the
tile is a rectangle of memory. Other layouts may permute contiguous segments of `RUN` elements, the unit of matrix
loads and of wide copies; a swizzle does. The tile is then traced as straight lines, and its order, the true position of
each element of a line, is applied to the addresses of copies and reads by `transform_scripts/swizzle.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import sympy

from lego_mlir.expr.nodes import FloorDiv, FloorMod
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.hardware.tensor_maps import LINE as LINE_BYTES
from lego_mlir.layout import GenP, OrderBy, RegP, gallery
from lego_mlir.layout.base import Layout
from lego_mlir.layout.contiguity import is_vector
from lego_mlir.layout.named_maps import position_formula

RUN: Final = 8
"""Elements of 16 bits that ldmatrix reads and a 16-byte copy writes at once: PTX ISA, "ldmatrix" and "cp.async"."""
LINE, PLACE = sympy.symbols("line place", integer=True)
"""The number of a line, and the number of an element in it."""
_ROW, _COLUMN = sympy.symbols("row column", integer=True)


def copied_lines(rows: int, columns: int, element: int) -> GenP:
    """A tile whose rows are at most 128 bytes, in the swizzle that tensor copies give it; `element` is in bytes."""
    return gallery.xor_swizzle(rows, columns, CHUNK // element, per_phase=LINE_BYTES // (columns * element))


PANEL_BYTES = (LINE_BYTES, LINE_BYTES // 2)  # of a row; the second where a schedule asks for it


def panel(columns: int, element: int, *, narrow: bool = False) -> int:
    """The columns of a panel; the last panel of a row may be partly outside the tile. `element` is in bytes.

    Panels have 128 bytes, or, if `narrow`, 64 where these divide a row and 128 don't; those of fewer columns a power of
    two.
    """
    whole = [bytes_ // element for bytes_ in PANEL_BYTES[: 1 + narrow]]
    return next((n for n in whole if columns % n == 0), min(whole[0], 1 << (columns - 1).bit_length()))


def ring_layout(stages: int, rows: int, columns: int, element: int, *, narrow: bool = False) -> Layout:
    """The layout of `stages` tiles of `rows` x `columns`, in whole panels, below each other."""
    line = panel(columns, element, narrow=narrow)
    height = stages * rows * columns // line
    panels = RegP([stages, rows, columns // line, line], [1, 3, 2, 4])
    return OrderBy(copied_lines(height, line, element)).OrderBy(panels).GroupBy([stages * rows, columns])


@dataclass(frozen=True, slots=True)
class Lines:
    """A matrix as lines of `stride` elements in memory, its rows or, where `transposed`, its columns.

    `order` is None where the lines are straight; otherwise it is the line and the place of an element in memory, as
    expressions over LINE and PLACE.
    """

    stride: int
    transposed: bool
    order: tuple[Any, Any] | None = None

    def index(self, row: Any, column: Any) -> tuple[Any, Any]:
        """The line of an element, and its place in the line."""
        return (column, row) if self.transposed else (row, column)


@cache
def lines_of(layout: Layout) -> Lines | None:
    """The lines of a layout, or None where it splits segments of `RUN` elements.

    >>> from lego_mlir import Col, Row, as_layout, gallery
    >>> lines_of(as_layout(Row(64, 32)))
    Lines(stride=32, transposed=False, order=None)
    >>> lines_of(as_layout(Row(1, 32))).stride
    32
    >>> lines_of(as_layout(Col(64, 32))), lines_of(gallery.padded(64, 32, 8)).stride
    (Lines(stride=64, transposed=True, order=None), 40)
    >>> lines_of(as_layout(gallery.xor_swizzle(32, 64, vec=8))).order
    (line, place ^ (8*(line % 8)))
    >>> lines_of(as_layout(gallery.xor_swizzle(32, 64, vec=4))) is None
    True
    """
    dims = layout.dims()
    if len(dims) != 2 or not all(isinstance(n, int) for n in dims):
        return None
    ranges = {_ROW: Range(0, dims[0]), _COLUMN: Range(0, dims[1])}
    position = simplify(position_formula(layout, (_ROW, _COLUMN)), ranges).expr
    return _straight(layout, sympy.expand(position)) or _in_segments(layout)


def _straight(layout: Layout, position: Any) -> Lines | None:
    for transposed, (outer, inner) in enumerate(((_ROW, _COLUMN), (_COLUMN, _ROW))):
        stride, size = position.coeff(outer), layout.physical_size()
        if stride.is_Integer and position == stride * outer + inner and size % int(stride or size) == 0:
            return Lines(int(stride or size), bool(transposed))  # a single line has no stride
    return None


def _in_segments(layout: Layout) -> Lines | None:
    """Lines of permuted segments, by enumeration of the tile's few thousand elements."""
    import numpy as np

    rows, columns = map(int, layout.dims())
    positions = np.asarray(layout.apply(*np.indices((rows, columns))))
    for transposed, lines in enumerate((positions, positions.T)):
        stride, rest = divmod(int(layout.physical_size()), lines.shape[0])
        if rest or stride % RUN or lines.shape[1] % RUN:
            continue
        segments = lines.reshape(lines.shape[0], -1, RUN)
        if is_vector(segments):
            return Lines(stride, bool(transposed), _order(layout, bool(transposed), stride))
    return None


def _order(layout: Layout, transposed: bool, stride: int) -> tuple[Any, Any]:
    index = (PLACE, LINE) if transposed else (LINE, PLACE)
    ranges = {symbol: Range(0, n) for symbol, n in zip(index, layout.dims(), strict=True)}
    position = position_formula(layout, index)
    line, place = (simplify(split(position, stride), ranges).expr for split in (FloorDiv, FloorMod))
    return line, place
