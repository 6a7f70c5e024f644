"""Candidates of many sizes measured on a cluster: a job for each size, so that its candidates race on one device.

The client traces the candidates and makes the data of their checks; the workers compile, and those with a GPU measure.
Timings come back as the race of their job settles each candidate; they are those of `workbench.halve` on the device of
the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lego_mlir.aliases import Foreign
from lego_mlir.errors import LegoError
from lego_mlir.tuning.candidates import Candidate, Timing
from lego_mlir.tuning.cluster import Build, ClusterJob, ClusterProgress, on_gpu_worker, run_jobs
from lego_mlir.tuning.halving import RaceResult, RaceRules
from lego_mlir.tuning.measuring import Failure
from lego_mlir.tuning.work_units import SizedProblem
from lego_mlir.tuning.workbench import Entry, entered


@dataclass(frozen=True, slots=True)
class WorkerDevice:
    """The device of the workers that measure, and the digest of the toolchain; `target` is compiled for."""

    device: str
    multiprocessors: int
    driver: str
    toolchain: str
    target: str


MakeBuild = Callable[[Candidate, Mapping[str, int], WorkerDevice], Build]


def gpu_device() -> WorkerDevice:
    """On a worker: its first visible GPU, for kernels."""
    from lego_mlir.tuning.gpu_workbench import toolchain

    return _first_gpu(toolchain)


def template_device() -> WorkerDevice:
    """On a worker: its first visible GPU, for templates, which need no MLIR."""
    from lego_mlir.tuning.gpu_workbench import template_toolchain

    return _first_gpu(template_toolchain)


def _first_gpu(toolchain: Callable[[str], str]) -> WorkerDevice:
    from lego_mlir.runtime.calls import target_for
    from lego_mlir.runtime.driver import driver
    from lego_mlir.tuning.device_launch import identity

    found, target = identity(driver()), target_for(driver().capability(0))
    return WorkerDevice(found.name, found.multiprocessors, found.driver, toolchain(target), target)


def gpu_build(candidate: Candidate, sizes: Mapping[str, int], where: WorkerDevice) -> Build:
    """The build of a kernel, a program or a template, with its checks: small data, or how they are computed."""
    from lego_mlir.tuning.gpu_workbench import Preparing

    preparing = Preparing(where.target, travels=True)  # its folder of data lasts as long as it does
    return preparing.trial(candidate, sizes).with_data()


def halve_on(
    client: Foreign,
    tunable: str,
    problems: Sequence[SizedProblem],
    *,
    seconds: float | None = None,
    confidence: float = 0.95,
    worth: float = 0.01,
    known: Sequence[Timing] = (),
    on_timing: Callable[[Timing], None] = lambda timing: None,
    on_progress: Callable[[ClusterProgress], None] = lambda progress: None,
    digest: Callable[[Candidate], str] = lambda candidate: candidate.digest,
    identify: Callable[[], WorkerDevice] = gpu_device,
    build: MakeBuild = gpu_build,
) -> list[list[Timing]]:
    """Measure candidates at several sizes on the workers of a client; the timings of each problem, in their order.

    `seconds` are for the race of each problem. `on_timing` is called as results arrive, with each new timing once. All
    workers that measure are taken to have the device of one of them. Raises UsageError for problems of equal sizes, and
    for a cluster without a worker that has the resource `gpu`.
    """
    where = on_gpu_worker(client, identify)
    rules = RaceRules(confidence, worth, seconds=float("inf") if seconds is None else seconds)
    entries = {
        problem.name: entered(where, tunable, problem.candidates, problem.sizes, known, digest) for problem in problems
    }
    jobs = [
        ClusterJob(problem.name, _builds(entries[problem.name], where, build), rules) for problem in problems
    ]  # fmt: skip
    found: dict[str, dict[int, Timing]] = {problem.name: {} for problem in problems}

    def record(name: str, result: RaceResult) -> None:
        if (timing := entries[name].timing(where, result)) is not None:
            found[name][result.number] = timing
            on_timing(timing)

    outcomes = run_jobs(client, jobs, on_progress=on_progress, on_result=record)
    if failed := next((outcome for outcome in outcomes.values() if outcome.failure), None):
        raise LegoError(f"{tunable} at {failed.name} was not measured: {failed.failure}")
    in_order = {name: [timings[number] for number in sorted(timings)] for name, timings in found.items()}
    return [entries[problem.name].together(in_order[problem.name]) for problem in problems]


def _builds(entry: Entry, where: WorkerDevice, build: MakeBuild) -> list[Build | Failure]:
    """The builds of the candidates that run; a candidate that cannot be traced is a failure."""
    builds: list[Build | Failure] = []
    for number in entry.numbers:
        try:
            builds.append(build(entry.candidates[number], entry.sizes, where))
        except LegoError as error:
            builds.append(Failure("refused", str(error)))
    return builds
