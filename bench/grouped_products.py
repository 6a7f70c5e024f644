"""`lego_mlir.kernels.grouped_products`, `grouped_depths` and `batched_products` against torch, on an H200.

    python bench/grouped_products.py render          the kernels as cubins for sm_90a, no GPU
    python bench/grouped_products.py check           on the GPU machine: every kernel at odd sizes, then three times
                                                     each of four cases; JSON in $OUT, a few seconds
    python bench/grouped_products.py time [WORD ..]  correctness, then times; words choose cases
    python bench/grouped_products.py table           the table of docs/results/grouped-products.md

Grouped: mixtures of experts, their rows balanced or skewed among the groups, against `torch._grouped_mm` and a loop of
`torch.mm` that knows the offsets on the host. Depth: the gradients of their matrices, groups along K, against the same.
Batched: against `torch.bmm`. All in bf16. Each is timed in every tile, and the row has the fastest, beside what
`role_choices` chooses. A tile of four numbers is one of clusters of two blocks.
"""

from __future__ import annotations

import json
import math
import os
import time as clock
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import mlir_kernels

NAME, TARGET, FOLDER = "grouped_products", "sm_90a", harness.ARTIFACTS / "grouped"
BLOCKS, TOLERANCE = 132, 1e-2
TILES = ((128, 256, 4), (64, 256, 4), (128, 128, 6), (256, 128, 4), (64, 128, 8), (128, 64, 8))
PAIRED = ((128, 256, 4, 2), (128, 128, 6, 2))
"""Tiles of clusters of two blocks."""
KERNELS = [
    *(("grouped", "T", tile) for tile in (*TILES, *PAIRED)),
    *(("grouped", "N", tile) for tile in TILES[:2]),
    *(("batched", layouts, tile) for layouts in ("NN", "NT") for tile in (*TILES, *PAIRED)),
    *(("batched", layouts, TILES[0]) for layouts in ("TN", "TT")),
    *(("depth", "TN", tile) for tile in (TILES[0], TILES[2], TILES[3])),
]
GROUPED = [
    ("grouped", groups, rows, depth, columns, shares)
    for groups, rows in ((8, 4096), (8, 16384), (16, 8192), (16, 32768), (64, 4096), (64, 16384), (64, 32768))
    for depth, columns in ((1024, 2048), (2048, 7168), (7168, 2048), (4096, 4096))
    for shares in ("balanced", "skewed")
]
BATCHED = [
    ("batched", products, m, n, k, layouts)
    for products, m, n, k in (
        (8, 1024, 1024, 1024),
        (16, 2048, 2048, 2048),
        (32, 512, 512, 4096),
        (128, 1024, 1024, 64),
        (128, 1024, 64, 1024),
        (64, 128, 4096, 1024),
        (256, 256, 256, 256),
        (12, 1000, 1000, 1000),
        (4, 4096, 4096, 4096),
        (512, 64, 128, 512),
    )
    for layouts in ("NN", "NT")
]  # fmt: skip
DEPTHS = [("depth", *case[1:]) for case in GROUPED if case[2] == 16384 and case[3] != 4096]
CASES: list[harness.Case] = [*BATCHED, *GROUPED, *DEPTHS]
QUICK = [
    ("grouped", 8, 16384, 4096, 4096, "balanced"),
    ("grouped", 64, 16384, 2048, 7168, "skewed"),
    ("grouped", 64, 4096, 7168, 2048, "balanced"),
    ("batched", 16, 2048, 2048, 2048, "NT"),
    ("batched", 12, 1000, 1000, 1000, "NN"),
    ("depth", 8, 16384, 2048, 7168, "balanced"),
]


def label(kind: str, orders: str, tile: tuple[int, ...]) -> str:
    return f"{kind}-{orders}-{'x'.join(map(str, tile))}"


def render() -> None:
    """The cubins, each in a folder with its manifest."""
    from lego_mlir import bf16
    from lego_mlir.kernels import batched_products, grouped_depths, grouped_products
    from lego_mlir.kernels.role_tiles import RoleTile
    from lego_mlir.toolchain import compile_kernel

    for kind, orders, tile in KERNELS:
        path = FOLDER / label(kind, orders, tile)
        if path.is_dir():
            continue
        if kind == "grouped":
            kernel = grouped_products.build(grouped_products.GroupedForm(bf16, b=orders), RoleTile(*tile), BLOCKS)
        elif kind == "depth":
            kernel = grouped_depths.build(grouped_depths.DepthForm(bf16), RoleTile(*tile), BLOCKS)
        else:
            kernel = batched_products.build(batched_products.BatchedForm(bf16, layouts=orders), RoleTile(*tile), BLOCKS)
        made = compile_kernel(kernel, target=TARGET, emit="cubin")
        path.mkdir(parents=True)
        (path / f"{kernel.name}.cubin").write_bytes(made.bytes)
        (path / f"{kernel.name}.json").write_text(json.dumps(made.manifest))
        print(path.name, flush=True)


