"""The model's choice of a column width on stencils drawn at random: the shapes, their times, the comparison.

    python bench/columns_random.py render     kernels and baselines as cubins, no GPU
    python bench/columns_random.py time       on the GPU machine: correctness, then times
    python bench/columns_random.py table      the table of docs/reference/schedule-caches.md: the model's choice

Five box means of f32 with a fixed seed: heights and widths of 1000 to 9000, sizes of 3 to 11, 128 or 256 threads. Each
has the widths of bench/columns.py that are narrower than the matrix, and row by row. Nothing here was used to fit the
model.
"""

from __future__ import annotations

import json
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import columns
import harness
import mlir_kernels

NAME, PAGE, SEED, SHAPES = "columns-random", "reference/schedule-caches.md", 16, 5
FOLDER = harness.ARTIFACTS / "columns_random"
Shape = tuple[int, int, int, int]
"""Height and width of the matrix, side of the box, threads of a block."""


def shapes() -> list[Shape]:
    """The shapes, always the same."""
    rng = random.Random(SEED)
    found: list[Shape] = []
    for _ in range(SHAPES):
        height, width = rng.randint(1000, 9000), rng.randint(1000, 9000)
        found.append((height, width, rng.randrange(3, 12, 2), rng.choice((128, 256))))
    return found


def widths(shape: Shape) -> list[int]:
    return [width for width in columns.WIDTHS if width < shape[1]]


def kernel_name(shape: Shape, width: int) -> str:
    return f"random-{'-'.join(map(str, shape))}-{width}"


# -- without a GPU


def build(shape: Shape, column: int) -> Any:
    from lego_mlir import f32, schedule
    from lego_mlir.kernels import box_stencil

    height, width, size, threads = shape
    order = schedule.columns(height, width, width=column) if column else "row"
    return box_stencil.build(height, width, f32, size=size, order=order, threads=threads)


def compiled(job: tuple[Shape, int]) -> tuple[str, columns.Made]:
    return columns.compiled(kernel_name(*job), build(*job), FOLDER)


def render(_: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    jobs = [(shape, width) for shape in shapes() for width in widths(shape)]
    with ProcessPoolExecutor(2) as pool:
        found = dict(pool.map(compiled, jobs))
    (FOLDER / "kernels.json").write_text(json.dumps(found, indent=1) + "\n")
    for size in sorted({shape[2] for shape in shapes()}):
        columns.by_hand((f"hand-f32-{size}", {"ELEMENT": "float", "TOTAL": "float", "SIZE": size}), FOLDER)
    print(f"{len(found)} kernels in {FOLDER}")


# -- on the GPU machine


def contenders(launch: columns.Launcher, shape: Shape) -> list[Any]:
    """Ours and listing 5 by hand at every width."""
    import numpy as np

    height, width, size, threads = shape
    problem, tasks, found = columns.Problem("stencil", height, size=size, wide=width), height * width, []
    for column in widths(shape):
        facts = {"width": column, "block": threads}
        run = launch.ours(kernel_name(shape, column), problem.arrays, tasks, threads)
        found.append(problem.contender(run, kernel="ours", **facts))
        entry, more = ("stencil_columns", [np.int32(column)]) if column else ("stencil_naive", [])
        grid, extents = (-(-tasks // threads),), (np.int32(width), np.int32(height))
        run = launch.hand(f"hand-f32-{size}", entry, grid, (threads,), *problem.arrays, *extents, *more)
        found.append(problem.contender(run, kernel="listing 5", **facts))
    return found


def time(_: list[str]) -> None:
    launch = columns.Launcher(FOLDER)

    def timed(_: Path, *shape: int) -> list[Any]:
        return contenders(launch, shape)

    sys.exit(harness.time_cases(NAME, FOLDER, shapes(), timed))


# -- the model beside the times


def agreements(rows: list[columns.Made]) -> list[list[str]]:
    """A line for each shape and kernel: how the model ranks its orders, and what its choice loses."""
    sys.path.insert(0, str(harness.BENCH.parent))
    from bench import schedule_model
    from lego_mlir import schedule
    from lego_mlir.caches import simulation, time_model, workloads

    lines = []
    for height, width, size, threads in shapes():
        case = harness.words_of((height, width, size, threads))
        workload = workloads.stencil(width, height, size)
        for kernel, mapping in schedule_model.MAPPINGS.items():
            mine = [row for row in rows if row["case"] == case and row["kernel"] == kernel]
            measured = {str(row["width"] or "naive"): row["ms"] * 1e-3 for row in mine}
            if not measured:
                continue
            orders = {
                name: simulation.rows(width) if name == "naive" else schedule.columns(height, width, width=int(name))
                for name in measured
            }
            predicted = schedule_model.predictions(workload, orders, threads, time_model.H200, mapping=mapping)
            found = schedule_model.agreement(measured, predicted)
            best = min(measured, key=lambda name: measured[name])
            gains = [f"{measured['naive'] / measured[name]:.3f}" for name in (best, found.choice)]
            title = f"{size} x {size}, {height} x {width}, {kernel}"
            losses = [f"{100 * loss:.1f} %" for loss in (found.loss, found.of_three)]
            ranks = f"{found.spearman:.2f}"
            lines.append([title, str(threads), ranks, f"{best} ({gains[0]})", f"{found.choice} ({gains[1]})", *losses])
    return lines


def table(_: list[str]) -> None:
    """The table of the page, from the newest results."""
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit("nothing was measured yet")
    heads = "means|threads|Spearman|best (gain)|choice (gain)|loss|of three"
    mlir_kernels.put_into(PAGE, NAME, mlir_kernels.table(heads, agreements(results["rows"])))


if __name__ == "__main__":
    mlir_kernels.main(__doc__, {step.__name__: step for step in (render, time, table)}, (), str)
