"""Transposed, wide and unevenly shared tiles, and clusters of 4 and 8 blocks, against other tiles and cuBLAS.

    python bench/tile_kinds.py render [SIZE ..]   the quickest tile of each kind by the model, as cubins
    python bench/tile_kinds.py time [SIZE ..]     on the GPU machine: correctness, then all in turns
    python bench/tile_kinds.py table              each kind's time relative to that of other tiles, from the record

`warpgroup_choices` takes newer kinds where they are predicted quicker by a margin, which comes from these times. No
constant of the model is fitted to them. Results come to $OUT/tile_kinds.json, or bench/results.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import hopper
import mlir_kernels
import product_choices

NAME = "tile_kinds"
FOLDER = harness.ARTIFACTS / NAME
Case = tuple[hopper.Size, str]
SHORT = (1176, 1336, 1448, 1784, 1848)
DRAWN = sorted(8 * n for n in random.Random(2311).sample(range(64, 1025), 14))
CASES: tuple[Case, ...] = tuple(
    (size, layouts)
    for size in (*hopper.OTHERS, *((n, n, n) for n in (*SHORT, *DRAWN)), (776, 4096, 4096))
    for layouts in ("NN", "NT")
)


def kind_of(tile: Any) -> str:
    """What is compared: the kinds of tiles that have a margin, and the others."""
    from lego_mlir.kernels import warpgroup_choices

    if tile.cluster not in warpgroup_choices.CLUSTERS:
        return "larger clusters"
    if tile.transposed:
        return "transposed"
    return "wide" if tile.n > warpgroup_choices.MOST_COLUMNS else "uneven" if tile.gain < 1 else "others"


def quickest(size: hopper.Size, layouts: str) -> dict[str, Any]:
    """The quickest tile of each kind by the model."""
    from lego_mlir.kernels import warpgroup_choices

    found: dict[str, Any] = {}
    tiles = warpgroup_choices.candidates(*size, hopper.SMS, layouts)
    tiles += warpgroup_choices.clustered_tiles(*size, hopper.SMS, layouts)
    for tile in sorted(tiles, key=lambda tile: warpgroup_choices.microseconds(size, tile, hopper.SMS, layouts)):
        found.setdefault(kind_of(tile), tile)
    return found


def render(sizes: list[hopper.Size]) -> None:
    """Compile what is not in the folder yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index = [
        product_choices.rendered(FOLDER, size, layouts, kind, tile)
        for size, layouts in CASES
        if size in sizes
        for kind, tile in quickest(size, layouts).items()
    ]
    (FOLDER / "index.json").write_text("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n")
    print(f"{len(index)} kernels in {FOLDER}")


def time(sizes: list[hopper.Size]) -> None:
    """Check and time the rendered cases; exit code 1 where one is wrong."""
    import torch

    index = json.loads(harness.rendered(FOLDER / "index.json").read_text())
    device, out = torch.cuda.get_device_name(), os.environ.get("OUT")
    path = Path(out) / f"{NAME}.json" if out else harness.todays_results(device, NAME)
    report: dict[str, Any] = {"device": device, "torch": torch.__version__, "rows": [], "wrong": []}
    for size, layouts in CASES:
        ours = [e for e in index if (tuple(e["size"]), e["layouts"]) == (size, layouts)]
        if ours and size in sizes:
            report["rows"] += product_choices.timed(size, layouts, ours, report["wrong"], FOLDER)
            path.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if report["wrong"] else 0)


def table(_: list[hopper.Size]) -> None:
    """The quickest tile of each kind in the record, relative to cuBLAS."""
    results = mlir_kernels.latest(NAME)
    if results is None:
        sys.exit(f"no results of {NAME}; run its step `time` on a GPU")
    best: dict[Any, dict[str, float]] = {}
    for row in results["rows"]:
        case = row.get("run", 1), tuple(row["size"]), row["layouts"], row["dtype"]
        ratios = best.setdefault(case, {})
        kind = "cuBLAS" if row["kernel"] == "cuBLAS" else kind_of(_tile_of(row))
        ratios[kind] = min(row["ms"], ratios.get(kind, row["ms"]))
    kinds = ("others", "transposed", "wide", "uneven", "larger clusters")
    cells = [
        ["x".join(map(str, size)), layouts, *(f"{ms['cuBLAS'] / ms[kind]:.3f}" if kind in ms else "" for kind in kinds)]
        for (_, size, layouts, _), ms in best.items()
    ]
    print(mlir_kernels.table(f"size|layouts|{'|'.join(kinds)}", cells))
    for kind in kinds[1:]:
        gains = [ms[kind] / ms["others"] for ms in best.values() if kind in ms and "others" in ms]
        print(f"{kind}: {geometric_mean(gains):.3f} of the time of others at {len(gains)} cases, {min(gains):.3f} to "
              f"{max(gains):.3f}")  # fmt: skip


def _tile_of(row: dict[str, Any]) -> Any:
    from lego_mlir.kernels.warpgroup_choices import tile_from

    return tile_from(tuple(row["size"]), row["tile"], row["stages"], hopper.SMS)


if __name__ == "__main__":
    known = list(dict.fromkeys(size for size, _ in CASES))
    mlir_kernels.main(__doc__ or "", {"render": render, "time": time, "table": table}, known, mlir_kernels.size_of)
