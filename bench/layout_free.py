"""Kernels of TritonBench without a layout, next to the same programs in Triton.

Both are checked against NumPy before they are timed, and Triton's with 4, 8 and 16 warps, of which the fastest counts;
ours has the warps of its program. Of products the fastest of several configurations counts for Triton, and of several
schedules for ours. A division is rounded in both, an exponential approximate in both.
"""

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
    "jagged_sum", "sum", "welford", "low_mem_dropout", "gemm", "fp8_gemm", "int4_gemm", "grouped_gemm",
    "template_attention", "flex_attention",
)  # fmt: skip
WARPS = (4, 8, 16)
CONFIGURATIONS = ((128, 128, 4, 4), (128, 128, 8, 4), (128, 128, 8, 3), (128, 256, 8, 3), (128, 256, 8, 4))
"""Rows and columns of a tile of Triton's products, warps and stages."""
PRODUCTS = ("gemm", "fp8_gemm", "int4_gemm", "grouped_gemm")
"""Kernels that multiply tiles; those that attend do so as well, the others are over rows."""
ATTENTIONS = ("template_attention", "flex_attention")
ATTENTION_TILES = (
    (128, 64, 4, 3),
    (128, 64, 8, 3),
    (128, 128, 8, 2),
    (128, 128, 4, 2),
    (64, 64, 4, 3),
    (128, 128, 8, 3),
)
"""Queries and keys of a block of Triton's attention, warps and stages."""


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

    if name in ATTENTIONS:
        heads, positions = size
        q, k, v = (torch.randn(heads, positions, 64, device="cuda").half() for _ in range(3))
        slopes = 2.0 ** (-0.5 * (torch.arange(heads, device="cuda") % 16 + 1).float())
        bias = None
        if name == "flex_attention":
            i = torch.arange(positions, device="cuda")
            distance = (i[None] - i[:, None]).float().masked_fill(i[None] > i[:, None], -torch.inf)
            bias = distance * slopes[:, None, None]
        found = torch.cat([  # a head at a time: the scores of all would not fit
            torch.softmax(q[h].float() @ k[h].float().T / 8 + (0 if bias is None else bias[h]), -1) @ v[h].float()
            for h in range(heads)
        ]).view(heads, positions, 64)  # fmt: skip
        return {"q": q, "k": k, "v": v, "slopes": slopes, "o": torch.zeros_like(q)}, {"o": found}, 2e-2
    if name == "grouped_gemm":
        groups, m, n, k = size
        a, b = (torch.randn(groups * rows, k, device="cuda").half() for rows in (m, n))
        c = torch.zeros(groups * m, n, device="cuda", dtype=torch.float16)
        of = torch.arange(groups, device="cuda", dtype=torch.int32).repeat_interleave(m // 128)
        wide = [x.float().view(groups, -1, k) for x in (a, b)]
        found = (wide[0] @ wide[1].transpose(1, 2)).reshape(groups * m, n)
        return {"a": a, "b": b, "of": of, "c": c}, {"c": found}, 1e-2
    if name in PRODUCTS and name != "int4_gemm":
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
    name: str, size: Sequence[int], tensors: dict[str, Any], configuration: tuple[int, int, int, int]
) -> Callable[[], Any]:
    """The launch of Triton's product with this tile, number of warps and of stages; 128 bytes along K."""
    from rivals import triton_layout_free as by_hand

    (*groups, m, n, k), (bm, bn, warps, stages), given = size, configuration, list(tensors.values())
    tile = (bm, bn, 128 // given[0].element_size())
    kernel, rows = (by_hand.grouped_product, groups[0] * m) if groups else (by_hand.product, m)
    if name == "int4_gemm":
        kernel = by_hand.int4_product
    grid, options = (n // bn * (rows // bm),), {"num_warps": warps, "num_stages": stages}
    return lambda: kernel[grid](*given, rows, n, k, *tile, 8, **options)


def triton_attention(
    name: str, size: Sequence[int], tensors: dict[str, Any], configuration: tuple[int, int, int, int]
) -> Callable[[], Any]:
    """The launch of Triton's attention with these queries and keys of a block, warps and stages."""
    from rivals import triton_layout_free as by_hand

    (heads, positions), (bm, bn, warps, stages), given = size, configuration, list(tensors.values())
    grid, options = (-(-positions // bm), heads), {"num_warps": warps, "num_stages": stages}
    return lambda: by_hand.attention[grid](*given, positions, 64, bm, bn, name == "flex_attention", **options)


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
        theirs = {c: triton_product(name, size, tensors, c) for c in CONFIGURATIONS}
    elif name in ATTENTIONS:
        theirs = {c: triton_attention(name, size, tensors, c) for c in ATTENTION_TILES}
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
        ratios["rows" if name not in (*PRODUCTS, *ATTENTIONS) else "products"].append(ratio)
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
