"""Five-point stencil on an image: at the edges the nearest pixel counts, which is a halo with the boundary "clamp".

lego-mlir run examples/first_day/stencil.py --size H=100 --size W=333
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

H, W = lego.size("H"), lego.size("W")
TILES, TILE = [lego.cdiv(H, 8), lego.cdiv(W, 32)], [8, 32]


@lego.kernel(grid=(TILES[1], TILES[0]), block=(32, 8))
def stencil(x: lego.Tensor(f32, Row(H, W)), y: lego.Tensor(f32, Row(H, W))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    source, result = x.halo("clamp").tile_by(TILES, TILE), y.tile_by(TILES, TILE)
    near = [source[by, bx, ty + i, tx + j] for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    result[by, bx, ty, tx] = sum(near[1:], near[0]) - 4.0 * source[by, bx, ty, tx]


@stencil.reference
def expected(x):
    p = np.pad(x, 1, mode="edge")
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x
