"""`lego.copy_async`: global memory into shared memory without passing through registers, while the threads compute.

    lego.copy_async(k, tile, at=(head, 0, 0))    every thread copies its part of the tile, 16 bytes at once
    lego.commit_copies()                         the copies so far are a group
    ...
    lego.wait_copies(1)                          at most 1 group, the newest, may still be in flight
    lego.barrier()                               now all threads see the tile

A thread waits for its own copies only, so a barrier follows before others read the tile; and the tile must not be read
while a copy to it is in flight. The interpreter reports both. Where the tile reaches past the end of the tensor it is
filled with zeros. (sm_80 on; PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group".)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError, brief
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.mma import Part
from lego_mlir.tracing.spread.accesses import accesses_of
from lego_mlir.tracing.staging import block_threads, thread_chunks, thread_number
from lego_mlir.tracing.tensor import View
from lego_mlir.tracing.trace import AsyncCopy, MlirOperation, TensorAccess
from lego_mlir.tracing.tracer import Tracer, current

BYTES: Final = (16, 8, 4)
"""Bytes that one copy of a thread moves, widest first (PTX ISA, "cp.async")."""


def copy_async(source: View, target: View | Part, at: Sequence[IndexLike] | None = None) -> None:
    """Start to copy the tile of `source` at the index `at` into `target`, with all threads of the block.

    `target` is a shared tile of two dimensions or a part of one, which gives the shape; it spans the last two
    dimensions of `source`. Raises LayoutError where no width of 4, 8 or 16 bytes is proved for both sides, and where
    the threads do not divide the tile.
    """
    tracer = current("lego.copy_async")
    tile = _target(tracer, target)
    first = tuple(at) if at is not None else (0,) * len(source.dims())
    if source.buffer.space != "global" or len(first) != len(source.dims()) or len(first) < 2:
        raise tracer.error(
            f"lego.copy_async copies from a tensor of at least two dimensions, with an index for each, got {source!r} "
            f"at {list(first)}",
            LayoutError,
        )
    if source.dtype != tile.view.dtype:
        raise tracer.error(
            f"lego.copy_async copies elements as they are, not {source.dtype} to {tile.view.dtype}; load the tile and "
            f"convert it with .to(lego.{tile.view.dtype})",
            LayoutError,
        )
    origin, threads = source.halo("zero"), block_threads()
    for width in (size // source.dtype.bytes for size in BYTES if size >= source.dtype.bytes):
        if copies := _planned(origin, first, tile, width, threads):
            for read, written in copies:
                tracer.append(AsyncCopy(read, written, tracer.here()))
            return
        chunks = thread_chunks(tile.shape, width, threads, thread_number())
        if not chunks or any(v.place(*i).obstacle(width) for v, i in _both(origin, first, tile, *chunks[0])):
            continue
        for row, column in chunks:
            (_, here), (_, there) = _both(origin, first, tile, row, column)
            read, written = origin.place(*here).access(width), tile.view.place(*there).access(width)
            tracer.append(AsyncCopy(read, written, tracer.here()))
        return
    raise tracer.error(
        f"lego.copy_async: no copies of 4, 8 or 16 bytes are proved that the {threads} threads of the block share "
        f"evenly, from {source!r} into {tile.shape[0]} x {tile.shape[1]} of {tile.view!r}; let both be contiguous "
        "along rows, with rows that are a multiple of 16 bytes",
        LayoutError,
    )


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


def _target(tracer: Tracer, given: View | Part) -> Part:
    """The shared tile to fill. Raises LayoutError for anything else."""
    view = given.view if isinstance(given, Part) else given
    if not isinstance(view, View) or view.buffer.space != "workgroup" or len(view.dims()) != 2:
        raise tracer.error(
            "lego.copy_async copies into a shared tile of two dimensions, lego.shared(dtype, layout), or a part of "
            f"one, got {brief(repr(given))}",
            LayoutError,
        )
    if isinstance(given, Part):
        return given
    rows, columns = view.dims()
    return Part(view, (0, 0), (rows, columns))


def _planned(
    origin: View, first: Sequence[IndexLike], tile: Part, width: int, threads: int
) -> list[tuple[TensorAccess, TensorAccess]]:
    """The copies of a thread, planned as the accesses of a tile of this layout: chunk t + threads * i is its i-th.

    Empty where the sizes or the threads are no powers of two, and where one side does not take whole chunks.
    """
    sizes = (*tile.shape, threads)
    if any(n & (n - 1) for n in sizes) or threads % WARP or tile.shape[1] % width:
        return []
    bits, chunk, lanes = (n.bit_length() - 1 for n in (tile.shape[0] * tile.shape[1], width, threads))
    if bits < chunk + lanes:
        return []
    flat = [1 << k for k in range(bits)]
    lane, warp = flat[chunk : chunk + 5], flat[chunk + 5 : chunk + lanes]
    columns = [*flat[:chunk], *flat[chunk + lanes :], *lane, *warp]
    ins = (("register", bits - lanes), ("lane", 5), ("warp", lanes - 5))
    outs = tuple((f"dim{axis}", tile.shape[axis].bit_length() - 1) for axis in (1, 0))
    layout = LinearLayout.of(ins, outs, columns)
    read = accesses_of("lego.copy_async", origin, layout, first)
    written = accesses_of("lego.copy_async", tile, layout, None, stored=True)
    if set(read) != set(written) or any(len(registers) != width for registers in read):
        return []
    return [(read[registers], written[registers]) for registers in read]


def _both(
    origin: View, first: Sequence[IndexLike], tile: Part, row: IndexLike, column: IndexLike
) -> tuple[tuple[View, Sequence[IndexLike]], tuple[View, Sequence[IndexLike]]]:
    """The views and indices of one element of the tile, in the tensor and in shared memory."""
    *outer, start, left = first
    return (origin, (*outer, start + row, left + column)), (tile.view, (tile.at[0] + row, tile.at[1] + column))
