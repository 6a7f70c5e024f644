"""Asynchronous tile copies: between a tile of a tensor and a shared tile, for the threads of a role and for TMA.

    lego.copy_async(x, ring.part((0, 0), (64, 64)), at=(i, 0), barrier=full[k])     global to shared, until full[k]
    lego.copy_async(tile, y, at=(i, 0))                                             shared to global, in a group
    lego.copy_async(tile, y, at=(i, 0), add=True)                                   added to global memory, atomically

Each is a branch that always runs and is marked as one `TileCopy`. Its statements copy the tile by the threads of the
role, 16 bytes at once where that is proved: to shared memory as `cp.async`, whose completion the barrier waits for, and
to global memory as loads and stores, or as atomic additions. The mark holds the same copy as a box, which one thread
hands to the tensor copy unit on sm_90a (`hardware.tensor_boxes` derives its tensor map). Outside of the tensor a box is
filled with zeros, or not stored.

With `blocks` the unit reads the box from global memory once, writes it to the same place in the shared memory of
several blocks of a cluster, and completes on the same barrier in each of them. Their phases wait for such a copy from
its issue on. So each block that copies arrives, after its copies, at the barriers of all blocks that it writes to:

    full = lego.barriers(stages, arrivals=2)                          arrivals of the producers of both blocks
    lego.copy_async(x, part of the tile, at=.., barrier=full[k], blocks="all")
    full[k].arrive(block=0)
    full[k].arrive(block=1)

All warps of the role run the copy. PTX ISA, "cp.async.mbarrier.arrive", "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from typing import Final, Literal

import sympy

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import LayoutError, brief
from lego_mlir.expr.index import Condition
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Le
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.limits import WARP
from lego_mlir.layout.named_maps import position_formula
from lego_mlir.tracing.trace.dtypes import DType, f32, i64
from lego_mlir.tracing.trace.marks import TileCopy
from lego_mlir.tracing.trace.trace import AsyncCopy, If, MlirOperation, TensorAccess, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.barrier_rings import BarrierUse, peer_group
from lego_mlir.tracing.words.control import when
from lego_mlir.tracing.words.copy_plans import in_turns, shared_part
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.reductions import require_uniform
from lego_mlir.tracing.words.staging import block_threads, thread_chunks, thread_number
from lego_mlir.tracing.words.tensor import View
from lego_mlir.tracing.words.warps import linear_thread

COMPLETES: Final = "nvvm.cp.async.mbarrier.arrive"
ADDRESS: Final = "nvgpu.mbarrier.get"
_POINTER: Final = DType("pointer", 64, "index", "int64", "!llvm.ptr<3>")


def copy(
    tracer: Tracer,
    source: View | Part,
    target: View | Part,
    at: Sequence[IndexLike] | None,
    barrier: BarrierUse | None,
    blocks: IndexLike | Literal["all"] | None = None,
    add: bool = False,
) -> None:
    """Trace one tile copy. Raises LayoutError where the threads cannot share it, TraceError for a wrong barrier."""
    stores = isinstance(source, Part) or source.buffer.space == "workgroup"
    tile, tensor = (source, target) if stores else (target, source)
    tile = shared_part(tracer, tile)
    if isinstance(tensor, Part) or tensor.buffer.space != "global":
        raise tracer.error(
            "lego.copy_async copies between a tensor and a shared tile; of two shared tiles, load one and store the "
            f"other; got {brief(repr(source))} and {brief(repr(target))}",
            LayoutError,
        )
    first = tuple(at) if at is not None else (0,) * len(tensor.dims())
    _require_box(tracer, tensor, tile, first)
    _require_barrier(tracer, stores, barrier)
    if add and not (stores and tile.view.dtype == f32):
        raise tracer.error(
            f"lego.copy_async(.., add=True) adds a shared tile of f32 to global memory, got {brief(repr(source))}; "
            "for other types update each element by atomic_add"
        )
    several = _mask_of(tracer, blocks, barrier)
    _require_all_threads(tracer)
    ring, slot = (None, None) if barrier is None else (tracer.use(barrier.ring.group), barrier.slot)
    tracer.require_common("lego.copy_async", (*first, *tile.at))
    into = (tracer.simplified(tracer.index(tile.at[0])), tracer.simplified(tracer.index(tile.at[1])))
    mark = TileCopy(
        tensor=tensor.buffer,
        layout=tensor.layout,
        at=tuple(tracer.simplified(tracer.index(i)) for i in first),
        shape=tile.shape,
        tile=tile.view.buffer,
        tile_layout=tile.view.layout,
        into=into,
        position=tracer.simplified(position_formula(tile.view.layout, into)),
        warp=tracer.simplified((linear_thread(tracer) // WARP).expr),
        stores=stores,
        ring=ring,
        slot=slot,
        adds=add,
        blocks=several,
        use=None if barrier is None else barrier.number.expr,
    )
    source_line = tracer.here()
    with tracer.region() as body:
        if stores:
            _stored_by_threads(tracer, tile, tensor, first, add)
        elif several is not None:
            _to_blocks(tracer, tensor, first, tile, mark)
        else:
            in_turns(tracer, tensor, first, tile, lambda read, to: tracer.append(AsyncCopy(read, to, tracer.here())))
            if barrier is not None:
                _complete_on(tracer, mark.slot, mark.ring)
    tracer.append(If(sympy.true, tuple(body), (), source_line, mark))


def _require_all_threads(tracer: Tracer) -> None:
    """Refuse a copy that not all threads of the kernel, or of its role, come to."""
    require_uniform(tracer, "lego.copy_async")
    if tracer.called is not None:
        raise tracer.error(
            f"lego.copy_async of a tile in {tracer.called}, which is called: the kernel's threads share the copy; "
            "leave out inline=False"
        )


def _mask_of(tracer: Tracer, blocks: IndexLike | Literal["all"] | None, barrier: BarrierUse | None) -> Expr | None:
    """The mask of the blocks that a copy writes, None for the thread's own. Raises TraceError for other masks."""
    if blocks is None:
        return None
    if barrier is None:
        raise tracer.error(
            "lego.copy_async to several blocks of a cluster completes on a barrier in each of them: pass "
            "barrier=full[k]"
        )
    count = prod(tracer.cluster)
    every = (1 << count) - 1
    if isinstance(blocks, str) and blocks != "all":
        raise tracer.error(f'lego.copy_async: blocks is "all" or a mask of blocks from 1 to {every}, got {blocks!r}')
    mask = tracer.index(every if isinstance(blocks, str) else blocks)
    verdict = tracer.prove(sympy.And(Le(1, mask), Le(mask, every)))
    if not isinstance(verdict, Proved):
        raise tracer.error(
            f"lego.copy_async: blocks={mask} is not proved to be a mask of some of the {count} blocks of a cluster, "
            f'from 1 to {every}; bit r stands for block r, and blocks="all" for all'
        )
    return None if count == 1 else tracer.simplified(mask)


