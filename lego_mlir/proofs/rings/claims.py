"""The claims about a kernel's rings of barriers: used in order for all uses, or a round in which they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import sympy

from lego_mlir.expr.nodes import Size
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.strided import claimed_strides
from lego_mlir.proofs.rings.agents import NotFollowedError
from lego_mlir.proofs.rings.obligations import problems
from lego_mlir.proofs.rings.order import RingOrder
from lego_mlir.proofs.rings.reader import ring_order
from lego_mlir.proofs.rings.ring_faults import find_fault
from lego_mlir.proofs.rings.stage_fills import unfilled
from lego_mlir.tracing.trace.trace import Buffer, KernelTrace, MlirOperation
from lego_mlir.tracing.words.barrier_rings import CREATE

SIZES: Final = (64, 200, 520)
"""Sizes of a launch with which a fault is looked for, as far as their ranges allow."""


@dataclass(frozen=True, slots=True)
class RingClaim:
    """The claim about all rings of a kernel."""

    verdict: Verdict
    text: str = "rings of barriers: each wait is for its phase, each phase gets its arrivals, no stage is reused early"


@dataclass(frozen=True)
class RingProof:
    """What is known of a kernel's rings: their order, None if it is not followed, and why it is not proved.

    `open` are buffers that were taken for stages, and are not proved to be ones.
    """

    order: RingOrder | None
    reasons: tuple[str, ...]
    open: frozenset[str] = frozenset()

    @cached_property
    def unfilled(self) -> dict[str, str]:
        """The guarded buffers with a read that is not shown to come after a write, and the reason."""
        if self.order is None or self.reasons:
            return {}
        self.order.ranges.restart()
        try:
            found = unfilled(self.order)
        except NotFollowedError as error:
            return dict.fromkeys(self.guarded, str(error))
        return {buffer: reason for buffer, reason in found.items() if buffer in self.guarded}

    @property
    def guarded(self) -> frozenset[str]:
        """The buffers whose stages the rings are proved to guard."""
        if self.order is None or self.reasons:
            return frozenset()
        return frozenset(buffer.buffer for buffer in self.order.buffers.values()) - self.open


def ring_proof(trace: KernelTrace) -> RingProof | None:
    """The proof of a kernel's rings; None for a kernel without rings.

    One obligation that is not shown leaves all buffers open: a phase that is off by one orders nothing.
    """
    if not any(isinstance(s, MlirOperation) and s.name == CREATE for s in trace.statements()):
        return None
    try:
        order = ring_order(trace)
        assumed = {name: buffer.buffer for name, buffer in order.buffers.items() if buffer.assumed}
        found = problems(order)
        reasons = dict.fromkeys(problem.reason for problem in found if problem.about not in assumed)
        return RingProof(order, tuple(reasons), frozenset(assumed[p.about] for p in found if p.about in assumed))
    except NotFollowedError as error:
        return RingProof(None, (str(error),))


def ring_claims(trace: KernelTrace, proof: RingProof | None) -> Iterator[RingClaim]:
    """Whether all rings are used in order: phases, parity, numbers of arrivals, no wait without end."""
    if proof is None:
        return
    if proof.order is None:
        yield RingClaim(Unknown(proof.reasons[0]))
    elif not proof.reasons:
        yield RingClaim(Proved("bounds between the counts of roles"))
    else:
        found = _refuted(proof.order, trace)
        yield RingClaim(Unknown(proof.reasons[0]) if found is None else found)


def _refuted(order: RingOrder, trace: KernelTrace) -> Verdict | None:
    """A round in which a ring goes wrong, for sizes of a launch that the kernel's requirements allow."""
    for value in SIZES:
        sizes = {str(size): _fitting(size, value) for size in trace.sizes}
        sizes |= claimed_strides([p.layout for p in trace.parameters if isinstance(p, Buffer)], (), sizes)
        assumed = {size: sympy.Integer(sizes[str(size)]) for size in trace.sizes}
        if any(requirement.condition.xreplace(assumed) == sympy.false for requirement in trace.requirements):
            continue
        try:
            found = find_fault(order, sizes)
        except NotFollowedError:
            continue
        if found is not None:
            return Refuted(sizes, f"{found.place}: {found.text}")
    return None


def _fitting(size: Size, value: int) -> int:
    """A size near a value, within its range."""
    multiple = getattr(size, "multiple_of", 1) or 1
    value = max(value // multiple * multiple, multiple)
    return max(min(value, int(getattr(size, "max", None) or value)), int(getattr(size, "min", None) or 1))
