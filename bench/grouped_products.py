"""`lego_mlir.kernels.grouped_products`, `grouped_depths` and `batched_products` against torch, on an H200.

    python bench/grouped_products.py grouped_products STEP    the steps of `runner.py`, and `check`: odd sizes; JSON
    python bench/grouped_products.py batched_calls time       drawn batches by `lego_mlir.matmul`, next to `torch.bmm`
    python bench/grouped_products.py batched_tiles STEP       every tile that such a call may take, and early starts

Grouped: mixtures of experts, their rows balanced or skewed among the groups, against `torch._grouped_mm` and a loop of
`torch.mm` that knows the offsets on the host. Depth: the gradients of their matrices, groups along K, against the same.
Batched: against `torch.bmm`. All in bf16. Each is timed in every tile, and the row has the fastest. A tile of
four numbers is one of clusters of two blocks.
"""

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
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
    from lego_mlir.kernels.role_products import RoleForm

    for kind, orders, tile in KERNELS:
        module = {"grouped": grouped_products, "depth": grouped_depths, "batched": batched_products}[kind]
        layouts = {"grouped": f"N{orders}", "depth": "TN", "batched": orders}[kind]
        kernel = module.build(RoleForm(bf16, layouts=layouts), role_tile(*tile), BLOCKS)
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


@dataclass(frozen=True)
class Problem:
    """A product on the GPU: what ours is called with, its ways by torch, and its parts with their right values in f32.

    A part is where it is in the result, and its two factors; without factors it is zeros.
    """

    kind: str
    orders: str
    given: Sequence[Any]
    torch: Mapping[str, Callable[[], Any]]
    parts: Sequence[tuple[Any, Any]]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def ours(self) -> dict[str, Callable[[], Any]]:
        """Our kernel in every tile."""
        return {
            label(*one): partial(kernel_of(*one), *self.given, **self.sizes)
            for one in KERNELS
            if one[:2] == (self.kind, self.orders)
        }

    def error(self, found: Any, what: str) -> float:
        """The largest error of all parts, each against a product in f32."""
        errors = [0.0]
        for at, factors in self.parts:
            if factors is None:
                assert not found[at].any(), f"{what}: an empty group has zeros"
            else:
                wanted = factors[0].float() @ factors[1].float()
                errors.append(harness.require_close(found[at].float(), wanted, TOLERANCE, what))
        return max(errors)


def made(*shape: int) -> Any:
    import torch

    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def by_groups(looped: Callable[[], Any], *given: Any, offsets: Any) -> dict[str, Callable[[], Any]]:
    """The loop over groups, and torch's call where it has it."""
    import torch

    found: dict[str, Callable[[], Any]] = {"torch loop": looped}
    if hasattr(torch, "_grouped_mm"):
        found["torch grouped"] = partial(torch._grouped_mm, *given, offs=offsets)
    return found


def slices(groups: int, rows: int, shares: str) -> tuple[list[slice], Any]:
    """The rows of each group, and where they end, on the device."""
    import torch

    ends = ends_of(groups, rows, shares)
    parts = [slice(*pair) for pair in zip([0, *ends], ends, strict=False)]
    return parts, torch.tensor(ends, device="cuda", dtype=torch.int32)


def grouped(groups: int, rows: int, depth: int, columns: int, shares: str, orders: str = "T") -> Problem:
    """A matrix of rows in groups, each with a matrix of its own; b is the transpose of [G, N, K]."""
    import torch

    a, (parts, offsets) = made(rows, depth), slices(groups, rows, shares)
    stored = made(*((groups, columns, depth) if orders == "T" else (groups, depth, columns))) / math.sqrt(depth)
    b = stored.mT if orders == "T" else stored
    ways = by_groups(lambda: torch.cat([a[at] @ m for at, m in zip(parts, b, strict=True)]), a, b, offsets=offsets)
    wanted = [(at, (a[at], m)) for at, m in zip(parts, b, strict=True) if at.stop > at.start]
    return Problem("grouped", orders, (a, stored, offsets), ways, wanted)


def depths(groups: int, rows: int, depth: int, columns: int, shares: str) -> Problem:
    """The gradients of the matrices of a grouped product: a.T @ b for each group of rows of a and b."""
    import torch

    a, b, (parts, offsets) = made(rows, depth), made(rows, columns), slices(groups, rows, shares)
    ways = by_groups(lambda: torch.stack([a[at].T @ b[at] for at in parts]), a.T, b, offsets=offsets)
    wanted = [(group, (a[at].T, b[at]) if at.stop > at.start else None) for group, at in enumerate(parts)]
    return Problem("depth", "TN", (a, b, offsets), ways, wanted, {"M": depth, "N": columns})


def batched(products: int, m: int, n: int, k: int, layouts: str) -> Problem:
    """Products of one size."""
    import torch

    shapes = zip(layouts, ((m, k), (k, n)), strict=True)
    stored = [made(products, *(shape[::-1] if letter == "T" else shape)) for letter, shape in shapes]
    a, b = (x.mT if letter == "T" else x for x, letter in zip(stored, layouts, strict=True))
    wanted = [(z, (a[z], b[z])) for z in (0, products - 1)]
    sizes = {"Z": products, "DA": 1, "DB": 1}
    return Problem("batched", layouts, stored, {"torch bmm": partial(torch.bmm, a, b)}, wanted, sizes)


