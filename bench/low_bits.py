"""Products with weights of 4 bits: examples/low_bits, next to others, and f16.

    python bench/low_bits.py render           the kernels and their variants; no GPU
    python bench/low_bits.py prepare, time    on the GPU machine

Of ours the fastest of the tiles in TILES counts, and from 32 tokens on that of `many_tokens.py`; of Triton's the
fastest configuration, whose blocks may divide K too: its result is then emptied before each launch, and that is timed.
PyTorch multiplies the same weights in f16 (cuBLAS), and with scales in its own format of 4 bits
(`_weight_int4pack_mm`, bf16). The rate is that of the bytes of weights.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "low_bits", "results/low-bits.md", "sm_90a"
sys.path.insert(0, str(harness.BENCH.parent / "examples" / "low_bits"))
MATRICES = ((8192, 8192), (28672, 4096), (4096, 14336))
TOKENS = {"w4a16": (1, 8, 16, 32, 64, 128, 256), "w4a8": (1, 16, 64), "mxfp4": (1, 16, 64)}
CASES = [(kind, m, n, k) for kind, ms in TOKENS.items() for (n, k), m in product(MATRICES, ms)]
TILES = (
    (8, 4, 4, 2), (8, 4, 4, 4), (8, 8, 4, 2), (16, 4, 4, 2), (16, 4, 4, 4), (16, 8, 4, 2), (16, 2, 4, 2), (16, 2, 4, 4),
    (32, 2, 4, 2), (32, 4, 4, 2), (64, 2, 8, 2), (64, 2, 4, 2),
)  # fmt: skip
"""Tokens of a block, blocks that divide K, warps of 16 rows, and groups that are loaded ahead."""
MANY = 32
"""Tokens from which on the kernel by `wgmma` is tried."""
SHORT = [
    ("w4a16", 16, 8192, 8192), ("w4a16", 1, 8192, 8192), ("w4a16", 64, 8192, 8192), ("w4a16", 16, 28672, 4096),
    ("mxfp4", 16, 8192, 8192), ("w4a8", 16, 8192, 8192), ("w4a16", 256, 8192, 8192),
]  # fmt: skip
CONFIGURATIONS = (
    (16, 64, 8, 4, 4), (16, 64, 4, 4, 5), (16, 128, 4, 4, 4), (16, 128, 1, 8, 4),
    (64, 64, 4, 4, 4), (64, 128, 4, 4, 3), (64, 128, 1, 8, 3), (64, 128, 1, 4, 4),
)  # fmt: skip
"""Of Triton's: rows and columns of a tile, parts of K, warps and stages."""
GROUP = {"w4a16": 128, "w4a8": 128, "mxfp4": 32}


def variant(kind: str, tile: tuple[int, ...]) -> str:
    return "_".join(map(str, (kind, *tile)))


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    import few_bits
    import many_tokens

    from lego_mlir import bf16, f4e2m1fn, f8e4m3fn, f8e8m0fnu, f16, i4

    if any(kind == "w4a16" for kind, *_ in cases):
        mlir_kernels.keep_cubin(folder, many_tokens.w4a16, TARGET)
    types = {
        "w4a16": (i4, f16, f16), "w4a8": (i4, f8e4m3fn, f16), "mxfp4": (f4e2m1fn, bf16, f8e8m0fnu),
    }  # fmt: skip
    for kind in dict.fromkeys(kind for kind, *_ in cases):
        for tile in TILES:
            name = variant(kind, tile)
            kernel = few_bits.product(name, *types[kind], GROUP[kind], *tile)
            mlir_kernels.keep_cubin(folder, kernel, TARGET)


# -- on the GPU machine


