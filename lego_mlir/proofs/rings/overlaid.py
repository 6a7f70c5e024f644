"""Tiles that take the memory of rings after their last use: the order that the claim about their races needs.

    role 0   copies into stages                          role 1   waits for every copy, multiplies the stages
                                                                  barrier of the role
                                                                  uses the tile that is laid over the stages

Accesses are compared tile by tile, so what is laid over another one has to come after all of it: one role reads the
stages, it waits for every use that is copied, and a barrier of the role is between its last stage and the first access
of the later tile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sympy

from lego_mlir.proofs.rings.agents import WAIT, StageAccess
from lego_mlir.proofs.rings.claims import RingProof
from lego_mlir.proofs.rings.order import RingOrder
from lego_mlir.proofs.rings.ring_statements import has_ring_words, touches
from lego_mlir.proofs.rings.values import constant
from lego_mlir.tracing.trace.marks import WarpRole
from lego_mlir.tracing.trace.trace import Barrier, If, KernelTrace, Statement


def overlaid(trace: KernelTrace) -> frozenset[str]:
    """The tiles that take the memory of others."""
    return frozenset[str]().union(*trace.phases[1:])


def open_overlay(trace: KernelTrace, proof: RingProof | None) -> str | None:
    """Why a kernel's overlaid tiles are not shown to come after the stages below them; None if they are."""
    early, late = trace.phases[0], overlaid(trace)
    below = ", ".join(sorted(early))
    if proof is None or proof.order is None or not early <= proof.guarded:
        return f"it takes the memory of {below}, whose order is not proved"
    users = [n for n, s in enumerate(trace.body) if touches(late, (s,))]
    readers = {agent.role for agent, walk in zip(proof.order.agents, proof.order.walks, strict=True)
               if any(_reads(proof.order, site.event, early) for site in walk.sites)}  # fmt: skip
    if len(readers) != 1 or len(users) != 1 or readers != set(users):
        return f"it takes the memory of {below}, and not one role alone reads those and uses it"
    role = trace.body[users[0]]
    if not isinstance(role, If) or not isinstance(role.mark, WarpRole) or role.mark.groups > 1:
        return f"it takes the memory of {below}, and is used outside of a role of one group"
    if not _has_barrier_between(role.then, early, late):
        return f"it takes the memory of {below}, and no barrier of its role is after their last use"
    if not _waits_for_all(proof.order, users[0], early):
        return f"it takes the memory of {below}, and not all copies into those are waited for"
    return None


def _reads(order: RingOrder, event: object, buffers: Collection[str]) -> bool:
    if not isinstance(event, StageAccess) or event.kind != "read" or event.buffer not in order.buffers:
        return False
    return order.buffers[event.buffer].buffer in buffers


def _has_barrier_between(body: Sequence[Statement], early: Collection[str], late: Collection[str]) -> bool:
    """Whether a barrier is after all stages and words of rings, and before the tiles laid over them."""
    last = max((n for n, s in enumerate(body) if touches(early, (s,)) or has_ring_words((s,))), default=-1)
    first = min((n for n, s in enumerate(body) if touches(late, (s,))), default=len(body))
    return any(isinstance(s, Barrier) and s.waits for s in body[last + 1 : first])


def _waits_for_all(order: RingOrder, role: int, early: Collection[str]) -> bool:
    """Whether an agent of the role waits for as many uses as there are, of each ring that guards these buffers."""
    rings = {buffer.ring for buffer in order.buffers.values() if buffer.buffer in early}
    agents = [k for k, agent in enumerate(order.agents) if agent.role == role]
    for ring in rings:
        for k in agents:
            waits = order.walks[k].totals.get((WAIT, ring, None), sympy.Integer(0)) + order.shift.get((k, ring), 0)
            for b, arrival in order.arrivers[ring]:
                if constant(order.walks[b].totals[arrival] - waits, order.ranges) != 0:
                    return False
    return True
