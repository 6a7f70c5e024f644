"""Products at the sizes between those of tables, next to cuBLAS: rows from 1 to 300, drawn sizes, and candidates.

    python bench/product_sizes.py draw [PART ..]      the sizes of the parts, and the kernels that each takes, no GPU
    python bench/product_sizes.py compile             these kernels on all cores, as cubins, no GPU
    python bench/product_sizes.py time [PART ..]      on the GPU machine: correctness, then all in turns
    python bench/product_sizes.py table [FILE]        each part: mean, least, and what the choice loses

rows         M around the edges of tiles, up to 300, by four weights: what `matmul` runs
drawn        sizes to 8192: what `matmul` runs
candidates   sizes, and the leading tiles of the time model at each, as kernels of all sizes: `product_fit` reads them
batches      drawn batches by `matmul`, next to `torch.bmm`

SEED draws other sizes: those of a fit are not those that judge it. `time` stops before SECONDS_AT_MOST have passed; the
results of each case are written at once, to $OUT/product_sizes.json or bench/results.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
import time as clock
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import mlir_kernels

NAME, TARGET, DTYPE, SMS = "product_sizes", "sm_90a", "bf16", 132
FOLDER = harness.ARTIFACTS / NAME
SEED = int(os.environ.get("SEED", "35"))
SECONDS = float(os.environ.get("SECONDS_AT_MOST", "200"))
PARTS = ("rows", "drawn", "candidates", "batches")
Size = tuple[int, int, int]
Row = dict[str, Any]
"""Of results, or of the index of kernels."""
Tile = Any
"""Of either family of kernels."""
Built = tuple[Any, "str | None", dict[str, int]]
"""A kernel, its script and the parameters of that."""
Build = Callable[[], Built]
Tensor = Any
WEIGHTS = ((3584, 3584), (5120, 5120), (4096, 4096), (10240, 8192))
ROWS = (1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 48, 56, 63, 64, 65, 66, 72, 73, 80, 88, 96, 97, 100, 104, 112,
        120, 127, 128, 129, 136, 144, 160, 176, 191, 192, 193, 200, 224, 248, 255, 256, 257, 270, 288, 300)  # fmt: skip
"""Every residue near the edges of tiles of 64, 128 and 192 rows."""
DRAWN, FITTED, BATCHES = 40, 100, 60
LEADERS, NEAR, TILES = 8, 1.2, 72
"""Tiles of a size at most, how slow by the model, and the tiles of an order of operands."""
TURN_S, ROUNDS, SINGLES = 0.03, 2, 40
TOLERANCE = 2e-2


def drawn(count: int, stream: str, least: int = 64) -> list[tuple[Size, str]]:
    """Sizes whose logarithms are uniform: any M, N and K multiples of 8; two of three with K contiguous."""
    source = random.Random(f"{SEED} {stream}")

    def one(low: int, high: int) -> int:
        return round(low * (high / low) ** source.random())

    return [
        ((one(least, 8192), one(64, 1024) * 8, one(64, 1024) * 8), "NN" if number % 3 == 2 else "NT")
        for number in range(count)
    ]


def cases(part: str) -> list[tuple[Size, str]]:
    """The sizes and orders of a part."""
    if part == "rows":
        return [((m, n, k), "NT") for n, k in WEIGHTS for m in ROWS]
    return drawn(DRAWN if part == "drawn" else FITTED, part)


def batches() -> list[tuple[int, int, int, int, str]]:
    """Drawn batches: how many, M, N, K and the orders."""
    source = random.Random(f"{SEED} batches")
    return [
        (source.choice((4, 8, 16, 32, 64)), source.randint(2, 192) * 8, source.randint(2, 192) * 8,
         source.randint(4, 128) * 8, source.choice(("NT", "NN", "TN", "TT")))
        for _ in range(BATCHES)
    ]  # fmt: skip


# -- compilation


def chosen(size: Size, layouts: str) -> tuple[str, Tile, Build]:
    """What `matmul` runs: a name, the tile and the kernel, by class or of exactly these sizes."""
    from lego_mlir.kernels.product_classes import class_for
    from lego_mlir.runtime.products.kernels import kernel_for
    from lego_mlir.runtime.products.problem import Problem

    found = class_for(size, layouts, DTYPE, DTYPE, TARGET, SMS)
    if found is not None:
        tile = getattr(found, "tile", None) or getattr(found, "choice", None)
        return f"{found.name}_{tile.stages}", tile, partial(_of_class, found)
    problem = Problem(*size, DTYPE, DTYPE, layouts, TARGET, SMS)
    return problem.name, None, partial(kernel_for, problem)


def _of_class(found: Tile) -> Built:
    return found.kernel(), found.script, found.parameters


def tiles(listed: list[tuple[Size, str]]) -> dict[tuple[Size, str], list[Tile]]:
    """The tiles that lead at each size by the model, of those that lead at most sizes.

    Those that differ in stages and groups alone are one kernel, as in a class.
    """
    from lego_mlir.kernels import warpgroup_choices as choices

    near: dict[Any, list[tuple[float, Any]]] = {}
    for size, layouts in listed:
        timed = [
            (choices.microseconds(size, tile, SMS, layouts), tile) for tile in choices.candidates(*size, SMS, layouts)
        ]
        least = min(us for us, _ in timed)
        kinds: dict[Any, tuple[float, Any]] = {}
        for us, tile in sorted(timed, key=lambda entry: entry[0]):
            if us <= NEAR * least:
                kinds.setdefault((tile.m, tile.n, tile.cluster, tile.transposed), (us, tile))
        near[size, layouts] = list(kinds.values())
    found = {}
    for layouts in {layouts for _, layouts in listed}:
        first: dict[Any, Any] = {}
        counts: dict[Any, float] = {}
        for case in (case for case in listed if case[1] == layouts):
            for place, (_, tile) in enumerate(near[case]):
                key = _kind(tile)
                first.setdefault(key, tile)
                counts[key] = counts.get(key, 0) + 1 / (1 + place)
        kept = sorted(counts, key=lambda key: -counts[key])[: TILES if layouts == "NT" else TILES // 2]
        for case in (case for case in listed if case[1] == layouts):
            keys = dict.fromkeys(_kind(tile) for _, tile in near[case] if _kind(tile) in kept)
            found[case] = [first[key] for key in list(keys)[:LEADERS]]
    return found


def _kind(tile: Tile) -> tuple[Tile, ...]:
    return tile.m, tile.n, tile.cluster, tile.transposed, tile.lockstep > 0


def kernels(part: str) -> Iterator[tuple[Row, Build]]:
    """The entries of a part's kernels, and how each is built."""
    from lego_mlir.kernels.product_classes import ProductClass
    from lego_mlir.kernels.warpgroup_choices import reached_by

    if part == "candidates":
        for (size, layouts), found in tiles(cases(part)).items():
            for tile in found:
                shared = tile.cluster[0] * tile.cluster[1]
                one = ProductClass(DTYPE, DTYPE, layouts, tile, reached_by(shared, SMS) // shared)
                name = f"{one.name}_{tile.stages}"
                yield entry(part, size, layouts, name, tile), partial(_of_class, one)
        return
    for size, layouts in cases(part):
        name, tile, build = chosen(size, layouts)
        yield entry(part, size, layouts, name, tile), build


def entry(part: str, size: Size, layouts: str, name: str, tile: Tile) -> Row:
    stages = getattr(tile, "stages", None)
    return {"part": part, "size": size, "layouts": layouts, "file": name.replace("/", "_"), "tile": str(tile),
            "stages": stages}  # fmt: skip


def draw(parts: list[str]) -> None:
    """Write which kernels the cases of the parts take, and how they are built."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index, builds = [], {}
    for part in (part for part in parts if part != "batches"):
        for described, build in kernels(part):
            index.append(described)
            builds[described["file"]] = build
    (FOLDER / "index.json").write_text(json.dumps(index))
    (FOLDER / "builds.pickle").write_bytes(pickle.dumps(builds))
    print(f"{len(index)} rows, {len(builds)} kernels in {FOLDER}")


def compile_(_: list[str]) -> None:
    """Compile every kernel once, by as many processes as there are cores."""
    started = clock.monotonic()
    builds = pickle.loads(harness.rendered(FOLDER / "builds.pickle").read_bytes())  # of this program's own step
    missing = {name: build for name, build in builds.items() if not (FOLDER / f"{name}.json").is_file()}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        failed = [text for text in pool.map(_compiled, missing.items()) if text]
    print(f"{len(missing) - len(failed)} compiled in {clock.monotonic() - started:.0f} s", *failed[:5], sep="\n")


def _compiled(named: tuple[str, Build]) -> str | None:
    from lego_mlir.toolchain import compile_kernel

    name, build = named
    try:
        kernel, script, parameters = build()
        target = TARGET.rstrip("a") if script else TARGET
        made = compile_kernel(kernel, transform=script, parameters=parameters or None, target=target, emit="cubin")
        (FOLDER / f"{name}.cubin").write_bytes(made.bytes)
        (FOLDER / f"{name}.json").write_text(json.dumps(made.manifest))
    except Exception as error:  # the other kernels still count
        return f"{name}: {type(error).__name__}: {error}"
    return None


# -- on the GPU machine


def time(parts: list[str]) -> None:
    """Check and time what was compiled; exit code 1 where one is wrong."""
    started = clock.monotonic()
    import torch

    listed = json.loads(harness.rendered(FOLDER / "index.json").read_text())
    index = [one for one in listed if (FOLDER / f"{one['file']}.json").is_file()]
    print(f"{len(index)} of {len(listed)} rows have a kernel", flush=True)
    device = torch.cuda.get_device_name()
    out = os.environ.get("OUT")
    path = Path(out) / f"{NAME}.json" if out else harness.results_path(device, NAME)
    report: dict[str, Any] = {
        "device": device, "torch": torch.__version__, "seed": SEED, "turns": [TURN_S, ROUNDS], "rows": [], "wrong": [],
        "left_out": [],
    }  # fmt: skip
    by_case: dict[Any, list[dict[str, Any]]] = {}
    for one in (one for one in index if one["part"] in parts):
        by_case.setdefault((one["part"], tuple(one["size"]), one["layouts"]), []).append(one)
    for number, ((part, size, layouts), ours) in enumerate(by_case.items()):
        if clock.monotonic() - started > SECONDS:
            report["left_out"] = [list(case) for case in list(by_case)[number:]]
            break
        rows = timed(part, size, layouts, ours, report["wrong"])
        report["rows"] += rows
        shown = ", ".join(f"{rows[0]['ms'] / r['ms']:.3f} ({r['tile']})" for r in rows[1:])
        print(f"{part} {'x'.join(map(str, size))} {layouts}: cuBLAS {1e3 * rows[0]['ms']:.1f} us; {shown}", flush=True)
        path.write_text(json.dumps(report) + "\n")
    if "batches" in parts:
        report["rows"] += list(_batches(report["wrong"], started))
    path.write_text(json.dumps({**report, "clocks": harness.clocks()}) + "\n")
    sys.exit(1 if report["wrong"] else 0)


def timed(part: str, size: Size, layouts: str, ours: list[Row], wrong: list[str]) -> list[Row]:
    """The rows of one case: cuBLAS first, then ours that are right."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    a, b = _operands(size, layouts)
    c = torch.empty(size[:2], device="cuda", dtype=torch.bfloat16)
    expected = torch.mm(a, b)
    runs: dict[str, Any] = {"cuBLAS": partial(torch.mm, a, b, out=torch.empty_like(c))}
    for one in ours:
        try:
            (kernel,) = load_kernels(FOLDER / f"{one['file']}.cubin").values()
            launch = kernel.prepare(a, b, c.fill_(float("nan")), *harness.scratch(kernel))
            launch()
            harness.require_close(c, expected, TOLERANCE, f"{size} {one['file']}")
        except (harness.WrongResultError, RuntimeError, OSError, SystemExit) as error:
            print(error, file=sys.stderr, flush=True)
            wrong.append(str(error))
            continue
        runs[one["file"]] = launch
    times = harness.steady_ms(runs, TURN_S, ROUNDS)
    single: dict[str, list[float]] = {} if part == "candidates" else harness.times_ms(runs, SINGLES, 3)
    base = {"part": part, "size": size, "layouts": layouts, "dtype": DTYPE}
    rows = []
    for one in ({"file": "cuBLAS", "tile": ""}, *ours):
        name = one["file"]
        if name in times:
            alone = {"single_ms": median(single[name])} if single else {}
            rows.append({**base, "kernel": name, "tile": one["tile"], "ms": median(times[name]), **alone,
                         **({"stages": one["stages"]} if one.get("stages") else {})})  # fmt: skip
    return rows


def _operands(size: Size, layouts: str, *count: int) -> list[Tensor]:
    """A and B of small integers, or so many of each, in these orders."""
    import torch

    m, n, k = size
    found = []
    for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True):
        stored = (*count, *(dims if letter == "N" else dims[::-1]))
        one = torch.randint(-4, 5, stored, device="cuda").bfloat16()
        found.append(one if letter == "N" else one.mT)
    return found