def shuffled(codes: Any) -> Any:
    """Codes [n, k] as bytes in the order of the kernels: 16 x 64 together, of a lane rows n and n + 8."""
    n, k = codes.shape
    placed = codes.reshape(n // 16, 2, 8, k // 64, 2, 4, 4, 2).permute(0, 3, 2, 5, 4, 1, 7, 6)
    placed = placed.reshape(n // 16, k // 64, 1024)
    return placed[..., ::2] | placed[..., 1::2] << 4


def arguments(kind: str, m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    """Activations, codes, scales, and the weights in f32, on the device."""
    import torch

    codes = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)
    group = GROUP[kind]
    if kind == "mxfp4":
        scales = torch.randint(118, 124, (k // group, n), device="cuda", dtype=torch.uint8)
        table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
        numbers = table[(codes & 7).long()] * torch.where(codes > 7, -1.0, 1.0)
        factors = torch.exp2(scales.float() - 127)
    else:
        scales = torch.empty((k // group, n), device="cuda").uniform_(0.005, 0.02).half()
        numbers, factors = ((codes.int() + 8) % 16 - 8).float(), scales.float()
    x = torch.randn((m, k), device="cuda")
    x = x.to({"w4a16": torch.float16, "w4a8": torch.float8_e4m3fn, "mxfp4": torch.bfloat16}[kind])
    return x, codes, scales, numbers * factors.T.repeat_interleave(group, 1)


def timed(folder: Path, kind: str, m: int, n: int, k: int) -> list[harness.Contender]:
    import torch

    torch.cuda.empty_cache()
    torch.manual_seed(0)
    x, codes, scales, weights = arguments(kind, m, n, k)
    expected = x.float() @ weights.T
    wide = torch.bfloat16 if kind == "mxfp4" else torch.float16
    y, packed, facts = torch.empty((m, n), device="cuda", dtype=wide), shuffled(codes), {"bytes": n * k // 2}
    ours: dict[Any, Callable[[], Any]] = {}
    for tile in TILES:
        kernel = mlir_kernels.kept_kernel(folder / f"{variant(kind, tile)}.cubin")
        ours[tile] = kernel.prepare(x, packed, scales, y, M=m, N=n, K=k)
    if kind == "w4a16" and m >= MANY:
        kernel, pairs = mlir_kernels.kept_kernel(folder / "w4a16.cubin"), codes[:, ::2] | codes[:, 1::2] << 4
        ours["wgmma"] = kernel.prepare(x, pairs, scales, y, M=m, N=n, G=k // GROUP[kind])
    found = [harness.fastest("ours", ours, [(y, expected)], 1e-2, **facts)]
    z, halves, x_wide = torch.empty_like(y), weights.to(wide), x.to(wide)
    found.append(harness.fastest("f16", {"cuBLAS": partial(torch.mm, x_wide, halves.T, out=z)}, [(z, expected)], 2e-2))
    if kind != "w4a16":
        return found
    found.append(triton_product(x, codes, scales, expected))
    own = int4_of_torch(x, codes, scales)
    try:
        harness.require_close(own(), expected, 3e-2, "PyTorch's 4 bits")
    except (harness.WrongResultError, RuntimeError) as error:
        print(error, flush=True)
        return found
    return [*found, harness.contender(own, kernel="PyTorch, 4 bits")]


def triton_product(x: Any, codes: Any, scales: Any, expected: Any) -> harness.Contender:
    """The fastest configuration of Triton's."""
    import torch
    from rivals import triton_low_bits

    (m, k), n = x.shape, len(codes)
    pairs, y = codes[:, ::2] | codes[:, 1::2] << 4, torch.empty_like(expected, dtype=torch.float16)

    def launch(bm: int, bn: int, split: int, warps: int, stages: int) -> None:
        if split > 1:
            y.zero_()
        grid = (-(-n // bn), -(-m // bm), split)
        options = {"num_warps": warps, "num_stages": stages}
        triton_low_bits.w4a16[grid](x, pairs, scales, y, m, n, k, bm, bn, split, GROUP["w4a16"], **options)

    fitting = [c for c in CONFIGURATIONS if c[0] == (16 if m <= 32 else 64)]
    return harness.fastest("Triton", {c: partial(launch, *c) for c in fitting}, [(y, expected)], 2e-2)


def int4_of_torch(x: Any, codes: Any, scales: Any) -> Callable[[], Any]:
    """PyTorch's product with weights of 4 bits and a scale and zero for 128 of a row, in bf16."""
    import torch

    unsigned = (codes + 8) & 15
    packed = torch.ops.aten._convert_weight_to_int4pack((unsigned[:, ::2] << 4 | unsigned[:, 1::2]).contiguous(), 8)
    both = torch.stack([scales, torch.zeros_like(scales)], dim=-1).bfloat16().contiguous()
    given = x.bfloat16()
    return lambda: torch.ops.aten._weight_int4pack_mm(given, packed, GROUP["w4a16"], both)


def table() -> None:
    """The newest times: those of the others over ours, and the rate at which weights are read."""
    results = mlir_kernels.newest(NAME)
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in results["rows"]:
        rows.setdefault(tuple(map(str, row["case"])), {})[row["kernel"]] = row
    others, lines = ("f16", "Triton", "PyTorch, 4 bits"), []
    ratios: dict[str, list[float]] = {name: [] for name in others}
    for (kind, *sizes), made in rows.items():
        ours = made["ours"]["ms"]
        for name in others:
            ratios[name] += [made[name]["ms"] / ours] if name in made else []
        cells = [f"{made[name]['ms'] / ours:.2f}" if name in made else "" for name in others]
        rate = f"{made['ours']['bytes'] / ours / 1e9:.2f}"
        lines.append([f"`{kind}`", " x ".join(sizes), f"{1000 * ours:.1f}", rate, *cells])
    heading = mlir_kernels.circumstances(NAME, results, "torch", "triton") + ". Times of others over ours in geometric "
    heading += "mean: " + ", ".join(f"{name} {geometric_mean(found):.2f}" for name, found in ratios.items() if found)
    columns = "weights|tokens x rows x columns|us|TB/s of weights|" + "|".join(f"{name} / ours" for name in others)
    mlir_kernels.put_into(PAGE, NAME, f"{heading}.\n\n", mlir_kernels.table(columns, lines))


BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, target=TARGET, groups={"short": SHORT},
    protocol=harness.Protocol(patience_ms=500),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
