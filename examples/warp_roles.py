"""9. A product with warp roles: one warp copies tiles, the others multiply them, and barriers pass the stages on.

On sm_90a these are tensor copies by a map derived from the layouts; on earlier targets, threads copy asynchronously.
"""

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f2, f16, f32, gallery

M, N, K = 192, 256, 320  # not multiples of the tiles: copies fill with zeros what is outside


def panels(stages, rows, columns):
    """`stages` tiles below each other, each of panels of 64 columns whose 16-byte chunks are swizzled."""
    swizzled = gallery.xor_swizzle(stages * rows * columns // 64, 64, 8)
    return (
        OrderBy(swizzled)
        .OrderBy(RegP([stages, rows, columns // 64, 64], [1, 3, 2, 4]))
        .GroupBy([stages * rows, columns])
    )


def build(BM=128, BN=128, BK=64, stages=3, warps=4):
    grid, parent = (lego.cdiv(N, BN), lego.cdiv(M, BM)), f2.MmaSync((warps, 1))

    @lego.kernel(grid=grid, block=32 * (warps + 4))
    def product(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(K, N)), c: lego.Tensor(f32, Row(M, N))):
        column, row = lego.block_id[0] * BN, lego.block_id[1] * BM
        left, right = (
            lego.shared(f16, panels(stages, BM, BK), "left"),
            lego.shared(f16, panels(stages, BK, BN), "right"),
        )
        full, empty = lego.barriers(stages), lego.barriers(stages, arrivals=warps)

        def tiles(k):
            return left.part((k % stages * BM, 0), (BM, BK)), right.part((k % stages * BK, 0), (BK, BN))

        with lego.warps(warps, warps + 1):  # the producer
            for k in lego.range(lego.cdiv(K, BK)):
                to_left, to_right = tiles(k)
                empty[k - stages].wait()
                lego.copy_async(a, to_left, at=(row, k * BK), barrier=full[k])
                lego.copy_async(b, to_right, at=(k * BK, column), barrier=full[k])
                full[k].arrive()
        with lego.warps(0, warps):  # the consumers
            total = lego.register(lego.zeros(f32, parent.layout((BM, BN))))
            for k in lego.range(lego.cdiv(K, BK)):
                full[k].wait()
                total.set(lego.mma(*tiles(k), total))
                empty[k].arrive()
            total.store(c, at=(row, column))

    return product


product = build()


@product.reference(rtol=2**-10, atol=2**-10)
def expected(a, b):
    return a @ b
