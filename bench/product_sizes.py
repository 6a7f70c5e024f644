"""Products at the sizes between those of tables, next to cuBLAS: rows from 1 to 300, drawn sizes, and candidates.

    python bench/product_sizes.py render [PART ..]    the kernels that each size takes, as cubins, on all cores; no GPU
    python bench/product_sizes.py time [PART ..]      on the GPU machine: correctness, then all in turns
    python bench/product_sizes.py table               each part: mean, least, and what the choice loses

rows         M around the edges of tiles, up to 300, by four weights: what `matmul` runs
drawn        sizes to 8192: what `matmul` runs
candidates   sizes, and the leading tiles of the time model at each, as kernels of all sizes: `product_fit` reads them
batches      drawn batches by `matmul`, which compiles its kernels at their first use, next to `torch.bmm`

SEED draws other sizes: those of a fit are not those that judge it.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import product_runs
import runner
from product_cases import Product, Size
from product_runs import SMS, TARGET, Suite, Way

NAME, DTYPE = "product_sizes", "bf16"
SEED = int(os.environ.get("SEED", "35"))
PARTS = ("rows", "drawn", "candidates", "batches")
WEIGHTS = ((3584, 3584), (5120, 5120), (4096, 4096), (10240, 8192))
ROWS = (1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 48, 56, 63, 64, 65, 66, 72, 73, 80, 88, 96, 97, 100, 104, 112,
        120, 127, 128, 129, 136, 144, 160, 176, 191, 192, 193, 200, 224, 248, 255, 256, 257, 270, 288, 300)  # fmt: skip
"""Every residue near the edges of tiles of 64, 128 and 192 rows."""
DRAWN, FITTED, BATCHES = 40, 100, 60
LEADERS, NEAR, TILES = 8, 1.2, 72
"""Tiles of a size at most, how slow by the model, and the tiles of an order of operands."""
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


def sizes_of(part: str) -> list[tuple[Size, str]]:
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


# -- kernels


@cache
def ways_of(part: str) -> Mapping[Product, Mapping[str, Way]]:
    """The kernels of a part: what `matmul` runs, or the leading tiles of the model."""
    listed = sizes_of(part)
    found = tiles(listed) if part == "candidates" else dict.fromkeys(listed)
    return {
        Product(size, layouts, DTYPE, DTYPE): dict(
            chosen(size, layouts) if leading is None else of_tile(layouts, tile) for tile in leading or [None]
        )
        for (size, layouts), leading in found.items()
    }  # fmt: skip


def chosen(size: Size, layouts: str) -> tuple[str, Way]:
    """What `matmul` runs, by class or of exactly these sizes."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.kernels.product_classes import class_for
    from lego_mlir.runtime.products.kernels import kernel_for
    from lego_mlir.runtime.products.problem import Problem

    found = class_for(size, layouts, DTYPE, DTYPE, TARGET, device_with(SMS))
    if found is not None:
        return way(f"{found.name}_{found.tile.stages}", found.tile, partial(_of_class, found))
    problem = Problem(*size, DTYPE, DTYPE, layouts, TARGET, SMS)
    return way(problem.name, None, partial(kernel_for, problem))


