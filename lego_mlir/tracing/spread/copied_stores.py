"""`x.copy_out`: a spread value leaves through shared memory by tile copies, a line of 128 bytes of its columns at once.

    out = lego.shared(f16, copied_stores.buffers(f16, rows=128, count=2))
    x.to(f16).copy_out(c, at=(row, column), through=out)

For each line: the threads store it into a buffer (`stmatrix` where the layouts allow it), meet at a barrier, and one of
them hands it to the tensor copy unit, which clips what is outside of the tensor. The last line of a tile whose columns
are not whole lines begins earlier and overlaps the one before: the same elements are stored twice. The copy of a buffer
has read it before the barrier in front of the line that fills it again: with `count` buffers up to `count - 2` copies
are in flight there.
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import boxed, padded, shape_of_box
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.tensor_maps import LINE
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.async_copies import commit_copies, copy_async, wait_copies
from lego_mlir.tracing.dtypes import DType
from lego_mlir.tracing.mma import Part
from lego_mlir.tracing.shared_lines import copied_lines
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.reshaping import rectangle
from lego_mlir.tracing.tensor import View
from lego_mlir.tracing.tracer import current


def buffers(dtype: DType, rows: int, count: int = 2, columns: int = LINE) -> Layout:
    """The layout of `count` buffers below each other, for values of `rows` rows and at least a line of columns."""
    return copied_lines(count * rows, min(LINE // dtype.bytes, columns), dtype.bytes)


def lines(columns: int, line: int) -> list[int]:
    """The first column of each line."""
    return list(dict.fromkeys(min(first, columns - line) for first in range(0, columns, line)))


def copy_out(value: Spread, target: View, at: Sequence[IndexLike], through: View | Part, again: bool = True) -> None:
    """Store a tile by tile copies through buffers; without `again` it is the first one that goes through them.

    Raises LayoutError for buffers of another shape.
    """
    from lego_mlir.tracing.control import barrier as meet

    tracer, given = current("copy_out"), value.get()
    part = through if isinstance(through, Part) else Part(through, (0, 0), tuple(through.dims()))
    (rows, columns), line = given.shape, part.shape[1]
    count = part.shape[0] // rows
    if part.shape[0] % rows or count < 2 or line > columns:
        raise tracer.error(
            f"copy_out: a tile of {rows} x {columns} goes through two or more buffers of {rows} rows and at most "
            f"{columns} columns below each other, got {part.shape[0]} x {line}",
            LayoutError,
        )
    firsts = lines(columns, line)
    if again and len(firsts) % count:  # the tile before ended in another buffer
        wait_copies()
        meet()
    for number, first in enumerate(firsts):
        place = (Index(part.at[0]) + number % count * rows, part.at[1])
        rectangle(given, line_of(given.layout, line), (0, first)).to(target.dtype).store(part.view, at=place)
        if again or number > count - 2:  # the buffer of the next line has been read
            wait_copies(count - 2)
        meet()
        copy_async(part.view.part(place, (rows, line)), target, at=(*at[:-1], Index(at[-1]) + first))
        commit_copies()


def line_of(layout: LinearLayout, columns: int) -> LinearLayout:
    """The layout of the first columns of a tile: the registers that hold no others."""
    rows, bases = shape_of_box(layout)[0], layout.bases
    bases["register"] = [basis for basis in bases["register"] if basis[1] < columns]
    return boxed(
        LinearLayout(bases, {"dim0": layout.out_sizes["dim0"], "dim1": padded((columns,))[0]}), (rows, columns)
    )
