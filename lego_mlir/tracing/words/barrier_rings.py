"""`lego.barriers`: rings of barriers in shared memory, which tell warps that a buffer is full, or empty again.

    full, empty = lego.barriers(stages), lego.barriers(stages, arrivals=4)
    with lego.warps(0, 1):                                           with lego.warps(1, 5):
        for k in lego.range(tiles):                                      for k in lego.range(tiles):
            empty[k - stages].wait()                                         full[k].wait()
            lego.copy_async(x, ring.part(..), at=(..), barrier=full[k])      ...
            full[k].arrive()                                                 empty[k].arrive()

`ring[k]` is a value, the k-th use of the ring: barrier k % n in its phase k // n. A phase is complete when `arrivals`
warps have arrived and all asynchronous copies on it are in shared memory; then the next phase begins. A wait returns
when its phase is complete; phases before the first are, so that `empty[k - stages]` does not wait in the first round.
What a warp did before it arrived, and the copies, are visible to the warps that waited. A wait may be late by less than
two phases: the hardware distinguishes even and odd ones only. `full[k].arrive(block=1)` arrives at the barrier of
another block of the cluster.

PTX ISA, "mbarrier" (sm_80 on; copies of tensors complete on them from sm_90 on).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, NoReturn

from lego_mlir.aliases import IndexLike
from lego_mlir.expr.index import Index
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Ne
from lego_mlir.tracing.trace.dtypes import DType, i1, index
from lego_mlir.tracing.trace.marks import RingMade
from lego_mlir.tracing.trace.trace import Barrier, FromIndex, If, KernelTrace, MlirOperation, Statement, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.control import barrier, when
from lego_mlir.tracing.words.warps import lane_id, thread_of_block, warp_sync

CREATE, INIT, ARRIVE = (f"nvgpu.mbarrier.{name}" for name in ("create", "init", "arrive"))
RING: Final = "lego.ring"
"""The attribute of a ring's creation: the lowering provides for its barriers."""
WAIT: Final = "nvgpu.mbarrier.try_wait.parity"
BARRIER_BYTES: Final = 8
MOST_BARRIERS: Final = 512
"""Barriers of a ring: 4 KiB."""
MOST_ARRIVALS: Final = 32
"""Warps of the largest block; in a cluster, of all its blocks."""
TICKS: Final = 10_000_000
"""Nanoseconds after which a waiting warp looks again."""
GO_ON: Final = ("lego.products_go_on", "unit")
"""The attribute of an arrival that waits for no products of warpgroups."""
PREVIOUS: Final = ("lego.products_before", "unit")
"""The attribute of an arrival that waits for all products of warpgroups but the newest."""
_TOKEN: Final = DType("token", 64, "index", "int64", "!nvgpu.mbarrier.token")


