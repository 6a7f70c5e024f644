"""How each claim about a kernel was proved, for `lego-mlir explain`.

For a race claim these are the pairs of accesses that no barrier separates, each with the equation of their indices, the
variables of the second thread primed, and what follows from it:

    write of tile in line 9, and itself: (8*copy + ty, tx) = (8*copy' + ty', tx')
      copy' = copy, ty' = ty, tx' = tx                         so both are the same thread

Variables such as `tx.0` are digits: `tx = tx.0 + 8*tx.1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.barriers import barrier_claims, exchange_claims
from lego_mlir.proofs.covering import write_claims
from lego_mlir.proofs.initialised import tile_claims
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.meeting import Equations
from lego_mlir.proofs.phases import Pair, across_blocks
from lego_mlir.proofs.races import pairs_inside, race_claims
from lego_mlir.tracing.trace import KernelTrace


@dataclass(frozen=True, slots=True)
class Explanation:
    """A claim, and the lines of its proof."""

    claim: str
    lines: tuple[str, ...]


def explanations(trace: KernelTrace) -> Iterator[Explanation]:
    """Each claim of a kernel with its proof, or why there is none."""
    model = KernelModel(trace)
    inside = pairs_inside(model)
    for barrier in (*barrier_claims(model), *exchange_claims(model)):
        yield Explanation(barrier.text, (_verdict(barrier.verdict),))
    for claim in race_claims(model, inside):
        pairs = across_blocks(model.accesses) if claim.across else iter(inside)
        lines = [
            line for p in pairs if p.one.buffer.name == claim.buffer.name for line in _pair(model, p, claim.across)
        ]
        if isinstance(claim.verdict, Unknown) and claim.pair is None:
            lines = []  # no pair decides it
        yield Explanation(claim.text, tuple(dict.fromkeys(lines)) or (_verdict(claim.verdict),))
    for tile in tile_claims(model):
        yield Explanation(tile.text, (_verdict(tile.verdict),))
    for write in write_claims(model):
        yield Explanation(write.text, (_verdict(write.verdict),))


def digits_of(trace: KernelTrace) -> list[str]:
    """The ids and rounds that were split into digits."""
    model = KernelModel(trace)
    values = {symbol: value for symbol, value in model.digits.value.items() if symbol in model.reader.ranges}
    return [f"{symbol} = {value}" for symbol, value in values.items() if value.free_symbols]


def _verdict(verdict: Verdict) -> str:
    return f"proved: {verdict.by}" if isinstance(verdict, Proved) else f"unknown: {getattr(verdict, 'reason', '')}"


def _pair(model: KernelModel, pair: Pair, across: bool) -> Iterator[str]:
    question = model.question(pair, across)
    system = Equations(question)
    other = "itself" if pair.one is pair.other else f"the {pair.other}"
    sides = ", ".join(f"{equation} = 0".replace(" '", "'") for equation in question.equations)
    when = "" if pair.step is None else " in the next round" if pair.ahead == 1 else f" {pair.ahead} rounds later"
    when += " before its wait" if pair.in_flight and not pair.once else ""
    yield f"{pair.one} and {other}{when}: {sides}"
    by = system.solve()
    derived = ", ".join(system.trail)
    if by is None:
        by = _verdict(model.proved_apart(pair, across))
    yield f"  {derived}: {by}" if derived else f"  {by}"
