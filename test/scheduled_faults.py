"""Faults planted in the ring words of a scheduled kernel: `planted(kernel, fault)` is the kernel with one of `FAULTS`.

A scheduled product has five words: the copies wait for an empty stage and arrive at the full one; the products wait for
it, release the stage of the step before, and the last one after the loop.
"""

from dataclasses import replace

from lego_mlir.expr.index import Index
from lego_mlir.tracing.schedules.copying_roles import pass_ring
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, words_in
from lego_mlir.tracing.trace.marks import RingMade, RingPass
from lego_mlir.tracing.words.barrier_rings import BarrierRing

EMPTY_WAIT, FULL_ARRIVE, FULL_WAIT, RELEASE, _ = range(5)


def _without(mark, stages):
    return None


def _turned(mark, stages):
    return replace(mark, use=mark.use + stages)


def _in_flight(mark, stages):
    return replace(mark, products=False)


def _late(mark, stages):
    return replace(mark, use=mark.use + 1)


def _early(mark, stages):
    return replace(mark, use=mark.use - 1 + 2 * stages)


FAULTS = {
    "a stage released with its product in flight": (RELEASE, _in_flight),
    "a stage released a step early": (RELEASE, _late),
    "no arrival at the full stage": (FULL_ARRIVE, _without),
    "no arrival at the empty stage": (RELEASE, _without),
    "a wrong parity of the full stage": (FULL_WAIT, _turned),
    "a wrong parity of the empty stage": (EMPTY_WAIT, _turned),
    "a stage reused without a wait": (EMPTY_WAIT, _without),
    "a stage reused after the wait for the one before": (EMPTY_WAIT, _early),
    "a stage read without a wait": (FULL_WAIT, _without),
}


class _Planted(Replay):
    def __init__(self, number, change):
        self.number, self.change = number, change

    def run(self):
        self.words = {RingPass: self.word}
        self.made = {m.ring: m for _, m in words_in(self.trace.body, RingMade)}
        self.seen = 0
        super().run()

    def word(self, statement, mark):
        self.seen += 1
        if self.seen - 1 != self.number:
            self.branch(statement)
            return
        ring = self.made[mark.ring]
        changed = self.change(mark, ring.count)
        if changed is not None:
            with self.tracer.word(changed):
                pass_ring(BarrierRing(self.tracer, ring.ring, ring.count, 1), changed, Index(changed.use))


def planted(kernel, fault):
    """A scheduled kernel with a fault in one of its ring words."""
    return Scheduled(kernel, _Planted(*FAULTS[fault]), fault)
