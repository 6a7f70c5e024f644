"""`lego.copy_async`: global memory into shared memory without passing through registers, while the threads compute.

    lego.copy_async(k, tile, at=(head, 0, 0))    every thread copies its part of the tile, 16 bytes at once
    lego.copy_async(x, tile, at=lambda r: (lego.index(order[r]), 0))       rows are gathered
    lego.commit_copies()                         the copies so far are a group
    ...
    lego.wait_copies(1)                          at most 1 group, the newest, may still be in flight
    lego.barrier()                               now all threads see the tile

A thread waits for its own copies only, so a barrier follows before others read the tile; and the tile must not be read
while a copy to it is in flight. The interpreter reports both. Where the tile reaches past the end of the tensor it is
filled with zeros. (sm_80 on; PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group".)

With `barrier=full[k]`, a use of a ring of `lego.barriers`, the copy completes on this barrier instead, and on sm_90a
the tensor copy unit makes it: see `tile_copies`, which also copies from shared memory to global memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.tracing.trace.marks import StagedTile
from lego_mlir.tracing.trace.trace import AsyncCopy, MlirOperation, TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import tile_copies
from lego_mlir.tracing.words.copy_plans import copy_by_rows, copy_evenly, shared_part
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.tensor import View

if TYPE_CHECKING:
    from lego_mlir.tracing.words.barrier_rings import BarrierUse


def copy_async(
    source: View | Part,
    target: View | Part,
    at: Sequence[IndexLike] | Callable[[Index], Sequence[IndexLike]] | None = None,
    barrier: BarrierUse | None = None,
    blocks: IndexLike | Literal["all"] | None = None,
    *,
    add: bool = False,
) -> None:
    """Start to copy the tile of `source` at the index `at` into `target`, with all threads of the block or role.

    `target` is a shared tile of two dimensions or a part of one, which gives the shape; it spans the last two
    dimensions of `source`. An index is the same for all threads; rows are gathered by a function of the row's number in
    the tile, which returns the index of its first element. With a `barrier`, a use of `lego.barriers`, its phase is not
    complete before the copy. With `blocks` the tile is written at the same place in several blocks of the cluster,
    "all" or those whose bits are set in a mask, and the phase of the same barrier in each of them is not complete
    before (`tile_copies`). A shared `source` is copied to global memory, to the tile of `target` at the index `at`;
    with `add` its elements, of f32, are added to those of `target`, each atomically. Raises LayoutError where no width
    of 4, 8 or 16 bytes is proved for both sides, and TraceError for an index that may differ between threads.
    """
    tracer = current("lego.copy_async")
    on_barrier = barrier is not None or blocks is not None
    if on_barrier or add or isinstance(source, Part) or source.buffer.space == "workgroup":
        if callable(at):
            raise tracer.error(
                "lego.copy_async gathers rows of a tensor by cp.async, in groups of lego.commit_copies: the copy unit "
                "of sm_90 gathers none; leave out barrier, blocks and add, or copy each run of rows with an index",
                LayoutError,
            )
        tile_copies.copy(tracer, source, target, at, barrier, blocks, add)
        return
    tile = shared_part(tracer, target)
    rank, first = len(source.dims()), None if callable(at) else tuple(at or (0,) * len(source.dims()))
    if source.buffer.space != "global" or rank < 2 or (first is not None and len(first) != rank):
        raise tracer.error(
            f"lego.copy_async copies from a tensor of at least two dimensions, with an index for each, got {source!r} "
            f"at {'a function' if first is None else list(first)}",
            LayoutError,
        )
    if source.dtype != tile.view.dtype:
        raise tracer.error(
            f"lego.copy_async copies elements as they are, not {source.dtype} to {tile.view.dtype}; load the tile and "
            f"convert it with .to(lego.{tile.view.dtype})",
            LayoutError,
        )
    tracer.require_common("lego.copy_async", (*(first or ()), *tile.at))
    if tracer.open_layouts is not None and tracer.open_layouts.is_recording:
        return  # no tile's layout depends on a copy, and the second run plans it
    if first is not None:
        with _whole_tile(tracer, source, first, tile):
            copy_evenly(tracer, source, first, tile, _appended(tracer))
        return
    assert callable(at)
    copy_by_rows(tracer, source, at, tile, _appended(tracer))


def _appended(tracer: Tracer) -> Callable[[TensorAccess, TensorAccess], None]:
    return lambda read, written: tracer.append(AsyncCopy(read, written, tracer.here()))


def _whole_tile(tracer: Tracer, source: View, first: Sequence[IndexLike], tile: Part) -> AbstractContextManager[object]:
    """The word that schedules read, around the copy of a whole tile."""
    at, into = (tuple(tracer.simplified(tracer.index(i)) for i in index) for index in (first, tile.at))
    if any(into) or tile.shape != tile.view.dims():
        return nullcontext()
    return tracer.word(StagedTile(source.buffer, source.layout, at, tile.rectangle(tracer)))


def commit_copies() -> None:
    """The copies of this thread since the last commit are a group, which may be empty."""
    tracer = current("lego.commit_copies")
    tracer.append(MlirOperation((), "nvvm.cp.async.commit.group", (), (), tracer.here()))


def wait_copies(in_flight: int = 0) -> None:
    """Wait until at most `in_flight` of this thread's newest groups are not complete."""
    tracer = current("lego.wait_copies")
    if isinstance(in_flight, bool) or not isinstance(in_flight, int) or in_flight < 0:
        raise tracer.error(f"lego.wait_copies takes the number of groups that may be in flight, got {in_flight!r}")
    tracer.append(MlirOperation((), "nvvm.cp.async.wait.group", (), (("n", f"{in_flight} : i32"),), tracer.here()))