def of_tile(layouts: str, tile: Any) -> tuple[str, Way]:
    """The kernel of all sizes in a tile."""
    from lego_mlir.choices.product_counts import reached_by
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.kernels.product_classes import ProductClass

    one = ProductClass(DTYPE, DTYPE, layouts, tile, reached_by(tile.sharing, device_with(SMS)) // tile.sharing)
    return way(f"{one.name}_{tile.stages}", tile, partial(_of_class, one))


def way(name: str, tile: Any, built: Any) -> tuple[str, Way]:
    """A kernel under its name, by its script if it has one."""

    def build() -> Any:
        kernel, script, parameters = built()
        given = {"transform": script, "parameters": parameters} if script else {}
        return mlir_kernels.compiled(kernel, TARGET.rstrip("a") if script else TARGET, **given)

    stages = {"stages": tile.stages} if getattr(tile, "stages", None) else {}
    return name, Way(name.replace("/", "_"), build, {"tile": str(tile), **stages})


def _of_class(found: Any) -> tuple[Any, str | None, dict[str, int]]:
    return found.kernel(), found.script, found.parameters


def tiles(listed: list[tuple[Size, str]]) -> dict[tuple[Size, str], list[Any]]:
    """The tiles that lead at each size by the model, of those that lead at most sizes.

    Those that differ in stages and groups alone are one kernel, as in a class.
    """
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.choices.warpgroup_tiles import Wanted, candidates

    near: dict[Any, list[tuple[float, Any]]] = {}
    for size, layouts in listed:
        wanted = Wanted(*size, device_with(SMS), layouts)
        timed = [(wanted.microseconds(tile), tile) for tile in candidates(wanted)]
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


def _kind(tile: Any) -> Any:
    return tile.m, tile.n, tile.cluster, tile.transposed, tile.lockstep > 0


def suite(part: str) -> Suite:
    protocol = harness.Protocol("steady", 0.03, 2, graphs=True, patience_ms=100)
    return Suite(list(ways_of(part)), ways_of(part).__getitem__, protocol=protocol)


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """Compile every kernel once, by as many processes as there are cores."""
    wanted = [(part, product) for part, product in cases if part != "batches"]
    for part in dict.fromkeys(part for part, _ in wanted):
        ways_of(part)  # once, before the processes
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        entries = [entry for found in pool.map(partial(_rendered, folder), wanted) for entry in found]
    (folder / "index.json").write_text(json.dumps(entries))


def _rendered(folder: Path, case: tuple[str, Product]) -> list[dict[str, Any]]:
    part, product = case
    return [{**entry, "part": part} for entry in product_runs.rendered((folder, suite(part), product))]


# -- on the GPU machine


def timed(folder: Path, part: str, *case: Any) -> list[harness.Contender]:
    if part == "batches":
        return batch(*case)
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    entries = [entry for entry in index if (entry["part"], entry["case"]) == (part, str(case[0]))]
    found = product_runs.contenders(case[0], folder, entries, ("cuBLAS",))
    return [harness.contender(one.run, **{**one.facts, "part": part}) for one in found]


def batch(count: int, m: int, n: int, k: int, layouts: str) -> list[harness.Contender]:
    """A drawn batch by `lego_mlir.matmul`, and by `torch.bmm`."""
    import torch

    import lego_mlir

    a, b = (
        torch.randint(-4, 5, (count, *(dims if letter == "N" else dims[::-1])), device="cuda").bfloat16()
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    )
    a, b = (x if letter == "N" else x.transpose(1, 2) for letter, x in zip(layouts, (a, b), strict=True))
    out, ours = torch.empty((2, count, m, n), device="cuda", dtype=torch.bfloat16)
    runs = {"bmm": partial(torch.bmm, a, b, out=out), "matmul": partial(lego_mlir.matmul, a, b, out=ours)}
    for run in runs.values():
        run()
    harness.require_close(ours, out, TOLERANCE, f"batch {count} {m} {n} {k} {layouts}")
    facts = {"part": "batches", "size": (m, n, k), "count": count, "layouts": layouts, "dtype": DTYPE, "tile": ""}
    return [harness.contender(run, kernel=name, **facts) for name, run in runs.items()]


def table() -> None:
    """What each part found, printed."""
    results = mlir_kernels.newest(NAME)
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
        facts = [str(len(ratios)), f"{geometric_mean(ratios.values()):.3f}", f"{ratios[least]:.3f}", where, str(below)]
        cells.append([part, *facts])
    print(mlir_kernels.table("part|cases|mean of cuBLAS / ours|least|where|under 0.95", cells))


CASES: list[harness.Case] = [
    *((part, Product(size, layouts, DTYPE, DTYPE)) for part in PARTS[:3] for size, layouts in sizes_of(part)),
    *(("batches", *case) for case in batches()),
]
BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, target=TARGET,
    groups={part: [case for case in CASES if case[0] == part] for part in PARTS},
    protocol=harness.Protocol("steady", 0.03, 2, graphs=True, patience_ms=100),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
