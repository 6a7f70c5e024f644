"""Products as users write them, through schedules, next to PyTorch and to the shipped product.

    python bench/scheduled_products.py render              our cubins, no GPU
    python bench/scheduled_products.py static              registers, spills, instructions of the main loop, no GPU
    python bench/scheduled_products.py time [WORD ..]      on the GPU machine: correctness, then times
    python bench/scheduled_products.py table               the tables of docs/results/scheduled-products.md

The kernels are those of test/tiled_products.py, f16 with K contiguous in both operands, one size each. `shipped` is
lego_mlir/kernels/matmul.py through matmul_sm90.mlir with the same tile. PyTorch computes the epilogues in kernels of
their own.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import mlir_kernels
import runner

sys.path.insert(0, str(harness.BENCH.parent / "test"))

NAME, TARGET = "scheduled_products", "sm_90a"
PRODUCTS = (
    "plain", "two_sums", "gated", "row_maximum", "biased", "computed", "gathered", "symmetric", "softmax", "flat"
)  # fmt: skip
"""Those of test/tiled_products.py; `flat` is the plain product of softmax's sizes."""
SIZES = (2048, 4096, 8192)
CASES = list(product(PRODUCTS, SIZES))
TILES = {"gated": (128, 128, 32)}  # two accumulators
WIDE = (128, 256)
COMPOSITIONS = {
    "rings": "warpgroups, pipeline(stages=4), overlay, roles",
    "dependent": "warpgroups, pipeline(stages=4), overlay, roles, dependent",
    "clusters": "warpgroups, pipeline(stages=4), clusters(blocks=2), overlay, roles",
    "persistent": "persistent(blocks=132), warpgroups, pipeline(stages=3), roles, dependent",
    "registers": "persistent(blocks=132), warpgroups, copied_out(buffers=2), pipeline(stages=4), roles, dependent",
    "lockstep": "persistent(blocks=132), warpgroups, copied_out(buffers=2), pipeline(stages=4), clusters(blocks=2), "
    "lockstep(every=32), roles",
    "joined": "persistent(blocks=132), warpgroups, copied_out(buffers=2), pipeline(stages=4, joined=True), "
    "clusters(blocks=2), lockstep(every=32), roles",
    "joined alone": "persistent(blocks=132), warpgroups, copied_out(buffers=2), pipeline(stages=4, joined=True), "
    "roles, dependent",
}
TWO = ("gated",)
"""The products with two lego.mma of one left tile."""
STORED_ONCE = ("plain", "two_sums", "gated", "biased", "computed", "gathered", "symmetric", "flat")
"""The products whose tile of the result is stored by one word, which `copied_out` takes."""
ROOM = ("plain", "two_sums", "row_maximum", "computed", "gathered", "symmetric", "flat")
"""The products whose tile of the result is f16, and fits beside three stages."""
BY_THREADS = ("computed", "gathered")
"""The products with a left operand that threads store, in steps that go one way."""
FLAT = (128 * 132, WIDE[1])
"""The rows and columns of softmax, which has a tile of columns: a tile for each multiprocessor."""
TOLERANCE = 2e-2


def kernels(name: str, n: int) -> dict[str, Any]:
    """The kernels of a case by the name of their composition."""
    from tiled_products import PRODUCTS as BUILT
    from tiled_products import Tile

    m, columns, k = shape(name, n)
    kernel, _ = BUILT["plain" if name == "flat" else name](m, columns, k, Tile(*TILES.get(name, WIDE)))
    return {key: kernel.schedule(COMPOSITIONS[key]) for key in compositions(name)}


def shape(name: str, n: int) -> tuple[int, int, int]:
    """M, N and K of a case."""
    return (*FLAT, n) if name in ("softmax", "flat") else (n, n, n)