def _batches(wrong: list[str], started: float) -> Iterator[Row]:
    """Drawn batches by `lego_mlir.matmul`, which compiles its kernels at their first use."""
    import torch

    import lego_mlir

    for count, m, n, k, layouts in batches():
        if clock.monotonic() - started > SECONDS:
            return
        a, b = _operands((m, n, k), layouts, count)
        out, ours = torch.empty((2, count, m, n), device="cuda", dtype=torch.bfloat16)
        runs = {"bmm": partial(torch.bmm, a, b, out=out), "matmul": partial(lego_mlir.matmul, a, b, out=ours)}
        for run in runs.values():
            run()
        try:
            harness.require_close(ours, out, TOLERANCE, f"batch {count} {m} {n} {k} {layouts}")
        except harness.WrongResultError as error:
            wrong.append(str(error))
            continue
        times = harness.steady_ms(runs, TURN_S, ROUNDS)
        shown = median(times["bmm"]) / median(times["matmul"])
        print(f"batches {count} of {m}x{n}x{k} {layouts}: {shown:.3f} of bmm", flush=True)
        for name, found in times.items():
            yield {"part": "batches", "size": (m, n, k), "count": count, "layouts": layouts, "dtype": DTYPE,
                   "kernel": name, "tile": "", "ms": median(found)}  # fmt: skip


