"""MLIR kernels of 64 threads, each of which computes an index."""

import numpy as np

from lego_mlir import interp

LANES = 64
T = np.arange(LANES)
PROLOGUE = """%t = gpu.thread_id x
        %b = gpu.block_id x
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c4 = arith.constant 4 : index
        %c32 = arith.constant 32 : index
        %f0 = arith.constant 0.0 : f32
        %f1 = arith.constant 1.0 : f32
        %mod4 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%t)
        %mod8 = affine.apply affine_map<(d0) -> (d0 mod 8)>(%t)
        %odd = affine.apply affine_map<(d0) -> (d0 mod 2)>(%t)
        %is_odd = arith.cmpi eq, %odd, %c1 : index"""


def index_of(body: str, *, grid: int = 1, clean: bool = True, threads: int = LANES) -> np.ndarray:
    """`body` computes %r : index for each thread; the results, (grid, threads)."""
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<{grid}x{threads}xindex>) kernel {{
        {PROLOGUE}
        {body}
        memref.store %r, %out[%b, %t] : memref<{grid}x{threads}xindex>
        gpu.return }} }}"""
    out = np.zeros((grid, threads), np.int64)
    report = interp.launch(text, grid=grid, block=threads, args=[out])
    assert not clean or report.clean, report.faults
    return out if grid > 1 else out[0]