def kernel_of(kind: str, orders: str, tile: tuple[int, ...]) -> Any:
    import lego_mlir

    return lego_mlir.load_kernels(str(FOLDER / label(kind, orders, tile)))[f"{kind}_product"]


def ends_of(groups: int, rows: int, shares: str) -> list[int]:
    """Where each group ends: in equal parts, or with shares that fall as 1 / (group + 1), every eighth group empty."""
    weights = [1.0 if shares == "balanced" else 0.0 if g % 8 == 5 else 1.0 / (g + 1) for g in range(groups)]
    total, ends = sum(weights), []
    for g in range(groups):
        ends.append(round(rows * sum(weights[: g + 1]) / total))
    return ends


class GroupedTensors:
    """A grouped product on the GPU, and every way to compute it; b is the transpose of [G, N, K]."""

    def __init__(self, groups: int, rows: int, depth: int, columns: int, shares: str, orders: str = "T") -> None:
        import torch

        scale = 1 / math.sqrt(depth)
        make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
        self.ends, self.orders = ends_of(groups, rows, shares), orders
        self.a = make((rows, depth))
        self.stored = make((groups, columns, depth) if orders == "T" else (groups, depth, columns)) * scale
        self.b = self.stored.mT if orders == "T" else self.stored
        self.offsets = torch.tensor(self.ends, device="cuda", dtype=torch.int32)

    def ours(self) -> dict[str, Callable[[], Any]]:
        return {
            label(kind, orders, tile): partial(kernel_of(kind, orders, tile), self.a, self.stored, self.offsets)
            for kind, orders, tile in KERNELS
            if kind == "grouped" and orders == self.orders
        }

    def looped(self) -> Any:
        import torch

        parts = zip([0, *self.ends], self.ends, self.b, strict=False)
        return torch.cat([self.a[begin:end] @ matrix for begin, end, matrix in parts])

    def torch(self) -> dict[str, Callable[[], Any]]:
        import torch

        found: dict[str, Callable[[], Any]] = {"torch loop": self.looped}
        if hasattr(torch, "_grouped_mm"):
            found["torch grouped"] = lambda: torch._grouped_mm(self.a, self.b, offs=self.offsets)
        return found

    def error(self, found: Any, what: str) -> float:
        """The largest error of all groups, each against a product in f32."""
        errors = [0.0]
        for begin, end, matrix in zip([0, *self.ends], self.ends, self.b, strict=False):
            if end > begin:
                wanted = self.a[begin:end].float() @ matrix.float()
                errors.append(harness.require_close(found[begin:end].float(), wanted, TOLERANCE, what))
        return max(errors)


class DepthTensors:
    """The gradients of the matrices of a grouped product: a.T @ b for each group of rows of a and b."""

    def __init__(self, groups: int, rows: int, depth: int, columns: int, shares: str) -> None:
        import torch

        make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
        self.ends = ends_of(groups, rows, shares)
        self.a, self.b = make((rows, depth)), make((rows, columns))
        self.offsets = torch.tensor(self.ends, device="cuda", dtype=torch.int32)

    def ours(self) -> dict[str, Callable[[], Any]]:
        sizes = {"M": self.a.shape[1], "N": self.b.shape[1]}
        return {
            label(kind, orders, tile): partial(kernel_of(kind, orders, tile), self.a, self.b, self.offsets, **sizes)
            for kind, orders, tile in KERNELS
            if kind == "depth"
        }

    def looped(self) -> Any:
        import torch

        parts = zip([0, *self.ends], self.ends, strict=False)
        return torch.stack([self.a[begin:end].T @ self.b[begin:end] for begin, end in parts])

    def torch(self) -> dict[str, Callable[[], Any]]:
        import torch

        found: dict[str, Callable[[], Any]] = {"torch loop": self.looped}
        if hasattr(torch, "_grouped_mm"):
            found["torch grouped"] = lambda: torch._grouped_mm(self.a.T, self.b, offs=self.offsets)
        return found

    def error(self, found: Any, what: str) -> float:
        """The largest error of all groups, each against a product in f32."""
        errors = []
        for group, (begin, end) in enumerate(zip([0, *self.ends], self.ends, strict=False)):
            if end == begin:
                assert not found[group].any(), f"{what}: an empty group has zeros"
            else:
                wanted = self.a[begin:end].float().T @ self.b[begin:end].float()
                errors.append(harness.require_close(found[group].float(), wanted, TOLERANCE, what))
        return max(errors)


