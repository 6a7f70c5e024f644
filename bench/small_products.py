"""Products of few rows with long sums: K in parts against cuBLAS, at sizes of language models.

    python bench/small_products.py render [SIZE ..]   kernels with K whole and in parts
    python bench/small_products.py time [SIZE ..]     on the GPU machine: correctness, then times in turns
    python bench/small_products.py table              the table of docs/results/matmul-shapes.md

The launches of a turn go through copies of B that together exceed the L2 cache, as the layers of a model do: B comes
from memory. Each kernel runs twice for the same bits. "chosen" is what lego_mlir.matmul takes.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import cycle
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import hopper
import mlir_kernels

NAME, PAGE, TARGET, SCRIPT = "small_products", "results/matmul-shapes.md", "sm_90", "matmul_sm80.mlir"
Size = tuple[int, int, int]
ROWS = (1, 16, 32, 64)
PARTS = (1, 3, 8)
WEIGHTS = ((4096, 4096), (1024, 8192), (11008, 4096), (4096, 11008), (8192, 28672))
"""N and K."""
SIZES: tuple[Size, ...] = tuple((m, n, k) for m in ROWS for n, k in WEIGHTS)
LAYOUTS = ("NT", "NN")
TIMED = {1: ("NT",), 16: LAYOUTS, 32: ("NT",), 64: LAYOUTS}
ROTATED_BYTES = 160 * 2**20  # of B in all, several times the L2 cache of 50 MB
TOLERANCE = 0.01
TURN_S, ROUNDS = 0.05, 3  # limited by memory, not by power
FIRST = ("cuBLAS", "chosen")


def cases(sizes: list[Size]) -> list[tuple[Size, str]]:
    """The sizes with the layouts that are timed for their rows."""
    return [(size, layouts) for size in sizes for layouts in TIMED[size[0]]]


def tried(size: Size) -> dict[str, Any]:
    """The kernels that are built: as the model chooses, and with other numbers of parts."""
    from lego_mlir.kernels import split_choices

    m, n, k = size
    chosen = split_choices.choose(m, n, k, hopper.SMS)
    found = {"chosen": chosen}
    for parts in PARTS:
        if parts <= split_choices.most_parts(k, chosen.tiling):
            found[f"{parts} parts"] = split_choices.with_parts(m, n, k, chosen.choice, parts, hopper.SMS)
    return dict({str(choice): (label, choice) for label, choice in reversed(found.items())}.values())


def compiled(size: Size, layouts: str, choice: Any) -> Any:
    """The kernel of a choice."""
    from lego_mlir import Col, Row, f16
    from lego_mlir.kernels import matmul
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    m, n, k = size
    a, b = ((Col if letter == "T" else Row)(*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    kernel = matmul.build(m, n, k, f16, a=a, b=b, result=f16, tiling=choice.tiling, split=choice.split)
    return compile_kernel(
        kernel, transform=SCRIPT, parameters={"stages": choice.choice.stages}, target=TARGET, emit="cubin",
        cache=Cache(default_folder()),
    )  # fmt: skip


def render(sizes: list[Size]) -> None:
    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for size, layouts in cases(sizes):
        for called, choice in tried(size).items():
            t, blocks = choice.tiling, choice.blocks or 0
            tile = f"{t.m}x{t.n}x{t.k}-{t.threads}-{choice.choice.stages}s"
            name = f"{'x'.join(map(str, size))}-{layouts}-{tile}-{choice.parts}p-{blocks}b"
            if not (folder / f"{name}.cubin").is_file():
                made = compiled(size, layouts, choice)
                (folder / f"{name}.cubin").write_bytes(made.bytes)
                (folder / f"{name}.json").write_text(json.dumps(made.manifest))
            index.append({"size": size, "layouts": layouts, "kernel": called, "parts": choice.parts,
                          "blocks": blocks, "tile": tile, "file": name})  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index, indent=1))
    print(f"{len(index)} products in {folder}")


def time(sizes: list[Size]) -> None:
    """Check and time the rendered cases; exit code 1 where one is wrong."""
    import torch

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    out = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json"
    failed = 0
    for size, layouts in cases(sizes):
        ours = [entry for entry in index if (tuple(entry["size"]), entry["layouts"]) == (size, layouts)]
        if not ours:
            continue
        try:
            rows = measured(folder, ours, size, layouts)
        except harness.WrongResultError as error:
            print(error, file=sys.stderr, flush=True)
            failed += 1
            continue
        results["rows"] += rows
        shown = ", ".join(f"{row['kernel']} ({row['parts']}) {rows[0]['ms'] / row['ms']:.3f}" for row in rows[1:])
        print(f"{'x'.join(map(str, size))} {layouts}: cuBLAS {1000 * rows[0]['ms']:.2f} us; {shown}", flush=True)
        results["clocks"] = harness.clocks()
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


def measured(folder: Path, ours: list[dict[str, Any]], size: Size, layouts: str) -> list[dict[str, Any]]:
    """The rows of one case: cuBLAS first, then ours, each checked."""
    import torch

    m, n, k = size
    torch.manual_seed(0)
    count = max(2, -(-ROTATED_BYTES // (2 * n * k)))
    a = torch.randn((m, k), device="cuda", dtype=torch.float16)
    stored = [
        torch.randn((n, k) if layouts[1] == "T" else (k, n), device="cuda", dtype=torch.float16) for _ in range(count)
    ]
    weights = [x.t() if layouts[1] == "T" else x for x in stored]
    c, expected = torch.empty((m, n), device="cuda", dtype=torch.float16), torch.mm(a, weights[0])
    runs: dict[str, Any] = {"cuBLAS": _rotating([lambda b=b: torch.mm(a, b, out=c) for b in weights])}
    facts: dict[str, dict[str, Any]] = {"cuBLAS": {"parts": 0, "error": 0.0}}
    for entry in ours:
        launches = prepared(folder / f"{entry['file']}.cubin", a, weights, c)
        found = []
        for _ in range(2):
            c.fill_(float("nan"))
            launches[0]()
            found.append(c.clone())
        error = harness.require_close(found[0], expected, TOLERANCE, entry["file"])
        if not torch.equal(*found):
            raise harness.WrongResultError(f"{entry['file']}: two runs differ")
        runs[entry["kernel"]] = _rotating(launches)
        facts[entry["kernel"]] = {**{key: entry[key] for key in ("parts", "blocks", "tile")}, "error": error}
    return [
        {"kernel": name, "size": size, "layouts": layouts, "ms": median(found), "rounds": found, **facts[name]}
        for name, found in hopper.in_turns(runs, TURN_S, ROUNDS).items()
    ]


def prepared(path: Path, a: Any, weights: list[Any], c: Any) -> list[Any]:
    """A launch for each copy of B, on one workspace; its counters begin as 0."""
    from lego_mlir.runtime.packs import load_kernels

    (kernel,) = load_kernels(path).values()
    further = mlir_kernels.workspace(kernel)
    return [kernel.prepare(a, b, c, *further) for b in weights]


def _rotating(launches: list[Any]) -> Any:
    turns = cycle(launches)
    return lambda: next(turns)()


def table(sizes: list[Size]) -> None:
    """The table of the documentation, from the newest results."""
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    path = mlir_kernels.latest_path(NAME)
    assert path is not None  # there are results
    circumstances = f"{results['device']}, {path.name[: len('2026-01-02')]}, PyTorch {results['torch']}.\n\n"
    mlir_kernels.put_into(PAGE, "small", circumstances, _relative(results["rows"]))


def _relative(rows: list[dict[str, Any]]) -> mlir_kernels.Table:
    """Microseconds of cuBLAS, and its time relative to ours; the number of parts in brackets."""
    cells, ratios = [], []
    for size, layouts in cases(list(SIZES)):
        here = {r["kernel"]: r for r in rows if tuple(r["size"]) == size and r["layouts"] == layouts}
        if not here:
            continue
        library, chosen = here["cuBLAS"]["ms"], here["chosen"]
        ratios.append(library / chosen["ms"])
        others = [f"{library / r['ms']:.3f} ({r['parts']})" for r in here.values() if r["kernel"] not in FIRST]
        first = f"{ratios[-1]:.3f} ({chosen['parts']})"
        cells.append([" x ".join(map(str, size)), layouts, f"{1000 * library:.1f}", first, ", ".join(others)])
    cells.append(["geometric mean", "", "", f"{geometric_mean(ratios):.3f}", ""])
    return mlir_kernels.table("M x N x K|layouts|cuBLAS us|chosen (parts)|others", cells)


if __name__ == "__main__":
    steps = {"render": render, "time": time, "table": table}
    mlir_kernels.main(__doc__ or "", steps, list(SIZES), mlir_kernels.size_of)
