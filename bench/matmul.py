"""Matrix multiplication through the transform scripts, against cuBLAS and Triton.

    python bench/matmul.py static             registers, shared memory and main loops, no GPU
    python bench/matmul.py render [SIZE ..]   the kernels for each size and layout, by tile, stages and order
    python bench/matmul.py time [SIZE ..]     on the GPU machine: correctness, then times
    python bench/matmul.py table              the tables of docs/results/matmul-mma.md

A size is M or MxNxK. `time` needs CuPy, torch and lego_mlir.runtime, and Triton for a rival.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import harness
import mlir_kernels

NAME, PAGE, TARGET, SCRIPT = "matmul", "results/matmul-mma.md", "sm_90", "matmul_sm80.mlir"
Size = tuple[int, int, int]
SQUARES = (512, 1024, 2048, 4096, 8192, 16384)
MODELS = ((4096, 11008, 4096), (8192, 28672, 8192), (32, 4096, 4096))
SIZES: tuple[Size, ...] = (*((n, n, n) for n in SQUARES), *MODELS)
LAYOUTS = ("NN", "NT", "TN", "TT")
ORDERS = ("row", "column", "grouped", "morton")
STUDIED = (4096, 4096, 4096)  # NN: every order and several depths of the best kernel
F16_BYTES = 2
# Candidates for each size and layout, the best of the model's ranking: it knows large products better than small ones.
TRIED, TRIED_SMALL, SMALL = 4, 5, 2**30
TOLERANCE = 0.01

# Of an H200, from NVIDIA's data sheet and the CUDA C++ Programming Guide. mma.sync runs at about 62 % of the full rate:
# 6.5 cycles for an HMMA.16816 in each of the four parts of an SM. The last three are guesses that only rank kernels.
SMS, CLOCK_GHZ, BYTES_PER_NS, SHARED_PER_SM = 132, 1.755, 4800, 228 * 1024
HMMA_CYCLES, SHARED_CYCLES = 6.5, 4
L2_BYTES_PER_CYCLE, BARRIER_CYCLES, START_CYCLES = 32, 40, 2500


# -- which kernels


def label(choice: Any) -> str:
    t = choice.tiling
    stay = f"-{choice.resident}r" if choice.resident else ""
    return f"{t.m}x{t.n}x{t.k}-{t.warps[0]}x{t.warps[1]}w-{choice.stages}s-{choice.order}{stay}"


def compiled(choice: Any, size: Size, layouts: str, dtype: str = "f16", result: str = "f16") -> Any:
    """The kernel of a choice for a size, to PTX."""
    from lego_mlir import Col, Row
    from lego_mlir.kernels import matmul
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder
    from lego_mlir.tracing.dtypes import dtype_named

    m, n, k = size
    a, b = ((Col if letter == "T" else Row)(*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    types = {"dtype": dtype_named(dtype), "result": dtype_named(result)}
    blocks = choice.blocks(SMS)
    kernel = matmul.build(m, n, k, **types, a=a, b=b, tiling=choice.tiling, order=choice.order, blocks=blocks)
    parameters = {"stages": choice.stages}
    return compile_kernel(kernel, transform=SCRIPT, parameters=parameters, target=TARGET, cache=Cache(default_folder()))


def tried(figures: dict[str, Any], size: Size, layouts: str) -> list[Any]:
    """What is built for a size: the best by the model, and at STUDIED every order and depth of the best."""
    from lego_mlir.kernels.choices import CANDIDATES, fitting

    count = TRIED_SMALL if size[0] * size[1] * size[2] <= SMALL else TRIED
    ranked = sorted(CANDIDATES, key=lambda c: estimate(c, figures[label(c) + layouts], size))[:count]
    if layouts == "NN" and size == STUDIED:
        ranked += [replace(ranked[0], order=order) for order in ORDERS]
        ranked += [replace(ranked[0], stages=stages) for stages in (2, 3)]
    return list(dict.fromkeys(fitting(c, size[2], SHARED_PER_SM - 1024, F16_BYTES) for c in ranked))


def estimate(choice: Any, row: dict[str, Any], size: Size) -> float:
    """Microseconds by a model: the slowest of matrix unit, issue, shared memory and L2 for each step, whole waves of
    blocks, and not faster than the device's memory. It ranks kernels; it predicts no time."""
    m, n, k = size
    t, loop = choice.tiling, row["loop"]
    warps, steps, tiles = t.threads // 32, -(-k // t.k), -(-m // t.m) * -(-n // t.n)
    here = min(row["blocks_per_sm"], max(1, -(-tiles // SMS)))
    matrix = warps * loop["HMMA"] * HMMA_CYCLES / 4
    issue = warps * row["loop_instructions"] / 4
    shared = warps * (loop["LDSM"] + loop["LDGSTS"]) * SHARED_CYCLES
    level2 = (t.m + t.n) * t.k * 2 / L2_BYTES_PER_CYCLE
    step = here * max(matrix, issue, shared, level2) + BARRIER_CYCLES
    waves = -(-tiles // (SMS * here))
    start = 0 if choice.resident else START_CYCLES
    cycles = waves * (steps * step + start + here * t.m * t.n * 2 / L2_BYTES_PER_CYCLE)
    return max(cycles / CLOCK_GHZ, 2 * (m * k + k * n + m * n) / BYTES_PER_NS) / 1000


# -- the steps


def static(sizes: list[Size]) -> None:
    """Every candidate in every layout at 4096, f16 to f16; the largest also as bf16, and into f32."""
    from lego_mlir.kernels.choices import CANDIDATES

    rows = []
    for choice in CANDIDATES:
        for layouts in LAYOUTS:
            for dtype, result in [("f16", "f16")] + [("bf16", "bf16"), ("f16", "f32")] * (choice == CANDIDATES[0]):
                made = compiled(choice, STUDIED, layouts, dtype, result)
                code = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
                facts = {**choice.to_data(), "layouts": layouts, "dtype": dtype, "result": result}
                row = harness.static_row(code, "HMMA", kernel=f"{label(choice)} {layouts} {dtype} {result}", **facts)
                row["blocks_per_sm"] = mlir_kernels.blocks_per_sm(row, choice.tiling.threads, SHARED_PER_SM)
                rows.append(row)
    harness.write_static(NAME, rows, TARGET)


def figures() -> dict[str, Any]:
    """The static rows of f16 kernels, by label and layouts."""
    from lego_mlir.kernels.choices import choice_from

    rows = mlir_kernels.static_results(NAME, TARGET)
    return {label(choice_from(r)) + r["layouts"]: r for r in rows if r["dtype"] == r["result"] == "f16"}


def render(sizes: list[Size]) -> None:
    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    known, index = figures(), []
    for size in sizes:
        for layouts in LAYOUTS:
            for choice in tried(known, size, layouts):
                name = f"{'x'.join(map(str, size))}-{layouts}-{label(choice)}"
                mlir_kernels.keep(folder, name, compiled(choice, size, layouts))
                index.append({"kernel": name, "size": size, "layouts": layouts, **choice.to_data()})
    (folder / "index.json").write_text(json.dumps(index, indent=1))
    print(f"{len(index)} kernels in {folder}")


def time(sizes: list[Size]) -> None:
    sys.exit(harness.time_cases(NAME, harness.ARTIFACTS / NAME, list(product(sizes, LAYOUTS)), timed))


def timed(folder: Path, size: Size, layouts: str) -> list[harness.Contender]:
    index = json.loads((folder / "index.json").read_text())
    ours = [entry for entry in index if tuple(entry["size"]) == size and entry["layouts"] == layouts]
    return Case(folder, size, layouts).contenders(ours)


class Case:
    """One product: its operands as they are stored, and every way to compute it."""

    def __init__(self, folder: Path, size: Size, layouts: str) -> None:
        import cupy as cp
        import torch

        m, n, k = size
        stored = [
            torch.randn(dims if letter == "N" else dims[::-1], device="cuda", dtype=torch.float16)
            for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
        ]
        self.folder, self.size, self.layouts = folder, size, layouts
        self.a, self.b = (x if letter == "N" else x.t() for letter, x in zip(layouts, stored, strict=True))
        self.c = torch.empty((m, n), device="cuda", dtype=torch.float16)
        self.memory = [cp.from_dlpack(x.reshape(-1)) for x in (*stored, self.c)]
        self.expected = torch.matmul(self.a, self.b)

    def contenders(self, ours: list[dict[str, Any]]) -> list[harness.Contender]:
        import torch

        found = [self.right("cuBLAS", lambda: torch.matmul(self.a, self.b, out=self.c), {})]
        for entry in ours:
            launch = mlir_kernels.launcher(self.folder, entry["kernel"])
            found.append(self.right(entry["kernel"], lambda launch=launch: launch(*self.memory), entry))
        rival = self.triton()
        if rival is not None:
            found.append(self.right("Triton", rival, {}))
        return found

    def right(self, kernel: str, run: Any, facts: dict[str, Any]) -> harness.Contender:
        """A contender, after one launch into an empty result that must be right."""
        self.c.zero_()
        run()
        error = harness.require_close(self.c, self.expected, TOLERANCE, f"{kernel} {self.size} {self.layouts}")
        named = {"kernel": kernel, "size": self.size, "layouts": self.layouts, "error": error}
        return harness.contender(run, **{**facts, **named})

    def triton(self) -> Any:
        """The kernel by hand in the fastest of a few configurations; None without Triton or where K has a tail."""
        try:
            from rivals import triton_matmul
        except ImportError:
            return None
        m, n, k = self.size
        strides = (*self.a.stride(), *self.b.stride(), *self.c.stride())
        runs = {}
        for tile, warps, stages in (
            ((128, 256, 64), 8, 3), ((128, 128, 64), 4, 3), ((64, 128, 64), 4, 4), ((64, 64, 64), 4, 4),
            ((32, 64, 128), 4, 4),
        ):  # fmt: skip
            if m % tile[0] or n % tile[1] or k % tile[2]:
                continue
            launch = triton_matmul.matmul[((m // tile[0]) * (n // tile[1]),)]
            runs[tile] = lambda launch=launch, tile=tile, warps=warps, stages=stages: launch(
                self.a, self.b, self.c, m, n, k, *strides, *tile, 8, num_warps=warps, num_stages=stages
            )
        return runs[harness.best(runs)] if runs else None


def fastest() -> list[tuple[str, Size, Any]]:
    """The fastest of our kernels at each size and layout of the newest results."""
    from lego_mlir.kernels.choices import choice_from

    measured, found = mlir_kernels.latest(NAME), []
    for size, layouts in product(SIZES, LAYOUTS):
        ours = [r for r in of([] if measured is None else measured["rows"], size, layouts) if "tile" in r]
        if ours:
            found.append((layouts, size, choice_from(min(ours, key=lambda r: r["ms"]))))
    return found


def of(rows: list[dict[str, Any]], size: Size, layouts: str) -> list[dict[str, Any]]:
    return [r for r in rows if tuple(r["size"]) == size and r["layouts"] == layouts]


def table(sizes: list[Size]) -> None:
    """The tables of the documentation, from the newest results."""
    cells = []
    for r in mlir_kernels.static_results(NAME, TARGET):
        shape = f"{'x'.join(map(str, r['tile']))}, {'x'.join(map(str, r['warps']))}, {r['stages']}"
        loop = [r["loop_instructions"], *(r["loop"][name] for name in ("HMMA", "LDSM", "LDGSTS"))]
        cells.append([
            shape, r["layouts"], f"{r['dtype']} to {r['result']}", str(r["registers"]), str(r["spill_bytes"]),
            f"{r['shared_bytes'] / 1024:.0f}", str(r["blocks_per_sm"]), " / ".join(map(str, loop)),
        ])  # fmt: skip
    columns = "tile, warps, stages|layouts|types|registers|spills|shared KiB|blocks an SM"
    text = mlir_kernels.table(f"{columns}|main loop: all / HMMA / LDSM / LDGSTS", cells)
    mlir_kernels.put_into(PAGE, "static", text)
    results = mlir_kernels.latest(NAME)
    mlir_kernels.put_into(PAGE, "measured", *_measured(results))
    mlir_kernels.put_into(PAGE, "study", _study([] if results is None else results["rows"]))


def _measured(results: Any) -> tuple[str, mlir_kernels.Table]:
    rows = [] if results is None else results["rows"]
    cells = []
    for size in SIZES:
        for layouts in LAYOUTS:
            here = of(rows, size, layouts)
            ours = min((r for r in here if "tile" in r), key=lambda r: r["ms"], default=None)
            named = {r["kernel"]: r for r in here}
            times = [mlir_kernels.time_cell(r) for r in (named.get("cuBLAS"), ours, named.get("Triton"))]
            last = (
                ["", ""]
                if ours is None
                else [f"{named['cuBLAS']['ms'] / ours['ms']:.3f}", ours["kernel"].split("-", 2)[2]]
            )
            cells.append([" x ".join(map(str, size)), layouts, *times, *last])
    columns = "M x N x K|layouts|cuBLAS ms|ours ms|Triton ms|of cuBLAS|our kernel"
    unmeasured = "Not measured yet: the cells are empty"
    about = unmeasured if results is None else mlir_kernels.circumstances(NAME, results, "torch")
    return f"{about}.\n\n", mlir_kernels.table(columns, cells)


def _study(rows: list[dict[str, Any]]) -> mlir_kernels.Table:
    """Our kernels at STUDIED, the fastest first."""
    here = of(rows, STUDIED, "NN")
    library = _cublas_ms(here)
    ours = sorted((r for r in here if "tile" in r), key=lambda r: r["ms"])
    cells = [[r["kernel"].split("-", 2)[2], mlir_kernels.time_cell(r), f"{library / r['ms']:.3f}"] for r in ours]
    return mlir_kernels.table("our kernel|ms|of cuBLAS", cells)


def _cublas_ms(rows: list[dict[str, Any]]) -> float | None:
    return next((r["ms"] for r in rows if r["kernel"] == "cuBLAS"), None)


STEPS = {step.__name__: step for step in (static, render, time, table)}


def size_of(text: str) -> Size:
    sizes = [int(part) for part in text.split("x")]
    if len(sizes) not in (1, 3):
        raise argparse.ArgumentTypeError(f"a size is M or MxNxK, not {text!r}")
    return (sizes[0], sizes[0], sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1], sizes[2])


if __name__ == "__main__":
    mlir_kernels.main(__doc__, STEPS, SIZES, size_of)
