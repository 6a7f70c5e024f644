"""Tuning measured on a GPU: races of real candidates at sizes that nothing was fitted to, against measuring them all.

    python bench/tuning.py render           the candidates as cubins into artifacts/tuning, where the compiler is
    python bench/tuning.py time [WORD ..]   on the GPU machine: a race of each case, then all candidates in full
    python bench/tuning.py table            the table of docs/how-to/tuning-measuring.md

`time` needs NumPy, torch and lego_mlir without its compiler. A case is a kernel at one size; words choose among them.
Candidates that crash, hang or are wrong are added to the first case. Each row says what the race chose, how long it
took, and how much slower its choice is than the fastest when all candidates are measured with equal repetitions.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time as clock
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np

NAME, TARGET, SCRIPT = "tuning", "sm_90", "matmul_sm80.mlir"
FOLDER = harness.ARTIFACTS / NAME
MATMULS = (
    (1536, 1536, 1536), (2560, 2560, 2560), (3000, 2000, 1000), (6144, 640, 2048), (96, 8192, 4096),
    (1280, 1280, 8192), (2048, 3072, 768), (5000, 5000, 640),
)  # fmt: skip
TRANSPOSES = ((1531, 2047), (4096, 1000), (8192, 6144))
SOFTMAXES = ((16411, 256), (8200, 1024))
TOLERANCE = 0.01  # of the largest value of a product of f16
SMS, SHARED = 132, 227 * 1024
FULL = 100  # repetitions of each candidate when all are measured
LOOPING = """.version 7.0
.target sm_80
.address_size 64
.visible .entry {entry}({parameters}) {{
{body}
}}
"""
HANG, STORE_OUTSIDE = "again:\n bra.uni again;", " mov.u64 %a, 8;\n st.global.u64 [%a], %a;\n ret;"


def words_of(case: tuple[str, tuple[int, ...]]) -> str:
    return f"{case[0]}-{'x'.join(map(str, case[1]))}"


def cases() -> list[tuple[str, tuple[int, ...]]]:
    return [
        *(("transpose", size) for size in TRANSPOSES), *(("softmax", size) for size in SOFTMAXES),
        *(("matmul", size) for size in MATMULS),
    ]  # fmt: skip


# -- candidates, where the compiler is


def candidates(case: tuple[str, tuple[int, ...]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The configurations of a case, by a name for each."""
    kind, size = case
    if kind == "matmul":
        from lego_mlir.kernels.choices import CANDIDATES, fitting

        fitted = dict.fromkeys(fitting(choice, size[2], SHARED, 2) for choice in CANDIDATES)
        for choice in fitted:
            t = choice.tiling
            name = f"{t.m}x{t.n}x{t.k}-{t.warps[0]}x{t.warps[1]}w-{choice.stages}s-{choice.resident}r"
            yield name, choice.to_data()
    elif kind == "transpose":
        for variant in ("naive", "padded", "swizzled", "vectorised"):
            for tile in ((32, 32), (64, 64), (64, 32), (32, 64)):
                for threads in (128, 256):
                    name = f"{variant}-{tile[0]}x{tile[1]}-{threads}"
                    yield name, {"variant": variant, "tile": tile, "threads": threads}
    else:
        for vector in (1, 4):
            for lanes in (1, 2, 4):
                for warps in (1, 2, 4, 8):
                    yield f"{vector}-{lanes}-{warps}", {"vector": vector, "lanes": lanes, "warps": warps}


