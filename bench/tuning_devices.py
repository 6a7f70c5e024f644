"""Tuning on one and on two GPUs of a machine: the same packed candidates, the time of each, and the same choices.

    python bench/tuning_devices.py pack        PTX into artifacts/tuning_devices, where the compiler is
    python bench/tuning_devices.py time        on a machine with two GPUs: all sizes on one, and on two
    python bench/tuning_devices.py time 3 4    the same with every third size, and 4 processes a GPU in place of 6
    python bench/tuning_devices.py table       the table of docs/how-to/tuning-measuring.md

Transposes of 40 sizes, whose candidates race in isolated processes as `lego-mlir tune FOLDER --gpus 2` runs them.
`time` needs NumPy and lego_mlir without its compiler. Results come to $OUT/tuning_devices.json, or bench/results.
"""

from __future__ import annotations

import json
import os
import sys
import time as clock
from pathlib import Path
from statistics import mean
from typing import Any

import harness
import mlir_kernels

NAME, TARGET = "tuning_devices", "sm_90"
FOLDER = harness.ARTIFACTS / NAME
SIZES = tuple((1000 + 69 * i, 900 + 93 * (17 * i % 40)) for i in range(40))
DEVICES = (1, 2)
"""How many GPUs are used, in this order: what a machine does once, it has done in the first run, which is not timed."""


def tunable() -> Any:
    """Transposes through shared memory, for any size."""
    import lego_mlir as lego
    from lego_mlir import Row, f32, gallery

    @lego.tune(
        space={"tile": [16, 32, 64], "down": [4, 8, 16], "stage": [gallery.padded, gallery.xor_swizzle]},
        where=["tile % down == 0", "tile * down >= 128"],
        key=["M", "N"],
    )
    def transposes(tile: int, down: int, stage: Any) -> Any:
        M, N = lego.size("M"), lego.size("N")
        tiles = (lego.cdiv(M, tile), lego.cdiv(N, tile))
        X, Y = lego.Tensor(f32, Row(M, N)), lego.Tensor(f32, Row(N, M))

        @lego.kernel(grid=tiles[::-1], block=(tile, down))
        def transpose(src: X, dst: Y) -> None:  # type: ignore[valid-type]
            j, i, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
            shared = lego.shared(f32, stage(tile, tile))
            source, result = src.tile_by(tiles, [tile, tile]), dst.tile_by(tiles[::-1], [tile, tile])
            for r in lego.unroll(0, tile, down):
                with lego.when(source.layout.mask(i, j, ty + r, tx)):
                    shared[ty + r, tx] = source[i, j, ty + r, tx]
            lego.barrier()
            for r in lego.unroll(0, tile, down):
                with lego.when(result.layout.mask(j, i, ty + r, tx)):
                    result[j, i, ty + r, tx] = shared[tx, ty + r]

        @transpose.reference
        def expected(src: Any) -> Any:
            return src.T

        return transpose

    return transposes


def pack() -> None:
    from lego_mlir.tuning import packed
    from lego_mlir.tuning.gpu_workbench import Preparing, toolchain
    from lego_mlir.tuning.sized import SizedProblem

    made = tunable()
    problems = [SizedProblem(made.prune({"M": m, "N": n}).kept, {"M": m, "N": n}) for m, n in SIZES]
    found = packed.write(FOLDER, made, problems, TARGET, toolchain(TARGET), Preparing(TARGET, small=True).trial)
    rows = [row for job in found.rows for row in job["candidates"]]
    failed = [row["failure"] for row in rows if "failure" in row]
    print(f"{len(found.rows)} sizes, {len(rows)} candidates in {FOLDER}; {len(failed)} failed {failed[:1]}")


