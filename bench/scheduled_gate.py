"""The plain product through schedules next to the special pass for it: the gate of one road for tiles.

    python bench/scheduled_gate.py render [WORD ..]     the kernels as cubins, on all cores, no GPU
    python bench/scheduled_gate.py time [WORD ..]       on the GPU machine: correctness, then times in turns
    python bench/scheduled_gate.py table                the tables of docs/results/scheduled-gate.md

A word is a type, layouts, or a size; of several sizes each is taken. All kernels are built by
lego_mlir/kernels/matmul.py. `general` goes through `kernel.schedule(..)`, with the tile that the model of all products
ranks first among those that schedules have. Where that has lockstep, `apart` is the same without it, `forward` without
tiles that go backwards, and `single` the best tile without clusters. `class` and `exact` are what `lego_mlir.matmul`
takes, through matmul_sm90.mlir: the kernel of a class of sizes, and that of the size alone. The sizes are squares and
multiples of 8 that were drawn once. A contender runs TURN_S seconds at a time, short launches in CUDA graphs, in an
order drawn anew each round (`hopper.in_turns`).
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import hopper
import mlir_kernels

NAME, PAGE = "scheduled_gate", "results/scheduled-gate.md"
RUNS = (NAME, "scheduled_gate_producers", "scheduled_gate_lockstep", "scheduled_gate_large")
"""The names of the results: of all cases, then of those that were measured again after a change, the newest last."""
Size = tuple[int, int, int]
Case = tuple[Size, str, str]
SEED = 202611272021
_DRAWN = random.Random(SEED)
SQUARES: tuple[Size, ...] = tuple((n, n, n) for n in (2048, 4096, 8192, 16384))
RANDOM: tuple[Size, ...] = tuple(
    (8 * _DRAWN.randint(128, 1024), 8 * _DRAWN.randint(128, 1024), 8 * _DRAWN.randint(128, 1024)) for _ in range(10)
)
WAYS = (("f16", "NT"), ("f16", "NN"), ("bf16", "NT"), ("bf16", "NN"))
CASES: list[Case] = [(size, layouts, dtype) for size, (dtype, layouts) in product((*SQUARES, *RANDOM), WAYS)]
KINDS = ("general", "class", "exact")
VARIANTS = ("apart", "forward", "single")
"""Of the general kernel: what lockstep, its tiles backwards and clusters are worth."""
TURN_S, ROUNDS = 0.1, 7
BARRIER_BYTES = 1024  # of all rings, and what aligns the tiles
GATE = 1.02


# -- the kernels


@dataclass(frozen=True)
class Composition:
    """A tile, its order of tiles, and the schedules."""

    tile: Any
    stages: int
    buffers: int
    group: int
    once: bool
    """Whether each block has one tile."""
    back: bool = True

    @property
    def text(self) -> str:
        t, clustered = self.tile, self.tile.cluster != (1, 1)
        return ", ".join([
            *([] if self.once else [f"persistent(blocks={hopper.SMS})"]),
            "warpgroups(transposed=True)" if t.transposed else "warpgroups",
            f"copied_out(buffers={self.buffers})", f"pipeline(stages={self.stages})",
            *(["clusters(blocks=2)"] if clustered else []), *(["overlay"] if self.once else []),
            *([f"lockstep(every={t.lockstep}, back={self.back})"] if t.lockstep else []), "roles",
            *(["dependent"] if t.dependent else []),
        ])  # fmt: skip


def composition(size: Size, layouts: str, *, single: bool = False) -> Composition:
    """The quickest by the model among the tiles that schedules have: two blocks of a cluster, one that they share."""
    from dataclasses import replace

    from lego_mlir.kernels import warpgroup_choices as choices

    m, n, _ = size
    time, tile, buffers = min(ranked(size, layouts, single=single), key=lambda entry: entry[0])
    rows, columns = (-(-n // t) for n, t in zip((m, n), cluster_tile(tile), strict=True))
    once = rows * columns * tile.cluster[0] * tile.cluster[1] <= hopper.SMS
    tile = replace(tile, dependent=time < choices.SHORT, lockstep=0 if once else tile.lockstep)
    even = [g for g in range(1, rows + 1) if rows % g == 0 and tile.group / 2 <= g <= 1.5 * tile.group]
    group = min(even, key=lambda g: abs(g - tile.group), default=min(tile.group, rows))
    return Composition(tile, tile.stages, 4 if once else buffers, group, once)


def ranked(size: Size, layouts: str, *, single: bool) -> list[tuple[float, Any, int]]:
    """The tiles that schedules have, each with its time by the model and its buffers."""
    from dataclasses import replace

    from lego_mlir.kernels import warpgroup_choices as choices

    (m, n, k), found = size, []
    for tile in choices.candidates(m, n, k, hopper.SMS, layouts):
        if single and tile.cluster != (1, 1):
            continue
        if is_scheduled(tile, layouts) and (made := fitting(tile, layouts)):
            tile = replace(tile, stages=made[0])
            found.append((choices.microseconds(size, tile, hopper.SMS, layouts) / tile.gain, tile, made[1]))
    return found


def is_scheduled(tile: Any, layouts: str) -> bool:
    """Whether schedules have a tile: warps that divide one side, and equal shares of what a cluster has in common."""
    rows = (tile.n if layouts[1] == "T" else tile.step) if tile.cluster == (2, 1) else tile.m
    shared = tile.cluster == (1, 1) or (tile.cluster in ((2, 1), (1, 2)) and rows % 16 == 0)
    return tile.block_tile.across * tile.parts * tile.splits == 1 and shared and tile.m % 16 == 0


def fitting(tile: Any, layouts: str) -> tuple[int, int] | None:
    """Stages and buffers: two where that leaves four stages, as in `hardware.stage_rings`."""
    from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES

    columns = tile.n if layouts[1] == "T" else -(-tile.n // 64) * 64
    stage, buffer = (tile.m + columns) * 128, warps(tile) // 4 * 8192
    one, two = ((LARGEST_SHARED_BYTES - BARRIER_BYTES - count * buffer) // stage for count in (1, 2))
    stages = max(two, min(one, 4))
    return (min(stages, 12), 2 if stages <= two else 1) if stages >= 2 else None


def warps(tile: Any) -> int:
    return 8 if (tile.n if tile.transposed else tile.m) >= 128 else 4


def cluster_tile(tile: Any) -> tuple[int, int]:
    return tile.m * tile.cluster[0], tile.n * tile.cluster[1]


def kinds(case: Case) -> tuple[str, ...]:
    """The kernels of a case, but for cuBLAS. The large tiles of the largest sizes are for clusters alone."""
    if composition(*case[:2]).tile.lockstep == 0:
        return KINDS
    return KINDS + VARIANTS[: 3 if ranked(*case[:2], single=True) else 2]


def kernel_of(case: Case, kind: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A kernel, the options of its compilation, and what describes it."""
    from dataclasses import replace

    from lego_mlir import Col, Row
    from lego_mlir.kernels import matmul, warpgroup_choices
    from lego_mlir.kernels.product_classes import class_for
    from lego_mlir.schedule.orders import grouped
    from lego_mlir.tracing.dtypes import dtype_named

    size, layouts, name = case
    (m, n, k), dtype = size, dtype_named(name)
    given = {"a": (Row if layouts[0] == "N" else Col)(m, k), "b": (Row if layouts[1] == "N" else Col)(k, n)}
    if kind == "class":
        found = class_for(size, layouts, name, name, hopper.TARGET, hopper.SMS)
        return found.kernel(), {"transform": found.script, "parameters": found.parameters}, {"tile": str(found.tile)}
    if kind == "exact":
        tile = warpgroup_choices.choose(m, n, k, hopper.SMS, layouts)
        kernel = matmul.build(
            m, n, k, dtype, **given, result=dtype, tiling=tile.tiling, order=tile.order(m, n),
            blocks=tile.persistent(hopper.SMS),
        )  # fmt: skip
        return kernel, {"transform": hopper.SCRIPT, "parameters": tile.parameters}, {"tile": str(tile)}
    made = composition(size, layouts, single=kind == "single")
    if kind in ("apart", "forward"):
        made = replace(made, back=False, tile=replace(made.tile, lockstep=made.tile.lockstep * (kind == "forward")))
    tile, (down, across) = made.tile, made.tile.cluster
    rows, columns = (-(-n // t) for n, t in zip((m, n), cluster_tile(tile), strict=True))
    order = grouped(rows * down, columns * across, rows=made.group * down, columns=across, snake=tile.lockstep > 0)
    divided = (1, warps(tile)) if tile.transposed else (warps(tile), 1)
    kernel = matmul.build(
        m, n, k, dtype, **given, result=dtype, tiling=matmul.Tiling(tile.m, tile.n, tile.step, divided), order=order
    )
    return kernel.schedule(made.text), {}, {"tile": str(tile), "schedules": made.text}


# -- the steps


def label(case: Case, kind: str) -> str:
    return "-".join(["x".join(map(str, case[0])), *case[1:], kind])


def _kept(folder: str, case: Case, kind: str) -> dict[str, Any]:
    from lego_mlir.toolchain import compile_kernel

    kernel, options, facts = kernel_of(case, kind)
    made = compile_kernel(kernel, target=hopper.TARGET, emit="cubin", **options)
    path = Path(folder) / label(case, kind)
    path.with_suffix(".cubin").write_bytes(made.bytes)
    path.with_suffix(".json").write_text(json.dumps(made.manifest))
    return facts


def render() -> int:
    folder, failed = harness.ARTIFACTS / NAME, 0
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "index.json"
    index = json.loads(listed.read_text()) if listed.is_file() else {}
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        tasks = {pool.submit(_kept, str(folder), case, kind): (case, kind) for case in chosen() for kind in kinds(case)}
        for task in as_completed(tasks):
            name = label(*tasks[task])
            try:
                index[name] = task.result()
            except Exception as error:  # the others still count
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
                failed += 1
    listed.write_text(json.dumps(index, indent=1))
    print(f"{len(index)} kernels in {folder}, {failed} failed")
    return 1 if failed else 0


def chosen() -> Iterator[Case]:
    """The cases that have all words of the command line, and one of its sizes if it has some."""
    known = {harness.words_of(case)[0] for case in CASES}
    words = set(sys.argv[2:])
    for case in CASES:
        size, *others = harness.words_of(case)
        if words - known <= set(others) and (size in words or not words & known):
            yield case


def time() -> int:
    import torch

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "seed": SEED, "turn_s": TURN_S, "rows": [],
    }  # fmt: skip
    out, wrong = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json", 0
    for case in chosen():
        try:
            results["rows"] += timed(folder, index, case)
        except harness.WrongResultError as error:
            print(error, file=sys.stderr, flush=True)
            wrong += 1
        results["clocks"] = harness.clocks()
        out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


def timed(folder: Path, index: dict[str, Any], case: Case) -> list[dict[str, Any]]:
    import torch

    from lego_mlir.runtime.packs import load_kernels

    (m, n, k), layouts, name = case
    type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[name]
    torch.manual_seed(0)
    stored = [
        torch.randn(dims if letter == "N" else dims[::-1], device="cuda", dtype=type_)
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    ]
    a, b = (x if letter == "N" else x.t() for letter, x in zip(layouts, stored, strict=True))
    expected, c = torch.mm(a, b), torch.empty((m, n), device="cuda", dtype=type_)
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    for kind in (kind for kind in KINDS + VARIANTS if label(case, kind) in index):
        (kernel,) = load_kernels(folder / f"{label(case, kind)}.cubin").values()
        c.fill_(float("nan"))
        kernel(a, b, c)
        harness.require_close(c, expected, hopper.TOLERANCE, label(case, kind))
        runs[kind] = kernel.prepare(a, b, c)
    times = hopper.in_turns(runs, TURN_S, ROUNDS)
    rows = [
        {"size": case[0], "layouts": layouts, "dtype": name, "kernel": kind, "ms": median(found), "rounds": found,
         **index.get(label(case, kind), {})}
        for kind, found in times.items()
    ]  # fmt: skip
    print(label(case, ""), " ".join(f"{row['kernel']} {1000 * row['ms']:.2f}" for row in rows), flush=True)
    return rows


def table() -> int:
    """The tables of the documentation: each case from the newest results that have it."""
    found = measured()
    mlir_kernels.put_into(PAGE, NAME, circumstances(), gate(found))
    mlir_kernels.put_into(PAGE, "scheduled_gate_variants", variants(found))
    return 0


def measured(newest: Callable[[str], Any] | None = None) -> dict[Case, tuple[int, dict[str, Any]]]:
    """For each case the number of the run that measured it last, and its rows by kernel."""
    found: dict[Case, tuple[int, dict[str, Any]]] = {}
    for number, name in enumerate(RUNS, 1):
        for row in (newest or results_of)(name)["rows"]:
            case = tuple(row["size"]), row["layouts"], row["dtype"]
            if found.get(case, (0,))[0] != number:
                found[case] = number, {}
            found[case][1][row["kernel"]] = row
    return found


def results_of(name: str) -> dict[str, Any]:
    results = mlir_kernels.latest(name)
    if results is None:
        raise SystemExit(f"no results of {name}; run the step `time` on a GPU")
    return results


def circumstances() -> str:
    """The device, date and libraries of each run."""
    lines = []
    for number, name in enumerate(RUNS, 1):
        results = results_of(name)
        known = mlir_kernels.circumstances(name, results, "torch")
        lines.append(f"{number}. {known}, seed {results['seed']}.\n")
    return "".join(lines) + "\n"


def gate(found: dict[Case, tuple[int, dict[str, Any]]]) -> mlir_kernels.Table:
    """Each case's time through schedules and the ratios of the others."""
    cells, ratios = [], {kind: [] for kind in ("cuBLAS", "class", "exact")}  # type: ignore[var-annotated]
    for case, (number, rows) in found.items():
        ours = rows["general"]["ms"]
        of_case = {kind: rows[kind]["ms"] / ours if kind in rows else None for kind in ratios}
        for kind, ratio in of_case.items():
            ratios[kind] += [] if ratio is None else [ratio]
        cells.append([
            " x ".join(map(str, case[0])), *case[1:], str(number), f"{1000 * ours:.1f}",
            *("" if ratio is None else f"{ratio:.3f}" for ratio in of_case.values()),
            passes(of_case["class"]), passes(of_case["exact"]), rows["general"]["tile"],
            rows.get("class", {}).get("tile", ""), rows.get("exact", {}).get("tile", ""),
        ])  # fmt: skip
    means = [f"{geometric_mean(of_kind):.3f}" if of_kind else "" for of_kind in ratios.values()]
    passed = [f"{sum(ratio * GATE >= 1 for ratio in ratios[kind])} of {len(found)}" for kind in KINDS[1:]]
    cells.append(["geometric mean", "", "", "", "", *means, *passed, "", "", ""])
    heads = (
        "M x N x K|layouts|type|run|general us|cuBLAS / general|class / general|exact / general|within 2 % of class|"
        "of exact|tile of general|of class|of exact"
    )
    return mlir_kernels.table(heads, cells)


def variants(found: dict[Case, tuple[int, dict[str, Any]]]) -> mlir_kernels.Table:
    """What the general kernel loses without lockstep, without tiles that go backwards, and without clusters."""
    cells, ratios = [], {kind: [] for kind in VARIANTS}  # type: ignore[var-annotated]
    for case, (_, rows) in found.items():
        if "apart" not in rows:
            continue
        ours = rows["general"]["ms"]
        for kind in VARIANTS:
            ratios[kind] += [rows[kind]["ms"] / ours] if kind in rows else []
        shown = (f"{rows[kind]['ms'] / ours:.3f}" if kind in rows else "" for kind in VARIANTS)
        cells.append([" x ".join(map(str, case[0])), *case[1:], f"{1000 * ours:.1f}", *shown])
    cells.append(["geometric mean", "", "", "", *(f"{geometric_mean(ratios[kind]):.3f}" for kind in VARIANTS)])
    return mlir_kernels.table("M x N x K|layouts|type|general us|without lockstep|only forward|without clusters", cells)


def passes(ratio: float | None) -> str:
    return "" if ratio is None else "yes" if ratio * GATE >= 1 else "no"


if __name__ == "__main__":
    sys.exit({"render": render, "time": time, "table": table}[sys.argv[1]]())