# -- tables


def table(_: list[str]) -> None:
    """What each part found, from $SIZES or the newest results."""
    path = os.environ.get("SIZES")
    results = json.loads(Path(path).read_text()) if path else mlir_kernels.latest(NAME)
    cells = []
    for part in PARTS:
        found: dict[Any, dict[str, float]] = {}
        for row in (row for row in results["rows"] if row["part"] == part):
            case = found.setdefault((row.get("count"), *row["size"], row["layouts"]), {})
            case[row["kernel"]] = row["ms"]
        compared = {case: times for case, times in found.items() if len(times) > 1}
        if not compared:
            continue
        base = "bmm" if part == "batches" else "cuBLAS"
        ratios = {case: times[base] / min(us for name, us in times.items() if name != base)
                  for case, times in compared.items()}  # fmt: skip
        least = min(ratios, key=lambda case: ratios[case])
        below = sum(ratio < 0.95 for ratio in ratios.values())
        where = "x".join(str(n) for n in least if n)
        cells.append(
            [
                part,
                str(len(ratios)),
                f"{geometric_mean(ratios.values()):.3f}",
                f"{ratios[least]:.3f}",
                where,
                str(below),
            ]
        )
    print(mlir_kernels.table("part|cases|mean of cuBLAS / ours|least|where|under 0.95", cells))


STEPS = {"draw": draw, "compile": compile_, "time": time, "table": table}

if __name__ == "__main__":
    mlir_kernels.main(__doc__ or "", STEPS, PARTS, str)
