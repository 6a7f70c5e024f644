"""Products of f8 with scales of blocks next to DeepGEMM, on an H200.

    python bench/scaled_products.py STEP    the steps of `runner.py`: render, prepare, time, table

`lego_mlir.kernels.scaled_products` in every tile of its choice, timed in the one that the choice takes; with
`candidates` as a step, in all of them. DeepGEMM is the package `tokenspeed-deepgemm`; its scales of a are laid out as
it wants them before its times begin.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner

NAME, TARGET, BLOCKS, TOLERANCE = "scaled_products", "sm_90a", 132, 1e-2
WEIGHTS = ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
CASES = [(m, n, k) for m in (64, 128, 4096) for n, k in WEIGHTS]
BLOCK = 128
EVERY = "LEGO_EVERY_TILE"


def tiles() -> list[Any]:
    from lego_mlir.choices import scaled_tiles

    return list(scaled_tiles.shapes())


def label(tile: Any) -> str:
    return f"{tile.m}x{tile.n}x{tile.stages}-cluster{tile.sharing}-parts{tile.parts}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.kernels import scaled_products

    for tile in tiles():
        mlir_kernels.keep_cubin(folder / label(tile), scaled_products.build(tile, BLOCKS), TARGET)


def draw(source: random.Random) -> harness.Case:
    m = source.choice((source.randrange(1, 129), source.randrange(129, 8193)))
    return m, 8 * source.randrange(64, 3073), BLOCK * source.randrange(4, 129)


def timed(folder: Path, m: int, n: int, k: int) -> list[harness.Contender]:
    import torch

    torch.manual_seed(0)
    a, b = (torch.randn((rows, k), device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
    sa = torch.rand((m, k // BLOCK), device="cuda") + 0.5
    sb = torch.rand((-(-n // BLOCK), k // BLOCK), device="cuda") + 0.5
    expected = (a.float() * sa.repeat_interleave(BLOCK, 1)) @ (
        b.float() * sb.repeat_interleave(BLOCK, 0)[:n].repeat_interleave(BLOCK, 1)
    ).T
    c, rows = torch.empty((m, n), device="cuda", dtype=torch.bfloat16), []
    along_m = torch.zeros((k // BLOCK, -(-m // 4) * 4), device="cuda")[:, :m].T
    along_m.copy_(sa)
    facts, runs = {"m": m, "n": n, "k": k}, rivals(a, b, sa, sb, c)
    for tile in chosen(m, n, k):
        runs[label(tile)] = mlir_kernels.kept_kernel(folder / label(tile) / "scaled_product.cubin").prepare(
            a, b, along_m if tile.m > 64 else sa, sb, c
        )
    for name, run in runs.items():
        c.zero_()
        run()
        error = harness.require_close(c, expected, TOLERANCE, f"{name} {m} x {n} x {k}")
        kernel = name if name == "DeepGEMM" or os.environ.get(EVERY) else "ours"
        rows.append(harness.contender(run, kernel=kernel, tile=name, error=error, **facts))
    return rows


def rivals(a: Any, b: Any, sa: Any, sb: Any, c: Any) -> dict[str, Any]:
    """DeepGEMM, where it is installed."""
    try:
        import deep_gemm
    except ImportError as error:
        print(f"without DeepGEMM: {error}", file=sys.stderr)
        return {}
    laid_out = deep_gemm.get_mn_major_tma_aligned_tensor(sa)
    return {"DeepGEMM": partial(deep_gemm.fp8_gemm_nt, (a, laid_out), (b, sb), c)}


def chosen(m: int, n: int, k: int) -> list[Any]:
    """The tile of the choice, or all that are not much too large."""
    from lego_mlir.choices import scaled_tiles

    if os.environ.get(EVERY):
        return [t for t in tiles() if t.m <= max(64, m) * 2 and (m > 256 or t.parts * -(-n // t.n) < 600)]
    return [scaled_tiles.choose(m, n, k)]


PROTOCOL = harness.Protocol("steady", turn_s=0.02, graphs=True, patience_ms=1500)
BENCHMARK = runner.Benchmark(NAME, CASES, timed, None, render, target=TARGET, protocol=PROTOCOL, draw=draw)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
