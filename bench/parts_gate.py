"""Products whose K is in parts: the text with schedules next to the special pass for it.

    python bench/parts_gate.py render [WORD ..]     the kernels as cubins, on all cores, no GPU
    python bench/parts_gate.py time [WORD ..]       on the GPU machine: correctness, then times in turns
    python bench/parts_gate.py table                the table in docs/results/scheduled-gate.md

A word is a type, layouts, or a size; of several sizes each is taken. The sizes are products of language models with few
rows, and squares with long sums, of which those are cases whose K `warpgroup_choices` divides. Both kernels of a case
have the same tile: `general` goes through `kernel.schedule(..)` (`kernels/warpgroup_parts.py`), `special` through
matmul_sm90.mlir. Where the chosen tile has clusters that share copies as well, `general` has the quickest by the model
without. A contender runs TURN_S seconds at a time, in CUDA graphs, in an order drawn anew each round.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from math import prod
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import hopper
import mlir_kernels

NAME, PAGE = "parts_gate", "results/scheduled-gate.md"
Size = tuple[int, int, int]
Case = tuple[Size, str, str]
WEIGHTS = ((4096, 4096), (4096, 14336), (1024, 8192), (2560, 8192), (1536, 12288))
"""N and K."""
SQUARES = ((256, 4096), (256, 8192), (384, 4096), (384, 16384), (512, 8192), (640, 16384), (768, 16384), (800, 16384))
"""M = N, and K."""
SIZES: tuple[Size, ...] = (
    *((m, *weights) for m in (1, 4, 16, 64) for weights in WEIGHTS), *((n, n, k) for n, k in SQUARES),
)  # fmt: skip
WAYS = (("f16", "NT"), ("bf16", "NN"))
KINDS = ("general", "special")
TURN_S, ROUNDS = 0.06, 7
GATE, WORST = 1.02, 1.05


def cases() -> Iterator[Case]:
    """The cases that have all words of the command line, and one of its sizes if it has some."""
    known = {"x".join(map(str, size)) for size in SIZES}
    words = set(sys.argv[2:])
    for size, (dtype, layouts) in product(SIZES, WAYS):
        name = "x".join(map(str, size))
        if words - known <= {dtype, layouts} and (name in words or not words & known):
            yield size, layouts, dtype


def tile_of(case: Case) -> Any:
    """The tile of a case's kernels; None where whole tiles are chosen."""
    from lego_mlir.kernels import warpgroup_choices

    chosen = warpgroup_choices.choose(*case[0], hopper.SMS, case[1])
    return chosen if chosen.parts * chosen.splits > 1 else None


def _kept(folder: str, case: Case, kind: str) -> dict[str, Any]:
    from lego_mlir.kernels.scheduled_products import ScheduledProduct
    from lego_mlir.toolchain import compile_kernel

    (size, layouts, dtype), tile = case, tile_of(case)
    if kind == "special":
        made = hopper.compiled(size, layouts, dtype, tile)
    else:
        kernel = ScheduledProduct(tile, layouts, dtype, dtype).kernel(size, hopper.SMS)
        made = compile_kernel(kernel, target=hopper.TARGET, emit="cubin")
    path = Path(folder) / label(case, kind)
    path.with_suffix(".cubin").write_bytes(made.bytes)
    path.with_suffix(".json").write_text(json.dumps(made.manifest))
    workspace = [(argument.dtype, prod(argument.shape)) for argument in made.kernels[0].arguments[3:]]
    return {"tile": str(tile), "stages": tile.stages, "workspace": workspace}


def label(case: Case, kind: str) -> str:
    return "-".join(["x".join(map(str, case[0])), *case[1:], kind])