def _to_blocks(tracer: Tracer, tensor: View, first: Sequence[IndexLike], tile: Part, mark: TileCopy) -> None:
    """The threads copy the tile to each block of the mask, where it completes on that block's barrier."""
    assert mark.ring is not None
    again = False
    for number in range(prod(tracer.cluster)):
        wanted = tracer.simplified(Eq(FloorMod(FloorDiv(mark.blocks, 1 << number), 2), 1))
        if wanted == False:  # noqa: E712  SymPy's false is not Python's
            continue
        with nullcontext() if wanted == True else when(Condition(wanted)):  # noqa: E712
            block, repeated = sympy.Integer(number), again

            def copied(read: TensorAccess, to: TensorAccess) -> None:
                there = replace(to, block=block)  # noqa: B023  called in this turn alone
                tracer.append(AsyncCopy(read, there, tracer.here(), repeated))  # noqa: B023

            in_turns(tracer, tensor, first, tile, copied)
            _complete_on(tracer, mark.slot, peer_group(tracer, mark.ring, number))
        again = again or wanted == True  # noqa: E712


def complete_on(barrier: BarrierUse) -> None:
    """The phase of a barrier waits for the copies of single threads so far, and counts no arrival for that."""
    tracer = current("a copy of a thread")
    _complete_on(tracer, barrier.slot, tracer.use(barrier.ring.group))


def _complete_on(tracer: Tracer, slot: Value | None, ring: Value | None) -> None:
    assert ring is not None and slot is not None
    address, pointer = tracer.value(i64), tracer.value(_POINTER)
    tracer.append(MlirOperation((address,), ADDRESS, (ring, slot), (), tracer.here()))
    tracer.append(MlirOperation((pointer,), "llvm.inttoptr", (address,), (), tracer.here()))
    tracer.append(MlirOperation((), COMPLETES, (pointer,), (("noinc", "false"),), tracer.here()))


def _stored_by_threads(tracer: Tracer, tile: Part, tensor: View, first: Sequence[IndexLike], add: bool) -> None:
    """The threads load and store the tile, with the widest access that is proved for both sides, or add elements."""
    target, threads, widest = tensor.halo("zero"), block_threads(), 1 if add else 16 // tensor.dtype.bytes
    *outer, top, left = first
    for width in (widest >> halvings for halvings in range(widest.bit_length())):
        chunks = thread_chunks(tile.shape, width, threads, thread_number())
        if not chunks:
            continue
        here = [(tile.at[0] + row, tile.at[1] + column) for row, column in chunks]
        there = [(*outer, top + row, left + column) for row, column in chunks]
        fitting = (tile.view.place(*here[0]).fits(width), target.place(*there[0]).fits(width))
        if width > 1 and not all(fitting):
            continue
        for of_tile, of_tensor in zip(here, there, strict=True):
            value = tile.view.load(*of_tile, width=width)
            if add:
                target.atomic_add(value, *of_tensor)
            else:
                target.store(value, *of_tensor)
        return
    raise tracer.error(
        f"lego.copy_async: {threads} threads do not divide the {tile.shape[0]} x {tile.shape[1]} elements of the tile "
        "evenly; copy a tile of another size, or with other warps",
        LayoutError,
    )


def _require_box(tracer: Tracer, tensor: View, tile: Part, first: Sequence[IndexLike]) -> None:
    if len(first) != len(tensor.dims()) or len(first) < 2:
        raise tracer.error(
            f"lego.copy_async takes a tensor of at least two dimensions, with an index for each, got {tensor!r} at "
            f"{list(first)}",
            LayoutError,
        )
    if tensor.dtype != tile.view.dtype:
        raise tracer.error(
            f"lego.copy_async copies elements as they are: the tensor has {tensor.dtype}, the tile {tile.view.dtype}; "
            "use a tile of the tensor's type and convert in registers",
            LayoutError,
        )


def _require_barrier(tracer: Tracer, stores: bool, barrier: BarrierUse | None) -> None:
    if barrier is not None and not isinstance(barrier, BarrierUse):
        raise tracer.error(
            "lego.copy_async completes on a use of a ring, barrier=full[k] with full = lego.barriers(n), got "
            f"{brief(repr(barrier))}"
        )
    if stores and barrier is not None:
        raise tracer.error(
            "lego.copy_async to global memory completes on no barrier; leave out barrier=, and use "
            "lego.commit_copies() and lego.wait_copies(n)"
        )
