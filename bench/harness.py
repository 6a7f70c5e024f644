"""The protocol of all GPU benchmarks: artifacts between two machines, how a time is taken, and the form of results.

The contenders of a case are timed in one process, correctness first, in an order drawn anew each round, by events of
the stream, in two ways. A *single* time is one launch after a flush of the L2 cache: 100 repetitions after 25 that warm
up; of slow cases what a few seconds have room for, 20 at least, of tiny ones 400; kept are the median and the 10th and
90th percentile. A time *back to back* is the mean of launches one after the other, in a CUDA graph where they follow
PyTorch's stream; kept is the median of the turns. `ms` is what the page of the benchmark shows, and the other one
is `steady_ms` or `single_ms`.

Results are JSON with the run, its date, device, versions and clocks, written after every case to $OUT or to
bench/results/<device>/<date>-<name>.json. A case with a wrong result is named, gives no times, and makes the exit code
1. `runner.py` is the command line. The GPU machine needs NumPy, PyTorch, CuPy, Triton where a benchmark has it as a
baseline, and what `render` left in artifacts/.
"""

import contextlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from statistics import median, quantiles
from typing import Any

BENCH = Path(__file__).resolve().parent
ARTIFACTS = BENCH.parent / "artifacts"
WARM_UP = 25
REPETITIONS = 100
MOST, TINY_MS = 400, 0.05  # repetitions of what takes so little that a fraction of a microsecond counts
FEWEST = 20
LONG_MS, TURN_MS = 0.5, 200  # what takes longer has its repetitions in turns of so much time
SEARCHED, FEWEST_SEARCHED = 10, 3  # repetitions while configurations are compared; the best one is measured in full
SEARCHING_MS = 2000  # a comparison of configurations takes no longer, unless FEWEST_SEARCHED repetitions do
CLOSE = 1.05  # configurations no slower than the fastest by this are compared again
GRAPH_LAUNCHES, GRAPH_MS = 50, 5  # launches of a CUDA graph, and what they take together, at most
FLUSHED_BYTES = 2**30  # far above the L2 cache; and writing it takes longer than Python takes to launch what is timed


Case = tuple[Any, ...]


def words_of(case: Case) -> list[str]:
    """What a case is chosen by on the command line, and called in messages."""
    return ["x".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in case]


# -- artifacts


def keep(folder: Path, name: str, rendered: Any) -> None:
    """A rendered text, for the GPU machine."""
    suffix = ".py" if rendered.template.language == "triton" else ".cu"
    (folder / f"{name}{suffix}").write_text(rendered.text)


def rendered(path: Path) -> Path:
    """A file that the step `render` left; a message names that step if it did not."""
    if not path.is_file():
        raise SystemExit(f"{path} is missing: run the step `render` where lego_mlir is, and copy artifacts/")
    return path


