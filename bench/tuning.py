"""Tuning measured on a GPU: races of real candidates at sizes that nothing was fitted to, against measuring them all.

    python bench/tuning.py render [WORD ..]    the candidates of `tuning_spaces` at these sizes, where the compiler is
    python bench/tuning.py time [WORD ..]      on the GPU machine: a race of each case, then all candidates in full
    python bench/tuning.py table               the table of docs/how-to/tuning-measuring.md

`time` needs NumPy, torch and lego_mlir without its compiler. Candidates that hang, store outside memory and compute
nothing are added to the first case. Each row says what the race chose, how long it took, and how much slower its choice
is than the fastest when all candidates are measured with equal repetitions.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time as clock
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import harness
import mlir_kernels
import numpy as np
import runner
import tuning_spaces

NAME = "tuning"
CASES: list[harness.Case] = [
    *(("transpose", size) for size in ((1531, 2047), (4096, 1000), (8192, 6144))),
    *(("matmul", size) for size in ((1536, 1536, 1536), (2560, 2560, 2560), (3000, 2000, 1000), (6144, 640, 2048),
                                    (96, 8192, 4096), (1280, 1280, 8192), (2048, 3072, 768), (5000, 5000, 640))),
]  # fmt: skip
TOLERANCE, FULL = 0.01, 100  # of the largest value of a product; repetitions of each candidate when all are measured
LOOPING = """.version 7.0
.target sm_80
.address_size 64
.visible .entry {entry}({parameters}) {{
 .reg .u64 %a;
{body}
}}
"""
FAILING = {
    "hangs": "again:\n bra.uni again;", "stores outside": " mov.u64 %a, 8;\n st.global.u64 [%a], %a;\n ret;",
    "computes nothing": " ret;",
}  # fmt: skip


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    index = [row for kind, size in cases for row in tuning_spaces.rendered(folder, kind, size)]
    (folder / "index.json").write_text(json.dumps(index, indent=1))


def data(kind: str, size: tuple[int, ...], entry: str, names: list[str]) -> dict[str, Any]:
    """Memory before a launch and what it must be after it, by the names of `lego_mlir.runtime.data`."""
    drawn = np.random.default_rng(0)
    if kind == "matmul":
        import torch

        m, n, k = size
        given = [drawn.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n))]
        after = np.asarray(
            (torch.from_numpy(given[0]).cuda().float() @ torch.from_numpy(given[1]).cuda().float()).cpu()
        )
        allowed, empty = TOLERANCE * np.abs(after).max(), np.zeros(m * n, np.float16)
    else:
        given = [drawn.standard_normal(size, np.float32)]
        after, allowed, empty = given[0].T, 0.0, np.zeros(math.prod(size), np.float32)
    arrays = {f"{entry}/{name}": x.reshape(-1) for name, x in zip(names, [*given, empty], strict=True)}
    result = f"{entry}/{names[-1]}"
    expected = after.astype(np.float64).reshape(-1)
    return {**arrays, f"{result}/expected": expected, f"{result}/allowed": np.array([allowed])}


def trials(kind: str, size: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """The trial of each candidate by its name; the data of the check are the same for all."""
    from lego_mlir.tuning.gpu_trials import GpuTrial

    index = json.loads(harness.rendered(BENCHMARK.folder / "index.json").read_text())
    found, paths = {}, {}
    for row in index:
        if (row["kind"], tuple(row["sizes"])) != (kind, size):
            continue
        path = harness.rendered(BENCHMARK.folder / f"{row['name']}.cubin")
        manifest = json.loads(path.with_suffix(".json").read_text())
        (kernel,) = manifest["kernels"]
        if kernel["entry"] not in paths:
            paths[kernel["entry"]] = folder / f"{len(paths)}.npz"
            names = [argument["name"] for argument in kernel["arguments"]]
            np.savez(paths[kernel["entry"]], **data(kind, size, kernel["entry"], names))
        found[row["name"]] = GpuTrial(path.read_bytes(), manifest, (paths[kernel["entry"]],), {})
    return found


def failing(trial: Any) -> dict[str, Any]:
    """Trials that fail in each way, in place of a right kernel."""
    (kernel,) = trial.described["kernels"]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(kernel["arguments"])))
    return {
        name: replace(trial, code=LOOPING.format(entry=kernel["entry"], parameters=parameters, body=body).encode(),
                      described={**trial.described, "target": "sm_80"})
        for name, body in FAILING.items()
    }  # fmt: skip


def time(words: Sequence[str]) -> None:
    report: dict[str, Any] = {"device": harness.device_name(), "cases": []}
    for number, (kind, size) in enumerate(BENCHMARK.chosen(words)):
        with tempfile.TemporaryDirectory() as folder:
            row = raced(kind, size, Path(folder), with_failing=number == 0)
        report["cases"].append(row)
        harness.save(NAME, report)
        print(row["case"], row["choice"], f"{row['race_seconds']:.1f} s", f"regret {row['regret']:.4f}", flush=True)


def raced(kind: str, size: tuple[int, ...], folder: Path, with_failing: bool) -> dict[str, Any]:
    """A race, and all of its candidates measured in full."""
    from lego_mlir.tuning.halving import RaceRules, race
    from lego_mlir.tuning.isolated import IsolatedBench

    made = trials(kind, size, folder)
    entered = {**made, **(failing(next(iter(made.values()))) if with_failing else {})}
    began = clock.perf_counter()
    results = race(IsolatedBench(live=16, patience=30), list(entered.values()))
    took = clock.perf_counter() - began
    began = clock.perf_counter()
    full = race(IsolatedBench(live=24, patience=60), list(made.values()), RaceRules(first=FULL, rungs=1))
    full_took = clock.perf_counter() - began
    names = list(entered)
    times = {name: median(result.samples) for name, result in zip(made, full, strict=True) if result.samples}
    choice = next((names[result.number] for result in results if result.fate == "best"), None)
    return {
        "case": "-".join(harness.words_of((kind, size))), "candidates": len(made), "choice": choice,
        "race_seconds": took, "full_seconds": full_took, "samples": sum(len(result.samples) for result in results),
        "regret": times[choice] / min(times.values()) - 1 if choice in times else math.nan,
        "race": [_row(names[result.number], result) for result in results],
        "full": [_row(name, result) for name, result in zip(made, full, strict=True)],
    }  # fmt: skip


def _row(name: str, result: Any) -> dict[str, Any]:
    """The median and the quartiles of a candidate in microseconds, and what became of it."""
    samples, us = result.samples, None
    if samples:
        us = [round(1e6 * q, 3) for q in (median(samples), *np.quantile(samples, (0.25, 0.75)))]
    return {"name": name, "fate": result.fate, "reason": result.reason, "us": us, "samples": len(samples)}


def table() -> None:
    """The races of the newest results."""
    results, lines = mlir_kernels.newest(NAME), []
    for case in results["cases"]:
        chosen = next(row for row in case["race"] if row["name"] == case["choice"])
        failed = " \\*" * (len(case["race"]) > case["candidates"])
        lines.append([
            case["case"] + failed, str(case["candidates"]), f"{case['race_seconds']:.1f}", str(case["samples"]),
            f"{chosen['us'][0]:.1f}", f"{case['regret']:.1%}",
        ])  # fmt: skip
    columns = "case|candidates|race, s|launches timed|chosen, us|slower than the best of a full measurement"
    text = (
        f"Races on {results['device']}, at sizes that nothing was fitted to. The full measurement, in new processes, "
        f"times every\ncandidate {FULL} times. A case with \\* has three more candidates, which hang, store outside "
        "memory and compute nothing:\ntheir fates are `timed out`, `crashed` and `wrong`, and the race waits 30 s for "
        f"the first.\n\n{mlir_kernels.table(columns, lines)}\n"
    )
    mlir_kernels.put_into("how-to/tuning-measuring.md", "races", text)


BENCHMARK = runner.Benchmark(NAME, CASES, render=render, table=table, steps={"time": time})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
