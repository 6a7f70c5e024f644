"""Barriers that no proof needs.

A barrier is needed if without it two accesses that it separates are not proved apart. All copies of an unrolled line
count as one barrier. Barriers of kernels that publish data to other blocks, with fences or by spinning on a flag, are
not judged: they may order what no race claim is about. Nor are those of kernels with rings of barriers, whose proofs
take it for granted that the rings are initialised and that a role's lanes arrive together.
"""

from __future__ import annotations

from lego_mlir.expr.verdict import Proved
from lego_mlir.proofs.barriers import barrier_claims
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.races import PairsInside, race_claims
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import KernelTrace, MlirOperation, While
from lego_mlir.tracing.words.barrier_rings import CREATE

NOT_JUDGED = ("llvm.fence", CREATE)


def unneeded_barriers(trace: KernelTrace) -> list[Source]:
    """The lines of barriers each of which can be removed alone, with every proof of the kernel kept."""
    if any(isinstance(s, While) or (isinstance(s, MlirOperation) and s.name in NOT_JUDGED) for s in trace.statements()):
        return []
    model = KernelModel(trace)
    if not model.reader.syncs or not all(isinstance(claim.verdict, Proved) for claim in barrier_claims(model)):
        return []
    lines: dict[Source, set[int]] = {}
    for sync in model.reader.syncs:
        lines.setdefault(sync.source, set()).add(id(sync))
    if not _proved_without(model, frozenset()):
        return []
    return [source for source, copies in lines.items() if _proved_without(model, frozenset(copies))]


def _proved_without(model: KernelModel, left_out: frozenset[int]) -> bool:
    """Whether there is no race in a block without these barriers."""
    claims = race_claims(model, PairsInside(model, left_out))
    return all(isinstance(claim.verdict, Proved) for claim in claims if not claim.across)