def load(folder: Path, name: str, kernel: str) -> Any:
    """A Triton kernel that `render` left."""
    path = rendered(folder / f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"artifact_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kernel)


# -- static figures


def static_row(compiled: Any, work: str, **facts: Any) -> dict[str, Any]:
    """What one kernel takes, and its instructions: all, and of the innermost loop with `work` in it."""
    from lego_mlir.toolchain import sass

    loop = sass.main_loop(compiled.code, work)
    return {
        **facts,
        "registers": compiled.resources.registers,
        "spill_bytes": compiled.resources.spill_stores + compiled.resources.spill_loads,
        "shared_bytes": compiled.shared_bytes,
        "instructions": len(compiled.code),
        "loop_instructions": len(loop) or None,
        "loop": dict(sass.mix(loop)) or None,
        "all": dict(sass.mix(compiled.code)),
    }


def write_static(name: str, rows: list[dict[str, Any]], target: str = "sm_90") -> None:
    """Keep the figures, and print them as a table."""
    path = BENCH / "results" / "static" / f"{name}-{target}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    columns = ["registers", "spill_bytes", "shared_bytes", "instructions", "loop_instructions"]
    print(f"{'kernel':44}" + "".join(f"{c:>19}" for c in columns))
    for row in rows:
        print(f"{row['kernel']:44}" + "".join(f"{row.get(c) if row.get(c) is not None else '':>19}" for c in columns))
    print(path)


# -- times


@dataclass(frozen=True)
class Contender:
    """One way to compute a case: a launch that was checked, and what its row records with the times."""

    run: Callable[[], Any]
    facts: dict[str, Any]


def contender(run: Callable[[], Any], **facts: Any) -> Contender:
    return Contender(run, facts)


@dataclass(frozen=True)
class Protocol:
    """How the contenders of a case are timed.

    `ms` of a row is of the way `first`, `single` or `steady`. Back to back there are `rounds` turns of `turn_s`
    seconds, in CUDA graphs where all contenders launch on PyTorch's stream (`graphs`). Single launches take
    `patience_ms` at most, and a search among configurations half of that.
    """

    first: str = "single"
    turn_s: float = 0.03
    rounds: int = 3
    graphs: bool = False
    patience_ms: float = 4000


def times_ms(
    runs: Mapping[Any, Callable[[], Any]], repetitions: int = REPETITIONS, warm_up: int = WARM_UP, turn: int = 1
) -> dict[Any, list[float]]:
    """Milliseconds of each repetition on the current stream, the L2 cache flushed before each.

    The repetitions of all that are compared alternate, so that a device that slows down as it heats slows them all, in
    an order drawn anew for every round: on an H200 every second launch after such a flush was seen to take up to 0.8 us
    longer, whichever kernel it was, and an even number of contenders in one order would keep to their places. With
    `turn` above 1 a contender has as many repetitions at a time, after a quarter as many that are not counted.
    """
    import torch

    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    for run in runs.values():
        for _ in range(warm_up):
            run()
    events: dict[Any, list[Any]] = {key: [] for key in runs}
    order, drawn = list(runs.items()), random.Random(0)
    for _ in range(-(-repetitions // turn)):
        drawn.shuffle(order)
        for key, run in order:
            for _ in range(turn // 4):
                run()
            for _ in range(turn):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                flushed.zero_()
                start.record()
                run()
                end.record()
                events[key].append((start, end))
    torch.cuda.synchronize()
    return {key: [start.elapsed_time(end) for start, end in pairs] for key, pairs in events.items()}


def steady_ms(
    runs: Mapping[Any, Callable[[], Any]], turn_s: float, rounds: int, graphs: bool = True
) -> dict[Any, list[float]]:
    """Milliseconds of a launch back to back, the mean of each turn, in an order drawn anew for every round.

    A large GPU is limited by power: turns that are too short would mix the power states of neighbours.
    """

    turns, counts, launches = {}, {}, {}
    for name, run in runs.items():
        once = elapsed(run, 3)
        turns[name], launches[name] = run, 1
        if graphs:
            launches[name] = max(1, min(GRAPH_LAUNCHES, int(GRAPH_MS / once)))
            turns[name] = recorded(run, launches[name])
            once = elapsed(turns[name], 2)
        counts[name] = max(2, int(1000 * turn_s / once))
    found: dict[Any, list[float]] = {name: [] for name in runs}
    order, drawn = list(runs), random.Random(0)
    for _ in range(rounds):
        drawn.shuffle(order)
        for name in order:
            found[name].append(elapsed(turns[name], counts[name]) / launches[name])
    return found


def recorded(run: Callable[[], Any], times: int = 1) -> Callable[[], Any]:
    """What `run` launches, `times` times, as one CUDA graph; run it once before, which sets up what it calls."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            run()
    return graph.replay


def elapsed(run: Callable[[], Any], count: int) -> float:
    """Milliseconds of one of `count` runs, between two events, after one that is not counted."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    start.record()
    for _ in range(count):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / count


def measured(contenders: Sequence[Contender], protocol: Protocol = Protocol()) -> list[dict[str, Any]]:
    """The rows of results of contenders, timed side by side.

    What runs for long runs at the clock that its power allows, and the power that the one before it has drawn: turns of
    TURN_MS give each contender the clock that it has by itself.
    """
    runs = {number: c.run for number, c in enumerate(contenders)}
    once = [ms for (ms,) in times_ms(runs, 1, 1).values()]
    room = int(protocol.patience_ms / sum(once))
    wanted = room if max(once) > LONG_MS else MOST if max(once) < TINY_MS else REPETITIONS  # several turns for the long
    repetitions = max(FEWEST, min(wanted, room))
    warm_up = min(WARM_UP, WARM_UP * repetitions // REPETITIONS)
    turn = _turn(repetitions, max(once))
    found = times_ms(runs, repetitions, warm_up, turn)
    steady = steady_ms(runs, protocol.turn_s, protocol.rounds, protocol.graphs)
    rows = []
    for number, c in enumerate(contenders):
        single, spread = median(found[number]), quantiles(found[number], n=10)
        in_turns = median(steady[number])
        if protocol.first == "steady":
            times = {"ms": in_turns, "rounds": steady[number], "single_ms": single}
        else:
            times = {"ms": single, "p10": spread[0], "p90": spread[-1], "steady_ms": in_turns}
        rows.append({**c.facts, **times, "repetitions": len(found[number]), "turn": turn})
    return rows


def best(candidates: Mapping[Any, Callable[[], Any]]) -> Any:
    """The key of the fastest candidate; one that cannot be launched (registers, shared memory) is left out.

    Those that come close to the fastest are compared again with more repetitions, where that takes little time.
    """
    import torch

    runs = {}
    for key, run in candidates.items():
        try:
            run()
            torch.cuda.synchronize()
            runs[key] = run
        except Exception as error:  # whatever Triton or the driver refuses
            print(f"  left out {key}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
    if PREPARING:
        return next(iter(runs))
    once = {key: ms for key, (ms,) in times_ms(runs, 1, 0).items()}
    typical = _typical(runs, once, SEARCHED)
    close = {key: runs[key] for key, ms in typical.items() if ms <= CLOSE * min(typical.values())}
    if len(close) > 1:
        typical = _typical(close, typical, REPETITIONS)
    return min(typical, key=lambda key: typical[key])


def _typical(runs: Mapping[Any, Callable[[], Any]], once: Mapping[Any, float], repetitions: int) -> dict[Any, float]:
    """Medians of no more repetitions than SEARCHING_MS has room for; `once` says how long each takes."""
    expected = [once[key] for key in runs]
    repetitions = max(FEWEST_SEARCHED, min(repetitions, int(SEARCHING_MS / sum(expected))))
    found = times_ms(runs, repetitions, FEWEST_SEARCHED, _turn(repetitions, max(expected)))
    return {key: median(times) for key, times in found.items()}


def _turn(repetitions: int, longest_ms: float) -> int:
    """How many repetitions follow one another before a baseline has its turn."""
    return min(repetitions, max(1, int(TURN_MS / longest_ms))) if longest_ms > LONG_MS else 1


class WrongResultError(Exception):
    """A result that is not the reference's."""


def scratch(kernel: Any) -> list[Any]:
    """The scratch memory of a packed product whose clusters divide K, on the device: its last arguments."""
    import torch

    types = {"f32": torch.float32, "i32": torch.int32}
    return [
        torch.zeros(tuple(map(int, argument.shape)), device="cuda", dtype=types[argument.dtype])
        for argument in kernel.host_entry.arguments
        if argument.name in ("partial", "counters")
    ]


def require_each(found: Any, expected: Mapping[int, Any], tolerance: float, what: str) -> float:
    """The largest error of the results of some sequences. Raises as `require_close` does."""
    return max(require_close(found[b], one, tolerance, f"{what}, {b}") for b, one in expected.items())


def require_close(found: Any, expected: Any, tolerance: float, what: str) -> float:
    """The largest error, relative to the largest value. Raises WrongResultError where it is too large or not finite."""
    import torch

    error = ((found.float() - expected.float()).abs().max() / expected.float().abs().max()).item()
    if not error <= tolerance or not torch.isfinite(found.float()).all():
        raise WrongResultError(f"{what}: wrong by {error:.3g} of the largest value; nothing is timed")
    return error


def exact(run: Callable[[], Any], result: Any, expected: Any, **facts: Any) -> Contender:
    """A contender, after one launch into an emptied result that must be equal to what is expected."""
    import torch

    result.zero_()
    run()
    torch.cuda.synchronize()
    if not bool((result == expected).all()):
        raise WrongResultError(f"{facts}: wrong; nothing is timed")
    return contender(run, **facts)


def fastest(
    kernel: str,
    runs: Mapping[Any, Callable[[], Any]],
    results: Sequence[tuple[Any, Any]],
    tolerance: float,
    **facts: Any,
) -> Contender:
    """The fastest of some configurations, after one launch that must be right.

    `results` are pairs of what the launch writes, emptied before it, and what that must be.
    """
    config = best(runs) if CONFIGURED is None else _key(runs, CONFIGURED(kernel=kernel, **facts))
    for found, _ in results:
        found.zero_()
    runs[config]()
    error = max(require_close(found, expected, tolerance, f"{kernel} {facts}") for found, expected in results)
    return contender(runs[config], kernel=kernel, config=config, error=error, **facts)


CONFIGURED: Callable[..., Any] | None = None  # the configuration of a contender by its facts, where it is known already


def _key(runs: Mapping[Any, Callable[[], Any]], config: Any) -> Any:
    """The key that a row of results calls `config`: JSON has lists for tuples."""
    return next(key for key in runs if json.loads(json.dumps(key)) == config)


Timed = Callable[..., Sequence[Contender]]  # the folder of the artifacts and a case, to what is compared in that case


def prepare(folder: Path, cases: Sequence[Case], timed: Timed) -> None:
    """Run every case once in as many processes as there are cores, for what Triton and CuPy keep on disk."""
    start = time.perf_counter()
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=spawning) as pool:
        for case, trouble in zip(cases, pool.map(_prepared, repeat(folder), repeat(timed), cases), strict=True):
            if trouble:
                print(f"{' '.join(words_of(case))}: {trouble}", file=sys.stderr)
    print(f"{len(cases)} cases prepared in {time.perf_counter() - start:.0f} s")


PREPARING = False


def _prepared(folder: Path, timed: Timed, case: Case) -> str | None:
    global PREPARING
    PREPARING = True
    try:
        for entry in timed(folder, *case):
            entry.run()
    except Exception as error:  # `time` says it again, and fails
        return f"{type(error).__name__}: {error}"
    return None


def time_cases(
    name: str, folder: Path, cases: Sequence[Case], timed: Timed, protocol: Protocol = Protocol(), **facts: Any
) -> int:
    """Time every case and keep the rows as they come; 1 where a case was wrong or broke. `facts` are kept too."""
    global SEARCHING_MS
    SEARCHING_MS = protocol.patience_ms / 2
    about = {**versions(), **facts, "protocol": asdict(protocol), "warm_up": WARM_UP, "repetitions": REPETITIONS}
    path = results_path(about["device"], name)
    rows, failed = rows_of_others(path, about, cases), 0
    for case in cases:
        called = " ".join(words_of(case))
        try:
            found = [{"case": words_of(case), **row} for row in measured(timed(folder, *case), protocol)]
        except Exception as error:  # the other cases still count
            print(f"{called}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            failed += 1
            continue
        rows += found
        times = ", ".join(f"{row['kernel']} {row['ms']:.4f}" for row in found)
        print(f"{called}: {times}", flush=True)
        save(name, {**about, "rows": rows}, path)  # the clocks right after work, not at rest
    print(f"{path}: {len(rows)} rows, {failed} cases failed")
    return 1 if failed else 0


def versions() -> dict[str, str]:
    """The device, and the versions of the libraries that are there."""
    found = {"device": device_name()}
    for name in ("torch", "triton"):
        with contextlib.suppress(ImportError):
            found[name] = importlib.import_module(name).__version__
    return found


def device_name() -> str:
    """The name of the GPU, by PyTorch or CuPy."""
    try:
        import torch
    except ImportError:
        import cupy

        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    return str(torch.cuda.get_device_name())


def save(name: str, found: Mapping[str, Any], path: Path | None = None) -> Path:
    """Keep results under the name of their run, with the date and the clocks."""
    path = path or results_path(found["device"], name)
    about = {"run": name, "date": time.strftime("%Y-%m-%d"), "clocks": clocks()}
    path.write_text(json.dumps({**about, **found}, indent=1) + "\n")
    return path


def rows_of_others(path: Path, circumstances: Mapping[str, Any], cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The rows of today's results that these cases leave as they are; none where the circumstances were others."""
    earlier = json.loads(path.read_text()) if path.is_file() else {}
    if any(earlier.get(key) != value for key, value in circumstances.items()):
        return []
    chosen = [words_of(case) for case in cases]
    return [row for row in earlier["rows"] if row.get("case") not in (None, *chosen)]


def results_path(device: str, name: str) -> Path:
    """Where results go: $OUT, or the folder of the device with today's date; the folder is there."""
    if "OUT" in os.environ:
        path = Path(os.environ["OUT"]) / f"{name}.json"
    else:
        path = BENCH / "results" / device.replace(" ", "-") / f"{time.strftime('%Y-%m-%d')}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def clocks() -> list[str]:
    """What nvidia-smi says of clocks, power and driver; nothing where it is not."""
    if shutil.which("nvidia-smi") is None:
        return []
    asked = "clocks.sm,clocks.mem,clocks.max.sm,power.limit,driver_version"
    command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def descriptors_need_memory() -> None:
    """Descriptors made in a kernel live in memory that Triton requests from the host."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
