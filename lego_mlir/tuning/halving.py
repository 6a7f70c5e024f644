"""Successive halving of candidates: each rung samples those that are left more often, and drops those proved slower.

    rung 0   all candidates     10 samples each
    rung 1   those left         20 samples each
    ...      until one is left, or the best one is within `worth` of the others, or the seconds are spent

Candidates are compared in heats of as many as the bench keeps open. Each heat contains the fastest so far, its samples
are taken in turns, in an order drawn anew for each round, and only samples of one heat are compared: a device that gets
slower as it heats up slows all of them. A candidate is dropped when the rank test (`significance`) finds it slower than
the leader of its heat, at a level that keeps the probability that the best one is dropped anywhere below
`1 - confidence` (the bound of Bonferroni over candidates and rungs). Only where the seconds do not allow another rung
for all, the slower half is dropped without a proof; the reason in their result is then another.

K. Jamieson and A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", 2016.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

from lego_mlir.errors import UsageError
from lego_mlir.tuning.measuring import Bench, Contender, Failure, FailureKind, Trial, turn
from lego_mlir.tuning.significance import median_bounds, slower_by_chance

SCREENING: Final = 0.6  # of the seconds, for the first rung: what is left serves to tell the best ones apart
Fate = Literal["best", "tied", "slower", "halved", "untried"] | FailureKind


@dataclass(frozen=True, slots=True)
class RaceRules:
    """When candidates are dropped, and when a race ends. `worth` is the relative difference that does not matter."""

    confidence: float = 0.95
    worth: float = 0.01
    first: int = 10
    growth: int = 2
    rungs: int = 6
    seconds: float = math.inf

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise UsageError(f"the confidence is at least 0.5 and less than 1, got {self.confidence}; 0.95 is usual")
        if not 0 <= self.worth < 1:
            raise UsageError(f"worth is a relative difference, at least 0 and less than 1, got {self.worth}")
        if self.first < 8 or self.growth < 2 or self.rungs < 1:
            raise UsageError(
                f"a race needs at least 8 first samples, a growth of at least 2 and one rung, got first={self.first}, "
                f"growth={self.growth}, rungs={self.rungs}"
            )
        if not self.seconds > 0:
            raise UsageError(f"the budget is a positive number of seconds, got {self.seconds}")

    def level(self, candidates: int) -> float:
        """The level of one comparison, such that all together keep the confidence."""
        return (1 - self.confidence) / (candidates * self.rungs)


@dataclass(frozen=True, slots=True)
class RaceResult:
    """What became of one candidate: its samples in seconds, all of the last rung that it took part in."""

    number: int
    fate: Fate
    reason: str
    samples: tuple[float, ...] = ()
    rung: int = 0

    @property
    def seconds(self) -> float:
        """The median; infinite without samples."""
        return median(self.samples) if self.samples else math.inf


@dataclass
class Race:
    """One race. `number`s are positions in `trials`, which are in the order in which they are tried.

    In place of a trial there may be the failure to make it; an item of `trials` is read when it is started.
    """

    bench: Bench
    trials: Sequence[Trial | Failure]
    rules: RaceRules = field(default_factory=RaceRules)
    on_result: Callable[[RaceResult], None] = lambda result: None
    seed: int = 0

    def __post_init__(self) -> None:
        self._open: dict[int, Contender] = {}
        self._results: dict[int, RaceResult] = {}
        self._samples: dict[int, list[float]] = {}
        self._drawn = random.Random(self.seed)
        self._began = self.bench.seconds()
        self._level = self.rules.level(max(1, len(self.trials)))

    def run(self) -> list[RaceResult]:
        """Results in the order of the trials. The best one has the fate "best"; there is none if all failed."""
        try:
            left = self._rung(0, list(range(len(self.trials))))
            for rung in range(1, self.rules.rungs):
                if self._decided(left) or self._spent() >= self.rules.seconds:
                    break
                left = self._rung(rung, self._affordable(rung, left))
            self._finish(left)
        finally:
            for contender in self._open.values():
                contender.close()
            self._open.clear()
        return [self._results[number] for number in range(len(self.trials))]

    def _spent(self) -> float:
        return self.bench.seconds() - self._began

    # -- one rung

    def _rung(self, rung: int, numbers: list[int]) -> list[int]:
        """Sample all of `numbers`, the fastest so far first; those that are left, the fastest first."""
        self._rungs, self._rung_began, self._rung_size = rung, self._spent(), len(numbers)
        waiting, left = list(numbers), list[int]()
        leader: int | None = None
        others = max(1, self.bench.live - 1)
        while waiting:
            if leader is not None and rung == 0 and self._spent() >= SCREENING * self.rules.seconds:
                break
            count = others if leader is not None else others + 1
            heat, waiting = waiting[:count], waiting[count:]
            together = [*([] if leader is None else [leader]), *heat]
            alive = self._heat(rung, together)
            if alive:
                leader = alive[0]
            left = [*dict.fromkeys([*alive, *(n for n in left if n not in self._results)])]
        for number in waiting:
            self._settle(number, "untried", "the seconds were spent", rung)
        return sorted((n for n in left if n not in self._results), key=lambda n: median(self._samples[n]))

    def _heat(self, rung: int, numbers: list[int]) -> list[int]:
        """Sample these in turns and drop the slower ones; the others, the fastest first."""
        for number in [n for n in self._open if n not in numbers]:
            if len(self._open) + sum(n not in self._open for n in numbers) > self.bench.live:
                self._close(number)
        failures = {number: self._start(number) for number in numbers if number not in self._open}
        samples: dict[int, list[float]] = {}
        for number in numbers:
            failure = failures.get(number) or self._open[number].ready()
            if failure is None:
                samples[number] = []
            else:
                self._settle(number, failure.kind, failure.reason, rung)
        self._sample(rung, samples)
        alive = sorted(samples, key=lambda n: median(samples[n]))
        self._samples |= samples
        for number in alive[1:]:
            chance = slower_by_chance(samples[number], samples[alive[0]])
            if chance <= self._level:
                ratio = _ratio(samples[number], samples[alive[0]])
                reason = (
                    f"{ratio:.3f} times the time of the fastest, p = {chance:.1e} after {len(samples[number])} samples"
                )
                self._settle(number, "slower", reason, rung)
        return [n for n in alive if n not in self._results]

    def _start(self, number: int) -> Failure | None:
        trial = self.trials[number]
        if isinstance(trial, Failure):
            return trial
        self._open[number] = self.bench.start(trial)
        return None

    def _sample(self, rung: int, samples: dict[int, list[float]]) -> None:
        """Fill in `samples`, in turns; a contender that fails is taken out."""
        wanted = self.rules.first * self.rules.growth**rung
        while short := [number for number, taken in samples.items() if len(taken) < wanted]:
            self._drawn.shuffle(short)
            for number in short:
                taken = samples[number]
                count = min(wanted - len(taken), turn(median(taken)) if taken else 1)
                found = self._open[number].sample(count)
                if isinstance(found, Failure):
                    self._settle(number, found.kind, found.reason, rung)
                    del samples[number]
                else:
                    taken.extend(found)

    # -- between rungs

    def _affordable(self, rung: int, left: list[int]) -> list[int]:
        """All that are left, or the faster half as long as the seconds do not allow another rung for all of them."""
        took = self._spent() - self._rung_began
        while len(left) > 2:
            expected = took * self.rules.growth * len(left) / self._rung_size
            if self._spent() + expected <= self.rules.seconds:
                break
            half = (len(left) + 1) // 2
            for number in left[half:]:
                self._settle(number, "halved", "not proved slower; the seconds do not allow another rung", rung)
            left = left[:half]
        return left

    def _bounds(self, left: list[int]) -> list[tuple[float, float]]:
        """The bounds of all medians that hold together with the stated confidence."""
        each = 1 - (1 - self.rules.confidence) / max(len(left), 1)
        return [median_bounds(self._samples[number], each) for number in left]

    def _decided(self, left: list[int]) -> bool:
        """Whether one is left, or none of the others is faster than the fastest by more than `worth`."""
        bounds = self._bounds(left)
        return len(left) < 2 or bounds[0][1] <= (1 + self.rules.worth) * min(low for low, _ in bounds[1:])

    def _finish(self, left: list[int]) -> None:
        if not left:
            return
        decided, bounds, tied = self._decided(left), self._bounds(left), 0
        for number, (low, _) in zip(left[1:], bounds[1:], strict=True):
            after = f"after {len(self._samples[number])} samples"
            ratio = f"{_ratio(self._samples[number], self._samples[left[0]]):.3f} times the time of the fastest"
            if bounds[0][1] < low:
                self._settle(number, "slower", f"{ratio}, medians apart {after}", self._rungs)
                continue
            tied += 1
            known = f"and not faster by {self.rules.worth:.1%}" if decided else "not told from it"
            self._settle(number, "tied", f"{ratio}, {known} {after}", self._rungs)
        others = f", {tied} {'tied' if decided else 'not told from it'}" if tied else ""
        self._settle(left[0], "best", f"after {len(self._samples[left[0]])} samples{others}", self._rungs)

    def _settle(self, number: int, fate: Fate, reason: str, rung: int) -> None:
        samples = tuple(self._samples.get(number, ()))
        self._results[number] = RaceResult(number, fate, reason, samples, rung)
        self._close(number)
        self.on_result(self._results[number])

    def _close(self, number: int) -> None:
        if number in self._open:
            self._open.pop(number).close()


def _ratio(these: Sequence[float], those: Sequence[float]) -> float:
    return median(these) / (median(those) or math.nan)


def race(
    bench: Bench,
    trials: Sequence[Trial | Failure],
    rules: RaceRules | None = None,
    on_result: Callable[[RaceResult], None] = lambda result: None,
) -> list[RaceResult]:
    """Measure trials on a bench until the fastest is known; their results, in the order of the trials.

    `on_result` is called with each result as soon as it is final.
    """
    return Race(bench, trials, rules or RaceRules(), on_result).run()