def built(case: tuple[str, tuple[int, ...]], given: dict[str, Any]) -> tuple[Any, str | None, dict[str, int]]:
    """The kernel of a configuration, its transform script and the script's parameters."""
    import lego_mlir as lego
    from lego_mlir import Row, f2, f32
    from lego_mlir.kernels import matmul, transpose
    from lego_mlir.kernels.choices import choice_from
    from lego_mlir.tracing.dtypes import dtype_named

    kind, size = case
    if kind == "matmul":
        choice, f16 = choice_from(given), dtype_named("f16")
        blocks = choice.blocks(SMS)
        made = matmul.build(
            *size, dtype=f16, result=f16, tiling=choice.tiling, order=choice.order, blocks=blocks
        )  # fmt: skip
        return made, SCRIPT, {"stages": choice.stages}
    if kind == "transpose":
        variant = given["variant"]
        tile = {"tile": tuple(given["tile"]), "threads": given["threads"]}
        return transpose.build(variant, *size, dtype_named("f32"), **tile), None, {}
    (m, n), rows = size, given["lanes"] * given["warps"]
    lanes = (given["lanes"], 32 // given["lanes"])
    layout = f2.Blocked((1, given["vector"]), lanes, (given["warps"], 1), order=(1, 0)).layout((rows, n))

    @lego.kernel(grid=lego.cdiv(m, rows), block=32 * given["warps"])
    def softmax(x: lego.Tensor(f32, Row(m, n)), y: lego.Tensor(f32, Row(m, n))):
        at = (rows * lego.block_id[0], 0)
        tile = lego.load(x, layout, at=at)
        e = lego.exp(tile - tile.max(axis=1)[:, None])
        (e / e.sum(axis=1)[:, None]).store(y, at=at)

    return softmax, None, {}


def compiled(task: tuple[tuple[str, tuple[int, ...]], str, dict[str, Any]]) -> dict[str, Any] | str:
    """A row of the index, its code written; or why the configuration has no kernel."""
    from lego_mlir.errors import LegoError
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    case, name, given = task
    try:
        kernel, script, parameters = built(case, given)
        made = compile_kernel(
            kernel, transform=script, parameters=parameters, target=TARGET, emit="cubin", cache=Cache(default_folder())
        )
    except LegoError as error:
        return f"{words_of(case)} {name}: {str(error).splitlines()[0][:150]}"
    path = FOLDER / f"{words_of(case)}-{name}.cubin"
    path.write_bytes(made.bytes)
    path.with_suffix(".json").write_text(json.dumps(made.manifest))
    return {"case": words_of(case), "name": name, "configuration": given, "file": path.name}


def render(words: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    tasks = [(case, name, given) for case in cases() for name, given in candidates(case)]
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(compiled, tasks))
    for row in rows:
        if isinstance(row, str):
            print(f"left out {row}")
    index = [row for row in rows if not isinstance(row, str)]
    (FOLDER / "index.json").write_text(json.dumps(index, indent=1))
    print(f"{len(index)} kernels in {FOLDER}")


# -- on the GPU machine


def data(case: tuple[str, tuple[int, ...]], entry: str, names: list[str]) -> dict[str, Any]:
    """Memory before a launch and what it must be after it, by the names of `lego_mlir.runtime.data`."""
    kind, size = case
    drawn = np.random.default_rng(0)
    if kind == "matmul":
        import torch

        m, n, k = size
        given = [drawn.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n))]
        product = torch.from_numpy(given[0]).cuda().float() @ torch.from_numpy(given[1]).cuda().float()
        after = product.cpu().numpy().astype(np.float64)
        allowed, empty = TOLERANCE * np.abs(after).max(), np.zeros(m * n, np.float16)
    elif kind == "transpose":
        given = [drawn.standard_normal(size, np.float32)]
        after, allowed, empty = given[0].T, 0.0, np.zeros(math.prod(size), np.float32)
    else:
        given = [drawn.standard_normal(size, np.float32)]
        e = np.exp(given[0].astype(np.float64) - given[0].max(axis=1, keepdims=True))
        after, empty = e / e.sum(axis=1, keepdims=True), np.zeros(math.prod(size), np.float32)
        allowed = 1e-5 * after.max()
    arrays = {f"{entry}/{name}": x.reshape(-1) for name, x in zip(names, [*given, empty], strict=True)}
    result = f"{entry}/{names[-1]}"
    return {**arrays, f"{result}/expected": after.reshape(-1), f"{result}/allowed": np.array([allowed])}


def trials(case: tuple[str, tuple[int, ...]], folder: Path) -> tuple[list[dict[str, Any]], list[Any]]:
    """The candidates of a case with their trials; the data of the check are the same for all."""
    from lego_mlir.tuning.gpu_trials import GpuTrial

    rows = [row for row in json.loads((FOLDER / "index.json").read_text()) if row["case"] == words_of(case)]
    made, paths = [], {}
    for row in rows:
        path = harness.rendered(FOLDER / row["file"])
        manifest = json.loads(path.with_suffix(".json").read_text())
        (kernel,) = manifest["kernels"]
        entry = kernel["entry"]
        if entry not in paths:
            paths[entry] = folder / f"{words_of(case)}-{len(paths)}.npz"
            np.savez(paths[entry], **data(case, entry, [a["name"] for a in kernel["arguments"]]))
        made.append(GpuTrial(path.read_bytes(), manifest, (paths[entry],), {}))
    return rows, made


def failing(trial: Any) -> dict[str, Any]:
    """Trials that hang, store outside memory, and give a wrong result, in place of a right kernel."""
    (kernel,) = trial.described["kernels"]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(kernel["arguments"])))
    found = {}
    for name, body in (("hangs", HANG), ("stores outside", STORE_OUTSIDE), ("computes nothing", " ret;")):
        text = LOOPING.format(entry=kernel["entry"], parameters=parameters, body=f" .reg .u64 %a;\n{body}")
        found[name] = replace(trial, code=text.encode(), described={**trial.described, "target": "sm_80"})
    return found