class BatchedTensors:
    """A batched product on the GPU, and every way to compute it."""

    def __init__(self, products: int, m: int, n: int, k: int, layouts: str) -> None:
        import torch

        make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
        self.products, self.layouts = products, layouts
        self.stored = [
            make((products, *(shape[::-1] if letter == "T" else shape)))
            for letter, shape in zip(layouts, ((m, k), (k, n)), strict=True)
        ]
        self.a, self.b = (x.mT if letter == "T" else x for x, letter in zip(self.stored, layouts, strict=True))

    def ours(self) -> dict[str, Callable[[], Any]]:
        return {
            label(kind, orders, tile): partial(kernel_of(kind, orders, tile), *self.stored, Z=self.products, DA=1, DB=1)
            for kind, orders, tile in KERNELS
            if kind == "batched" and orders == self.layouts
        }

    def torch(self) -> dict[str, Callable[[], Any]]:
        import torch

        return {"torch bmm": lambda: torch.bmm(self.a, self.b)}

    def error(self, found: Any, what: str) -> float:
        return max(
            harness.require_close(found[z].float(), self.a[z].float() @ self.b[z].float(), TOLERANCE, what)
            for z in (0, self.products - 1)
        )


def tensors(case: harness.Case) -> Any:
    kind, *facts = case
    return {"grouped": GroupedTensors, "depth": DepthTensors, "batched": BatchedTensors}[kind](*facts)


def timed(folder: Path, *case: Any) -> list[harness.Contender]:
    """The contenders of a case, ours right."""
    problem = tensors(case)
    runs = problem.ours()
    config = harness.best(runs)
    error = problem.error(runs[config](), config)
    ours = harness.contender(runs[config], kernel="lego", config=config, error=error)
    return [ours, *(harness.contender(run, kernel=kernel) for kernel, run in problem.torch().items())]


def check() -> None:
    """Every kernel at odd sizes, then a few times of four cases."""
    import torch

    out = Path(os.environ.get("OUT", ".")) / "grouped_check.json"
    rows: list[dict[str, Any]] = []

    def keep(**row: Any) -> None:
        rows.append(row)
        out.write_text(json.dumps(rows, indent=1))
        print(row, flush=True)

    problems: dict[str, Any] = {}
    for kind, orders, _ in KERNELS:
        if kind == "grouped":
            problems[kind + orders] = GroupedTensors(11, 1500, 1096, 776, "skewed", orders)
        elif kind == "depth":
            problems[kind + orders] = DepthTensors(11, 1500, 328, 776, "skewed")
        else:
            problems[kind + orders] = BatchedTensors(5, 328, 392, 200, orders)
    for problem in problems.values():
        for name, run in problem.ours().items():
            try:
                keep(kernel=name, error=problem.error(run(), name))
            except Exception as error:
                keep(kernel=name, failed=f"{type(error).__name__}: {error}"[:300])
    started = clock.monotonic()
    for case in QUICK:
        problem = tensors(case)
        for name, run in {**problem.ours(), **problem.torch()}.items():
            if clock.monotonic() - started > 12:
                return
            try:
                run()
                torch.cuda.synchronize()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                found = []
                for _ in range(3):
                    begin.record()
                    for _ in range(10):
                        run()
                    end.record()
                    end.synchronize()
                    found.append(begin.elapsed_time(end) / 10)
                keep(case=harness.words_of(case), kernel=name, ms=sorted(found))
            except Exception as error:
                keep(case=harness.words_of(case), kernel=name, failed=f"{type(error).__name__}: {error}"[:300])


def time(words: list[str]) -> int:
    harness.PATIENCE_MS, harness.SEARCHING_MS = 600, 200
    chosen = [case for case in CASES if set(words) <= set(harness.words_of(case))]
    return harness.time_cases(NAME, FOLDER, chosen, timed)


def products_of(case: harness.Case) -> int:
    """Multiplications."""
    return math.prod(case[2:5]) * (case[1] if case[0] == "batched" else 1)


def table() -> None:
    """Milliseconds, teraflops, times over ours, and the tile."""
    measured = mlir_kernels.latest(NAME)
    if measured is None:
        raise SystemExit("nothing was measured: run the step `time` on a GPU")
    rows = []
    for case in CASES:
        found = {row["kernel"]: row for row in measured["rows"] if row["case"] == harness.words_of(case)}
        if "lego" not in found:
            continue
        ours = found["lego"]["ms"]
        rivals = [
            f"{found[k]['ms'] / ours:.2f}" if k in found else "" for k in ("torch grouped", "torch loop", "torch bmm")
        ]
        speed = f"{2 * products_of(case) / ours / 1e9:.0f}"
        tile = str(found["lego"]["config"]).rpartition("-")[2]
        rows.append([" ".join(map(str, case)), mlir_kernels.time_cell(found["lego"]), speed, *rivals, tile])
    columns = "case|ms (10th to 90th percentile)|Tflop/s|torch._grouped_mm|torch.mm by group|torch.bmm|tile"
    about = f"{mlir_kernels.circumstances(NAME, measured, 'torch')}; above 1.00 ours is faster.\n\n"
    mlir_kernels.put_into("results/grouped-products.md", NAME, about, mlir_kernels.table(columns, rows))


if __name__ == "__main__":
    steps = {"render": lambda _: render(), "check": lambda _: check(), "time": time, "table": lambda _: table()}
    mlir_kernels.main(__doc__ or "", steps, [], str)
