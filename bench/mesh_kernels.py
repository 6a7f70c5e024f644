"""Kernels of moves over a mesh, compiled on one machine and called on another, and the matrix that they move."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness
import mesh_pairs
import mlir_kernels
from mesh_stage import NAME

FOLDER = harness.ARTIFACTS / NAME
SIZE, SMALL = 16384, 512
CEILING_BYTES = 1 << 30
BITS = {"f32": 32, "f16": 16}


@dataclass(frozen=True)
class Kept:
    """Kernels of one rank in a pair of N ranks: `store` compiles and keeps them, `load` finds them."""

    size: int
    ranks: int
    rank: int
    pair: str

    def path(self, name: str, dtype: Any) -> Path:
        words = (self.pair.replace(" ", "_"), self.size, f"{self.rank}of{self.ranks}", dtype.bits, name)
        return FOLDER / f"{'-'.join(map(str, words))}.cubin"

    def store(self, name: str, moves: Any, dtype: Any, held: int, capacities: Sequence[int]) -> Any:
        from lego_mlir.mesh.box_kernels import box_kernel

        made = mlir_kernels.compiled(box_kernel(name, moves, dtype, held, capacities), "sm_90a")
        mlir_kernels.keep_code(FOLDER, self.path(name, dtype).stem, made)

    def load(self, name: str, moves: Any, dtype: Any, held: int, capacities: Sequence[int]) -> Any:
        return mlir_kernels.kept_kernel(self.path(name, dtype))


def contiguous(ranks: int, rank: int, make: Any, bits: int = 32) -> Any:
    """A kernel that stores CEILING_BYTES contiguously."""
    from lego_mlir.mesh.box_kernels import BoxMove
    from lego_mlir.mesh.redistribution import StridedBox
    from lego_mlir.tracing.trace.dtypes import dtype_named

    n = CEILING_BYTES * 8 // bits
    box = StridedBox(0, (1, n), (n, 1))
    return make("contiguous", [BoxMove(box, box)], dtype_named(f"i{bits}"), n, [n])


def _rendered(case: tuple[int, int, int, str, int]) -> int:
    """The three kernels of one rank."""
    import lego_mlir as lego

    size, ranks, rank, name, bits = case
    kept = Kept(size, ranks, rank, name)
    pair = next(pair for pair in mesh_pairs.pairs(size, ranks) if pair.name == name)
    plan = lego.redistribute(pair.source.division, pair.target.division)

    lego.mesh.Exchange(plan, rank, make=kept.store).moves(bits)
    lego.mesh.PeerExchange(plan, rank, kept.store).kernel(bits)
    return 3


def render(options: SimpleNamespace) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    size = options.size or SIZE
    contiguous(1, 0, Kept(CEILING_BYTES, 1, 0, "ceiling").store)
    cases = [
        (size, ranks, rank, pair.name, bits)
        for ranks in options.ranks or (2, 4)
        for pair in mesh_pairs.pairs(size, ranks)
        for rank in range(ranks)
        for bits in BITS.values()
    ]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        made = sum(pool.map(_rendered, cases))
    print(f"{made + 1} kernels in {FOLDER}")
    return 0


def whole_matrix(n: int, bits: int, device: Any) -> Any:
    """A matrix whose elements are integers that tell their places apart, as far as they can."""
    import torch

    found = torch.arange(n * n, device=device, dtype=torch.int32 if n * n < 1 << 31 else torch.int64)
    if bits == 16:
        found = found ^ (found >> 15) * 40503 ^ (found >> 27)
    return found.to(getattr(torch, f"int{bits}")).view(n, n)