def problem_of(case: harness.Case) -> Problem:
    kind, *facts = case
    return {"grouped": grouped, "depth": depths, "batched": batched}[kind](*facts)


def timed(folder: Path, *case: Any) -> list[harness.Contender]:
    """The contenders of a case, ours right."""
    problem = problem_of(case)
    runs = problem.ours()
    config = harness.best(runs)
    error = problem.error(runs[config](), config)
    ours = harness.contender(runs[config], kernel="lego", config=config, error=error)
    return [ours, *(harness.contender(run, kernel=kernel) for kernel, run in problem.torch.items())]


def check(words: Sequence[str]) -> int:
    """The error of every kernel at odd sizes, kept as JSON; 1 where one is wrong."""
    rows = []
    for case in ODD:
        problem = problem_of(case)
        for name, run in problem.ours().items():
            try:
                rows.append({"kernel": name, "error": problem.error(run(), name)})
            except harness.WrongResultError as error:
                rows.append({"kernel": name, "failed": str(error)})
            print(rows[-1], flush=True)
    harness.save("grouped_check", {"device": harness.device_name(), "rows": rows})
    return int(any("failed" in row for row in rows))


DRAWN = 60
"""Drawn batches of `batched_calls`."""


def drawn(source: random.Random) -> harness.Case:
    """How many, M, N, K and the orders."""
    sizes = [source.choice((4, 8, 16, 32, 64)), *(8 * source.randint(*ends) for ends in ((2, 192), (2, 192), (4, 128)))]
    return (*sizes, source.choice(("NT", "NN", "TN", "TT")))


def timed_call(folder: Path, count: int, m: int, n: int, k: int, layouts: str) -> list[harness.Contender]:
    """A batch by `lego_mlir.matmul`, which compiles its kernel at its first use, and by `torch.bmm`."""
    import lego_mlir

    problem = batched(count, m, n, k, layouts)
    run = partial(lego_mlir.matmul, *problem.torch["torch bmm"].args)
    ours = harness.contender(run, kernel="lego", error=problem.error(run(), "matmul"))
    return [ours, *(harness.contender(run, kernel=kernel) for kernel, run in problem.torch.items())]


SQUARE_BATCHES = [(count, n, n, n, layouts) for count, n in ((64, 96), (512, 96), (16, 200), (128, 200), (8, 1000))
                  for layouts in ("NN", "NT")]  # fmt: skip
TILED = [*SQUARE_BATCHES, *((*drawn(random.Random(f"35 tiles {number}"))[:4], "NT") for number in range(4))]
"""Batches of `batched_tiles`."""
EARLY = "dependent"


def every_tile() -> list[Any]:
    """The tiles of a batched product, in both orders."""
    from lego_mlir.choices.role_tiles import shapes
    from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES

    return shapes(LARGEST_SHARED_BYTES, clusters=True, more=True)


def render_tile(task: tuple[Path, str, Any, bool]) -> None:
    """A batched product in a tile, also with an early start."""
    from lego_mlir import bf16
    from lego_mlir.choices.role_tiles import label as of_tile
    from lego_mlir.kernels import batched_products
    from lego_mlir.kernels.role_products import RoleForm

    folder, layouts, tile, early = task
    kernel = batched_products.build(RoleForm(bf16, layouts=layouts), tile, BLOCKS)
    kernel = kernel.schedule(EARLY) if early else kernel
    mlir_kernels.keep_cubin(folder / f"{layouts}-{of_tile(tile)}{f'-{EARLY}' * early}", kernel, TARGET)


def render_tiles(folder: Path, cases: Sequence[harness.Case]) -> None:
    """All tiles, on all cores."""
    tasks = [(folder, *one) for one in product(("NN", "NT"), every_tile(), (False, True))]
    with ProcessPoolExecutor() as pool:
        list(pool.map(render_tile, tasks))


def timed_tiles(folder: Path, count: int, m: int, n: int, k: int, layouts: str) -> list[harness.Contender]:
    """A batch in every tile, and by `torch.bmm`."""
    problem, found = batched(count, m, n, k, layouts), []
    for path in sorted(folder.glob(f"{layouts}-*")):
        run = partial(mlir_kernels.kept_kernel(path / "batched_product.cubin"), *problem.given, **problem.sizes)
        tile = path.name.removeprefix(f"{layouts}-").removesuffix(f"-{EARLY}")
        error = problem.error(run(), path.name)
        found.append(harness.contender(run, kernel=path.name, tile=tile, early=path.name.endswith(EARLY), error=error))
    return [*found, *(harness.contender(run, kernel=kernel) for kernel, run in problem.torch.items())]


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
    NAME, CASES, timed, table, render, target=TARGET, protocol=harness.Protocol(patience_ms=600),
    steps={"check": check}, together=True,
)  # fmt: skip
CALLS = runner.Benchmark(
    "batched_calls", [drawn(random.Random(f"35 batches {number}")) for number in range(DRAWN)], timed_call,
    protocol=harness.Protocol("steady", 0.03, 2, graphs=True, patience_ms=100), draw=drawn,
)  # fmt: skip
TILE_TIMES = runner.Benchmark(
    "batched_tiles", TILED, timed_tiles, render=render_tiles, target=TARGET, together=True,
    protocol=harness.Protocol("steady", 0.02, 2, graphs=True, patience_ms=40),
)  # fmt: skip
BENCHMARKS = {one.name: one for one in (BENCHMARK, CALLS, TILE_TIMES)}

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
