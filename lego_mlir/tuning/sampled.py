"""More than 500 candidates: batches that Optuna suggests, each raced against the fastest so far.

The first batch is the best predicted one. A later batch has what Optuna suggests from all times so far; the fastest
candidate runs again in each, so that it is compared with the new ones in turns. It ends after 500 candidates, or when
the seconds are spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from lego_mlir.tuning.candidates import Candidate, SearchSpace, Timing
from lego_mlir.tuning.sampling import LARGEST, Search, search
from lego_mlir.tuning.workbench import Workbench, halve

BATCH: Final = 50


def halve_sampled(
    workbench: Workbench,
    tunable: str,
    space: SearchSpace,
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    *,
    seconds: float | None = None,
    known: Sequence[Timing] = (),
    on_timing: Callable[[Timing], None] = lambda timing: None,
    digest: Callable[[Candidate], str] = lambda candidate: candidate.digest,
    journal: str | Path | None = None,
    most: int = LARGEST,
) -> list[Timing]:
    """The timings of at most `most` of the candidates, which are those of the space that pruning left, best first."""
    by_configuration = {candidate.configuration: candidate for candidate in candidates}
    digests = {candidate.configuration: digest(candidate) for candidate in candidates}
    searched = search(space, sizes, allowed=by_configuration.__contains__, largest=0, journal=journal)
    found = {t.kernel: t for t in known if dict(t.sizes) == dict(sizes) and t.tunable == tunable}
    earlier = [candidate for candidate in candidates if digests[candidate.configuration] in found]
    for candidate in earlier:
        _tell(searched, candidate, found.get(digests[candidate.configuration]))
    best = min(earlier, key=lambda candidate: _median(found[digests[candidate.configuration]]), default=None)
    batch = [candidate for candidate in candidates if digests[candidate.configuration] not in found][:BATCH]
    began, tried = workbench.bench.seconds(), 0
    while batch and tried < most:
        left = None if seconds is None else seconds - (workbench.bench.seconds() - began)
        if left is not None and left <= 0:
            break
        entering = [*([best] if best is not None and best not in batch else []), *batch]
        timings = halve(
            workbench, tunable, entering, sizes, seconds=left, known=list(found.values()), on_timing=on_timing,
            digest=lambda candidate: digests[candidate.configuration],
        )  # fmt: skip
        times = {timing.kernel: timing for timing in timings}
        found |= times
        for candidate in batch:
            _tell(searched, candidate, times.get(digests[candidate.configuration]))
        best = min(entering, key=lambda candidate: _median(times.get(digests[candidate.configuration])))
        tried += len(batch)
        batch = [by_configuration[configuration] for configuration in searched.ask(min(BATCH, most - tried))]
    return [timing for timing in found.values() if timing.kernel in digests.values()]


def _tell(searched: Search, candidate: Candidate, timing: Timing | None) -> None:
    searched.tell(candidate.configuration, timing.median if timing is not None and not timing.failure else None)


def _median(timing: Timing | None) -> float:
    return math.inf if timing is None else timing.median