def multiplications(name: str, n: int) -> float:
    """How many a case has: of a symmetric product those of the tiles that are computed."""
    m, columns, k = shape(name, n)
    if name == "symmetric":
        return 128 * 256 * k * sum(-(-(row + 1) * 128 // 256) for row in range(m // 128))
    return m * columns * k * (2 if name in ("two_sums", "gated") else 1)


def compositions(name: str) -> list[str]:
    needs = {"persistent": ROOM, "registers": STORED_ONCE, "lockstep": STORED_ONCE, "joined": TWO, "joined alone": TWO}
    without = {"clusters": ("symmetric",), "lockstep": ("symmetric", *BY_THREADS)}
    return [key for key in COMPOSITIONS if name in needs.get(key, PRODUCTS) and name not in without.get(key, ())]


def shipped(n: int) -> Any:
    """The shipped product with the same tile, for its script."""
    from lego_mlir import Col, f16
    from lego_mlir.kernels import matmul

    tile = matmul.ProductTile(*WIDE, 64, warps=(2, 4))
    return matmul.build(n, n, n, f16, b=Col(n, n), result=f16, tiling=tile)


def label(name: str, n: int, key: str) -> str:
    return f"{name}_{n}_{key}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for name, n in cases:
        for key, kernel in kernels(name, n).items():
            mlir_kernels.keep_cubin(folder / label(name, n, key), kernel, TARGET)
    for n in (n for name, n in cases if name == "plain"):
        through = {"transform": "matmul_sm90.mlir", "parameters": {"stages": 4}}
        mlir_kernels.keep_cubin(folder / label("plain", n, "shipped"), shipped(n), TARGET, **through)


def static() -> list[dict[str, Any]]:
    from lego_mlir.toolchain import compile_kernel

    rows = []
    for name in PRODUCTS:
        for key, kernel in kernels(name, 4096).items():
            made = compile_kernel(kernel, target=TARGET)
            ours = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
            rows.append(harness.static_row(ours, "HGMMA", kernel=f"{name}, {key}", name=name, composition=key))
    return rows


# -- on the GPU machine


def timed(folder: Path, name: str, n: int) -> list[harness.Contender]:
    import cupy
    import torch
    from torch.nn import functional

    from lego_mlir.runtime import cuda

    def matrix(rows: int, columns: int) -> Any:
        return torch.randn((rows, columns), device="cuda").mul_(k**-0.25).half()

    m, columns, k = shape(name, n)
    a, a2, b, b2 = (matrix(rows, k) for rows in (m, m, columns, columns))
    residual, bias, order = matrix(m, columns), matrix(1, columns)[0], torch.randperm(m, device="cuda").int()
    out, most = torch.empty((m, columns), device="cuda", dtype=torch.float16), None
    given: dict[str, tuple[tuple[Any, ...], Callable[[], Any]]] = {
        "plain": ((a, b), lambda: torch.matmul(a, b.T, out=out)),
        "two_sums": ((a, b, a2, b2), lambda: torch.addmm(torch.matmul(a, b.T), a2, b2.T, out=out)),
        "gated": ((a, b, b2), lambda: torch.mul(functional.silu(a @ b.T), a @ b2.T, out=out)),
        "row_maximum": ((a, b), lambda: torch.matmul(a, b.T, out=out).view(n, -1, WIDE[1]).amax(2)),
        "biased": ((a, b, bias, residual), lambda: torch.add(torch.addmm(bias, a, b.T), residual, out=out)),
        "computed": ((a, a2, b), lambda: torch.matmul(functional.relu(a + a2), b.T, out=out)),
        "gathered": ((a, order, b), lambda: torch.matmul(a[order], b.T, out=out)),
        "symmetric": ((a,), lambda: torch.matmul(a, a.T, out=out)),
        "softmax": ((a, b), lambda: torch.softmax(a @ b.T, 1, out=out)),
        "flat": ((a, b), lambda: torch.matmul(a, b.T, out=out)),
    }
    operands, by_torch = given[name]
    wide = [x.float() for x in (a, b, a2, b2)]
    whole = wide[0] @ wide[1].T
    expected = {
        "two_sums": lambda: whole + wide[2] @ wide[3].T,
        "gated": lambda: functional.silu(whole) * (wide[0] @ wide[3].T),
        "biased": lambda: whole + bias.float() + residual.float(),
        "computed": lambda: functional.relu(a + a2).float() @ wide[1].T,
        "gathered": lambda: whole[order],
        "symmetric": lambda: wide[0] @ wide[0].T,
        "softmax": lambda: torch.softmax(whole, 1),
    }.get(name, lambda: whole)()
    facts = {"name": name, "n": n}
    by_torch()
    harness.require_close(out, expected, TOLERANCE, f"PyTorch {name} {n}")
    rows = [harness.contender(by_torch, kernel="PyTorch", **facts)]
    results = [torch.empty_like(out)]
    if name == "row_maximum":
        most = torch.empty((n, n // WIDE[1]), device="cuda", dtype=torch.float16)
        results.append(most)
    keys = [*compositions(name), *(["shipped"] if name == "plain" else [])]
    for key in keys:
        entry = "matmul" if key == "shipped" else "product"
        kernel = cuda.load(harness.rendered(folder / label(name, n, key) / f"{entry}.cubin")).kernel()
        results[0].zero_()
        arguments = [cupy.from_dlpack(tensor) for tensor in (*operands, *results)]
        launch = partial(kernel, *arguments)
        launch()
        torch.cuda.synchronize()
        found = results[0]
        if name == "symmetric":  # PyTorch computes all tiles, ours those below the diagonal
            found, expected = found.tril(), expected.tril()
        harness.require_close(found, expected, TOLERANCE, f"{key} {name} {n}")
        if most is not None:
            harness.require_close(most, expected.view(n, -1, WIDE[1]).amax(2), TOLERANCE, f"{key} maxima {n}")
        rows.append(harness.contender(launch, kernel=key, **facts))
    return rows


def table() -> None:
    rows, lines = comparison.rows_of(NAME), []
    for name, n in CASES:
        found = {
            key: comparison.find(rows, kernel=key, name=name, n=n) for key in (*COMPOSITIONS, "shipped", "PyTorch")
        }
        ours = min((found.pop(key) for key in COMPOSITIONS), key=lambda row: row["ms"] if row else float("inf"))
        more = {"PFLOPS": _rate(name, n, ours), "composition": ours["kernel"] if ours else ""}
        lines.append(comparison.Line((name, str(n)), ours, found, more))
    comparison.write(NAME, ["product", "size"], lines, ours="ours")


def _rate(name: str, n: int, row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{2 * multiplications(name, n) / row['ms'] / 1e12:.3f}"


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, static, counts=True, target=TARGET)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
