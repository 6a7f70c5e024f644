"""Products by warpgroups (sm_90a) against cuBLAS: squares, and sizes that no tile divides.

    python bench/hopper.py static              registers, shared memory and main loops, no GPU
    python bench/hopper.py render [SIZE ..]    the kernels that lego_mlir.matmul chooses, and other tiles, as cubins
    python bench/hopper.py time [SIZE ..]      on the GPU machine: correctness, then times of the chosen kernels
    python bench/hopper.py study [SIZE ..]     the same for all tiles, in short turns
    python bench/hopper.py quick [SIZE ..]     the chosen kernels in short turns
    python bench/hopper.py table               the tables of docs/results/matmul.md

A size is M or MxNxK, or one of the lists squares, others, random and models. *Sustained*: a contender runs TURN_S
seconds at a time between two events, short launches in CUDA graphs, in an order drawn anew each round: a large GPU is
limited by power, and shorter turns would mix neighbours' power states. Kept is the median of the rounds. *Single*: one
launch after a flush of L2 (`harness.times_ms`), whose events add a few microseconds to all. cuBLAS is timed with
reduced-precision reductions allowed, and without.
`time` needs torch and lego_mlir.runtime, and results come to $OUT/hopper.json, or bench/results.
"""

from __future__ import annotations

import json
import os
import random
import sys
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import mlir_kernels

NAME, PAGE, TARGET = "hopper", "results/matmul.md", "sm_90a"
Size = tuple[int, int, int]
SQUARES: tuple[Size, ...] = tuple((n, n, n) for n in (512, 1024, 2048, 4096, 8192, 16384))
OTHERS: tuple[Size, ...] = (
    (1000, 1048, 520), (776, 1304, 1992), (1144, 1144, 1144), (1528, 1528, 1528), (1992, 2000, 2008),
    (2216, 2216, 2216), (2560, 2560, 2560), (2888, 2888, 2888), (3072, 3072, 3072), (3336, 3336, 3336),
    (3704, 3704, 3704), (4104, 4104, 4104), (4608, 4608, 4608), (5000, 5000, 5000), (5768, 5768, 5768),
    (6144, 6144, 6144), (7048, 7048, 7048), (7680, 7680, 7680), (4096, 11008, 4096), (2048, 4096, 11008),
)  # fmt: skip
RANDOM: tuple[Size, ...] = tuple((8 * n,) * 3 for n in random.Random(17).sample(range(64, 1025), 60))  # type: ignore[misc]
"""Squares between 512 and 8192, drawn once: nothing is fitted to them."""
WEIGHTS = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (5120, 5120), (13824, 5120), (5120, 13824),
           (10240, 8192), (57344, 8192), (8192, 28672), (3584, 3584), (18944, 3584))  # fmt: skip
"""N and K of the products of large language models."""
MODELS: tuple[Size, ...] = tuple((m, *weights) for weights in WEIGHTS for m in (64, 128, 512, 2048, 8192))
CASES = [*product(SQUARES, ("NT", "NN", "TN", "TT"), ("f16",)), *product(SQUARES, ("NT", "NN"), ("bf16",)),
         *product(OTHERS, ("NT", "NN"), ("f16",)), *product((*RANDOM, *MODELS), ("NT",), ("f16",))]  # fmt: skip
LARGE = 2048
Variant = tuple[tuple[int, int], tuple[int, int], int]
ALONE, ALONG_M, ALONG_N = (1, 1), (2, 1), (1, 2)
LARGE_TILES: tuple[Variant, ...] = (
    ((128, 256), ALONE, 16), ((128, 256), ALONG_N, 16), ((128, 256), ALONG_M, 8), ((256, 192), ALONE, 11),
    ((256, 192), ALONG_N, 11), ((256, 192), ALONG_M, 6), ((256, 128), ALONG_N, 8), ((128, 192), ALONG_N, 16),
)  # fmt: skip
SMALL_TILES: tuple[Variant, ...] = tuple(
    (tile, cluster, 16) for tile in ((128, 128), (64, 128), (64, 64)) for cluster in (ALONE, ALONG_N)
)  # fmt: skip
"""Other tiles, clusters and groups, timed for NT and NN in f16 at these sizes."""
STUDIED: tuple[Size, ...] = tuple((n, n, n) for n in (512, 1024, 2048, 2216, 4096, 5000, 8192, 16384))
STATIC = (((128, 256), ALONE), ((128, 256), ALONG_M), ((128, 256), ALONG_N), ((256, 192), ALONE),
          ((256, 192), ALONG_N), ((128, 128), ALONE), ((64, 128), ALONE), ((64, 64), ALONE))  # fmt: skip
