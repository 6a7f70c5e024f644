"""Products of few rows and few tiles by warpgroups (sm_90a) against cuBLAS: which division is the quickest.

    python bench/few_rows.py render [SIZE ..]   candidates of kernels/few_rows.py and the choice of today, as cubins
    python bench/few_rows.py first              on the GPU machine: every kind of kernel is right, and the first times
    python bench/few_rows.py time [SIZE ..]     on the GPU machine: all that was rendered, checked and timed
    python bench/few_rows.py table [FILE]       the quickest kernel of each size, and the choice of today

A size is MxNxK; by default all of `SIZES`. Results are compared with products in f32. *Sustained*: as in
bench/hopper.py, launches in CUDA graphs, in short turns whose order is drawn anew each round. cuBLAS is timed in the
same rounds. `first` and `time` need torch and lego_mlir.runtime, and write $OUT/few_rows.json, or bench/results, after
each size. `first` begins no size after LAST_S seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time as clock
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import harness
import hopper
import mlir_kernels

BEGUN = clock.monotonic()
NAME = "few_rows"
Size = tuple[int, int, int]
SIZES: tuple[Size, ...] = (
    (64, 4096, 4096), (64, 6144, 4096), (64, 5120, 5120), (64, 5120, 13824), (64, 3584, 3584), (64, 4096, 14336),
    (64, 1024, 8192), (64, 11008, 4096), (512, 4096, 14336), (512, 512, 65536), (200, 200, 8192), (16, 4096, 4096),
    (2216, 2216, 2216), (16, 1024, 8192), (16, 4096, 11008), (1, 4096, 4096), (8, 8192, 8192), (24, 5120, 5120),
    (32, 4096, 4096), (48, 6144, 4096), (32, 4096, 14336), (128, 4096, 4096), (128, 4096, 14336), (128, 6144, 4096),
    (128, 5120, 13824), (256, 4096, 14336), (512, 512, 512), (256, 256, 16384), (1024, 1024, 32768), (7000, 7000, 7000),
)  # fmt: skip
FIRST = SIZES[:13]
TURN_S, ROUNDS = 0.04, 3
FIRST_TURN_S, FIRST_ROUNDS = 0.025, 2
LAST_S = 16.0
TOLERANCE = 2e-3
COUNT = 6
LARGE = 2048
"""M N from which tiles fill the device, and only those of 192 rows are candidates."""


def tiles_of(size: Size) -> dict[str, Any]:
    """The kernels of a size by label: the choice of today, candidates, some of them with room for a second block."""
    from lego_mlir.kernels import few_rows, warpgroup_choices

    m, n, k = size
    found = {"chosen": warpgroup_choices.choose(m, n, k, hopper.SMS)}
    if min(m, n) >= LARGE:
        for cluster in ((1, 1), (2, 1), (1, 2)):
            tile = warpgroup_choices.tile_of(m, n, k, (192, 208), hopper.SMS, cluster, layouts="NT")
            found[label_of(tile)] = tile
        return found
    tiles = few_rows.candidates(size, hopper.SMS, "NT", COUNT)
    deeper = warpgroup_choices.deep_stages(found["chosen"], k, "NT")
    beside = [few_rows.beside_another(tile) for tile in (found["chosen"], *tiles)]
    for tile in (replace(found["chosen"], stages=deeper), *tiles, *[tile for tile in beside if tile is not None][:3]):
        if tile not in found.values():
            found[label_of(tile)] = tile
    return found


def label_of(tile: Any) -> str:
    """What a kernel is called: its tile, and the stages of its ring."""
    return f"{tile} {tile.stages} stages"


def kinds() -> list[tuple[str, Size, Any]]:
    """One small product of each kind, for correctness alone: layouts, size, tile."""
    from lego_mlir.kernels.warpgroup_choices import WarpgroupTile

    few = WarpgroupTile(32, 64, 4, group=1, transposed=True)
    return [
        *((layouts, (24, 264, 520), few) for layouts in ("NN", "NT", "TN", "TT")),
        ("NN", (24, 264, 520), replace(few, parts=4)), ("NT", (8, 264, 520), replace(few, m=16, cluster=(1, 2))),
        ("NN", (200, 264, 1032), WarpgroupTile(128, 64, 6, group=1, parts=8)),
        ("TN", (264, 520, 328), WarpgroupTile(64, 64, 6, group=1, cluster=(2, 2))),
        ("NT", (264, 520, 328), WarpgroupTile(64, 64, 6, group=1, cluster=(2, 4))),
        ("NT", (200, 264, 1032), WarpgroupTile(64, 64, 4, group=1, parts=2, exact=2)),
        ("NT", (200, 264, 1032), WarpgroupTile(64, 64, 5, group=1, parts=2, resident=2)),
    ]  # fmt: skip


def render(sizes: list[Size]) -> None:
    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "index.json"
    index = json.loads(listed.read_text()) if listed.is_file() else []
    index = [entry for entry in index if tuple(entry["size"]) not in sizes and entry["timed"]]
    cases = [("NT", size, label, tile, True) for size in sizes for label, tile in tiles_of(size).items()]
    for layouts, size, label, tile, timed in [
        *((*kind[:2], label_of(kind[2]), kind[2], False) for kind in kinds()),
        *cases,
    ]:
        made = hopper.compiled(size, layouts, "f16", tile)
        name = f"{'x'.join(map(str, size))}-{layouts}-{label.replace(' ', '-')}"
        (folder / f"{name}.cubin").write_bytes(made.bytes)
        (folder / f"{name}.json").write_text(json.dumps(made.manifest))
        index.append(
            {"file": name, "kernel": label, "tile": label_of(tile), "size": size, "layouts": layouts, "timed": timed}
        )
        listed.write_text(json.dumps(index, indent=1))
    print(f"{len(index)} kernels in {folder}")


def first(sizes: list[Size]) -> None:
    """Check every kind, then time the first sizes in the time that there is."""
    _run([size for size in FIRST if size in sizes], (FIRST_TURN_S, FIRST_ROUNDS), last=LAST_S)


def time(sizes: list[Size]) -> None:
    """Check and time all that was rendered; exit code 1 where one is wrong."""
    _run(sizes, (TURN_S, ROUNDS), last=None)


def _run(sizes: list[Size], turns: tuple[float, int], *, last: float | None) -> None:
    import torch

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    out = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json"
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "turns": turns,
        "kinds": [], "rows": [], "wrong": [], "left_out": [],
    }  # fmt: skip
    for entry in index:
        if not entry["timed"]:
            error = _checked(folder, entry, results["wrong"])
            results["kinds"].append({**entry, "error": error})
    print(f"{len(results['kinds'])} kinds checked, wrong: {results['wrong']}", flush=True)
    for size in sizes:
        if last is not None and clock.monotonic() - BEGUN > last:
            results["left_out"].append(size)
            continue
        ours = [entry for entry in index if entry["timed"] and tuple(entry["size"]) == size]
        if ours:
            results["rows"] += _measured(folder, ours, size, turns, results["wrong"])
        out.write_text(json.dumps(results, indent=1) + "\n")
    results["clocks"] = harness.clocks()
    out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if results["wrong"] else 0)


def _operands(size: Size, layouts: str) -> tuple[Any, Any, Any]:
    """A and B on the device, and their product in f32."""
    import torch

    m, n, k = size
    torch.manual_seed(0)
    stored = [
        torch.randn(dims if letter == "N" else dims[::-1], device="cuda", dtype=torch.float16)
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    ]
    a, b = (x if letter == "N" else x.t() for letter, x in zip(layouts, stored, strict=True))
    return a, b, a.float() @ b.float()


def _checked(folder: Path, entry: dict[str, Any], wrong: list[str], given: Any = None) -> float | None:
    """The error of one kernel, launched twice into memory of NaN; None where it is wrong or launches differ."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    a, b, expected = given or _operands(tuple(entry["size"]), entry["layouts"])
    (kernel,) = load_kernels(folder / f"{entry['file']}.cubin").values()
    found = [torch.full(expected.shape, float("nan"), device="cuda", dtype=torch.float16) for _ in range(2)]
    work = harness.scratch(kernel)
    try:
        for c in found:
            kernel(a, b, c, *work)
        error = harness.require_close(found[0], expected, TOLERANCE, entry["file"])
        if not torch.equal(*found):
            raise harness.WrongResultError(f"{entry['file']}: two launches differ")
    except harness.WrongResultError as problem:
        print(problem, file=sys.stderr, flush=True)
        wrong.append(str(problem))
        return None
    return float(error)


