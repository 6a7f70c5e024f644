"""Tuning on the workers of a Dask cluster: compiled on all of them, measured on those with the resource `gpu`.

    client ── builds ──► any worker: code, data of its checks   (as many at a time as there are threads)
       │                    │ trials
       └──── a job ────► a worker with gpu=1: race of the trials in isolated processes, one job a GPU at a time
                            │ results
       ◄────────────────────┘ of each candidate as it is final, and of the job as it ends

A job is a race: its candidates are compared on one device, in turns. A worker that is lost costs the work that it had
begun: Dask gives that to another worker, and what it would have sent never arrives, so a job is counted once. A build
that ends its worker again and again is a failure of its candidate. The scheduler is one that is running
(`dask scheduler`, `dask worker --resources gpu=1`), or `local_cluster` starts one on this machine.

distributed.dask.org, "Worker Resources", "Resilience".
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lego_mlir.aliases import Foreign
from lego_mlir.errors import DependencyError, LegoError, UsageError, brief
from lego_mlir.tuning.halving import RaceResult, RaceRules, race
from lego_mlir.tuning.measuring import Bench, Failure, Trial

GPU: Final = "gpu"  # the resource of a worker that measures
QUIET: Final = 50  # logging.CRITICAL
Build = Callable[[], Trial]
Found = TypeVar("Found")


def isolated_bench() -> Bench:
    """The bench of a worker."""
    from lego_mlir.tuning.isolated import IsolatedBench

    return IsolatedBench(kept=True)


@dataclass(frozen=True)
class ClusterJob:
    """Candidates that are raced on one device. `name` identifies it; builds and `bench` can be pickled.

    In place of a build there may be the failure to make it.
    """

    name: str
    builds: Sequence[Build | Failure]
    rules: RaceRules = field(default_factory=RaceRules)
    bench: Callable[[], Bench] = isolated_bench


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The results of a job in the order of its builds, the worker that measured, and how long the race took.

    `failure` is why a job has no results.
    """

    name: str
    results: tuple[RaceResult, ...]
    worker: str
    seconds: float
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ClusterProgress:
    """How far a run is: builds and jobs that are done, of all; seconds so far, and an estimate of those left."""

    built: int
    builds: int
    measured: int
    jobs: int
    seconds: float
    left: float | None

    def __str__(self) -> str:
        left = "" if self.left is None else f", about {self.left:.0f} s left"
        return f"{self.built} of {self.builds} compiled, {self.measured} of {self.jobs} jobs measured{left}"


