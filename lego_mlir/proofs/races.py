"""The claims that no two threads race for an element of memory.

Two accesses race if they touch one element, one of them writes, not both are atomic, and no barrier is between them.
Threads of two blocks have no barrier between them at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.phases import Pair, Phases, across_blocks
from lego_mlir.tracing.trace import AsyncCopy, Buffer


@dataclass(frozen=True, slots=True)
class RaceClaim:
    """A claim about one buffer; `pair` is what is not proved."""

    buffer: Buffer
    across: bool
    verdict: Verdict
    pair: Pair | None = None

    @property
    def text(self) -> str:
        who = "two blocks" if self.across else "two threads of a block"
        return f"no race for {self.buffer.name} between {who}"


def race_claims(model: KernelModel, phases: Phases | None = None) -> Iterator[RaceClaim]:
    """A claim for each buffer that is written, the shared tiles first."""
    if phases is None:
        phases = Phases()
        phases.collect(model.nodes)
    buffers = {a.buffer.name: a.buffer for a in model.accesses if a.writes}
    copied = _copied(model)
    ordered = sorted({**buffers, **copied}.values(), key=lambda b: b.space == "global")
    for buffer in ordered:
        if buffer.name in copied:
            yield RaceClaim(buffer, False, Unknown("a copy to it is in flight until its wait, which is not modelled"))
            continue
        inside = [pair for pair in phases.pairs if pair.one.buffer.name == buffer.name]
        yield _claim(model, buffer, False, inside)
        if buffer.space == "global":
            accesses = [a for a in model.accesses if a.buffer.name == buffer.name]
            yield _claim(model, buffer, True, across_blocks(accesses))


def _copied(model: KernelModel) -> dict[str, Buffer]:
    """The tiles that asynchronous copies fill."""
    targets = [s.target.buffer for s in model.trace.statements() if isinstance(s, AsyncCopy)]
    return {target.name: target for target in targets}


def _claim(model: KernelModel, buffer: Buffer, across: bool, pairs: Iterable[Pair]) -> RaceClaim:
    methods: dict[str, None] = {}
    for pair in pairs:
        verdict = model.proved_apart(pair, across)
        if isinstance(verdict, Proved):
            methods[verdict.by] = None
        else:
            return RaceClaim(buffer, across, Unknown(_reason(pair) + _why(model, pair)), pair)
    return RaceClaim(buffer, across, Proved(", ".join(methods) or "no two accesses are concurrent"))


def _reason(pair: Pair) -> str:
    if pair.one is pair.other:
        return f"not proved that the {pair.one} touches a different element in each thread"
    return f"not proved that the {pair.one} and the {pair.other} touch different elements"


def _why(model: KernelModel, pair: Pair) -> str:
    return ": the index depends on the contents of memory" if model.by_data(pair) else ""