def time(words: list[str], out: Path | None) -> None:
    from lego_mlir.runtime.driver import driver
    from lego_mlir.tuning.device_launch import identity

    device = identity(driver())
    path = harness.todays_results(device.name, NAME) if out is None else out / "tuning.json"
    report: dict[str, Any] = {"device": device.name, "multiprocessors": device.multiprocessors, "cases": []}
    chosen = [case for case in cases() if not words or any(word in words_of(case) for word in words)]
    for number, case in enumerate(chosen):
        with tempfile.TemporaryDirectory() as folder:
            row = timed(case, Path(folder), with_failing=number == 0)
        report["cases"].append(row)
        path.write_text(json.dumps({**report, "clocks": harness.clocks()}, indent=1) + "\n")
        print(row["case"], row["choice"], f"{row['race_seconds']:.1f} s", f"regret {row['regret']:.4f}", flush=True)
    print(path)


def timed(case: tuple[str, tuple[int, ...]], folder: Path, with_failing: bool) -> dict[str, Any]:
    """A race, and all of its candidates measured in full."""
    from lego_mlir.tuning.halving import RaceRules, race
    from lego_mlir.tuning.isolated import IsolatedBench

    rows, made = trials(case, folder)
    extra = failing(made[0]) if with_failing else {}
    names, entered = [*(row["name"] for row in rows), *extra], [*made, *extra.values()]
    began = clock.perf_counter()
    results = race(IsolatedBench(live=16, patience=30), entered)
    took = clock.perf_counter() - began
    began = clock.perf_counter()
    full = race(IsolatedBench(live=24, patience=60), made, RaceRules(first=FULL, rungs=1))
    full_took = clock.perf_counter() - began
    times = {row["name"]: median(result.samples) for row, result in zip(rows, full, strict=True) if result.samples}
    choice = next((names[result.number] for result in results if result.fate == "best"), None)
    return {
        "case": words_of(case), "candidates": len(made), "choice": choice, "race_seconds": took,
        "full_seconds": full_took, "samples": sum(len(result.samples) for result in results),
        "regret": times[choice] / min(times.values()) - 1 if choice in times else math.nan,
        "race": [_row(names[result.number], result) for result in results],
        "full": [_row(row["name"], result) for row, result in zip(rows, full, strict=True)],
    }  # fmt: skip


def _row(name: str, result: Any) -> dict[str, Any]:
    samples = result.samples
    return {
        "name": name, "fate": result.fate, "reason": result.reason, "us": _us(samples), "samples": len(samples)
    }  # fmt: skip


def _us(samples: tuple[float, ...]) -> list[float] | None:
    """The median and the quartiles in microseconds."""
    if not samples:
        return None
    return [round(1e6 * q, 3) for q in (median(samples), *np.quantile(samples, (0.25, 0.75)))]


def table() -> None:
    """The races of the newest results."""
    import mlir_kernels

    results, lines = mlir_kernels.latest(NAME), []
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    for case in results["cases"]:
        chosen = next(row for row in case["race"] if row["name"] == case["choice"])
        failing = " \\*" * (len(case["race"]) > case["candidates"])
        lines.append(
            [
                case["case"] + failing, str(case["candidates"]), f"{case['race_seconds']:.1f}", str(case["samples"]),
                f"{chosen['us'][0]:.1f}", f"{case['regret']:.1%}",
            ]
        )  # fmt: skip
    columns = "case|candidates|race, s|launches timed|chosen, us|slower than the best of a full measurement"
    text = (
        f"Races on {results['device']}, at sizes that nothing was fitted to. The full measurement, in new processes, "
        f"times every\ncandidate {FULL} times. A case with \\* has three more candidates, which hang, store outside "
        "memory and compute nothing:\ntheir fates are `timed out`, `crashed` and `wrong`, and the race waits 30 s for "
        f"the first.\n\n{mlir_kernels.table(columns, lines)}\n"
    )
    mlir_kernels.put_into("how-to/tuning-measuring.md", "races", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("render", "time", "table"))
    parser.add_argument("words", nargs="*", help="time only the cases whose name contains one of them")
    parser.add_argument("--out", type=Path, help="a folder for the results (default: bench/results)")
    options = parser.parse_args()
    if options.step == "render":
        render(options.words)
    elif options.step == "table":
        table()
    else:
        time(options.words, options.out)


if __name__ == "__main__":
    main()