def render() -> int:
    folder, failed = harness.ARTIFACTS / NAME, 0
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "index.json"
    index = json.loads(listed.read_text()) if listed.is_file() else {}
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        tasks = {
            pool.submit(_kept, str(folder), case, kind): label(case, kind)
            for case in cases() if tile_of(case) for kind in KINDS
        }  # fmt: skip
        for task in as_completed(tasks):
            try:
                index[tasks[task]] = task.result()
            except Exception as error:  # the others still count
                print(f"{tasks[task]}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
                failed += 1
    listed.write_text(json.dumps(index, indent=1))
    print(f"{len(index)} kernels in {folder}, {failed} failed")
    return 1 if failed else 0


def time() -> int:
    import torch

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "turn_s": TURN_S, "rows": [],
    }  # fmt: skip
    out, wrong = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json", 0
    for case in cases():
        if label(case, "general") not in index:
            continue
        try:
            results["rows"] += timed(folder, index, case)
        except harness.WrongResultError as error:
            print(error, file=sys.stderr, flush=True)
            wrong += 1
        results["clocks"] = harness.clocks()
        out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


def timed(folder: Path, index: dict[str, Any], case: Case) -> list[dict[str, Any]]:
    """Each kernel runs twice before it is timed: it must leave its counters as it found them."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    (m, n, k), layouts, name = case
    types = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32}
    torch.manual_seed(0)
    stored = [
        torch.randn(dims if letter == "N" else dims[::-1], device="cuda", dtype=types[name])
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    ]
    a, b = (x if letter == "N" else x.t() for letter, x in zip(layouts, stored, strict=True))
    expected, c = torch.mm(a, b), torch.empty((m, n), device="cuda", dtype=types[name])
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    for kind in KINDS:
        (kernel,) = load_kernels(folder / f"{label(case, kind)}.cubin").values()
        workspace = [
            torch.zeros(count, device="cuda", dtype=types[dtype])
            for dtype, count in index[label(case, kind)]["workspace"]
        ]
        for _ in range(2):
            c.fill_(float("nan"))
            kernel(a, b, c, *workspace)
            harness.require_close(c, expected, hopper.TOLERANCE, label(case, kind))
        runs[kind] = kernel.prepare(a, b, c, *workspace)
    times = hopper.in_turns(runs, TURN_S, ROUNDS)
    rows = [
        {"size": case[0], "layouts": layouts, "dtype": name, "kernel": kind, "ms": median(found), "rounds": found,
         **index.get(label(case, kind), {})}
        for kind, found in times.items()
    ]  # fmt: skip
    print(label(case, ""), " ".join(f"{row['kernel']} {1000 * row['ms']:.2f}" for row in rows), flush=True)
    return rows


def table() -> int:
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    mlir_kernels.put_into(PAGE, NAME, mlir_kernels.circumstances(NAME, results, "torch") + "\n\n", gate(results))
    return 0


def gate(results: dict[str, Any]) -> mlir_kernels.Table:
    """Each case's time in parts by schedules, and the ratios of the others."""
    found: dict[Case, dict[str, Any]] = {}
    for row in results["rows"]:
        found.setdefault((tuple(row["size"]), row["layouts"], row["dtype"]), {})[row["kernel"]] = row
    cells, ratios = [], {kind: [] for kind in ("cuBLAS", "special")}  # type: ignore[var-annotated]
    for case, rows in found.items():
        ours = rows["general"]["ms"]
        for kind in ratios:
            ratios[kind].append(rows[kind]["ms"] / ours)
        cells.append([
            " x ".join(map(str, case[0])), *case[1:], f"{1000 * ours:.2f}",
            *(f"{ratios[kind][-1]:.3f}" for kind in ratios), rows["general"]["tile"],
        ])  # fmt: skip
    special = ratios["special"]
    means = [f"{geometric_mean(ratios[kind]):.3f}" for kind in ratios]
    slow = f"{sum(ratio * GATE < 1 for ratio in special)} slower by 2 %, {sum(r * WORST < 1 for r in special)} by 5 %"
    cells.append(["geometric mean", "", "", "", *means, slow])
    return mlir_kernels.table(
        "M x N x K|layouts|type|general us|cuBLAS / general|special / general|tile|of special", cells
    )


if __name__ == "__main__":
    sys.exit({"render": render, "time": time, "table": table}[sys.argv[1]]())
