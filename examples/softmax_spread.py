"""Softmax of rows on tiles spread over threads: a warp holds a row, 32 elements a thread.

lego-mlir run examples/softmax_spread.py --on interp --size M=37
lego-mlir analyze examples/softmax_spread.py
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f2, f32

M, N, WARPS = lego.size("M", min=1), 1024, 4
layout = f2.Blocked((1, 4), (1, 32), (WARPS, 1), order=(1, 0)).layout((WARPS, N))


@lego.kernel(grid=lego.cdiv(M, WARPS), block=32 * WARPS)
def softmax(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
    rows = (WARPS * lego.block_id[0], 0)
    tile = lego.load(x, layout, at=rows)
    e = lego.exp(tile - tile.max(axis=1)[:, None])
    (e / e.sum(axis=1)[:, None]).store(y, at=rows)


@softmax.reference
def expected(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
