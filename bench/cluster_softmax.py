"""Softmax of long rows that a cluster of blocks holds, for 1 to 8 blocks of a cluster.

A case is ROWSxCOLUMNS of f32. `cluster of n` is `examples/cluster_softmax.py`, whose blocks keep a row in registers, at
most 32 elements a thread; a cluster of one block reads the row as the others do, without neighbours. `copy` moves the
same bytes.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner

NAME = "cluster_softmax"
CASES = [(f"{rows}x{columns}",) for rows, columns in ((4096, 8192), (1024, 32768), (512, 65536), (256, 131072))]
ELEMENTS, THREADS = 32, 1024


def ways(case: str) -> list[tuple[int, int]]:
    """The blocks of a cluster, and the threads of a block: as many as keep 16 elements each, at most 1024."""
    _, columns = map(int, case.split("x"))
    found = []
    for blocks in (1, 2, 4, 8):
        threads = min(THREADS, columns // blocks // 16)
        if columns // blocks // threads <= ELEMENTS and threads >= 64:
            found.append((blocks, threads))
    return found


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir import spec
    from lego_mlir.runtime import packs

    build = spec.load(Path(__file__).parents[1] / "examples" / "cluster_softmax.py").names["build"]
    compiled = {}
    for (case,) in cases:
        rows, columns = map(int, case.split("x"))
        for blocks, threads in ways(case):
            kernel = build(rows, columns, blocks, threads)
            compiled[f"{case}-{blocks}"] = kernel.compile(target="sm_90a", emit="cubin")
    packs.write(folder, compiled)


def timed(folder: Path, case: str) -> list[harness.Contender]:
    import torch

    from lego_mlir.runtime.packs import load_kernels

    rows, columns = map(int, case.split("x"))
    x = torch.randn(rows, columns, device="cuda")
    exact = torch.softmax(x.double(), dim=1)
    kernels, found = load_kernels(folder), []
    for blocks, threads in ways(case):
        y = torch.empty_like(x)
        run = launch(kernels[f"{case}-{blocks}"], x, y)
        run()
        error = float(((y - exact).abs() / exact).max())
        if not error < 1e-5:
            raise harness.WrongResultError(f"a cluster of {blocks} blocks is off by {error}")
        found.append(harness.contender(run, kernel=f"cluster of {blocks}", threads=threads, error=error))
    out = torch.empty_like(x)
    found.append(harness.contender(lambda: torch.softmax(x, dim=1, out=out), kernel="torch"))
    found.append(harness.contender(lambda: out.copy_(x), kernel="copy"))
    return found


def launch(kernel: Any, x: Any, y: Any) -> Any:
    """A launch of a kernel on these arrays."""
    return lambda: kernel(x, y)


def table() -> None:
    """Milliseconds by the number of blocks that hold a row, PyTorch's softmax and a copy of the same bytes."""
    known = mlir_kernels.by_case(mlir_kernels.newest(NAME))
    names = list(dict.fromkeys(name for rows in known.values() for name in rows))
    lines = [[case, *(mlir_kernels.time_cell(rows.get(name)) for name in names)] for (case,), rows in known.items()]
    made = mlir_kernels.table("|".join(["rows x columns", *names]), lines)
    mlir_kernels.put_results("results/triton-softmax.md", NAME, NAME, made, "torch", note="; in ms")


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, together=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
