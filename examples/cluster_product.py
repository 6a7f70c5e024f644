"""11. A product whose blocks share an operand: the two blocks of a cluster copy half of a tile each, for both.

lego-mlir run examples/cluster_product.py --on interp
lego-mlir run examples/cluster_product.py --on ptx --target sm_90a

Neighbours along N need the same rows of `a`, and read them from global memory once. On sm_90a the copies are multicast
tensor copies, and the products `wgmma`.
"""

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery

M, N, K = 96, 200, 160  # not multiples of the tiles: copies fill with zeros what is outside


def build(BM=64, BN=64, BK=64, stages=2, blocks=2, warps=4):
    rows, columns = lego.cdiv(M, BM), lego.cdiv(lego.cdiv(N, BN), blocks) * blocks  # whole clusters
    parent, swizzled = f2.MmaSync((warps, 1)), gallery.xor_swizzle(stages * BK, 64, 8)
    share = BM // blocks  # the rows of `a` that a block copies for all

    @lego.kernel(grid=(columns, rows), block=32 * (warps + 1), cluster=(blocks, 1))
    def product(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(K, N)), c: lego.Tensor(f32, Row(M, N))):
        column, row, own = lego.block_id[0] * BN, lego.block_id[1] * BM, lego.cluster_rank * share
        left, right = lego.shared(f16, swizzled, "left"), lego.shared(f16, swizzled, "right")
        full = lego.barriers(stages, arrivals=blocks)  # the producer of each block arrives
        empty = lego.barriers(stages, arrivals=blocks * warps)  # and all consumers of the cluster
        lego.cluster_barrier()  # the barriers of all blocks are initialised

        with lego.warps(warps, warps + 1):  # the producer
            for k in lego.range(lego.cdiv(K, BK)):
                to_all = left.part((k % stages * BM + own, 0), (share, BK))
                to_own = right.part((k % stages * BK, 0), (BK, BN))
                empty[k - stages].wait()
                lego.copy_async(a, to_all, at=(row + own, k * BK), barrier=full[k], blocks="all")
                lego.copy_async(b, to_own, at=(k * BK, column), barrier=full[k])
                for block in lego.unroll(blocks):
                    full[k].arrive(block=block)
        with lego.warps(0, warps):  # the consumers
            total = lego.register(lego.zeros(f32, parent.layout((BM, BN))))
            for k in lego.range(lego.cdiv(K, BK)):
                tiles = left.part((k % stages * BM, 0), (BM, BK)), right.part((k % stages * BK, 0), (BK, BN))
                full[k].wait()
                total.set(lego.mma(*tiles, total))
                for block in lego.unroll(blocks):
                    empty[k].arrive(block=block)
            total.store(c, at=(row, column))
        lego.cluster_barrier()  # no block ends while another one copies to it, or arrives at its barriers

    return product


product = build()


@product.reference(rtol=2**-10, atol=2**-10)
def expected(a, b):
    return a @ b
