"""Explanations of the proofs of each claim about a kernel, for `lego-mlir explain`.

For a race claim these are the pairs of accesses that no barrier separates, each with the equation of their indices, the
variables of the second thread primed, and what follows from it:

    write of tile in line 9, and itself: (8*copy + ty, tx) = (8*copy' + ty', tx')
      copy' = copy, ty' = ty, tx' = tx                         so both are the same thread

Variables such as `tx.0` are digits: `tx = tx.0 + 8*tx.1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.barriers import barrier_claims, exchange_claims
from lego_mlir.proofs.covering import write_claims
from lego_mlir.proofs.initialised import tile_claims
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.overlap import Equations
from lego_mlir.proofs.phases import Pair, across_blocks
from lego_mlir.proofs.races import PairsInside, race_claims
from lego_mlir.tracing.trace.trace import Buffer

MOST_ALIKE: Final = 16
"""Pairs of two source lines that are written out."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A claim, and the lines of its proof."""

    claim: str
    lines: tuple[str, ...]


def explanations(model: KernelModel) -> Iterator[Explanation]:
    """Each claim of a kernel with its proof, or why there is none."""
    inside = PairsInside(model)
    for barrier in (*barrier_claims(model), *exchange_claims(model)):
        yield Explanation(barrier.text, (_verdict(barrier.verdict),))
    for claim in race_claims(model, inside):
        undecided = isinstance(claim.verdict, Unknown) and claim.pair is None  # by any pair
        pairs = iter(()) if undecided else _across(model, claim.buffer) if claim.across else inside.of(claim.buffer)
        lines = tuple(dict.fromkeys(_pairs(model, pairs, claim.across)))
        yield Explanation(claim.text, lines or (_verdict(claim.verdict),))
    for tile in tile_claims(model):
        yield Explanation(tile.text, (_verdict(tile.verdict),))
    for write in write_claims(model):
        yield Explanation(write.text, (_verdict(write.verdict),))


def digits_of(model: KernelModel) -> list[str]:
    """The ids and rounds that were split into digits."""
    values = {symbol: value for symbol, value in model.digits.value.items() if symbol in model.reader.ranges}
    return [f"{symbol} = {value}" for symbol, value in values.items() if value.free_symbols]


def _across(model: KernelModel, buffer: Buffer) -> Iterator[Pair]:
    return across_blocks([access for access in model.accesses if access.buffer.name == buffer.name])


def _verdict(verdict: Verdict) -> str:
    return f"proved: {verdict.by}" if isinstance(verdict, Proved) else f"unknown: {getattr(verdict, 'reason', '')}"


def _pairs(model: KernelModel, pairs: Iterable[Pair], across: bool) -> Iterator[str]:
    """The lines of some pairs: of those of two source lines, which may be hundreds in an unrolled copy, the first."""
    seen: Counter[str] = Counter()
    for pair in pairs:
        who = _who(pair)
        seen[who] += 1
        if seen[who] <= MOST_ALIKE:
            yield from _pair(model, pair, across)
    for who, count in seen.items():
        if count > MOST_ALIKE:
            yield f"{who}: {count - MOST_ALIKE} more pairs"


def _who(pair: Pair) -> str:
    other = "itself" if pair.one is pair.other else f"the {pair.other}"
    when = "" if pair.step is None else " in the next round" if pair.ahead == 1 else f" {pair.ahead} rounds later"
    when += " before its wait" if pair.in_flight and not pair.once else ""
    return f"{pair.one} and {other}{when}"


def _pair(model: KernelModel, pair: Pair, across: bool) -> Iterator[str]:
    question = model.question(pair, across)
    system = Equations(question)
    sides = ", ".join(f"{equation} = 0".replace(" '", "'") for equation in question.equations)
    yield f"{_who(pair)}: {sides}"
    by = system.solve()
    derived = ", ".join(system.trail)
    if by is None:
        by = _verdict(model.proved_apart(pair, across))
    yield f"  {derived}: {by}" if derived else f"  {by}"
