"""Measurement of a trial: opened, checked, and sampled in turns with the others.

    Trial      what crosses to the process or machine that measures; opening it gives
    Sampler    a launch that can be checked and timed there
    Bench      what starts trials: isolated processes (`isolated`), the made-up device (`simulated_device`)
    Contender  a trial that was started on a bench
    Failure    why a trial has no time; the other trials go on

A trial is checked before it is timed: a wrong result is a failure, whatever its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

FailureKind = Literal["wrong", "crashed", "timed out", "refused"]
# What the timings of one contender share with those of the others; as bench/harness.py has it.
TURN_SAMPLES: Final = 5  # of a short launch, one after the other, before the next contender has its turn
TURN_SECONDS: Final = 0.2  # of a long one: as long as a large GPU takes to settle at the clock that its power allows
LONG_SECONDS: Final = 0.5e-3


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial has no time: a wrong result, a crash, a time-out, or a launch that was refused."""

    kind: FailureKind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


class Sampler(Protocol):
    """A launch, where it is measured."""

    def check(self) -> str:
        """Run once and compare with the reference; what is wrong, or nothing."""

    def sample(self, count: int) -> Sequence[float]:
        """The seconds of `count` launches, after some that are not counted."""


class Trial(Protocol):
    """What is sent to where a candidate is measured. It can be pickled."""

    def open(self) -> Sampler:
        """Load it. Raises LegoError for what is refused here."""


class Contender(Protocol):
    """A trial that was started on a bench. After a failure each method returns that failure."""

    def ready(self) -> Failure | None:
        """Wait until the trial is open and checked."""

    def sample(self, count: int) -> tuple[float, ...] | Failure:
        """The seconds of `count` launches, one after the other."""

    def close(self) -> None:
        """Free what it holds."""


class Bench(Protocol):
    """Where trials are measured. `live` contenders are open at most at a time."""

    @property
    def live(self) -> int: ...

    def start(self, trial: Trial) -> Contender:
        """Start to open a trial; returns at once where the bench can."""

    def seconds(self) -> float:
        """The time since the bench was made."""


def turn(seconds: float) -> int:
    """How many launches of this length one contender makes before the next has its turn.

    >>> turn(20e-6), turn(2e-3), turn(3.0)
    (5, 100, 1)
    """
    return max(1, int(TURN_SECONDS / seconds)) if seconds > LONG_SECONDS else TURN_SAMPLES
