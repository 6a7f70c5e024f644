"""Products over the GPUs of one host, against NCCL and cuBLAS one after the other and torch's fused products.

    python bench/mesh_products.py render [N ..]     the kernels for N ranks as cubins (2 and 4), no GPU
    python bench/mesh_products.py time [N]          on the GPU machine: values, then times, a process a GPU
    python bench/mesh_products.py table             the table of docs/results/mesh.md

bf16, 8192^3 and layers of a language model of 70 billion parameters. `gathered`: A in rows, B and C in columns: A
is gathered. `scattered`: A in columns, B and C in rows, so that the parts of C are added and scattered. `ours` is
`lego.mesh.MeshProduct` with the kernel of the exact size of each strip, and A where others read it; `ours, copied`
copies it there first, as torch's fused product does; `ours, cuBLAS` is `ours` with `torch.mm`. `sequence` is NCCL and
`torch.mm` one after the other, `fused` torch's symmetric-memory product. Values are compared on matrices of small
integers, whose sums have no rounding; times are of normal ones, taken as in bench/mesh.py.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean
from types import SimpleNamespace
from typing import Any

import harness
import mlir_kernels
import product_runs
import runner
from mesh_stage import PAGE, Stage, by_torch, circumstances, over_ranks, parsed, recorded

NAME, RUNS = "mesh_products", "products-"
FOLDER = harness.ARTIFACTS / NAME
CASES = (
    ("8192^3", (8192, 8192, 8192), "gathered"),
    ("8192^3", (8192, 8192, 8192), "scattered"),
    ("up and gate", (4096, 28672, 8192), "gathered"),
    ("down", (4096, 8192, 28672), "scattered"),
    ("queries, keys, values", (8192, 10240, 8192), "gathered"),
)
"""Name, (M, N, K) of the whole product, and what moves."""
SMALL = 128  # the divisor of sizes on a CPU
NONZERO = 320
"""About so many products of K are not zero where values are compared: sums stay below 256, which bf16 has exactly."""


def plan_of(size: tuple[int, int, int], moves: str, ranks: int) -> Any:
    from lego_mlir.distributions import Chunks, Sharded
    from lego_mlir.mesh import plan_product

    m, n, k = size
    a, b, c = (0, 1, 1) if moves == "gathered" else (1, 0, 0)

    def divided(shape: tuple[int, int], axis: int) -> Any:
        return Sharded(shape, {"r": ranks}, [[("r", Chunks(ranks))] if d == axis else [] for d in (0, 1)])

    return plan_product(divided((m, k), a), divided((k, n), b), divided((m, n), c))


LocalProduct = tuple[int, int, int, str]
"""M, N and K of a local product, and the type of what is added to it; "" for nothing."""


def local_products(ranks: int) -> set[LocalProduct]:
    """All local products; and, to time them alone, those of a whole rank."""
    from lego_mlir.mesh.strips import strips_of

    found = set()
    for _, size, moves in CASES:
        plan = plan_of(size, moves, ranks)
        for rank in range(ranks):
            (rows, k), (_, n) = (one.target.local_shape(rank) for one in (plan.a, plan.b))
            found.add((rows, n, k, ""))
            for strip in strips_of(plan, rank):
                (first, last), (start, end) = strip.rows, strip.inner
                found.add((last - first, n, end - start, "bf16" if strip.hop else ""))
    return found


def _cubin(product: LocalProduct) -> Path:
    *size, added = product
    return FOLDER / f"{'x'.join(map(str, size))}{f'-add-{added}' * bool(added)}.cubin"


def _rendered(product: LocalProduct) -> str:
    """The kernel that `lego_mlir.matmul` compiles for exactly this product."""
    from lego_mlir.kernels.fused_epilogues import FusedEpilogue
    from lego_mlir.runtime.products.kernels import kernel_for
    from lego_mlir.runtime.products.problem import Problem

    *size, added = product
    epilogue = FusedEpilogue(residual=added) if added else None
    kernel, script, parameters = kernel_for(
        Problem(*size, "bf16", "bf16", "NN", product_runs.TARGET, product_runs.SMS, epilogue=epilogue)
    )
    made = mlir_kernels.compiled(kernel, product_runs.TARGET, transform=script, parameters=parameters)
    path = _cubin(product)
    mlir_kernels.keep_code(FOLDER, path.stem, made)
    return f"{path.name}: {parameters}"


def render(options: SimpleNamespace) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    sizes = sorted(set().union(*(local_products(ranks) for ranks in options.ranks or (2, 4))))
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for line in pool.map(_rendered, sizes):
            print(line, flush=True)
    return 0


@dataclass
class Kept:
    """`multiply` of a MeshProduct by the kernels that `render` left."""

    known: dict[LocalProduct, Any]

    def __call__(self, a: Any, b: Any, out: Any, residual: Any = None) -> None:
        product = (*out.shape, a.shape[1], "" if residual is None else "bf16")
        if product not in self.known:
            self.known[product] = mlir_kernels.kept_kernel(_cubin(product))
        self.known[product](a, b, out, *([] if residual is None else [residual]))


def contenders(
    stage: Stage, plan: Any, moves: str, a: Any, b: Any, filled: list[tuple[Any, Any]]
) -> dict[str, Callable[[], Any]]:
    """The product by each, with this rank's part of C as its result."""
    import torch
    import torch.distributed as dist

    from lego_mlir.mesh import MeshProduct

    (m, n, _), ranks = plan.shape, stage.ranks

    def gathered() -> Any:
        whole = torch.empty((a.shape[0] * ranks, a.shape[1]), dtype=a.dtype, device=a.device)
        dist.all_gather_into_tensor(whole, a)
        return whole @ b

    def scattered() -> Any:
        found = torch.empty((m // ranks, n), dtype=a.dtype, device=a.device)
        dist.reduce_scatter_tensor(found, a @ b)
        return found

    runs = {"sequence": gathered if moves == "gathered" else scattered}
    torchs = MeshProduct(plan, a.dtype, stage.device, by_torch)
    parts = put(torchs, a, b, filled)
    runs["ours, cuBLAS"] = lambda: torchs(*parts)
    if stage.gpu:
        kept = MeshProduct(plan, a.dtype, stage.device, Kept({}))
        ours = put(kept, a, b, filled)
        runs["ours"] = lambda: kept(*ours)
        runs["ours, copied"] = lambda: kept(a, b)
        group, fused = dist.group.WORLD.group_name, torch.ops.symm_mem
        if moves == "gathered":
            runs["fused"] = lambda: fused.fused_all_gather_matmul(a, [b], 0, group, return_A=False)[1][0]
        else:
            runs["fused"] = lambda: fused.fused_matmul_reduce_scatter(a, b, "sum", 0, group)
    return runs


def put(product: Any, a: Any, b: Any, filled: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The parts where others read them, as a layer before would leave them; `filled` has these places and the parts."""
    found = []
    for part, there in zip((a, b), product.operands, strict=True):
        if there is not None:
            filled.append((there.copy_(part.view(-1)), part.view(-1)))
        found.append(part if there is None else there)
    return found[0], found[1]


def drawn(shape: tuple[int, int], density: float, seed: int, stage: Stage) -> Any:
    """A matrix of -1, 0 and 1, the same on every rank."""
    import torch

    generator = torch.Generator(stage.device).manual_seed(seed)
    uniform = torch.rand(shape, generator=generator, device=stage.device)
    return (uniform < density / 2).to(torch.bfloat16) - (uniform > 1 - density / 2).to(torch.bfloat16)


def timed(stage: Stage, name: str, size: tuple[int, int, int], moves: str) -> list[dict[str, Any]]:
    import torch

    (m, n, k), ranks, rank = size, stage.ranks, stage.rank
    plan = plan_of(size, moves, ranks)
    density = min((NONZERO / k) ** 0.5, 1)
    whole_a, whole_b = drawn((m, k), density, 1, stage), drawn((k, n), density, 2, stage)
    axes = (0, 1) if moves == "gathered" else (1, 0)
    a, b = (x.chunk(ranks, axis)[rank].contiguous() for x, axis in zip((whole_a, whole_b), axes, strict=True))
    expected = whole_a @ b if moves == "gathered" else whole_a.chunk(ranks, 0)[rank] @ whole_b
    if float(expected.abs().max()) > 256:
        raise harness.WrongResultError(f"{name}: a sum is above 256, and the comparison would be of rounded values")
    del whole_a, whole_b
    filled: list[tuple[Any, Any]] = []
    rows, good, runs = [], {}, contenders(stage, plan, moves, a, b, filled)
    for key, run in runs.items():
        row = {"case": name, "size": size, "moves": moves, "contender": key, "plan": repr(plan)}
        if failure := stage.failure(run, expected):
            rows.append({**row, "failure": failure})
        else:
            good[key] = row
    a.normal_()
    b.normal_()
    for there, part in filled:
        there.copy_(part)
    flops = 2 * m * n * k / ranks
    for key, row in good.items():
        times = stage.times_ms(runs[key])
        rows.append({**row, "ms": times, "TFLOPS": {way: flops / 1e9 / ms for way, ms in times.items()}})
    if stage.gpu:
        left = torch.randn((m, a.shape[1]), dtype=a.dtype, device=a.device)
        out, kept = left.new_empty((m, b.shape[1])), Kept({})
        alone = {"product alone": lambda: torch.mm(left, b, out=out), "ours alone": lambda: kept(left, b, out)}
        for key, run in alone.items():
            row = {"case": name, "size": size, "moves": moves, "contender": key}
            rows.append({**row, "ms": stage.times_ms(run)})
        torch.cuda.empty_cache()
    return rows


def time_rank(rank: int, ranks: int, port: int, options: SimpleNamespace) -> None:
    import torch

    stage = Stage(rank, ranks, port)
    if stage.gpu:
        import torch.distributed._symmetric_memory as symmetric

        symmetric.enable_symm_mem_for_group(torch.distributed.group.WORLD.group_name)
    results: dict[str, Any] = {**circumstances(stage), "rows": []}
    for name, size, moves in CASES:
        scaled = size if stage.gpu else tuple(n // SMALL for n in size)
        stage.report(RUNS, results, timed(stage, name, scaled, moves), "case", "moves", "contender")
    stage.finish(results, may_fail="fused")


WAYS = ("ours", "ours, copied", "ours, cuBLAS", "sequence", "fused", "product alone", "ours alone")


def table() -> None:
    """The tables of the documentation, from the newest results of each number of GPUs."""
    parts: list[str | mlir_kernels.Table] = []
    for found, where in recorded(f"mesh-{RUNS}"):
        cells, every = [], []
        for name, size, moves in CASES:
            ms = {
                row["contender"]: row["ms"]["steady"] for row in found["rows"]
                if (row["case"], row["moves"]) == (name, moves) and "ms" in row
            }  # fmt: skip
            alone = min(ms["product alone"], ms["ours alone"])
            ratios = [ms[way] / least for way in ("sequence", "fused") for least in (ms["ours"], alone)]
            every.append(ratios)
            cells.append([
                name, " x ".join(map(str, size)), moves, *(f"{ms[way]:.3f}" if way in ms else "" for way in WAYS),
                *(f"{ratio:.2f}" for ratio in ratios),
            ])  # fmt: skip
        means = [geometric_mean(column) for column in zip(*every, strict=True)]
        cells.append(["geometric mean", *[""] * (2 + len(WAYS)), *(f"{mean:.2f}" for mean in means)])
        columns = "product|M x N x K|moves|ours ms|" + "|".join(WAYS[1:])
        columns += "|sequence / ours|sequence / alone|fused / ours|fused / alone"
        parts += [f"{where}.\n\n", mlir_kernels.table(columns, cells)]
    mlir_kernels.put_into(PAGE, "products", *parts)


BENCHMARK = runner.Benchmark(NAME, list(CASES), steps={
    "render": lambda words: render(parsed(words)), "time": lambda words: over_ranks(time_rank, parsed(words)),
    "table": lambda words: table(),
}, together=True, alone=True)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
