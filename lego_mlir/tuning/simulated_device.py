"""A device that does not exist: times from a function, with noise, and trials that fail. Its optimum is known.

For tests and for trying a space without a GPU. The noise is what devices show: a relative spread, single disturbances
that make a launch several times slower, and a clock that drifts slowly, for all trials alike. Times are of a clock
that only the trials advance, so that a race over many seconds takes none:

>>> from lego_mlir.tuning.halving import race
>>> device = MadeUpDevice(noise=0.05)
>>> trials = [device.trial(20e-6 + 2e-6 * abs(tile - 5)) for tile in range(16)]
>>> trials[0] = device.trial(1e-6, "wrong")
>>> results = race(device.bench(), trials)
>>> [result.number for result in results if result.fate == "best"], results[0].fate
([5], 'wrong')

The same trials run in `isolated` processes as well: then a crash ends a process, and a hang has to be timed out.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from lego_mlir.errors import UsageError
from lego_mlir.tuning.measuring import Failure, Sampler, Trial

DRIFT_SECONDS: Final = 20.0  # from the fastest clock to the slowest and back
Behaviour = Literal["fine", "wrong", "refused", "crashed", "timed out"]


@dataclass(frozen=True, slots=True)
class MadeUpTrial:
    """A candidate of the made-up device: its true time in seconds, and how it behaves.

    `late` makes it fail while it is timed, not when it is opened. `pace` is how long a sample takes for real.
    """

    seconds: float
    behaviour: Behaviour = "fine"
    noise: float = 0.03
    spikes: float = 0.02
    drift: float = 0.1
    seed: int = 0
    late: bool = False
    pace: float = 0.0

    def open(self) -> MadeUpSampler:
        """The trial, where it is measured."""
        if self.behaviour == "refused":
            raise UsageError("the made-up device has too few registers for this launch")
        if not self.late:
            self.misbehave()
        return MadeUpSampler(self)

    def misbehave(self) -> None:
        """End the process, or never return."""
        if self.behaviour == "crashed":
            os.abort()
        while self.behaviour == "timed out":
            time.sleep(60)


class MadeUpSampler:
    """Draws samples: the true time, a relative spread, spikes, and the drift of the device at that time."""

    def __init__(self, trial: MadeUpTrial, clock: Callable[[], float] = time.time) -> None:
        self.trial, self.clock = trial, clock
        self._drawn = random.Random(f"{trial.seed} {trial.seconds}")

    def check(self) -> str:
        """Wrong for the trials that are made to be."""
        return "element 0 is 1, expected 0" if self.trial.behaviour == "wrong" else ""

    def sample(self, count: int) -> list[float]:
        """Times of the function, with noise."""
        if self.trial.late:
            self.trial.misbehave()
        time.sleep(self.trial.pace * count)
        return [self._one() for _ in range(count)]

    def _one(self) -> float:
        trial = self.trial
        warm = 1 + trial.drift * (1 + math.sin(2 * math.pi * self.clock() / DRIFT_SECONDS)) / 2
        spread = math.exp(abs(self._drawn.gauss(0, trial.noise)))
        spike = self._drawn.uniform(2, 5) if self._drawn.random() < trial.spikes else 1
        return trial.seconds * warm * spread * spike


@dataclass
class MadeUpDevice:
    """Makes trials with one noise, each with its own sequence of random numbers."""

    noise: float = 0.03
    spikes: float = 0.02
    drift: float = 0.1
    pace: float = 0.0
    made: int = field(default=0, init=False)

    def trial(self, seconds: float, behaviour: Behaviour = "fine", late: bool = False) -> MadeUpTrial:
        """A candidate that takes so long."""
        self.made += 1
        return MadeUpTrial(seconds, behaviour, self.noise, self.spikes, self.drift, self.made, late, self.pace)

    def bench(self, live: int = 8) -> VirtualBench:
        """A bench in this process, on a virtual clock."""
        return VirtualBench(live)


@dataclass
class VirtualBench:
    """Runs made-up trials in this process. Opening takes `opening` seconds of its clock, a time-out `patience`."""

    live: int = 8
    opening: float = 0.5
    patience: float = 10.0
    overhead: float = 400e-6  # of a sample: the flush of the L2 cache
    now: float = field(default=0.0, init=False)
    started: int = field(default=0, init=False)
    open: int = field(default=0, init=False)

    def start(self, trial: Trial) -> VirtualContender:
        """Open a made-up trial."""
        assert isinstance(trial, MadeUpTrial)
        self.now += self.opening
        self.started += 1
        self.open += 1
        assert self.open <= self.live
        return VirtualContender(self, trial)

    def seconds(self) -> float:
        """The virtual time."""
        return self.now


class VirtualContender:
    """A made-up trial whose crash does not end this process."""

    def __init__(self, bench: VirtualBench, trial: MadeUpTrial) -> None:
        self.bench, self.trial = bench, trial
        self.sampler: Sampler = MadeUpSampler(trial, bench.seconds)

    def ready(self) -> Failure | None:
        """The failure of a trial that is made to fail."""
        if self.trial.behaviour == "wrong":
            return Failure("wrong", self.sampler.check())
        return self._failure() if not self.trial.late else None

    def sample(self, count: int) -> tuple[float, ...] | Failure:
        """Samples, which advance the clock."""
        failure = self._failure()
        if failure is not None:
            return failure
        found = tuple(self.sampler.sample(count))
        self.bench.now += sum(found) + self.bench.overhead * count
        return found

    def close(self) -> None:
        """Count it as closed."""
        self.bench.open -= 1

    def _failure(self) -> Failure | None:
        match self.trial.behaviour:
            case "fine" | "wrong":
                return None
            case "timed out":
                self.bench.now += self.bench.patience
                return Failure("timed out", f"no answer within {self.bench.patience:g} s")
            case "crashed":
                return Failure("crashed", "exit code -6 (SIGABRT)")
            case "refused":
                return Failure("refused", "the made-up device has too few registers for this launch")
