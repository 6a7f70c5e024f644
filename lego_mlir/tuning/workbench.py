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
from typing import Protocol

from lego_mlir.errors import LegoError
from lego_mlir.tuning.candidates import Candidate, Configuration, Timing
from lego_mlir.tuning.halving import RaceResult, RaceRules, race
from lego_mlir.tuning.measuring import Bench, Failure, Trial
from lego_mlir.tuning.simulated_device import Behaviour, MadeUpDevice

Prepare = Callable[[Candidate, Mapping[str, int]], Trial]
MICRO = 1e6
TIMED = ("best", "tied", "slower", "halved")


class MeasuredOn(Protocol):
    """What a timing belongs to: a device, and the digest of the toolchain that compiled for it."""

    @property
    def device(self) -> str: ...
    @property
    def multiprocessors(self) -> int: ...
    @property
    def driver(self) -> str: ...
    @property
    def toolchain(self) -> str: ...


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
    entry = entered(workbench, tunable, candidates, sizes, known, digest)
    trials = PreparedTrials(workbench, [candidates[i] for i in entry.numbers], sizes)
    found: list[Timing] = []

    def record(result: RaceResult) -> None:
        if (timing := entry.timing(workbench, result)) is not None:
            found.append(timing)
            on_timing(timing)

    rules = RaceRules(confidence, worth, seconds=math.inf if seconds is None else seconds)
    race(workbench.bench, trials, rules, record)
    return entry.together(found)


@dataclass(frozen=True, slots=True)
class Entry:
    """The candidates of a race: which of them run (`numbers`), and the timings that are known already, by digest."""

    tunable: str
    candidates: Sequence[Candidate]
    sizes: Mapping[str, int]
    digests: Sequence[str]
    numbers: Sequence[int]
    earlier: Mapping[str, Timing]

    def timing(self, where: MeasuredOn, result: RaceResult) -> Timing | None:
        """The timing of a result of the race; None for a candidate that the seconds were not enough for."""
        if result.fate == "untried":
            return None
        place = self.numbers[result.number]
        low = middle = high = math.inf
        if result.fate in TIMED:
            middle = MICRO * median(result.samples)
            low, _, high = (MICRO * q for q in quantiles(result.samples, n=4))
        failure = "" if result.fate in TIMED else f"{result.fate}: {result.reason}"
        return Timing(
            self.tunable, self.candidates[place].configuration, dict(self.sizes), self.digests[place], where.toolchain,
            where.device, where.multiprocessors, where.driver, middle, (low, high), len(result.samples),
            datetime.now(UTC).isoformat(timespec="seconds"), failure,
        )  # fmt: skip

    def together(self, found: Sequence[Timing]) -> list[Timing]:
        """New timings and the known ones that were not taken again."""
        repeated = {timing.kernel for timing in found}
        return [*found, *(timing for timing in self.earlier.values() if timing.kernel not in repeated)]


def entered(
    where: MeasuredOn,
    tunable: str,
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    known: Sequence[Timing],
    digest: Callable[[Candidate], str],
) -> Entry:
    """Which candidates run: those of unknown code, each code once, and first the fastest known one if others run."""
    digests = [digest(candidate) for candidate in candidates]
    here = (tunable, dict(sizes), where.device, where.multiprocessors, where.toolchain)
    fitting = (t for t in known if (t.tunable, dict(t.sizes), t.device, t.multiprocessors, t.toolchain) == here)
    newest = {t.kernel: t for t in sorted(fitting, key=lambda t: t.when)}
    earlier = {d: newest[d] for d in digests if d in newest}
    again = min((t for t in earlier.values() if not t.failure), key=lambda t: t.median, default=None)
    numbers = [i for i, d in enumerate(digests) if d not in earlier and d not in digests[:i]]
    if again is not None and numbers:
        numbers.insert(0, digests.index(again.kernel))
    return Entry(tunable, candidates, sizes, digests, numbers, earlier)


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
