"""Remake the results of benchmarks: kernels rendered on all cores, times taken on all GPUs of a machine.

    python bench/remake.py --list                        the benchmarks, their newest results, and which are stale
    python bench/remake.py NAME .. [--seconds S]         render, prepare and time these
    python bench/remake.py NAME .. --steps prepare,time  the same with what is in artifacts/

The cases of a benchmark are rendered by several processes. As soon as its kernels are there, its steps `prepare` and
`time` run on the next free GPU, two benchmarks never on one. Those that time the host or several GPUs are timed at the
end, one after another. After `--seconds` what runs is ended. Results go to bench/results, or to the folder of `--out`;
those of a benchmark that failed or was ended go into `failed`, in the folder of the logs: artifacts/remake, or `--out`.
The last lines say what became of each benchmark; the exit code is 1 if one was not finished.
"""

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import harness
import mlir_kernels
import suites
from suites import Suite

STEPS = ("render", "prepare", "time")
TEN_DAYS = 864_000.0


class EndedError(Exception):
    """The time is over."""


@dataclass
class Machine:
    """The cores and GPUs that benchmarks share until `end`, by the monotonic clock."""

    end: float
    logs: Path
    results: Path | None
    gpus: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    running: set["subprocess.Popen[bytes]"] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)

    def run(self, suite: Suite, command: Sequence[str], nice: int = 0, **variables: str) -> None:
        """Run a command, its text into the log. Raises EndedError, or CalledProcessError where it fails."""
        if (left := self.end - time.monotonic()) <= 0:
            raise EndedError
        with (self.logs / f"{suite.benchmark.name}.log").open("ab") as log:
            process = subprocess.Popen(
                ["nice", "-n", str(nice), *command], env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.running.add(process)
        try:
            code = process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            raise EndedError from None
        finally:
            self.kill(process)
        if code:
            raise subprocess.CalledProcessError(code, command)

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """End a command and the processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.running.discard(process)

    @contextmanager
    def gpu(self) -> Iterator[str]:
        """A GPU that no other benchmark uses, waited for."""
        try:
            one = self.gpus.get(timeout=max(0.0, self.end - time.monotonic()))
        except queue.Empty:
            raise EndedError from None
        try:
            yield one
        finally:
            self.gpus.put(one)

    def time(self, suite: Suite, steps: Sequence[str], gpus: str) -> str:
        """Run the steps on a GPU; where the results are."""
        made = self.logs / "failed" / suite.benchmark.name
        shutil.rmtree(made, ignore_errors=True)
        for step in (step for step in STEPS[1:] if step in steps and step in suite.benchmark.known_steps):
            nice = 19 if step == "prepare" else 0  # on all cores, next to what takes times
            self.run(suite, suite.command(step), nice, CUDA_VISIBLE_DEVICES=gpus, OUT=str(made))
        found = [str(self.kept(path)) for path in sorted(made.glob("*.json"))]
        shutil.rmtree(made, ignore_errors=True)
        return ", ".join(found) or "no results"

    def kept(self, path: Path) -> Path:
        """Move results to their place."""
        device = json.loads(path.read_text()).get("device", "unknown").replace(" ", "-")
        dated = mlir_kernels.RESULTS / device / f"{time.strftime('%Y-%m-%d')}-{path.name}"
        target = self.results / path.name if self.results else dated
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(path, target))

    def finish(self, suite: Suite, steps: Sequence[str], rendering: Sequence["Future[None]"], gpus: str = "") -> None:
        """Time a benchmark on these GPUs, or one that is free, when its kernels are rendered; what became of it."""
        name = suite.benchmark.name
        try:
            for one in rendering:
                one.result()
            if steps == ["render"]:
                state = f"rendered into {suite.benchmark.folder}"
            else:
                with nullcontext(gpus) if gpus else self.gpu() as one:
                    state = self.time(suite, steps, one)
        except EndedError:
            state = "not finished in time"
        except subprocess.CalledProcessError:
            state = f"failed, see {self.logs / name}.log"
        else:
            self.finished.add(name)
        print(f"{name}: {state}", flush=True)


def remake(machine: Machine, chosen: Sequence[Suite], steps: Sequence[str], gpus: Sequence[str], jobs: int) -> int:
    """The steps of these benchmarks; the number of those that were not finished."""
    for gpu in gpus:
        machine.gpus.put(gpu)
    with ThreadPoolExecutor(jobs) as cores, ThreadPoolExecutor(len(chosen)) as waiting:
        try:
            rendering: dict[str, list[Future[None]]] = {suite.benchmark.name: [] for suite in chosen}
            for suite in chosen:
                if "render" in steps and "render" in suite.benchmark.known_steps:
                    shutil.rmtree(suite.benchmark.folder, ignore_errors=True)
                    commands = suite.renderings(jobs)
                    rendering[suite.benchmark.name] = [cores.submit(machine.run, suite, one, 19) for one in commands]
            apart = [suite for suite in chosen if not suite.benchmark.alone]
            list(waiting.map(lambda suite: machine.finish(suite, steps, rendering[suite.benchmark.name]), apart))
            for suite in (suite for suite in chosen if suite not in apart):
                machine.finish(suite, steps, rendering[suite.benchmark.name], ",".join(gpus))
        except BaseException:
            machine.end = 0.0
            for process in list(machine.running):
                machine.kill(process)
            raise
    return len(chosen) - len(machine.finished)


def devices() -> list[str]:
    """The GPUs that this process may use."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [one for one in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if one]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return [str(number) for number, _ in enumerate(listed.splitlines())]


def main(arguments: Sequence[str] | None = None, folder: Path = harness.BENCH) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; all with --list")
    parser.add_argument("--list", action="store_true", help="say which results are stale; do nothing")
    parser.add_argument("--gpus", type=int, help="use this many GPUs; without one, only render (default: all)")
    parser.add_argument("--jobs", type=int, help="processes that render (default: two cores for each GPU are left)")
    parser.add_argument("--seconds", type=float, default=TEN_DAYS, help="end everything after this time")
    parser.add_argument("--out", type=Path, help="a folder of results and logs")
    parser.add_argument("--steps", default=",".join(STEPS), help="some of these, with commas (default: %(default)s)")
    given, known = parser.parse_args(arguments), suites.timed(folder)
    steps = given.steps.split(",")
    if unknown := [one for one in given.names if one not in known] + [one for one in steps if one not in STEPS]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join([*known, *STEPS])}")
    chosen = [known[name] for name in given.names or (known if given.list else ())]
    if given.list:
        for suite in chosen:
            print(f"{suite.benchmark.name}: {suite.state()}")
        return 0
    if not chosen:
        parser.error("name benchmarks; `--list` lists them")
    gpus = devices()[: given.gpus]
    if not gpus:
        print("no GPU: kernels are rendered only")
        steps = ["render"]
    logs = given.out or harness.ARTIFACTS / "remake"
    logs.mkdir(parents=True, exist_ok=True)
    for suite in chosen:
        (logs / f"{suite.benchmark.name}.log").unlink(missing_ok=True)
    machine = Machine(time.monotonic() + given.seconds, logs, given.out)
    jobs = given.jobs or max(1, (os.cpu_count() or 1) - 2 * len(gpus))
    left = remake(machine, chosen, steps, gpus, jobs)
    print(f"{len(chosen) - left} finished, {left} not; logs in {logs}")
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())
