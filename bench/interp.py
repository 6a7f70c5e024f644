"""Benchmark the interpreter with all checks and counts enabled: one line for each kernel.

    python bench/interp.py

The kernels are those of the project's limits: a shared-memory transpose of 2048 x 2048 f32 (under 3 s), one block of a
128 x 256 x 64 tensor-core matrix product over K = 512 (under 3 s), and a serial loop in which each lane of a warp adds
up elements (under 20 us an iteration), on a machine of two cores.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from lego_mlir import interp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))
from gemm_text import Gemm, script, transformed

LIMIT_SECONDS = 3.0
LIMIT_MICROSECONDS = 20.0


def transpose(n: int, pitch: int = 33) -> str:
    """A block of 32 x 8 threads moves a 32 x 32 tile through shared memory, its rows `pitch` apart."""
    load = "\n".join(
        f"""
    %r{k} = arith.addi %ty, %c{8 * k} : index
    %gr{k} = arith.addi %by32, %r{k} : index
    %gi{k} = arith.muli %gr{k}, %n : index
    %gj{k} = arith.addi %gi{k}, %col : index
    %v{k} = memref.load %src[%gj{k}] : memref<{n * n}xf32>
    memref.store %v{k}, %tile[%r{k}, %tx] : memref<32x{pitch}xf32, #gpu.address_space<workgroup>>"""
        for k in range(4)
    )
    store = "\n".join(
        f"""
    %w{k} = memref.load %tile[%tx, %r{k}] : memref<32x{pitch}xf32, #gpu.address_space<workgroup>>
    %hr{k} = arith.addi %bx32, %r{k} : index
    %hi{k} = arith.muli %hr{k}, %n : index
    %hj{k} = arith.addi %hi{k}, %row : index
    memref.store %w{k}, %dst[%hj{k}] : memref<{n * n}xf32>"""
        for k in range(4)
    )
    return f"""
gpu.module @m {{
  gpu.func @transpose(%src: memref<{n * n}xf32>, %dst: memref<{n * n}xf32>)
      workgroup(%tile: memref<32x{pitch}xf32, #gpu.address_space<workgroup>>)
      kernel attributes {{known_block_size = array<i32: 32, 8, 1>,
                         known_grid_size = array<i32: {n // 32}, {n // 32}, 1>}} {{
    %n = arith.constant {n} : index
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c24 = arith.constant 24 : index
    %c32 = arith.constant 32 : index
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %bx32 = arith.muli %bx, %c32 : index
    %by32 = arith.muli %by, %c32 : index
    %col = arith.addi %bx32, %tx : index
    %row = arith.addi %by32, %tx : index
    {load}
    gpu.barrier
    {store}
    gpu.return
  }}
}}
"""


def measure_transpose(n: int = 2048) -> float:
    text = transpose(n)
    source = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    target = np.zeros_like(source)
    start = time.perf_counter()
    report = interp.launch(text, args=[source.reshape(-1), target.reshape(-1)])
    seconds = time.perf_counter() - start
    assert report.clean, report
    assert np.array_equal(target, source.T)
    return seconds


def measure_gemm() -> float:
    sizes = Gemm()
    text = transformed(sizes.text(), script())
    rng = np.random.default_rng(0)
    a = rng.standard_normal((sizes.m, sizes.k)).astype(np.float16)
    b = rng.standard_normal((sizes.k, sizes.n)).astype(np.float16)
    c = np.zeros((sizes.m, sizes.n), np.float32)
    start = time.perf_counter()
    report = interp.launch(text, args=[a, b, c])
    seconds = time.perf_counter() - start
    assert report.clean, report
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-3)
    return seconds


def serial_loop(n: int) -> str:
    """Each lane adds up n elements, from its own first one on."""
    return f"""
gpu.module @m {{
  gpu.func @total(%x: memref<{n + 32}xf32>, %y: memref<32xf32>)
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {n} : index
    %zero = arith.constant 0.0 : f32
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%before = %zero) -> (f32) {{
      %j = arith.addi %i, %t : index
      %v = memref.load %x[%j] : memref<{n + 32}xf32>
      %after = arith.addf %before, %v : f32
      scf.yield %after : f32
    }}
    memref.store %sum, %y[%t] : memref<32xf32>
    gpu.return
  }}
}}
"""


def measure_serial_loop(n: int = 20_000) -> float:
    """Microseconds an iteration."""
    x, y = np.arange(n + 32, dtype=np.float32) % 7, np.zeros(32, np.float32)
    start = time.perf_counter()
    report = interp.launch(serial_loop(n), args=[x, y])
    seconds = time.perf_counter() - start
    assert report.clean, report
    assert (y == [x[t : t + n].sum(dtype=np.float64) for t in range(32)]).all()
    return seconds / n * 1e6


def main() -> None:
    for what, seconds in (
        ("transpose 2048x2048 f32", measure_transpose()),
        ("one block of GEMM 128x256x64, K = 512, f16", measure_gemm()),
    ):
        print(f"{what}: {seconds:.2f} s (limit {LIMIT_SECONDS} s)")
    print(f"serial loop: {measure_serial_loop():.1f} us an iteration (limit {LIMIT_MICROSECONDS} us)")


if __name__ == "__main__":
    main()
