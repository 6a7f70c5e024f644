"""Kernels that the time model ranks first, and classes, against cuBLAS: is the first one the quickest?

    python bench/product_choices.py render [SIZE ..]   the model's choice and the leaders of other kinds, as cubins
    python bench/product_choices.py time [SIZE ..]     on the GPU machine: correctness, then all in turns
    python bench/product_choices.py table [FILE]       each case: the choice and the quickest, relative to cuBLAS

The sizes are none of `hopper`: they take part in the next fit (`product_fit`), and `hopper` judges it. `time` stops
before SECONDS have passed; the results of each case are written at once, to $OUT/product_choices.json or
bench/results.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time as clock
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import class_products
import few_rows as few_row_bench
import harness
import hopper
import mlir_kernels
import small_products

NAME = "product_choices"
FOLDER = harness.ARTIFACTS / NAME
Size = tuple[int, int, int]
Case = tuple[Size, str]
DRAWN = [8 * n for n in random.Random(18).sample(range(64, 1025), 30)][:15]
FEW: tuple[Case, ...] = (
    ((128, 4096, 4096), "NN"), ((128, 4608, 12288), "NT"), ((128, 4608, 12288), "NN"), ((256, 3072, 8192), "NN"),
    ((64, 4096, 4096), "NN"), ((64, 2048, 8192), "NN"), ((512, 512, 65536), "NN"), ((512, 512, 65536), "NT"),
    ((200, 200, 8192), "TT"), ((256, 256, 16384), "TN"), ((1024, 1024, 32768), "NN"), ((300, 4096, 4096), "NT"),
    ((128, 6144, 6144), "NT"), ((1, 4608, 4608), "NT"), ((16, 4096, 4096), "NT"), ((16, 6144, 4096), "NN"),
    ((32, 5120, 5120), "NT"), ((48, 2048, 8192), "NT"), ((8, 8192, 8192), "NN"),
)  # fmt: skip
SMALL: tuple[Case, ...] = tuple(
    (size, "NT") for size in ((256, 256, 256), (384, 384, 384), (128, 128, 2048), (304, 400, 504), (96, 768, 768))
)
CLASSES: tuple[Case, ...] = (((777, 4096, 4096), "NT"), ((4104, 4104, 4104), "NN"), ((2500, 4096, 11008), "NT"))
CASES: tuple[Case, ...] = (
    *FEW, *SMALL, *(((n, n, n), "NT") for n in (2216, 3000, 5000)), *CLASSES, ((2560, 2560, 2560), "NN"),
    *(((n, n, n), layouts) for i, n in enumerate(DRAWN) for layouts in ("NT", "NN")[: 1 + (i % 3 == 0)]),
)  # fmt: skip
COUNT, NEAR = 5, 1.15
"""Kernels of a case, and the predicted time of one relative to the first up to which it is among them."""
SMALL_RESULT, NARROW = 2**18, 32
"""M N up to which tiles that differ by this in width are of different kinds."""
ROUNDS_IN_DOUBT = range(2, 5)
"""Rounds of tiles at which kernels with and without lockstep are compared."""
MMA_ROWS, MMA_WORK = 64, 2**28
"""M, or M N K, up to which kernels with mma.sync take part."""
SECONDS = float(os.environ.get("SECONDS_AT_MOST", "105"))
TURN_S, ROUNDS = 0.04, 2


def leaders(size: Size, layouts: str) -> dict[str, Any]:
    """The choice of lego_mlir.matmul among warpgroups, and the quickest tiles of other kinds by the model."""
    from lego_mlir.kernels import few_rows, warpgroup_choices

    (m, n, k), sms = size, hopper.SMS
    chosen = warpgroup_choices.choose(m, n, k, sms, layouts)
    tiles = warpgroup_choices.candidates(m, n, k, sms, layouts)
    tiles += warpgroup_choices.parted_tiles(m, n, k, sms, layouts)
    tiles += [
        warpgroup_choices.tile_of(m, n, k, tile, sms, cluster, layouts=layouts)
        for tile in warpgroup_choices.taller_tiles(layouts)
        for cluster in warpgroup_choices.CLUSTERS
    ]
    if m <= few_rows.TRANSPOSED_ROWS[-1]:
        tiles += [tile for tile in few_rows.candidates(size, sms, layouts) if tile.transposed]
    timed = sorted(
        ((warpgroup_choices.microseconds(size, tile, sms, layouts), number, tile) for number, tile in enumerate(tiles)),
        key=lambda entry: entry[:2],
    )
    kinds: dict[Any, Any] = {}
    for us, _, tile in timed:
        if us <= NEAR * timed[0][0]:
            tile = replace(tile, dependent=us < warpgroup_choices.SHORT and tile.lockstep == 0)
            kinds.setdefault(
                (min(tile.m, 64 * (not tile.transposed)) or tile.m, tile.m, tile.cluster, tile.parts), tile
            )
    found = {"model": chosen, **{str(tile): tile for tile in kinds.values() if tile != chosen}}
    rows, columns = chosen.tiles(m, n)
    if chosen.parts == 1 and rows * columns // chosen.clusters(sms) in ROUNDS_IN_DOUBT:
        other = replace(chosen, lockstep=0 if chosen.lockstep else warpgroup_choices.MEETING)
        found = {"model": chosen, str(other): other, **found}
    return dict(list(found.items())[:COUNT])


def render(sizes: list[Size]) -> None:
    """Compile what is not in the folder yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index: list[dict[str, Any]] = []
    for size, layouts in CASES:
        if size not in sizes:
            continue
        index += [rendered(FOLDER, size, layouts, label, tile) for label, tile in leaders(size, layouts).items()]
        if size[0] <= MMA_ROWS or size[0] * size[1] * size[2] < MMA_WORK:
            index.append(_with_mma(size, layouts))
        if (size, layouts) in CLASSES:
            index.append(_class(size, layouts))
        (FOLDER / "index.json").write_text("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n")
    print(f"{len(index)} kernels in {FOLDER}")


