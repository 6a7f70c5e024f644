"""Kernels that the time model chooses, against those that were chosen when `hopper` was recorded, and classes.

    python bench/product_choices.py render [SIZE ..]   both kernels of each case as cubins, and the kernels of classes
    python bench/product_choices.py time [SIZE ..]     on the GPU machine: correctness, then all in turns

`time` stops before SECONDS have passed, so the cases that decide most come first; the results of each case are written
at once, to $OUT/product_choices.json or bench/results. Copied there, they take part in the next fit (`product_fit`).
"""

from __future__ import annotations

import json
import os
import sys
import time as clock
from pathlib import Path
from statistics import median
from typing import Any

import class_products
import harness
import hopper
import mlir_kernels

NAME = "product_choices"
FOLDER = harness.ARTIFACTS / NAME
Size = tuple[int, int, int]
CASES: tuple[tuple[Size, str], ...] = (
    ((2560, 2560, 2560), "NN"), ((5768, 5768, 5768), "NN"), ((4392, 4392, 4392), "NT"), ((64, 4096, 4096), "NT"),
    ((1000, 1048, 520), "NT"), ((6280, 6280, 6280), "NT"), ((1176, 1176, 1176), "NT"), ((5000, 5000, 5000), "NT"),
    ((128, 4096, 4096), "NT"), ((2888, 2888, 2888), "NN"), ((3704, 3704, 3704), "NN"), ((4104, 4104, 4104), "NT"),
    ((8024, 8024, 8024), "NT"), ((3072, 3072, 3072), "NN"), ((1528, 1528, 1528), "NN"), ((4936, 4936, 4936), "NT"),
    ((3112, 3112, 3112), "NT"), ((2576, 2576, 2576), "NT"), ((1144, 1144, 1144), "NT"), ((8192, 8192, 8192), "NT"),
    ((64, 5120, 5120), "NT"), ((6368, 6368, 6368), "NT"), ((3864, 3864, 3864), "NT"), ((1672, 1672, 1672), "NT"),
)  # fmt: skip
"""Cases of `hopper` where the two choices differ."""
CLASSES: tuple[tuple[Size, str], ...] = (
    ((300, 4096, 4096), "NT"), ((777, 4096, 4096), "NT"), ((4104, 4104, 4104), "NN"), ((6000, 4096, 4096), "TN"),
    ((1000, 4096, 4096), "NT"), ((2500, 4096, 11008), "NT"),
)  # fmt: skip
SECONDS = float(os.environ.get("SECONDS_AT_MOST", "11"))
TURN_S, ROUNDS = 0.05, 2


def tiles(size: Size, layouts: str) -> dict[str, Any]:
    """The tile that the model chooses, and the recorded one."""
    from lego_mlir.kernels import warpgroup_choices

    results = mlir_kernels.latest(hopper.NAME)
    assert results is not None
    recorded = next(
        warpgroup_choices.tile_from(size, row["tile"], row["stages"], hopper.SMS)
        for row in results["rows"]
        if "tile" in row and (tuple(row["size"]), row["layouts"], row["dtype"]) == (size, layouts, "f16")
    )
    return {"model": warpgroup_choices.choose(*size, hopper.SMS, layouts), "recorded": recorded}


def render(sizes: list[Size]) -> None:
    """Compile what is not in the folder yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index: list[dict[str, Any]] = []
    for size, layouts in CASES:
        if size in sizes:
            index += [_kernel(size, layouts, label, tile) for label, tile in tiles(size, layouts).items()]
    for size, layouts in CLASSES:
        if size in sizes:
            index += [_kernel(size, layouts, "fixed", tiles_of_class(size, layouts)), _class(size, layouts)]
    (FOLDER / "index.json").write_text("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n")
    print(f"{len(index)} kernels in {FOLDER}")


def tiles_of_class(size: Size, layouts: str) -> Any:
    from lego_mlir.kernels import warpgroup_choices

    return warpgroup_choices.choose(*size, hopper.SMS, layouts)


def _kernel(size: Size, layouts: str, label: str, tile: Any) -> dict[str, Any]:
    name = f"{'x'.join(map(str, size))}-{layouts}-{tile}-{tile.stages}".replace(" ", "-")
    if not (FOLDER / f"{name}.json").is_file():
        class_products.write(FOLDER, name, hopper.compiled(size, layouts, "f16", tile))
    return {"size": size, "layouts": layouts, "kernel": label, "tile": str(tile), "stages": tile.stages, "file": name}


def _class(size: Size, layouts: str) -> dict[str, Any]:
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    found = class_products.class_at(size, layouts)
    if not (FOLDER / f"{found.name}.json").is_file():
        made = compile_kernel(
            found.kernel(), transform=hopper.SCRIPT, parameters=found.parameters, target=hopper.TARGET, emit="cubin",
            cache=Cache(default_folder()),
        )  # fmt: skip
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
    report: dict[str, Any] = {"device": device, "torch": torch.__version__, "rows": []}
    wrong = 0
    for size, layouts in dict.fromkeys((*CLASSES[:3], *CASES[:8], *CLASSES[3:], *CASES[8:])):
        ours = [e for e in index if (tuple(e["size"]), e["layouts"]) == (size, layouts)]
        if not ours or size not in sizes or clock.monotonic() - started > SECONDS:
            continue
        try:
            rows = timed(size, layouts, ours)
        except harness.WrongResultError as error:
            print(error, file=sys.stderr, flush=True)
            wrong += 1
            continue
        report["rows"] += rows
        shown = ", ".join(f"{r['kernel']} {rows[0]['ms'] / r['ms']:.3f} ({r['tile']})" for r in rows[1:])
        print(f"{'x'.join(map(str, size))} {layouts}: cuBLAS {rows[0]['ms']:.4f} ms; {shown}", flush=True)
        path.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


def timed(size: Size, layouts: str, ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one case: cuBLAS first, then ours, each checked."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    torch.manual_seed(0)
    a, b, c = class_products.arrays(size, layouts)
    a, b = (torch.randn_like(x.float()).half().as_strided(x.shape, x.stride()) for x in (a, b))
    expected = torch.mm(a, b)
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    for entry in ours:
        (kernel,) = load_kernels(FOLDER / f"{entry['file']}.cubin").values()
        c.fill_(float("nan"))
        kernel(a, b, c)
        harness.require_close(c, expected, hopper.TOLERANCE, entry["file"])
        runs[entry["kernel"]] = kernel.prepare(a, b, c)
    times = hopper.in_turns(runs, TURN_S, ROUNDS)
    base = {"size": size, "layouts": layouts, "dtype": "f16"}
    rows = [{"kernel": "cuBLAS", **base, "ms": median(times["cuBLAS"])}]
    for entry in ours:
        stages = {"stages": entry["stages"]} if "stages" in entry else {}
        rows.append({
            "kernel": entry["kernel"], **base, "tile": entry["tile"], **stages, "ms": median(times[entry["kernel"]]),
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    known = list(dict.fromkeys(size for size, _ in (*CASES, *CLASSES)))
    mlir_kernels.main(__doc__ or "", {"render": render, "time": time}, known, mlir_kernels.size_of)
