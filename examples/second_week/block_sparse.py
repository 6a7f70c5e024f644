"""A block-sparse matrix times a dense one: blocks of 32 x 32 in compressed rows, multiplied on tensor cores.

`first[i] .. first[i + 1]` are the blocks of block row i, and `columns` their block columns; both have declared ranges,
so that every access is proved.

lego-mlir run examples/second_week/block_sparse.py --size R=5 --size S=7 --size Z=9 --size N=72
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery, i32

SIDE, COLUMNS = 32, 64
R, S, Z = lego.size("R"), lego.size("S"), lego.size("Z")  # block rows, block columns, blocks
N = lego.size("N", multiple_of=8)


@lego.kernel(grid=(lego.cdiv(N, COLUMNS), R), block=128)
def block_sparse(
    first: lego.Tensor(i32, Row(R + 1), range=(0, Z + 1)),
    columns: lego.Tensor(i32, Row(Z), range=(0, S)),
    blocks: lego.Tensor(f16, Row(Z, SIDE, SIDE)),
    x: lego.Tensor(f16, Row(S, SIDE, N)),
    y: lego.Tensor(f32, Row(R, SIDE, N)),
):
    n, row = COLUMNS * lego.block_id[0], lego.block_id[1]
    tile = lego.shared(f16, gallery.xor_swizzle(SIDE, COLUMNS, 8, 1, 8), name="tile")
    total = lego.register(lego.zeros(f32, (SIDE, COLUMNS)))
    for z in lego.range(first[row], first[row + 1]):
        a = lego.load(blocks, (SIDE, SIDE), at=(z, 0, 0))
        b = lego.load(x, (SIDE, COLUMNS), at=(columns[z], 0, n))
        lego.barrier()
        b.store(tile)
        lego.barrier()
        total.set(lego.mma(a, tile, total.get()))
    total.get().store(y, at=(row, 0, n))


@block_sparse.reference(rtol=1e-3, atol=1e-3)
def expected(first, columns, blocks, x):
    y = np.zeros((len(first) - 1, SIDE, x.shape[2]))
    for row in range(len(first) - 1):
        for z in range(first[row], first[row + 1]):
            y[row] += blocks[z].astype(np.float64) @ x[columns[z]].astype(np.float64)
    return y


@block_sparse.inputs
def inputs(rng, R, S, Z, N):
    cuts = np.sort(rng.integers(0, Z + 1, R - 1)) if R > 1 else np.zeros(0, int)
    return {
        "first": np.concatenate([[0], cuts, [Z]]),
        "columns": rng.integers(0, S, Z),
        "blocks": rng.standard_normal((Z, SIDE, SIDE)) / 8,
        "x": rng.standard_normal((S, SIDE, N)),
    }