def rendered(folder: Path, size: Size, layouts: str, label: str, tile: Any) -> dict[str, Any]:
    """The entry of a kernel, compiled into the folder if it is not there yet."""
    name = f"{'x'.join(map(str, size))}-{layouts}-{tile}-{tile.stages}".replace(" ", "-")
    if not (folder / f"{name}.json").is_file():
        class_products.write(folder, name, hopper.compiled(size, layouts, "f16", tile))
    return {"size": size, "layouts": layouts, "kernel": label, "tile": str(tile), "stages": tile.stages, "file": name}


def _with_mma(size: Size, layouts: str) -> dict[str, Any]:
    """The kernel by mma.sync, K whole or in parts."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.kernels import choices, split_choices
    from lego_mlir.kernels.split_choices import SplitChoice

    m, n, k = size
    if split_choices.applies(m, k):
        found = split_choices.choose(m, n, k, hopper.SMS)
    else:
        room = target_named(small_products.TARGET).shared_per_block
        found = SplitChoice(choices.choose(m, n, k, layouts, room, multiprocessors=hopper.SMS), 1)
    name = f"{'x'.join(map(str, size))}-{layouts}-mma"
    if not (FOLDER / f"{name}.json").is_file():
        class_products.write(FOLDER, name, small_products.compiled(size, layouts, found))
    return {"size": size, "layouts": layouts, "kernel": "mma.sync", "tile": str(found.choice), "file": name,
            "choice": found.choice.to_data(), "parts": found.parts, "blocks": found.blocks or 0}  # fmt: skip


def _class(size: Size, layouts: str) -> dict[str, Any]:
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    found = class_products.class_at(size, layouts)
    if not (FOLDER / f"{found.name}.json").is_file():
        made = compile_kernel(found.kernel(), target=hopper.TARGET, emit="cubin", cache=Cache(default_folder()))
        class_products.write(FOLDER, found.name, made)
    return {"size": size, "layouts": layouts, "kernel": "class", "tile": str(found.tile), "file": found.name}


def time(sizes: list[Size]) -> None:
    """Check and time the rendered cases until SECONDS have passed; exit code 1 where one is wrong."""
    started = clock.monotonic()
    import torch

    index = json.loads(harness.rendered(FOLDER / "index.json").read_text())
    device = torch.cuda.get_device_name()
    out = os.environ.get("OUT")
    path = Path(out) / f"{NAME}.json" if out else harness.todays_results(device, NAME)
    report: dict[str, Any] = {"device": device, "torch": torch.__version__, "rows": [], "wrong": [], "left_out": []}
    for size, layouts in CASES:
        ours = [e for e in index if (tuple(e["size"]), e["layouts"]) == (size, layouts)]
        if not ours or size not in sizes:
            continue
        if clock.monotonic() - started > SECONDS:
            report["left_out"].append((size, layouts))
            continue
        rows = timed(size, layouts, ours, report["wrong"])
        report["rows"] += rows
        shown = ", ".join(f"{r['kernel']} {rows[0]['ms'] / r['ms']:.3f} ({r['tile']})" for r in rows[1:])
        print(f"{'x'.join(map(str, size))} {layouts}: cuBLAS {rows[0]['ms']:.4f} ms; {shown}", flush=True)
        path.write_text(json.dumps(report, indent=1) + "\n")
    path.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if report["wrong"] else 0)


def timed(
    size: Size, layouts: str, ours: list[dict[str, Any]], wrong: list[str], folder: Path = FOLDER
) -> list[dict[str, Any]]:
    """The rows of one case: cuBLAS first, then ours that are right."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    a, b, expected = few_row_bench._operands(size, layouts)
    c = torch.empty(expected.shape, device="cuda", dtype=torch.float16)
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    for entry in ours:
        try:
            (kernel,) = load_kernels(folder / f"{entry['file']}.cubin").values()
            c.fill_(float("nan"))
            launch = kernel.prepare(a, b, c, *mlir_kernels.workspace(kernel))
            launch()
            harness.require_close(c, expected, hopper.TOLERANCE, entry["file"])
        except (harness.WrongResultError, RuntimeError) as error:
            print(error, file=sys.stderr, flush=True)
            wrong.append(str(error))
            continue
        runs[entry["kernel"]] = launch
    times = hopper.in_turns(runs, TURN_S, ROUNDS)
    base = {"size": size, "layouts": layouts, "dtype": "f16"}
    rows = [{"kernel": "cuBLAS", **base, "ms": median(times["cuBLAS"])}]
    for entry in ours:
        if entry["kernel"] in times:
            rows.append({**entry, **base, "ms": median(times[entry["kernel"]]), "rounds": times[entry["kernel"]]})
    return rows