def time(every: int = 1, live: int = 6) -> None:
    """Every n-th size on each number of devices, `live` processes a device; exit code 1 where a candidate fails."""
    from lego_mlir.runtime.driver import driver
    from lego_mlir.tuning import packed
    from lego_mlir.tuning.device_launch import identity
    from lego_mlir.tuning.several_devices import halve_on_devices

    found, runs = packed.read(FOLDER), []
    device = identity(driver())
    out = os.environ.get("OUT")
    name = NAME if (every, live) == (1, 6) else f"{NAME}-{every}-{live}"
    path = Path(out) / f"{name}.json" if out else harness.todays_results(device.name, name)
    problems = found.problems[::every]
    first = [found.workbench(number, live) for number in range(max(DEVICES))]
    halve_on_devices(first, found.tunable, problems[: len(first)])
    for count in DEVICES:
        workbenches = [found.workbench(number, live) for number in range(count)]
        arrived: dict[str, list[float]] = {}
        began = clock.perf_counter()

        def note(timing: Any, arrived: dict[str, list[float]] = arrived, began: float = began) -> None:
            arrived.setdefault(str(timing.sizes), []).append(clock.perf_counter() - began)

        timings = halve_on_devices(workbenches, found.tunable, problems, on_timing=note)
        seconds = clock.perf_counter() - began
        rows = [{**_row(timed), "arrived": _ends(arrived[str(timed[0].sizes)])} for timed in timings]
        runs.append({"gpus": count, "seconds": seconds, "sizes": rows})
        print(f"{count} GPUs: {seconds:.1f} s", flush=True)
        report = {"device": device.name, "candidates": sum(len(p.candidates) for p in problems), "runs": runs}
        path.write_text(json.dumps({**report, "clocks": harness.clocks()}, indent=1) + "\n")
    failed = sum(len(row["failed"]) for run in runs for row in run["sizes"])
    one, several = (_seconds(runs, count) for count in (1, max(DEVICES)))
    print(f"{path}: {several / one:.3f} of the time, {failed} failures")
    sys.exit(1 if failed else 0)


def _ends(seconds: list[float]) -> list[float]:
    """When the first and the last timing of a size arrived, in seconds since the start of the run."""
    return [round(min(seconds), 3), round(max(seconds), 3)]


def _row(timings: list[Any]) -> dict[str, Any]:
    """The times of the candidates of a size, in microseconds."""
    times = {t.configuration.key: round(t.median, 3) for t in timings if not t.failure}
    return {
        "sizes": dict(timings[0].sizes), "best": min(times, key=times.__getitem__), "us": times,
        "failed": {t.configuration.key: t.failure for t in timings if t.failure},
    }  # fmt: skip


def _seconds(runs: list[dict[str, Any]], count: int) -> float:
    """The mean time of the runs on that many GPUs."""
    return mean(run["seconds"] for run in runs if run["gpus"] == count)


def table() -> None:
    results = mlir_kernels.latest(NAME)
    if results is None:
        sys.exit(f"no results of {NAME}; run the step `time` on a machine with two GPUs")
    by_count = {run["gpus"]: run for run in results["runs"]}
    one, several = by_count[1], by_count[max(by_count)]
    took = [_seconds(results["runs"], count) for count in (1, several["gpus"])]
    ratios = [
        here["us"][there["best"]] / here["us"][here["best"]]
        for here, there in zip(one["sizes"], several["sizes"], strict=True)
    ]
    text = (
        f"{len(one['sizes'])} sizes of transposes with {results['candidates']} candidates on {results['device']}: "
        f"{took[0]:.1f} s on one GPU, {took[1]:.1f} s on {several['gpus']}, "
        f"{took[1] / took[0]:.2f} of the time.\nThe choices with several GPUs are at most "
        f"{max(ratios) - 1:.1%} slower than those of one GPU, by the times taken on one.\n"
    )
    mlir_kernels.put_into("how-to/tuning-measuring.md", "devices", text)


if __name__ == "__main__":
    steps = {"pack": pack, "time": time, "table": table}
    if sys.argv[1:2] and sys.argv[1] in steps:
        steps[sys.argv[1]](*map(int, sys.argv[2:]))
    else:
        sys.exit(f"give a step: {', '.join(steps)}")