SMS = 132
TURN_S, ROUNDS = 0.2, 3
STUDY_TURN_S, STUDY_ROUNDS = 0.06, 2
SINGLE_MS, FEWEST_SINGLE, MOST_SINGLE = 250, 5, 40
GRAPH_LAUNCHES, GRAPH_MS = 50, 5
TOLERANCE = 0.01


def chosen(size: Size, layouts: str) -> Any:
    """The tile that lego_mlir.matmul chooses."""
    from lego_mlir.kernels import warpgroup_choices

    return warpgroup_choices.choose(*size, SMS, layouts)


def compiled(size: Size, layouts: str, dtype: str, tile: Any = None, emit: str = "cubin") -> Any:
    """The kernel for a size: that of lego_mlir.matmul, or one with another `WarpgroupTile`."""
    from lego_mlir.kernels.scheduled_products import ScheduledProduct
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    tile = chosen(size, layouts) if tile is None else tile
    kernel = ScheduledProduct(tile, layouts, dtype, dtype).kernel(size, tile.clusters(SMS))
    return compile_kernel(kernel, target=TARGET, emit=emit, cache=Cache(default_folder()))


def studied(size: Size, layouts: str, dtype: str) -> dict[str, Any]:
    """The kernels that are built for a case, by label: the chosen one, and others to compare with it."""
    from lego_mlir.kernels import warpgroup_choices

    found: dict[str, Any] = {"chosen": None}
    if dtype != "f16" or layouts not in ("NT", "NN") or size not in STUDIED:
        return found
    for tile, cluster, group in SMALL_TILES if max(size) < LARGE else LARGE_TILES:
        for dependent in (False, True) if max(size) < LARGE else (False,):
            one = warpgroup_choices.tile_of(*size, tile, SMS, cluster, group, dependent=dependent)
            found[str(one)] = one
    return found


def render(sizes: list[Size]) -> None:
    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "index.json"
    index: list[dict[str, Any]] = []
    for size, layouts, dtype in CASES:
        if size not in sizes:
            continue
        for label, tile in studied(size, layouts, dtype).items():
            tile = chosen(size, layouts) if tile is None else tile
            made = compiled(size, layouts, dtype, tile)
            (facts,) = made.kernels
            name = f"{'x'.join(map(str, size))}-{layouts}-{dtype}-{label.replace(' ', '-')}"
            (folder / f"{name}.cubin").write_bytes(made.bytes)
            (folder / f"{name}.json").write_text(json.dumps(made.manifest))
            index.append({"file": name, "kernel": label, "size": size, "layouts": layouts, "dtype": dtype,
                          "tile": str(tile), "stages": tile.stages, "shared": facts.dynamic_shared})  # fmt: skip
        kept = json.loads(listed.read_text()) if listed.is_file() else []
        done = {entry["file"] for entry in index}
        kept = [e for e in kept if e["file"] not in done]
        listed.write_text(json.dumps(kept + index, indent=1))
    print(f"{len(index)} kernels in {folder}")


def static(sizes: list[Size]) -> None:
    """Registers and main loops of the tiles at 4096."""
    from lego_mlir.kernels import warpgroup_choices

    rows = []
    for layouts, dtype in (("NT", "f16"), ("NN", "f16"), ("TN", "f16"), ("TT", "f16"), ("NT", "bf16")):
        for tile, cluster in STATIC:
            one = warpgroup_choices.tile_of(4096, 4096, 4096, tile, SMS, cluster)
            made = compiled((4096, 4096, 4096), layouts, dtype, one, emit="ptx")
            code = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
            beside = "" if cluster == (1, 1) else f" cluster {cluster[0]}x{cluster[1]}"
            name = f"{tile[0]}x{tile[1]}x64{beside} {layouts} {dtype}"
            rows.append(harness.static_row(code, "GMMA", kernel=name, layouts=layouts, dtype=dtype, tile=tile))
    harness.write_static(NAME, rows, TARGET)


def time(sizes: list[Size]) -> None:
    """Check and time the chosen kernels; exit code 1 where one is wrong."""
    _time(sizes, "time")


def quick(sizes: list[Size]) -> None:
    """Check and time the chosen kernels, in short turns."""
    _time(sizes, "quick")


def study(sizes: list[Size]) -> None:
    """Check and time all kernels that were rendered, in short turns."""
    _time(sizes, "study")