class ClusterRun:
    """One run of jobs on a client."""

    def __init__(
        self,
        client: Foreign,
        jobs: Sequence[ClusterJob],
        on_result: Callable[[str, RaceResult], None] = lambda name, result: None,
    ) -> None:
        names = [job.name for job in jobs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"two jobs have the name {twice!r}; a name identifies one job")
        _require_gpu_workers(client)
        self.client, self.jobs = client, {job.name: job for job in jobs}
        self.built: dict[str, dict[int, Foreign]] = {job.name: {} for job in jobs}
        self.outcomes: dict[str, JobOutcome] = {}
        self.began = time.monotonic()
        self._first: float | None = None  # when the first job was submitted
        self._topic, self._on_result = f"lego-mlir-{uuid.uuid4().hex}", on_result
        self._told: set[tuple[str, int]] = set()
        self._telling = threading.Lock()

    def run(
        self, on_outcome: Callable[[JobOutcome], None], on_progress: Callable[[ClusterProgress], None]
    ) -> dict[str, JobOutcome]:
        """Submit all builds, each job when its builds are done, and hand out each outcome once."""
        self.client.subscribe_topic(self._topic, self._event)
        try:
            return self._run(on_outcome, on_progress)
        finally:
            self.client.unsubscribe_topic(self._topic)

    def _run(
        self, on_outcome: Callable[[JobOutcome], None], on_progress: Callable[[ClusterProgress], None]
    ) -> dict[str, JobOutcome]:
        distributed = _distributed()
        waiting = distributed.as_completed()
        roles: dict[str, tuple[str, int | None]] = {}
        for job in self.jobs.values():
            for number, build in enumerate(job.builds):
                future = self.client.submit(_built, _packed(build), pure=False, priority=-len(roles))
                roles[future.key] = job.name, number
                waiting.add(future)
            if not job.builds:
                self._count(JobOutcome(job.name, (), "", 0.0), on_outcome)
        for future in waiting:
            role = roles.pop(future.key, None)
            if role is None:
                continue  # a result that was sent twice
            name, place = role
            if place is None:
                self._count(self._outcome(name, future), on_outcome)
            else:
                self.built[name][place] = Failure("crashed", _reason(future)) if future.status == "error" else future
                if len(self.built[name]) == len(self.jobs[name].builds):
                    measured = self._submit(self.jobs[name])
                    roles[measured.key] = name, None
                    waiting.add(measured)
            on_progress(self.progress())
        return {name: self.outcomes[name] for name in self.jobs}

    def _submit(self, job: ClusterJob) -> Foreign:
        """The task of a job, for one worker with a GPU."""
        if self._first is None:
            self._first = time.monotonic()
        made = self.built[job.name]
        trials = [made[number] for number in range(len(job.builds))]
        packed = _packed((job.rules, job.bench, self._topic, job.name))
        return self.client.submit(_measured, trials, packed, pure=False, resources={GPU: 1})

    def _event(self, event: tuple[float, bytes]) -> None:
        """On the client's thread: a result of a race that is still running, perhaps on a worker that will be lost."""
        name, result = pickle.loads(event[1])
        self._tell(name, result)

    def _tell(self, name: str, result: RaceResult) -> None:
        """Hand out the result of a candidate once: the first that arrives."""
        with self._telling:
            if (name, result.number) not in self._told:
                self._told.add((name, result.number))
                self._on_result(name, result)

    def _outcome(self, name: str, future: Foreign) -> JobOutcome:
        if future.status != "finished":
            return JobOutcome(name, (), "", 0.0, _reason(future))
        try:
            results, worker, seconds = future.result()
        except Exception as error:  # lost with its worker after it was done; Dask has given it up
            return JobOutcome(name, (), "", 0.0, _first_line(error))
        return JobOutcome(name, tuple(results), worker, seconds)

    def _count(self, outcome: JobOutcome, on_outcome: Callable[[JobOutcome], None]) -> None:
        if outcome.name not in self.outcomes:
            self.outcomes[outcome.name] = outcome
            self.built[outcome.name].clear()  # the workers forget the code
            for result in outcome.results:
                self._tell(outcome.name, result)
            on_outcome(outcome)

    def progress(self) -> ClusterProgress:
        """How far the run is; the estimate is from the jobs so far."""
        builds = sum(len(job.builds) for job in self.jobs.values())
        finished = sum(len(self.jobs[name].builds) for name in self.outcomes)
        built = finished + sum(len(made) for made in self.built.values())
        done, now = len(self.outcomes), time.monotonic()
        left = None
        if done and self._first is not None:
            left = (now - self._first) / done * (len(self.jobs) - done)
        return ClusterProgress(built, builds, done, len(self.jobs), now - self.began, left)


def run_jobs(
    client: Foreign,
    jobs: Sequence[ClusterJob],
    on_outcome: Callable[[JobOutcome], None] = lambda outcome: None,
    on_progress: Callable[[ClusterProgress], None] = lambda progress: None,
    on_result: Callable[[str, RaceResult], None] = lambda name, result: None,
) -> dict[str, JobOutcome]:
    """Build and measure jobs on a cluster; their outcomes by name. `on_outcome` is called as each job ends.

    `on_result` is called with the job's name and each result as it becomes final, from any thread, one at a time.
    Raises UsageError for two jobs of one name, and for a cluster without a worker that has the resource `gpu`.
    """
    return ClusterRun(client, jobs, on_result).run(on_outcome, on_progress)


