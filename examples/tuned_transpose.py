"""A transpose whose tile, order and shared layout are chosen for the size.

    lego-mlir tune examples/tuned_transpose.py --size M=4096 --size N=4096 --dry-run
    lego-mlir tune examples/tuned_transpose.py --size M=4096 --size N=4096 --budget 1m --export choices.json
    lego-mlir bench examples/tuned_transpose.py --size M=1024 --size N=2048 --on cpu

`turned(x)` runs the configuration that was measured for the sizes of `x`, or the one that the model predicts to be the
fastest. The space has layouts as well as numbers; a layout that is not a bijection, or one with bank conflicts, is
pruned before anything is compiled.
"""

import lego_mlir as lego
from lego_mlir import Row, f32, gallery


def conflict_free(rows, columns):
    return gallery.xor_swizzle(rows, columns)


def padded(rows, columns):
    return gallery.padded(rows, columns)


@lego.tune(
    space={"tile": [16, 32, 64], "down": [4, 8, 16], "stage": [Row, padded, conflict_free], "order": ["row", "column"]},
    where=["tile % down == 0", "tile * down >= 128"],
    key=["M", "N"],
)
def turned(tile, down, stage, order, M, N):
    tiles = (lego.cdiv(M, tile), lego.cdiv(N, tile))
    grid = tiles if order == "column" else tiles[::-1]

    @lego.kernel(grid=grid, block=(tile, down))
    def transpose(src: lego.Tensor(f32, Row(M, N)), dst: lego.Tensor(f32, Row(N, M))):
        first, second, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
        i, j = (first, second) if order == "column" else (second, first)
        shared = lego.shared(f32, stage(tile, tile))
        source, result = src.tile_by(tiles, [tile, tile]), dst.tile_by(tiles[::-1], [tile, tile])
        for r in lego.unroll(0, tile, down):
            shared[ty + r, tx] = source[i, j, ty + r, tx]
        lego.barrier()
        for r in lego.unroll(0, tile, down):
            result[j, i, ty + r, tx] = shared[tx, ty + r]

    @transpose.reference
    def expected(src):
        return src.T

    return transpose


rivals = {"NumPy": lambda x: x.T.copy()}