def _time(sizes: list[Size], step: str) -> None:
    import torch

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    out = (
        Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME if step == 'time' else f'{NAME}-{step}'}.json"
    )
    failed = 0
    for size, layouts, dtype in CASES:
        ours = [e for e in index if (tuple(e["size"]), e["layouts"], e["dtype"]) == (size, layouts, dtype)]
        if step != "study":
            ours = [e for e in ours if e["kernel"] == "chosen"]
        if size not in sizes or not ours:
            continue
        try:
            rows = measured(folder, ours, size, layouts, dtype, step)
        except harness.WrongResultError as error:
            print(error, file=sys.stderr, flush=True)
            failed += 1
            continue
        results["rows"] += rows
        cublas = min(row["ms"] for row in rows if row["kernel"].startswith("cuBLAS"))
        shown = ", ".join(f"{row['kernel']} {cublas / row['ms']:.3f}" for row in rows[1:])
        print(f"{'x'.join(map(str, size))} {layouts} {dtype}: cuBLAS {cublas:.4f} ms; {shown}", flush=True)
        results["clocks"] = harness.clocks()
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


def measured(
    folder: Path, ours: list[dict[str, Any]], size: Size, layouts: str, dtype: str, step: str
) -> list[dict[str, Any]]:
    """The rows of one case: cuBLAS first, then our kernels, each checked."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    m, n, k = size
    type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch.manual_seed(0)
    stored = [
        torch.randn(dims if letter == "N" else dims[::-1], device="cuda", dtype=type_)
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    ]
    a, b = (x if letter == "N" else x.t() for letter, x in zip(layouts, stored, strict=True))
    expected, c = torch.mm(a, b), torch.empty((m, n), device="cuda", dtype=type_)
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    if step != "study":
        runs["cuBLAS, exact reductions"] = partial(_with_exact_reductions, runs["cuBLAS"])
    errors, tiles = dict.fromkeys(runs, 0.0), {}
    for entry in ours:
        (kernel,) = load_kernels(folder / f"{entry['file']}.cubin").values()
        c.fill_(float("nan"))
        work = harness.scratch(kernel)
        kernel(a, b, c, *work)
        errors[entry["kernel"]] = harness.require_close(c, expected, TOLERANCE, entry["file"])
        runs[entry["kernel"]] = kernel.prepare(a, b, c, *work)
        tiles[entry["kernel"]] = {name: entry[name] for name in ("tile", "stages") if name in entry}
    turn, rounds = (TURN_S, ROUNDS) if step == "time" else (STUDY_TURN_S, STUDY_ROUNDS)
    times = in_turns(runs, turn, rounds)
    singles: dict[str, list[float]] = {name: [] for name in runs}
    if step != "study":
        longest, room = max(median(found) for found in times.values()), SINGLE_MS if step == "time" else SINGLE_MS / 8
        singles = harness.times_ms(runs, max(FEWEST_SINGLE, min(MOST_SINGLE, int(room / longest))), 1)
    return [
        {"kernel": name, "size": size, "layouts": layouts, "dtype": dtype, "ms": median(found), "rounds": found,
         "single_ms": median(singles[name]) if singles[name] else None, "error": errors[name], **tiles.get(name, {})}
        for name, found in times.items()
    ]  # fmt: skip


def _with_exact_reductions(run: Any) -> Any:
    """A run of cuBLAS that sums partial products in f32."""
    import torch

    flags = torch.backends.cuda.matmul
    kept = flags.allow_fp16_reduced_precision_reduction, flags.allow_bf16_reduced_precision_reduction
    flags.allow_fp16_reduced_precision_reduction = flags.allow_bf16_reduced_precision_reduction = False
    try:
        return run()
    finally:
        flags.allow_fp16_reduced_precision_reduction, flags.allow_bf16_reduced_precision_reduction = kept


def in_turns(runs: dict[str, Any], turn: float, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a launch, the mean of each turn; launches back to back, short ones in a CUDA graph."""
    import torch

    drawn = random.Random(0)
    replays, counts, launches = {}, {}, {}
    for name, run in runs.items():
        once = elapsed(run, 3)
        launches[name] = max(1, min(GRAPH_LAUNCHES, int(GRAPH_MS / once)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches[name]):
                run()
        replays[name] = graph.replay
        counts[name] = max(2, int(1000 * turn / elapsed(graph.replay, 2)))
    found: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    for _ in range(rounds):
        drawn.shuffle(order)
        for name in order:
            found[name].append(elapsed(replays[name], counts[name]) / launches[name])
    return found


def elapsed(run: Any, count: int) -> float:
    """Milliseconds of one of `count` runs, between two events."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    start.record()
    for _ in range(count):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / count


def table(sizes: list[Size]) -> None:
    """The tables of the documentation, from the newest results."""
    cells = []
    for row in mlir_kernels.static_results(NAME, TARGET):
        cells.append([
            row["kernel"], str(row["registers"]), str(row["spill_bytes"]), f"{row['shared_bytes'] / 1024:.0f}",
            f"{row['loop_instructions']} / {row['loop']['HGMMA']}",
        ])  # fmt: skip
    text = mlir_kernels.table("tile, layouts, type|registers|spills|shared KiB|main loop: all / HGMMA", cells)
    mlir_kernels.put_into(PAGE, "warpgroups-static", text)
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    parts = [_by_layouts(group, called) for group, called in ((SQUARES, "squares"), (OTHERS, "other sizes"))]
    mlir_kernels.put_into(PAGE, "warpgroups", *chain.from_iterable(parts))
    mlir_kernels.put_into(PAGE, "warpgroups-fresh", _of_fresh_sizes(results["rows"]))


def newest_of(group: tuple[Size, ...]) -> tuple[str, list[dict[str, Any]]]:
    """The circumstances and the rows of the newest run that has most sizes of a group."""
    for path in reversed(mlir_kernels.all_paths(NAME)):
        results = json.loads(path.read_text())
        rows = [row for row in results["rows"] if tuple(row["size"]) in group]
        if 2 * len({tuple(row["size"]) for row in rows}) > len(group):
            return f"{results['device']}, {path.name[:10]}, PyTorch {results['torch']}.\n\n", rows
    raise SystemExit(f"no results of {NAME} for {group[0]}")


def _ratios(rows: list[dict[str, Any]], field: str, rival: str = "cuBLAS") -> dict[Any, float]:
    """The time of cuBLAS relative to that of the kernel that lego_mlir.matmul chooses, by case."""
    times = {(tuple(r["size"]), r["layouts"], r["dtype"], r["kernel"]): r.get(field) for r in rows}
    return {
        case: times[(*case, rival)] / chosen
        for (*case_, kernel), chosen in times.items()
        if kernel == "chosen" and chosen and times.get((*(case := tuple(case_)), rival))
    }


def _mean(ratios: list[float]) -> str:
    return f"{geometric_mean(ratios):.3f}" if ratios else ""


def _by_layouts(group: tuple[Size, ...], called: str) -> tuple[str, mlir_kernels.Table]:
    """A group of sizes by layouts and types, sustained, and their means, as single launches too."""
    circumstances, rows = newest_of(group)
    sustained, single = _ratios(rows, "ms"), _ratios(rows, "single_ms")
    ways = [("NT", "f16"), ("NN", "f16"), ("TN", "f16"), ("TT", "f16"), ("NT", "bf16"), ("NN", "bf16")]
    ways = [way for way in ways if any((size, *way) in sustained for size in group)]
    cells = []
    for size in group:
        found = [sustained.get((size, *way)) for way in ways]
        cells.append([" x ".join(map(str, size)), *["" if ratio is None else f"{ratio:.3f}" for ratio in found]])
    for ratios, kind in ((sustained, ""), (single, ", single launches")):
        means = [_mean([ratios[(size, *way)] for size in group if (size, *way) in ratios]) for way in ways]
        cells.append([f"geometric mean, {called}{kind}", *means])
    return circumstances, mlir_kernels.table("M x N x K|" + "|".join(" ".join(way) for way in ways), cells)


def _of_fresh_sizes(rows: list[dict[str, Any]]) -> mlir_kernels.Table:
    """Sizes drawn at random, and those of models: means, the worst and the best."""
    cells = []
    for group, called in ((RANDOM, "squares drawn at random"), (MODELS, "shapes of language models")):
        for field, kind in (("ms", "sustained"), ("single_ms", "single launches")):
            for rival in ("cuBLAS", "cuBLAS, exact reductions"):
                ratios = _ratios(rows, field, rival)
                found = [ratio for case, ratio in ratios.items() if case[0] in group and case[1] == "NT"]
                if found:
                    extremes = [f"{min(found):.3f}", f"{max(found):.3f}"]
                    cells.append([called, kind, rival, str(len(found)), _mean(found), *extremes])
    return mlir_kernels.table("sizes|launches|against|number|geometric mean|worst|best", cells)


def sizes_of(text: str) -> list[Size]:
    lists = {"squares": SQUARES, "others": OTHERS, "random": RANDOM, "models": MODELS}
    if text in lists:
        return list(lists[text])
    parts = tuple(map(int, text.split("x")))
    return [(parts[0], parts[0], parts[0]) if len(parts) == 1 else parts]  # type: ignore[list-item]


def named(step: Any) -> Any:
    """A step for sizes that are given as several lists."""
    return lambda lists: step([size for sizes in lists for size in sizes])


if __name__ == "__main__":
    steps = {"static": static, "render": render, "time": time, "study": study, "quick": quick, "table": table}
    every = [list(SQUARES), list(OTHERS), list(RANDOM), list(MODELS)]
    mlir_kernels.main(__doc__ or "", {name: named(step) for name, step in steps.items()}, every, sizes_of)
