"""Kernels of TritonBench without a layout, next to the same programs in Triton.

Both are checked against NumPy before they are timed, and Triton's with 4, 8 and 16 warps, of which the fastest counts;
ours has the warps of its program. Of products the fastest of several configurations counts for Triton, and of several
schedules for ours. A division is rounded in both, an exponential approximate in both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "layout_free", "results/layout-free.md", "sm_90a"
NAMES = (
    "vector_exp", "softmax", "layer_norm", "rms_norm", "cross_entropy", "embedding", "rope", "swiglu", "geglu",
    "jagged_sum", "sum", "welford", "low_mem_dropout", "gemm", "fp8_gemm",
)  # fmt: skip
WARPS = (4, 8, 16)
CONFIGURATIONS = ((128, 128, 4, 4), (128, 128, 8, 4), (128, 128, 8, 3), (128, 256, 8, 3), (128, 256, 8, 4))
"""Rows and columns of a tile of Triton's products, warps and stages."""
PRODUCTS = ("gemm", "fp8_gemm")
"""Kernels that multiply tiles; the others are over rows."""


def label(name: str, size: Sequence[int], number: int = 0) -> str:
    """The name of an artifact: of a case, and of a further schedule of its kernel."""
    return "-".join([name, *map(str, size), *([f"schedule{number}"] if number else [])])


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The kernels, each with its schedules."""
    import layout_free_kernels

    for name, *size in cases:
        for number, kernel in enumerate(layout_free_kernels.CASES[name][0](*size).scheduled()):
            mlir_kernels.keep(folder, label(name, size, number), mlir_kernels.compiled(kernel, TARGET, "ptx"))
        print(label(name, size), flush=True)


def arrays(name: str, size: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any], float]:
    """The arrays of a case on the device, the wanted outputs, and the tolerance."""
    import torch

    if name in PRODUCTS:
        m, n, k = size
        kind = torch.float8_e4m3fn if name == "fp8_gemm" else torch.float16
        a, b = (torch.randn(rows, k, device="cuda").to(kind) for rows in (m, n))
        c = torch.zeros(m, n, device="cuda", dtype=torch.float16)
        return {"a": a, "b": b, "c": c}, {"c": a.float() @ b.float().T}, 1e-2
    import layout_free_kernels
    import numpy as np

    made = layout_free_kernels.CASES[name][0](*size)
    given = made.inputs(np.random.default_rng(0))
    wanted = {key: torch.from_numpy(value.astype(np.float32)).cuda() for key, value in made.expected(given).items()}
    return {key: torch.from_numpy(array).cuda() for key, array in given.items()}, wanted, made.tolerance


def triton_product(
    size: Sequence[int], tensors: dict[str, Any], configuration: tuple[int, int, int, int]
) -> Callable[[], Any]:
    """The launch of Triton's product with this tile, number of warps and of stages; 128 bytes along K."""
    from rivals import triton_layout_free as by_hand

    (m, n, k), (bm, bn, warps, stages), given = size, configuration, list(tensors.values())
    tile = (bm, bn, 128 // given[0].element_size())
    return lambda: by_hand.product[(n // bn * (m // bm),)](
        *given, m, n, k, *tile, 8, num_warps=warps, num_stages=stages
    )


def triton_run(name: str, size: Sequence[int], tensors: dict[str, Any], warps: int) -> Callable[[], Any]:
    """The launch of Triton's kernel over rows."""
    from rivals import triton_layout_free as by_hand

    given = list(tensors.values())
    kernel = by_hand.row_sum if name == "sum" else getattr(by_hand, name)
    if name in ("vector_exp", "low_mem_dropout"):
        n, block = size[0], 1024
        return lambda: kernel[(-(-n // block),)](*given, n, block, num_warps=warps)
    rows, columns = size[0], size[1] // 2 if name == "rope" else size[1]
    extra = (32,) if name == "jagged_sum" else ()
    block = 1024 if name == "welford" else 1 << (columns - 1).bit_length()
    return lambda: kernel[(rows,)](*given, columns, block, *extra, num_warps=warps)


def timed(folder: Path, name: str, *size: int) -> list[harness.Contender]:
    import cupy as cp
    import torch

    tensors, wanted, tolerance = arrays(name, size)
    labels = [label(name, size), *(label(name, size, k) for k in range(1, 8))]
    launches = {k: mlir_kernels.launcher(folder, k) for k in labels if (folder / f"{k}.ptx").is_file()}
    memory = [cp.from_dlpack(t.view(torch.uint8) if t.element_size() == 1 else t).reshape(-1) for t in tensors.values()]
    facts = {"size": "x".join(map(str, size))}
    results = [(tensors[key], value) for key, value in wanted.items()]
    ours = {key: partial(launch, *memory) for key, launch in launches.items()}
    if name in PRODUCTS:
        theirs = {c: triton_product(size, tensors, c) for c in CONFIGURATIONS}
    else:
        theirs = {w: triton_run(name, size, tensors, w) for w in WARPS}
    return [
        harness.fastest(who, runs, results, tolerance, **facts) for who, runs in (("ours", ours), ("Triton", theirs))
    ]


def table() -> None:
    """The newest times: Triton's over ours."""
    results = mlir_kernels.newest(NAME)
    rows = {(r["case"][0], r["size"], r["kernel"]): r for r in results["rows"]}
    lines: list[list[str]] = []
    ratios: dict[str, list[float]] = {"rows": [], "products": []}
    for name, size in dict.fromkeys((n, s) for n, s, _ in rows):
        ours, theirs = rows[name, size, "ours"], rows[name, size, "Triton"]
        ratio = theirs["ms"] / ours["ms"]
        ratios["products" if name in PRODUCTS else "rows"].append(ratio)
        times = [f"{1000 * row['ms']:.1f}" for row in (ours, theirs)]
        lines.append([name, size, *times, f"{ratio:.2f}"])
    made = mlir_kernels.table("kernel|size|ours, us|Triton, us|Triton's time over ours", lines)
    means = ", ".join(
        f"{kind} {geometric_mean(found):.2f} ({min(found):.2f} to {max(found):.2f})" for kind, found in ratios.items()
    )
    heading = (
        f"{mlir_kernels.circumstances(NAME, results, 'torch', 'triton')}. Triton's time over ours in geometric mean, "
        f"and least and most: {means}.\n\n"
    )
    mlir_kernels.put_into(PAGE, "layout-free", heading, made)


def cases() -> list[harness.Case]:
    """The kernels by name, at the sizes of TritonBench and odd ones."""
    import layout_free_kernels

    return [(name, *size) for name in NAMES for size in layout_free_kernels.CASES[name][1]]


BENCHMARK = runner.Benchmark(NAME, cases(), timed, table, render, target=TARGET)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
