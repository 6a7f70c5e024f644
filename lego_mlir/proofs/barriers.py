"""The claims that all threads of a block, or of a role, reach a barrier together, and all lanes of a warp one of it.

They do if the branches around it are taken by all or none, and the loops around it have as many rounds for all. That is
so where conditions and bounds do not depend on the thread; otherwise two threads, t and t', are proved to agree:

    with lego.when(t // 32 < n):  lego.warp_sync()           t // 32 == t' // 32 implies t // 32 < n == (t' // 32 < n)
    for k in lego.range(t, 1024, 256):  lego.barrier()       4 rounds for every t in 0 .. 255

A barrier is needed if without it two accesses that it separates are not proved apart. All copies of an unrolled line
count as one barrier. Barriers of kernels that publish data to other blocks, with fences or by spinning on a flag, are
not judged: they may order what no race claim is about. Nor are those of kernels with rings of barriers, whose proofs
take it for granted that the rings are initialised and that a role's lanes arrive together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import sympy

from lego_mlir.aliases import Cond, Expr
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Le, Ne
from lego_mlir.expr.piecewise import is_condition
from lego_mlir.expr.prove import prove
from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.footprints import Sync
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.mixed_radix import primed
from lego_mlir.proofs.races import PairsInside, race_claims
from lego_mlir.tracing.trace.divergence import Divergence
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import KernelTrace, MlirOperation, While
from lego_mlir.tracing.words.barrier_rings import CREATE


@dataclass(frozen=True, slots=True)
class BarrierClaim:
    """A claim about one barrier of the trace."""

    sync: Sync
    verdict: Verdict

    @property
    def text(self) -> str:
        who = {"warp": "lane of the warp", "role": "thread of the role"}.get(self.sync.scope, "thread of the block")
        return f"{self.sync.source}: every {who} reaches the {self.sync.what}"


def barrier_claims(model: KernelModel) -> Iterator[BarrierClaim]:
    """A claim for each barrier, those of one line as one claim."""
    yield from _claims(model, model.reader.syncs)


def exchange_claims(model: KernelModel) -> Iterator[BarrierClaim]:
    """A claim for each shuffle, vote and operation on matrices: all lanes of the warp execute it together."""
    yield from _claims(model, model.reader.exchanges)


def _claims(model: KernelModel, syncs: Sequence[Sync]) -> Iterator[BarrierClaim]:
    divergences = {scope: _divergence(model, scope) for scope in {sync.scope for sync in syncs}}
    lines: dict[tuple[str, object], BarrierClaim] = {}
    verdicts: dict[Any, Verdict] = {}
    for sync in syncs:
        reached_by = sync.scope, guards_of(sync), sync.width, sync.lanes
        if reached_by not in verdicts:
            verdict = _reached(model, divergences[sync.scope], sync)
            if isinstance(verdict, Proved) and not _has_lanes(model, sync):
                verdict = Unknown(f"the last warp of a block is partial, and the {sync.what} may read past its end")
            verdicts[reached_by] = verdict
        verdict = verdicts[reached_by]
        key = (sync.what, sync.source)
        if key not in lines or isinstance(lines[key].verdict, Proved):
            lines[key] = BarrierClaim(sync, verdict)
    yield from lines.values()


def _divergence(model: KernelModel, scope: str) -> Divergence:
    answers: dict[tuple[Cond, int], bool] = {}

    def agreed(divergence: Divergence, condition: Cond) -> bool:
        key = condition, len(divergence.symbols)  # which only grow
        if key not in answers:
            answers[key] = isinstance(_agreed(model, divergence, scope, [condition]), Proved)
        return answers[key]

    return Divergence(model.trace, "group" if scope == "role" else scope, agreed if scope == "warp" else None)


def _reached(model: KernelModel, divergence: Divergence, sync: Sync) -> Verdict:
    varying = [g for g in guards_of(sync) if any(_differs(divergence, part, sync) for part in g)]
    methods: dict[str, None] = {}
    for guard in varying:
        verdict = _agreed(model, divergence, sync.scope, guard)
        if not isinstance(verdict, Proved):
            shown = ", ".join(map(str, guard))
            return Unknown(f"not proved that all threads agree on {shown}")
        methods[verdict.by] = None
    return Proved(", ".join(methods) or "the branches and loops around it do not depend on the thread")


def _differs(divergence: Divergence, part: Expr, sync: Sync) -> bool:
    return divergence.differs(part) if sync.role is None else divergence.differs_in(part, sync.role)


def guards_of(sync: Sync) -> tuple[tuple[Expr, ...], ...]:
    """What the threads have to agree on that reach a barrier; those of a role are in it."""
    return sync.guards if sync.role is None else sync.guards[1:]


def _has_lanes(model: KernelModel, sync: Sync) -> bool:
    """Whether each group of lanes has those that are read: the last one may end with the block."""
    threads = reduce(mul, map(as_expr, model.trace.block), sympy.Integer(1))
    rest = FloorMod(threads, sync.width)
    return isinstance(prove(sympy.Or(Eq(rest, 0), Le(sync.lanes, rest)), {}), Proved)


def _agreed(model: KernelModel, divergence: Divergence, scope: str, guard: Sequence[Expr]) -> Verdict:
    """Whether two threads, of one warp for a barrier of the warp, have the same condition or number of rounds."""
    prime = {s: primed(s) for s in divergence.symbols}
    here = [part.xreplace(model.digits.value) for part in (_decisive(guard), model.warp)]
    own = {digit: primed(digit) for s in prime for digit in model.over_digits([s])}
    there = [part.xreplace(own) for part in here]
    same = _same(here[0], there[0])
    claim = sympy.Or(Ne(here[1], there[1]), same) if scope == "warp" else same
    limits = model.digits.limits
    given = [sympy.Not(c) for c in (*limits, *(limit.xreplace(own) for limit in limits), *model.required)]
    return prove(sympy.Or(claim, *given), model.both)


def _decisive(guard: Sequence[Expr]) -> Expr:
    """What must agree: a condition, or the number of rounds of a loop."""
    if len(guard) == 1:
        return guard[0]
    lo, hi, step = guard
    return FloorDiv(hi - lo + step - 1, step)


def _same(a: Expr, b: Expr) -> Cond:
    if not is_condition(a):
        return Eq(a, b)
    return sympy.Or(sympy.And(a, b), sympy.And(sympy.Not(a), sympy.Not(b)))


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