@dataclass(frozen=True, slots=True, eq=False)
class BarrierRing(Uncompared):
    """Barriers that are used one after the other; `ring[k]` is the k-th use."""

    _instead = "compare the numbers of uses"

    tracer: Tracer
    group: Value
    count: int
    arrivals: int

    def __getitem__(self, use: IndexLike) -> BarrierUse:
        tracer = current("a ring of barriers")
        tracer.use(self.group)
        expr = tracer.index(use)
        least = bounds(expr, tracer.known(expr.free_symbols)).lo
        if least is None or least < 0:  # whole turns of even number change neither the barrier nor the parity
            expr = expr + 2 * self.count * (1 if least is None else -(least // (2 * self.count)))
        return BarrierUse(self, Index(expr))

    def __iter__(self) -> NoReturn:
        raise current("a ring of barriers").error(
            f"{self!r} has a use for each number, without an end: write `for k in lego.range(..):` and ring[k]"
        )

    def __repr__(self) -> str:
        return f"<ring of {self.count} barriers for {self.arrivals} arrivals>"


@dataclass(frozen=True, slots=True, eq=False)
class BarrierUse(Uncompared):
    """One use of a ring: a barrier, and one of its phases. `number` is that of the use, or whole turns more."""

    _instead = "compare the numbers of uses"

    ring: BarrierRing
    number: Index

    @property
    def slot(self) -> Value:
        """The barrier's number in its ring, as a value."""
        tracer = current("a barrier")
        result = tracer.value(index)
        expr = tracer.simplified(FloorMod(self.number.expr, self.ring.count))
        tracer.append(FromIndex(result, expr, tracer.here()))
        return result

    def wait(self) -> None:
        """Wait until the phase is complete: what came before its arrivals, and its copies, are visible then."""
        tracer = current("a barrier")
        phase = FloorDiv(self.number.expr, self.ring.count)
        parity = tracer.condition_value(Ne(FloorMod(phase, 2), 0), i1)
        ticks = tracer.value(index)
        tracer.append(FromIndex(ticks, Index(TICKS).expr, tracer.here()))
        operands = (self.ring.group, parity, ticks, self.slot)
        tracer.append(MlirOperation((), WAIT, operands, (), tracer.here(), self.number.expr))

    def arrive(self, block: IndexLike | None = None, *, products: bool | str = True) -> None:
        """Each warp that runs this arrives once, after all its lanes have come here.

        With a `block`, it arrives at the same barrier in the block of the cluster with that number. Products of
        warpgroups in flight are complete before it arrives; with `products=False` they go on, where the phase allows
        nobody to write the tiles that they read.
        """
        tracer = current("a barrier")
        warp_sync()
        group = self.ring.group if block is None else peer_group(tracer, self.ring.group, block)
        with when(lane_id < 1):
            token = tracer.value(_TOKEN)
            tracer.append(
                MlirOperation(
                    (token,), ARRIVE, (group, self.slot), _attributes(products), tracer.here(), self.number.expr
                )
            )

    def __repr__(self) -> str:
        return f"<use {self.number} of {self.ring!r}>"


def _attributes(products: bool | str) -> tuple[tuple[str, str], ...]:
    """How long an arrival waits for products of warpgroups in flight: for all, for all but the newest, not at all."""
    if products is True:
        return ()
    return (GO_ON, PREVIOUS) if products == "previous" else (GO_ON,)


def barriers(count: int, arrivals: int = 1) -> BarrierRing:
    """A ring of `count` barriers; a phase of each takes the arrivals of `arrivals` warps.

    It initialises them, and a barrier of the block follows. Raises TraceError in a loop or branch.
    """
    tracer = current("lego.barriers")
    greatest = MOST_ARRIVALS * prod(tracer.cluster)
    for name, given, most in (("count", count, MOST_BARRIERS), ("arrivals", arrivals, greatest)):
        if type(given) is not int or not 1 <= given <= most:
            raise tracer.error(f"lego.barriers: {name} must be an int from 1 to {most}, got {given!r}")
    if tracer.depth or tracer.called is not None:
        raise tracer.error(
            "lego.barriers inside a loop, a branch or a role: make the ring at the kernel's top level, since all "
            "threads of the block share it"
        )
    group = tracer.value(_ring_type(count))
    _merge_meetings(tracer.innermost)
    tracer.append(MlirOperation((group,), CREATE, (), ((RING, "unit"),), tracer.here()))
    with when(thread_of_block(tracer) < 1):
        for number in range(count):
            at, expected = tracer.value(index), tracer.value(index)
            tracer.append(FromIndex(at, Index(number).expr, tracer.here()))
            tracer.append(FromIndex(expected, Index(arrivals).expr, tracer.here()))
            tracer.append(MlirOperation((), INIT, (group, expected, at), (), tracer.here()))
    barrier()
    return BarrierRing(tracer, group, count, arrivals)


def peer_group(tracer: Tracer, group: Value, block: IndexLike) -> Value:
    """The barriers of a ring in the block of the cluster with this number. Raises TraceError for another number."""
    from lego_mlir.tracing.words.clustered_blocks import blocks_of_cluster, checked_rank, of_peer

    rank = checked_rank(tracer, "the barriers of another block", block)
    return group if blocks_of_cluster(tracer) == 1 else of_peer(tracer, group, rank)


def ring_bytes(trace: KernelTrace) -> int:
    """The bytes of a kernel's barriers in shared memory."""
    made = [s for s in trace.statements() if isinstance(s, MlirOperation) and s.name == CREATE]
    return sum(BARRIER_BYTES * int(s.results[0].dtype.mlir.rpartition("= ")[2].rstrip(">")) for s in made)


def _ring_type(count: int) -> DType:
    name = f"ring of {count} barriers"
    space = "memorySpace = #gpu.address_space<workgroup>"
    return DType(name, 64, "index", "int64", f"!nvgpu.mbarrier.group<{space}, num_barriers = {count}>")


def _merge_meetings(body: list[Statement]) -> None:
    """If a ring was just made, its barrier of the block goes: that of the next ring serves both."""
    if body and isinstance(word := body[-1], If) and isinstance(word.mark, RingMade):
        inside = list(word.then)
        _merge_meetings(inside)
        body[-1] = replace(word, then=tuple(inside))
    elif len(body) > 1 and isinstance(body[-1], Barrier) and isinstance(made := body[-2], If):
        last = made.then[-1] if made.then else None
        if isinstance(last, MlirOperation) and last.name == INIT:
            body.pop()
