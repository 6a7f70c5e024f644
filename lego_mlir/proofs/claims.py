"""The claims about a kernel that `check` lists, each proved, refuted by a run, or unknown.

Claims are proved first. What is not proved is tried on the interpreter, which may refute it; a run never proves. If a
barrier is not reached by all threads, what it separates is unknown. An index that is computed from the contents of
memory may be different in each thread for all inputs that occur, so a claim about it is unknown instead of refuted,
unless the ranges of the integers that the kernel reads are declared: a run then has an input that occurs.
"""

from __future__ import annotations

from collections.abc import Iterator

from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.proofs.barriers import barrier_claims, exchange_claims
from lego_mlir.proofs.confirm import Runs, is_divergent, is_partial, is_race, is_unwritten
from lego_mlir.proofs.covering import write_claims
from lego_mlir.proofs.initialised import tile_claims
from lego_mlir.proofs.models import Models
from lego_mlir.proofs.races import race_claims
from lego_mlir.proofs.rings.claims import ring_claims
from lego_mlir.tracing.checks.claims import access_verdicts
from lego_mlir.tracing.definition.kernel import Kernel


def bounds_claims(models: Models, timeout_ms: int) -> Iterator[tuple[str, Verdict]]:
    """Each access as text, with the verdict on its bounds."""
    yield from access_verdicts(models.kernel.trace(), timeout_ms, lambda tile: tile in models.filled)


def kernel_claims(kernel: Kernel, tried: bool = True, models: Models | None = None) -> Iterator[tuple[str, Verdict]]:
    """Each other claim as text, with its verdict; unless `tried` in the interpreter, proved or unknown."""
    models, runs = models or Models(kernel), Runs(kernel if tried else None)
    model, reached = models.first, True
    for barrier in barrier_claims(model):
        source = barrier.sync.source
        reached = reached and isinstance(barrier.verdict, Proved)
        yield barrier.text, runs.tried(barrier.verdict, is_divergent(source.file, source.line))
    for exchange in exchange_claims(model):
        source = exchange.sync.source
        yield exchange.text, runs.tried(exchange.verdict, is_partial(source.file, source.line))
    for ring in ring_claims(model.trace, model.rings):
        yield ring.text, ring.verdict
    for race in models.proved(race_claims):
        verdict = race.verdict
        if isinstance(verdict, Proved) and not reached and not race.across:
            verdict = Unknown("not every thread is proved to reach the barriers that it relies on")
        found = runs.tried(verdict, is_race(race.buffer.name, race.across))
        if isinstance(found, Refuted) and race.pair is not None and model.by_undeclared_data(race.pair):
            found = Unknown(f"{getattr(verdict, 'reason', '')}; on random data it races, {found.explanation}")
        yield race.text, found
    if kernel.trace().shared:
        for tile in tile_claims(models.plain):
            yield tile.text, runs.tried(tile.verdict, is_unwritten(tile.buffer.name))
    for write in models.proved(write_claims):
        yield write.text, runs.tried_writes(write)
