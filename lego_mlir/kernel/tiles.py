"""`lego.stage`: the threads of a block copy a tile of global memory into shared memory together.

    for k in lego.range(tiles):
        lego.stage(a, (by, k), a_shared)       # a: M x K, in tiles of a_shared's shape

The copy runs along the axis in which the shared tile is contiguous, with the widest access that is proved for both
sides, and zeros where a tile reaches past the end of the matrix. Thread t takes the chunks t, t + threads, ...: which
chunk that is, a layout says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import cdiv
from lego_mlir.expr.verdict import Verdict
from lego_mlir.kernel.access import Place
from lego_mlir.kernel.control import block_dim, thread_id
from lego_mlir.kernel.mma import lines_of
from lego_mlir.kernel.tensor import View
from lego_mlir.kernel.tracer import current
from lego_mlir.layout import Row
from lego_mlir.layout.base import Layout


class Transposed(Layout):
    """A two-dimensional layout with its indices the other way round: element (j, i) is the inner one's (i, j).

    >>> from lego_mlir import Row, as_layout
    >>> Transposed(as_layout(Row(2, 3))).apply(2, 1), Transposed(as_layout(Row(2, 3))).dims()
    (5, (3, 2))
    """

    __slots__ = ("inner",)

    def __init__(self, inner: Layout) -> None:
        if len(inner.dims()) != 2:
            raise LayoutError(f"Transposed takes a layout of two axes, got {inner!r}")
        self.inner = inner

    def dims(self) -> tuple[Any, ...]:
        return tuple(reversed(self.inner.dims()))

    def physical_size(self) -> Any:
        return self.inner.physical_size()

    def _apply(self, index: tuple[Any, ...]) -> Any:
        return self.inner._apply(index[::-1])

    def _inv(self, position: Any) -> tuple[Any, ...]:
        return tuple(reversed(self.inner._inv(position)))

    def _check(self) -> Verdict:
        return self.inner.check()

    def _key(self) -> tuple[Any, ...]:
        return ("Transposed", self.inner)

    def __repr__(self) -> str:
        return f"Transposed({self.inner!r})"


def stage(source: View, at: Sequence[Any], target: View) -> None:
    """Copy the tile number `at` of `source`, in tiles of the shape of `target`, with all threads of the block.

    A barrier has to follow before the tile is read. Raises LayoutError where the threads do not divide the tile.
    """
    tracer = current("lego.stage")
    lines = lines_of(target.layout)
    if target.buffer.space != "workgroup" or lines is None or len(source.dims()) != 2:
        raise tracer.error(
            f"lego.stage copies a matrix into a shared tile of rows or columns, got {source!r} into {target!r}",
            LayoutError,
        )
    if lines.transposed:
        source, target, at = source.T, target.T, tuple(reversed(at))
    shape = target.dims()
    tiled = source.tile_by([cdiv(n, t) for n, t in zip(source.dims(), shape, strict=True)], shape)
    threads = _threads()
    for width in _widths(target):
        chunks = Row(shape[0], shape[1] // width)
        if shape[1] % width or chunks.numel() % threads:
            continue
        for first in range(0, chunks.numel(), threads):
            row, chunk = chunks.inv(_thread() + first)
            index = (*at, row, chunk * width)
            if first == 0 and width > 1 and not _possible(tiled, index, target, (row, chunk * width), width):
                break
            target.store(tiled.load(*index, width=width), row, chunk * width)
        else:
            return
    raise tracer.error(
        f"lego.stage: {threads} threads do not divide the {shape[0]} x {shape[1]} elements of {target.buffer.name} "
        "evenly; take a larger tile or fewer warps",
        LayoutError,
    )


def _widths(target: View) -> tuple[int, ...]:
    widest = 16 // target.dtype.bytes
    return tuple(widest >> halvings for halvings in range(widest.bit_length()))


def _possible(tiled: View, index: tuple[Any, ...], target: View, inside: tuple[Any, ...], width: int) -> bool:
    tracer = current("lego.stage")
    return not any(
        Place(tracer, view.buffer, view.layout, place).obstacle(width)
        for view, place in ((tiled, index), (target, inside))
    )


def _threads() -> int:
    product = 1
    for extent in block_dim[:]:
        product *= int(extent)
    return product


def _thread() -> Any:
    """The number of the thread in its block, x fastest."""
    number: Any = 0
    for extent, index in reversed(list(zip(block_dim[:], thread_id, strict=True))):
        number = number * extent + index
    return number
