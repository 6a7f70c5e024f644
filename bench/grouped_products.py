"""`lego_mlir.kernels.grouped_products`, `grouped_depths` and `batched_products` against torch, on an H200.

    python bench/grouped_products.py check     on the GPU machine: every kernel at odd sizes; JSON

Grouped: mixtures of experts, their rows balanced or skewed among the groups, against `torch._grouped_mm` and a loop of
`torch.mm` that knows the offsets on the host. Depth: the gradients of their matrices, groups along K, against the same.
Batched: against `torch.bmm`. All in bf16. Each is timed in every tile, and the row has the fastest. A tile of
four numbers is one of clusters of two blocks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner

NAME, TARGET = "grouped_products", "sm_90a"
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
ODD = [
    *(("grouped", 11, 1500, 1096, 776, "skewed", orders) for orders in "TN"), ("depth", 11, 1500, 328, 776, "skewed"),
    *(("batched", 5, 328, 392, 200, layouts) for layouts in ("NN", "NT", "TN", "TT")),
]  # fmt: skip
"""Problems of sizes that no tile divides, for the step `check`."""


def label(kind: str, orders: str, tile: tuple[int, ...]) -> str:
    return f"{kind}-{orders}-{'x'.join(map(str, tile))}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The cubins, each in a folder with its manifest."""
    from lego_mlir import bf16
    from lego_mlir.choices.role_tiles import role_tile
    from lego_mlir.kernels import batched_products, grouped_depths, grouped_products

    for kind, orders, tile in KERNELS:
        if kind == "grouped":
            kernel = grouped_products.build(grouped_products.GroupedForm(bf16, b=orders), role_tile(*tile), BLOCKS)
        elif kind == "depth":
            kernel = grouped_depths.build(grouped_depths.DepthForm(bf16), role_tile(*tile), BLOCKS)
        else:
            kernel = batched_products.build(
                batched_products.BatchedForm(bf16, layouts=orders), role_tile(*tile), BLOCKS
            )
        mlir_kernels.keep_cubin(folder / label(kind, orders, tile), kernel, TARGET)


def kernel_of(kind: str, orders: str, tile: tuple[int, ...]) -> Any:
    return mlir_kernels.kept_kernel(BENCHMARK.folder / label(kind, orders, tile) / f"{kind}_product.cubin")


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


def check(words: Sequence[str]) -> int:
    """The error of every kernel at odd sizes, kept as JSON; 1 where one is wrong."""
    rows = []
    for case in ODD:
        problem = tensors(case)
        for name, run in problem.ours().items():
            try:
                rows.append({"kernel": name, "error": problem.error(run(), name)})
            except harness.WrongResultError as error:
                rows.append({"kernel": name, "failed": str(error)})
            print(rows[-1], flush=True)
    harness.save("grouped_check", {"device": harness.device_name(), "rows": rows})
    return int(any("failed" in row for row in rows))


def products_of(case: harness.Case) -> int:
    """Multiplications."""
    return math.prod(case[2:5]) * (case[1] if case[0] == "batched" else 1)


def table() -> None:
    """Milliseconds, teraflops, times over ours, and the tile."""
    measured, rows = mlir_kernels.by_case(mlir_kernels.newest(NAME)), []
    for case in CASES:
        found = measured.get(tuple(harness.words_of(case)), {})
        if "lego" not in found:
            continue
        ours = found["lego"]["ms"]
        kernels = ("torch grouped", "torch loop", "torch bmm")
        ratios = [f"{found[k]['ms'] / ours:.2f}" if k in found else "" for k in kernels]
        speed = f"{2 * products_of(case) / ours / 1e9:.0f}"
        tile = str(found["lego"]["config"]).rpartition("-")[2]
        rows.append([" ".join(map(str, case)), mlir_kernels.time_cell(found["lego"]), speed, *ratios, tile])
    columns = "case|ms (10th to 90th percentile)|Tflop/s|torch._grouped_mm|torch.mm by group|torch.bmm|tile"
    made, note = mlir_kernels.table(columns, rows), "; above 1.00 ours is faster"
    mlir_kernels.put_results("results/grouped-products.md", NAME, NAME, made, "torch", note=note)


BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, target=TARGET, protocol=harness.Protocol(patience_ms=600), steps={"check": check}
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
