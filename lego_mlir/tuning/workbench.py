"""From candidates to timings: what each is compiled to, the race between them, and the record of each.

A workbench is a device that timings belong to, a bench that runs trials on it, and a way to make the trial of a
candidate. `halve` compiles the candidates in their order, best predicted first, as the race gets to them; timings that
are known already are not taken again, only the fastest of them runs once more against the new ones.

>>> from lego_mlir.tuning.candidates import Candidate, Configuration
>>> made_up = made_up_workbench(lambda configuration, sizes: 2e-5 + 1e-6 * abs(configuration["tile"] - 48))
>>> candidates = [Candidate(Configuration.of({"tile": 16 * i}), lambda: None) for i in range(1, 9)]
>>> timings = halve(made_up, "example", candidates, {"M": 64}, digest=lambda candidate: str(candidate.configuration))
>>> str(min(timings, key=lambda timing: timing.median).configuration)
'tile=48'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median, quantiles

from lego_mlir.errors import LegoError
from lego_mlir.tuning.candidates import Candidate, Configuration, Timing
from lego_mlir.tuning.halving import RaceResult, RaceRules, race
from lego_mlir.tuning.made_up import Behaviour, MadeUpDevice
from lego_mlir.tuning.measuring import Bench, Failure, Trial

Prepare = Callable[[Candidate, Mapping[str, int]], Trial]
MICRO = 1e6
TIMED = ("best", "tied", "slower", "halved")


@dataclass(frozen=True, slots=True)
class Workbench:
    """A device, the digest of the toolchain that compiles for it, a bench there, and how trials are made."""

    device: str
    multiprocessors: int
    driver: str
    toolchain: str
    bench: Bench
    prepare: Prepare


class PreparedTrials(Sequence[Trial | Failure]):
    """The trials of candidates, each made when the race gets to it. A candidate that cannot be built is a failure."""

    def __init__(self, workbench: Workbench, candidates: Sequence[Candidate], sizes: Mapping[str, int]) -> None:
        self.workbench, self.candidates, self.sizes = workbench, candidates, sizes
        self._made: dict[int, Trial | Failure] = {}

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, number: int) -> Trial | Failure:  # type: ignore[override]  # a race takes no slices
        if number not in self._made:
            try:
                self._made[number] = self.workbench.prepare(self.candidates[number], self.sizes)
            except LegoError as error:
                self._made[number] = Failure("refused", str(error))
        return self._made[number]


def halve(
    workbench: Workbench,
    tunable: str,
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    *,
    seconds: float | None = None,
    confidence: float = 0.95,
    worth: float = 0.01,
    known: Sequence[Timing] = (),
    on_timing: Callable[[Timing], None] = lambda timing: None,
    digest: Callable[[Candidate], str] = lambda candidate: candidate.digest,
) -> list[Timing]:
    """Measure candidates at these sizes; the timings of all that were tried, the known ones included.

    `on_timing` is called with each new timing when it is final; a candidate for which the seconds were not enough has
    none.
    """
    digests = [digest(candidate) for candidate in candidates]
    earlier = _earlier(workbench, tunable, digests, sizes, known)
    again = min((t for t in earlier.values() if not t.failure), key=lambda t: t.median, default=None)
    numbers = [i for i, d in enumerate(digests) if d not in earlier and d not in digests[:i]]
    if again is not None and numbers:
        numbers.insert(0, digests.index(again.kernel))
    trials = PreparedTrials(workbench, [candidates[i] for i in numbers], sizes)
    found: list[Timing] = []

    def record(result: RaceResult) -> None:
        if result.fate == "untried":
            return
        place = numbers[result.number]
        timing = _timing(workbench, tunable, candidates[place].configuration, sizes, digests[place], result)
        found.append(timing)
        on_timing(timing)

    race(
        workbench.bench, trials, RaceRules(confidence, worth, seconds=math.inf if seconds is None else seconds), record
    )
    repeated = {timing.kernel for timing in found}
    return [*found, *(timing for timing in earlier.values() if timing.kernel not in repeated)]


def _earlier(
    workbench: Workbench, tunable: str, digests: Sequence[str], sizes: Mapping[str, int], known: Sequence[Timing]
) -> dict[str, Timing]:
    """By digest the known timings that are of these candidates, sizes, device and toolchain; the newest of each."""
    here = (tunable, dict(sizes), workbench.device, workbench.multiprocessors, workbench.toolchain)
    fitting = (t for t in known if (t.tunable, dict(t.sizes), t.device, t.multiprocessors, t.toolchain) == here)
    return {t.kernel: t for t in sorted(fitting, key=lambda t: t.when) if t.kernel in digests}


def _timing(
    workbench: Workbench,
    tunable: str,
    configuration: Configuration,
    sizes: Mapping[str, int],
    kernel: str,
    result: RaceResult,
) -> Timing:
    low = middle = high = math.inf
    if result.fate in TIMED:
        middle = MICRO * median(result.samples)
        low, _, high = (MICRO * q for q in quantiles(result.samples, n=4))
    failure = "" if result.fate in TIMED else f"{result.fate}: {result.reason}"
    return Timing(
        tunable, configuration, dict(sizes), kernel, workbench.toolchain, workbench.device, workbench.multiprocessors,
        workbench.driver, middle, (low, high), len(result.samples), datetime.now(UTC).isoformat(timespec="seconds"),
        failure,
    )  # fmt: skip


def made_up_workbench(
    seconds_of: Callable[[Configuration, Mapping[str, int]], float],
    behaviour_of: Callable[[Configuration], Behaviour] = lambda configuration: "fine",
    *,
    noise: float = 0.03,
    live: int = 8,
    pace: float = 0.0,
) -> Workbench:
    """A workbench of the made-up device, whose optimum is that of `seconds_of`; it needs no code.

    It takes no time either, unless each sample is to take `pace` seconds.
    """
    device = MadeUpDevice(noise, pace=pace)

    def prepare(candidate: Candidate, sizes: Mapping[str, int]) -> Trial:
        return device.trial(seconds_of(candidate.configuration, sizes), behaviour_of(candidate.configuration))

    return Workbench("made-up", 132, "none", "made-up", device.bench(live), prepare)