def _measured(
    folder: Path, ours: list[dict[str, Any]], size: Size, turns: tuple[float, int], wrong: list[str]
) -> list[dict[str, Any]]:
    """The rows of one size: cuBLAS first, then our kernels that are right."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    given = _operands(size, "NT")
    a, b, expected = given
    c = torch.empty(expected.shape, device="cuda", dtype=torch.float16)
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    facts: dict[str, Any] = {"cuBLAS": {"tile": "", "error": None}}
    for entry in ours:
        error = _checked(folder, entry, wrong, given)
        if error is not None:
            (kernel,) = load_kernels(folder / f"{entry['file']}.cubin").values()
            runs[entry["kernel"]] = kernel.prepare(a, b, c, *harness.scratch(kernel))
            facts[entry["kernel"]] = {"tile": entry["tile"], "error": error}
    times = hopper.in_turns(runs, *turns)
    base = median(times["cuBLAS"])
    common = {"size": size, "layouts": "NT", "dtype": "f16"}
    rows = [
        {"kernel": name, **common, "ms": median(found), "rounds": found, **facts[name]} for name, found in times.items()
    ]
    shown = ", ".join(f"{row['tile'] or row['kernel']} {base / row['ms']:.3f}" for row in rows[1:])
    print(f"{'x'.join(map(str, size))}: cuBLAS {1000 * base:.2f} us; {shown}", flush=True)
    return rows


def table(arguments: list[Size]) -> None:
    """The quickest kernel of each size against cuBLAS and the choice of today, from $FEW_ROWS or the newest results."""
    path = os.environ.get("FEW_ROWS")
    results = json.loads(Path(path).read_text()) if path else mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    by_size: dict[Size, dict[str, dict[str, Any]]] = {}
    for row in results["rows"]:
        by_size.setdefault(tuple(row["size"]), {})[row["kernel"]] = row
    cells = []
    for size, rows in by_size.items():
        base = rows.pop("cuBLAS")["ms"]
        best = min(rows.values(), key=lambda row: float(row["ms"]))
        today = f"{base / rows['chosen']['ms']:.3f}" if "chosen" in rows else ""
        cells.append(["x".join(map(str, size)), f"{1000 * base:.2f}", today, f"{base / best['ms']:.3f}", best["tile"]])
    print(mlir_kernels.table("size|cuBLAS, us|choice of today|quickest|its division", cells))


def size_of(text: str) -> list[Size]:
    m, n, k = map(int, text.split("x"))
    return [(m, n, k)]


if __name__ == "__main__":
    steps = {"render": render, "first": first, "time": time, "table": table}
    mlir_kernels.main(__doc__ or "", {name: hopper.named(step) for name, step in steps.items()}, [list(SIZES)], size_of)
