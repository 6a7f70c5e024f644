"""Products of odd sizes: aligned copies and tensor cores against cuBLAS, which reads unaligned rows.

    python bench/odd_products.py render [SIZE ..]   the copies, the wide products, and kernels that read odd rows
    python bench/odd_products.py time [SIZE ..]     on the GPU machine: correctness, then times in turns of 0.2 s
    python bench/odd_products.py table              the table of docs/results/matmul-shapes.md

"copies" is a launch for each operand that is copied, the product, and one launch that copies C back where it is odd, as
lego_mlir.matmul computes it; "lines" pads rows of multiples of 16 bytes to lines of 128. "mma.sync copies" is the
same with `matmul_sm80.mlir`, and "direct" the kernel of `mma.sync` that loads the odd rows themselves.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import product
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import hopper
import mlir_kernels

NAME, PAGE, TARGET, PLAIN = "odd_products", "results/matmul-shapes.md", "sm_90a", "sm_90"
Size = tuple[int, int, int]
SQUARES: tuple[Size, ...] = tuple((n, n, n) for n in (513, 1001, 1537, 2047, 2500, 3001, 4097, 5555, 8191))
LINES: tuple[Size, ...] = tuple((n, n, n) for n in (2216, 5000))
FEW: tuple[Size, ...] = ((16, 4097, 4097), (64, 4097, 4097))
OTHERS: tuple[Size, ...] = ((1023, 4099, 2049), (4096, 4095, 4096), (777, 5001, 3003), *FEW)
CASES = [*product(SQUARES, ("NN", "NT", "TN", "TT"), ("f16",)), *product(SQUARES, ("NN",), ("bf16",)),
         *product(LINES, ("NN",), ("f16",)), *product(OTHERS, ("NN", "NT"), ("f16",))]  # fmt: skip
SYNC = {(513,) * 3, (1001,) * 3, (2047,) * 3, (4097,) * 3, *FEW}
"""Sizes at which the kernels of mma.sync are timed, for NN and NT in f16."""
TOLERANCE = 0.01
TURN_S, SHORT_TURN_S, ROUNDS = 0.15, 0.05, 3
POWER_LIMITED = 2**33  # M N K from which a turn is long enough for the power state to settle
LINE = 64  # elements of 128 bytes


def widened(size: Size, layouts: str) -> Any:
    """The product on aligned copies; sizes of LINES are padded to whole lines."""
    from lego_mlir.kernels.aligned_products import ALIGNED, widened

    found = widened(*size, layouts, LINE if size in LINES else ALIGNED)
    assert found is not None  # every case has rows to pad
    return found


def render(sizes: list[Size]) -> None:
    from lego_mlir.kernels import aligned_copies
    from lego_mlir.tracing.dtypes import dtype_named

    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for dtype in ("f16", "bf16"):
        type_ = dtype_named(dtype)
        for name, kernel in (("pad-N", aligned_copies.pad(type_)), ("pad-T", aligned_copies.pad(type_, True)),
                             ("crop", aligned_copies.crop(type_))):  # fmt: skip
            _keep(folder, f"{name}-{dtype}", kernel.compile(PLAIN, emit="cubin"))
    for size, layouts, dtype in CASES:
        if size not in sizes:
            continue
        wide = widened(size, layouts)
        facts = {"size": size, "layouts": layouts, "dtype": dtype}
        way = "lines" if size in LINES else "copies"
        plans = [(way, wide, TARGET)]
        if size in FEW:
            plans = [("mma.sync copies", wide, PLAIN), ("direct", None, PLAIN)]
        elif size in SYNC and dtype == "f16" and layouts in ("NN", "NT"):
            plans += [("mma.sync copies", wide, PLAIN), ("direct", None, PLAIN)]
        elif size in LINES:
            plans += [("as it is", None, TARGET)]
        for called, padded, target in plans:
            name = _product(folder, size if padded is None else padded.sizes, layouts, dtype, target)
            entry = {**facts, "kernel": called, "file": name}
            if padded is not None:
                entry |= {"wide": padded.sizes, "copied": padded.copied, "cropped": padded.cropped}
            index.append(entry)
    (folder / "index.json").write_text(json.dumps(index, indent=1))
    print(f"{len(index)} products in {folder}")


def _product(folder: Path, size: Size, layouts: str, dtype: str, target: str) -> str:
    """The file of the kernel that lego_mlir.matmul takes for a product on a target."""
    from lego_mlir.runtime.products.kernels import compiled
    from lego_mlir.runtime.products.problem import Problem

    name = f"{'x'.join(map(str, size))}-{layouts}-{dtype}-{target}"
    if not (folder / f"{name}.cubin").is_file():
        _keep(folder, name, compiled(Problem(*size, dtype, dtype, layouts, target, hopper.SMS), "cubin"))
    return name


def _keep(folder: Path, name: str, made: Any) -> None:
    (folder / f"{name}.cubin").write_bytes(made.bytes)
    (folder / f"{name}.json").write_text(json.dumps(made.manifest))


def time(sizes: list[Size]) -> None:
    """Check and time the rendered cases; exit code 1 where one is wrong."""
    import torch

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    out = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json"
    failed = 0
    for size, layouts, dtype in CASES:
        ours = [e for e in index if (tuple(e["size"]), e["layouts"], e["dtype"]) == (size, layouts, dtype)]
        if size not in sizes or not ours:
            continue
        try:
            rows = measured(folder, ours, size, layouts, dtype)
        except harness.WrongResultError as error:
            print(error, file=sys.stderr, flush=True)
            failed += 1
            continue
        results["rows"] += rows
        shown = ", ".join(f"{row['kernel']} {rows[0]['ms'] / row['ms']:.3f}" for row in rows[1:])
        print(f"{'x'.join(map(str, size))} {layouts} {dtype}: cuBLAS {rows[0]['ms']:.4f} ms; {shown}", flush=True)
        results["clocks"] = harness.clocks()
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


def measured(folder: Path, ours: list[dict[str, Any]], size: Size, layouts: str, dtype: str) -> list[dict[str, Any]]:
    """The rows of one case: cuBLAS first, then our ways, each checked."""
    import torch

    m, n, k = size
    type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch.manual_seed(0)
    a, b = (
        _matrix(letter, *dims, lambda *shape: torch.randn(shape, device="cuda", dtype=type_))
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    )
    expected, c = torch.mm(a, b), torch.empty((m, n), device="cuda", dtype=type_)
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    errors = {"cuBLAS": 0.0}
    for entry in ours:
        run = launches(folder, entry, a, b, c)
        c.fill_(float("nan"))
        run()
        errors[entry["kernel"]] = harness.require_close(c, expected, TOLERANCE, f"{entry['file']} {entry['kernel']}")
        runs[entry["kernel"]] = run
    turn = TURN_S if m * n * k >= POWER_LIMITED else SHORT_TURN_S
    return [
        {"kernel": name, "size": size, "layouts": layouts, "dtype": dtype, "ms": median(found), "rounds": found,
         "error": errors[name]}
        for name, found in hopper.in_turns(runs, turn, ROUNDS).items()
    ]  # fmt: skip


def launches(folder: Path, entry: dict[str, Any], a: Any, b: Any, c: Any) -> Any:
    """The launches of one way to compute c, on arrays and aligned copies that are bound once."""
    import torch

    def prepared(file: str, *arrays: Any) -> Any:
        from lego_mlir.runtime.packs import load_kernels

        (kernel,) = load_kernels(folder / f"{file}.cubin").values()
        return kernel.prepare(*arrays, *mlir_kernels.workspace(kernel))

    if "wide" not in entry:
        return prepared(entry["file"], a, b, c)
    m, n, k = entry["wide"]
    steps, operands = [], []
    for letter, array, dims, copied in zip(entry["layouts"], (a, b), ((m, k), (k, n)), entry["copied"], strict=True):
        wide = array
        if copied:
            wide = _matrix(letter, *dims, lambda *shape: torch.full(shape, float("nan"), device="cuda", dtype=a.dtype))
            steps.append(prepared(f"pad-{letter}-{entry['dtype']}", array, wide))
        operands.append(wide)
    result = torch.empty((m, n), device="cuda", dtype=a.dtype) if entry["cropped"] else c
    steps.append(prepared(entry["file"], *operands, result))
    if entry["cropped"]:
        steps.append(prepared(f"crop-{entry['dtype']}", result, c))

    def run() -> None:
        for step in steps:
            step()

    return run


def _matrix(letter: str, rows: int, columns: int, make: Any) -> Any:
    """A matrix in rows (N) or columns (T)."""
    return make(rows, columns) if letter == "N" else make(columns, rows).t()


def table(sizes: list[Size]) -> None:
    """The table of the documentation, from the newest results."""
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    path = mlir_kernels.latest_path(NAME)
    assert path is not None  # there are results
    circumstances = f"{results['device']}, {path.name[: len('2026-01-02')]}, PyTorch {results['torch']}.\n\n"
    mlir_kernels.put_into(PAGE, "odd", circumstances, _relative(results["rows"]))


def _relative(rows: list[dict[str, Any]]) -> mlir_kernels.Table:
    """The time of cuBLAS relative to ours, and the geometric means."""
    times = {(tuple(r["size"]), r["layouts"], r["dtype"], r["kernel"]): r["ms"] for r in rows}
    ways = ["copies", "lines", "as it is", "mma.sync copies", "direct"]
    cells, ratios = [], {way: [] for way in ways}  # type: ignore[var-annotated]
    for size, layouts, dtype in CASES:
        line = [" x ".join(map(str, size)), f"{layouts} {dtype}"]
        for way in ways:
            both = [times.get((size, layouts, dtype, kernel)) for kernel in ("cuBLAS", way)]
            found = None if None in both else both[0] / both[1]
            ratios[way] += [] if found is None else [found]
            line.append("" if found is None else f"{found:.3f}")
        cells.append(line)
    means = [f"{geometric_mean(found):.3f}" if found else "" for found in ratios.values()]
    return mlir_kernels.table("M x N x K|layouts|" + "|".join(ways), [*cells, ["geometric mean", "", *means]])


if __name__ == "__main__":
    steps = {"render": render, "time": time, "table": table}
    mlir_kernels.main(__doc__ or "", steps, [*SQUARES, *LINES, *OTHERS], mlir_kernels.size_of)