def table(_: list[Size]) -> None:
    """Each case: the choice and the quickest, relative to cuBLAS, from $CHOICES or the newest results."""
    path = os.environ.get("CHOICES")
    results = json.loads(Path(path).read_text()) if path else mlir_kernels.latest(NAME)
    by_case: dict[Any, dict[str, dict[str, Any]]] = {}
    for row in results["rows"]:
        by_case.setdefault((tuple(row["size"]), row["layouts"]), {})[row["kernel"]] = row
    cells, lost = [], []
    for (size, layouts), rows in by_case.items():
        base = rows.pop("cuBLAS")["ms"]
        best, model = min(rows.values(), key=lambda row: float(row["ms"])), rows.get("model")
        lost += [model["ms"] / best["ms"]] if model else []
        today = f"{base / model['ms']:.3f} {model['tile']}" if model else ""
        cells.append(["x".join(map(str, size)), layouts, today, f"{base / best['ms']:.3f}", best["tile"]])
    print(mlir_kernels.table("size|layouts|choice|quickest|its tile", cells))
    print(f"the choice takes {geometric_mean(lost):.3f} times as long as the quickest")


if __name__ == "__main__":
    known = list(dict.fromkeys(size for size, _ in CASES))
    mlir_kernels.main(__doc__ or "", {"render": render, "time": time, "table": table}, known, mlir_kernels.size_of)
