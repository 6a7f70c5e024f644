"""Several GPUs of one machine: each takes the next size when it is free, and races its candidates.

The candidates of a size are compared on one device. A thread for each device suffices: compiling, checking and timing
happen in the processes of the candidates. Timings arrive one at a time, as each becomes final.

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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from lego_mlir.errors import UsageError
from lego_mlir.tuning.candidates import Candidate, Timing
from lego_mlir.tuning.sized import SizedProblem
from lego_mlir.tuning.workbench import Workbench, halve


def halve_on_devices(
    workbenches: Sequence[Workbench],
    tunable: str,
    problems: Sequence[SizedProblem],
    *,
    seconds: float | None = None,
    known: Sequence[Timing] = (),
    on_timing: Callable[[Timing], None] = lambda timing: None,
    digest: Callable[[Candidate], str] = lambda candidate: candidate.digest,
) -> list[list[Timing]]:
    """The timings of each problem, in their order. `seconds` are for the race of each problem.

    Raises UsageError without a workbench, and what a race raises once the others have ended.
    """
    if not workbenches:
        raise UsageError("tuning on several devices needs one workbench for each, got none")
    free: SimpleQueue[Workbench] = SimpleQueue()
    for workbench in workbenches:
        free.put(workbench)
    one_at_a_time = threading.Lock()

    def record(timing: Timing) -> None:
        with one_at_a_time:
            on_timing(timing)

    def measure(problem: SizedProblem) -> list[Timing]:
        workbench = free.get()
        try:
            return halve(
                workbench, tunable, problem.candidates, problem.sizes, seconds=seconds, known=known, on_timing=record,
                digest=digest,
            )  # fmt: skip
        finally:
            free.put(workbench)

    with ThreadPoolExecutor(len(workbenches)) as pool:
        return list(pool.map(measure, problems))
