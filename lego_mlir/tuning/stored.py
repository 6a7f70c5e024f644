"""Stored timings that hold in this process: of this tunable, this device, today's toolchain and today's code.

`lego-mlir tune` appends timings to a file of the user (`timings.TimingStore`); a tunable reads them once, when it first
chooses. Those of another device or compiler are left out at once, and those of other code when a choice is to use them,
because a digest costs the building of the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from lego_mlir.errors import LegoError, UsageError
from lego_mlir.tuning.candidates import Timing
from lego_mlir.tuning.timings import TimingStore

if TYPE_CHECKING:
    from lego_mlir.tuning.tunable import Tunable


def stored_here(tunable: Tunable, device: int = 0, store: TimingStore | None = None) -> list[Timing]:
    """The newest timing of each configuration and size on this device, without failures; empty where none can be."""
    named = [t for t in (store or TimingStore()).timings(tunable=tunable.name) if set(t.sizes) == set(tunable.key)]
    for timing in named:
        try:
            where = tunable.workbench(timing.configuration, timing.sizes, device)
        except UsageError:  # a configuration that the space no longer has
            continue
        except LegoError:  # no device, or no compiler: nothing was timed here
            return []
        here = (where.device, where.multiprocessors, where.toolchain)
        return _newest(t for t in named if (t.device, t.multiprocessors, t.toolchain) == here)
    return []


def _newest(timings: Iterable[Timing]) -> list[Timing]:
    found = {
        (t.configuration.key, tuple(sorted(t.sizes.items())), t.kernel): t
        for t in sorted(timings, key=lambda timing: timing.when)
    }
    return [timing for timing in found.values() if not timing.failure]


def is_current(tunable: Tunable, timing: Timing) -> bool:
    """Whether the configuration still builds the code that was timed."""
    try:
        return tunable.candidate(timing.configuration, timing.sizes).digest == timing.kernel
    except LegoError:  # outside the space, or refused by now
        return False


def fastest(timings: Sequence[Timing], value: Callable[[Timing], float], tunable: Tunable) -> Timing | None:
    """The best of these timings whose code is today's."""
    return next((t for t in sorted(timings, key=value) if is_current(tunable, t)), None)
