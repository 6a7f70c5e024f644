"""Copy a matrix from one layout to another: element (i, j) of the source becomes element (i, j) of the destination.

The kernel is independent of the layouts. With two row-major ones it is a plain copy; with `Row` and `Col` it transposes
the memory; with any other pair it converts between them.

>>> from lego_mlir import Col, f32
>>> k = build(64, 64, f32, destination=Col(64, 64))
>>> [str(access.position) for _, access in k.trace().accesses()][:2]
['32*bx + 2048*by + tx + 64*ty', '2048*bx + 32*by + 64*tx + ty']
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from typing import Any

import lego_mlir as lego
from lego_mlir import Kernel, Row
from lego_mlir.layout.canonical import SizeLike
from lego_mlir.tracing.trace.dtypes import DType

TILE, ROWS = 32, 8
"""A block copies a TILE x TILE tile with TILE x ROWS threads: accesses along a row coalesce."""


def build(
    M: SizeLike, N: SizeLike, dtype: DType, source: Any = None, destination: Any = None, width: int = 1
) -> Kernel:
    """The copy of an M x N matrix, `width` elements of a row at once. The layouts are row-major if not given.

    Raises LayoutError if a layout does not allow that width.
    """
    source = Row(M, N) if source is None else source
    destination = Row(M, N) if destination is None else destination
    tiles = [lego.cdiv(M, TILE), lego.cdiv(N, TILE * width)]

    @lego.kernel(grid=(tiles[1], tiles[0]), block=(TILE, ROWS))
    def copy(src: lego.Tensor(dtype, source), dst: lego.Tensor(dtype, destination)):  # type: ignore[no-untyped-def]
        bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
        a, b = (t.tile_by(tiles, [TILE, TILE * width]) for t in (src, dst))
        for r in lego.unroll(0, TILE, ROWS):
            b.store(a.load(by, bx, ty + r, tx * width, width=width), by, bx, ty + r, tx * width)

    @copy.reference
    def same(src: Any) -> Any:
        return src

    return copy
