"""Several GPUs of one machine: each takes the longest size that is left, and races its candidates.

The candidates of a size are compared on one device. A thread for each device suffices: compiling, checking and timing
happen in the processes of the candidates. What remains in this process, tracing and the results of references, is done
for the next sizes while the devices are busy (`AheadOfRaces`). Timings arrive one at a time, as each becomes final.

Sizes are started longest first, by the predictions of their candidates: a long one that starts last would keep one
device busy while the others wait (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).

>>> from lego_mlir.tuning.candidates import Candidate, Configuration
>>> from lego_mlir.tuning.workbench import made_up_workbench
>>> devices = [made_up_workbench(lambda c, sizes: 1e-6 * (sizes["M"] + abs(c["tile"] - 32))) for _ in range(2)]
>>> candidates = [Candidate(Configuration.of({"tile": tile}), lambda: None) for tile in (16, 32, 64)]
>>> problems = [SizedProblem(candidates, {"M": m}) for m in (40, 80, 120)]
>>> found = halve_on_devices(devices, "example", problems, digest=lambda c: c.configuration.key)
>>> [min(timings, key=lambda t: t.median).configuration["tile"] for timings in found]
[32, 32, 32]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Final

from lego_mlir.errors import LegoError, UsageError
from lego_mlir.tuning.candidates import Candidate, SearchSpace, Timing
from lego_mlir.tuning.measuring import Trial
from lego_mlir.tuning.sampling import LARGEST, halve_sampled
from lego_mlir.tuning.work_units import SizedProblem
from lego_mlir.tuning.workbench import Prepare, Workbench, halve

OPENING_US: Final = 100_000.0
"""About what a candidate takes to be loaded and checked; more than the launches of a short kernel."""
LAUNCHES: Final = 40
"""About how often a candidate that is not proved slower at once is launched."""


def expected_us(problem: SizedProblem) -> float:
    """About how long the race of a size takes, to order the sizes by: openings, and launches as predicted."""
    predicted = [c.predicted.microseconds for c in problem.candidates if c.predicted is not None]
    return OPENING_US * len(problem.candidates) + LAUNCHES * sum(predicted)


def longest_first(problems: Sequence[SizedProblem]) -> list[int]:
    """The positions of the problems, those first that are expected to take longest; equal ones in their order."""
    return sorted(range(len(problems)), key=lambda number: -expected_us(problems[number]))


class AheadOfRaces:
    """Prepares the trials of sizes that wait, in a thread; a race that gets to a candidate first prepares it itself."""

    def __init__(self, prepare: Prepare, problems: Sequence[SizedProblem]) -> None:
        self._prepare, self._problems = prepare, problems
        self._made: dict[tuple[int, str], Trial | LegoError] = {}
        self._locks: dict[tuple[int, str], threading.Lock] = {}
        self._guard, self._stopped = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> AheadOfRaces:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def prepare(self, candidate: Candidate, sizes: Mapping[str, int]) -> Trial:
        """The trial of a candidate, made once. Raises what making it raised."""
        key = id(candidate), str(sizes)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._made:
                try:
                    self._made[key] = self._prepare(candidate, sizes)
                except LegoError as error:
                    self._made[key] = error
        made = self._made[key]
        if isinstance(made, LegoError):
            raise made
        return made

    def _run(self) -> None:
        for problem in self._problems:
            for candidate in problem.candidates:
                if self._stopped.is_set():
                    return
                try:
                    self.prepare(candidate, problem.sizes)
                except Exception:  # the race that gets to it has the same error, and reports it
                    continue


def halve_on_devices(
    workbenches: Sequence[Workbench],
    tunable: str,
    problems: Sequence[SizedProblem],
    *,
    seconds: float | None = None,
    known: Sequence[Timing] = (),
    on_timing: Callable[[Timing], None] = lambda timing: None,
    digest: Callable[[Candidate], str] = lambda candidate: candidate.digest,
    space: SearchSpace | None = None,
) -> list[list[Timing]]:
    """The timings of each problem, in their order. `seconds` are for the race of each problem.

    Of more than 500 candidates of one size, those that Optuna suggests in their `space` are measured.

    Raises UsageError without a workbench, and what a race raises once the others have ended.
    """
    if not workbenches:
        raise UsageError("tuning on several devices needs one workbench for each, got none")
    order = longest_first(problems)
    free: SimpleQueue[Workbench] = SimpleQueue()
    one_at_a_time = threading.Lock()

    def record(timing: Timing) -> None:
        with one_at_a_time:
            on_timing(timing)

    def measure(number: int) -> list[Timing]:
        workbench, problem = free.get(), problems[number]
        race = halve if space is None or len(problem.candidates) <= LARGEST else partial(halve_sampled, space=space)
        try:
            return race(
                workbench, tunable, candidates=problem.candidates, sizes=problem.sizes, seconds=seconds, known=known,
                on_timing=record, digest=digest,
            )  # fmt: skip
        finally:
            free.put(workbench)

    # What is compiled for one of these devices serves all of one kind; the first sizes are prepared by their races.
    alike = len({(w.device, w.multiprocessors, w.toolchain) for w in workbenches}) == 1
    later = order[len(workbenches) :] if alike and not known else []
    waiting = [problems[number] for number in later if len(problems[number].candidates) <= LARGEST]
    with AheadOfRaces(workbenches[0].prepare, waiting) as ahead, ThreadPoolExecutor(len(workbenches)) as pool:
        for workbench in workbenches:
            free.put(replace(workbench, prepare=ahead.prepare) if alike else workbench)
        found = dict(zip(order, pool.map(measure, order), strict=True))
    return [found[number] for number in range(len(problems))]