@contextmanager
def connected(scheduler: str | Foreign, timeout: float = 15.0) -> Iterator[Foreign]:
    """A client of a scheduler, by its address such as tcp://host:8786, or the given one. UsageError if none answers."""
    if not isinstance(scheduler, str):
        yield scheduler
        return
    distributed = _distributed()
    try:
        client = distributed.Client(scheduler, timeout=timeout)
    except (OSError, TimeoutError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {scheduler} ({_first_line(error)}); start one with: dask scheduler"
        ) from error
    with client:
        yield client


@contextmanager
def local_cluster(compiling: int, measuring: int = 1, devices: Sequence[str] | None = None) -> Iterator[Foreign]:
    """A client of workers on this machine: some that compile, and one for each GPU, which measures.

    `devices` are the values of CUDA_VISIBLE_DEVICES of the measuring workers, by default 0, 1, ..
    """
    distributed = _distributed()
    if compiling < 0 or measuring < 1:
        raise UsageError(f"a local cluster has at least one worker that measures, got {compiling=} and {measuring=}")
    shown = devices or [str(number) for number in range(measuring)]
    quiet = {"silence_logs": QUIET}
    workers: dict[str, Mapping[str, object]] = {}
    for number in range(compiling):
        workers[f"compile-{number}"] = {"cls": distributed.Nanny, "options": {"nthreads": 1, **quiet}}
    for number in range(measuring):
        environment = {"CUDA_VISIBLE_DEVICES": shown[number]}
        options = {**quiet, "nthreads": 1, "resources": {GPU: 1}, "env": environment}
        workers[f"measure-{number}"] = {"cls": distributed.Nanny, "options": options}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"}}
    with (
        distributed.SpecCluster(scheduler=scheduler, workers=workers, silence_logs=QUIET) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(len(workers), timeout=60)
        yield client


def on_gpu_worker(client: Foreign, function: Callable[[], Found]) -> Found:
    """The result of a function on one of the workers that measure. Raises UsageError where there is none."""
    _require_gpu_workers(client)
    found: Found = client.submit(_called, _packed(function), pure=False, resources={GPU: 1}).result()
    return found


def _called(packed: bytes) -> object:
    return pickle.loads(packed)()


def _packed(value: object) -> bytes:
    """A value as bytes, which a worker unpacks itself: one that it cannot import fails there, not in the scheduler."""
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def _built(build: bytes) -> Trial | Failure:
    """On a worker: the trial, or why it cannot be built."""
    try:
        unpacked = pickle.loads(build)
        made: Trial | Failure = unpacked if isinstance(unpacked, Failure) else unpacked()
        return made
    except LegoError as error:
        return Failure("refused", str(error))
    except Exception as error:  # the others still count
        return Failure("crashed", _first_line(error))


def _measured(trials: Sequence[Trial | Failure], packed: bytes) -> tuple[list[RaceResult], str, float]:
    """On a worker with a GPU: the race."""
    began, worker = time.monotonic(), _distributed().get_worker()
    rules, bench, topic, name = pickle.loads(packed)
    results = race(bench(), trials, rules, lambda result: worker.log_event(topic, pickle.dumps((name, result))))
    return results, str(worker.name), time.monotonic() - began


def _require_gpu_workers(client: Foreign) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not any(worker["resources"].get(GPU) for worker in workers):
        raise UsageError(
            f"none of the {len(workers)} workers of the cluster has the resource {GPU}; start those on machines with a "
            f"GPU as: dask worker ADDRESS --resources {GPU}=1"
        )


def _reason(future: Foreign) -> str:
    """Why a task has no result."""
    if future.status == "cancelled":
        return "the task was cancelled"
    return _first_line(future.exception())


def _first_line(error: BaseException) -> str:
    return brief(f"{type(error).__name__}: {error}".splitlines()[0], 200)


def _distributed() -> Foreign:
    try:
        import distributed
    except ImportError as error:
        raise DependencyError(f"Dask is not installed ({error}); run: pip install dask distributed") from error
    return distributed
