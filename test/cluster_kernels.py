"""Kernels with clusters that several tests run: in the interpreter, and as PTX in the emulator."""

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery

THREADS, BLOCKS = 64, 4


def sums(*, first=True, last=True, rank=None, cluster=(BLOCKS,), remote_store=False):
    """Each block adds up its part of x; the parts of a cluster are then added in every block of it."""

    @lego.kernel(grid=(2 * BLOCKS,), block=THREADS, cluster=cluster)
    def added(x: lego.Tensor(f32, Row(2 * BLOCKS * THREADS)), y: lego.Tensor(f32, Row(2 * BLOCKS))):
        part = lego.shared(f32, Row(BLOCKS), "part")
        value = lego.block_reduce(x[lego.block_id[0] * THREADS + lego.thread_id[0]])
        with lego.when(lego.thread_id[0] < (BLOCKS if remote_store else 1)):
            if remote_store:
                part.of_block(lego.thread_id[0])[lego.cluster_rank] = value
            else:
                part[lego.cluster_rank] = value
        if first:
            lego.cluster_barrier()
        total = lego.register(f32, 0.0)
        for b in lego.unroll(BLOCKS):
            of = lego.cluster_rank if remote_store else b
            total += part.of_block(of)[b if rank is None else rank(b)]
        with lego.when(lego.thread_id[0] < 1):
            y[lego.block_id[0]] = total.get()
        if last:
            lego.cluster_barrier()

    return added


M, N, K, BM, BN, BK = 64, 128, 128, 64, 64, 64


def product(
    *,
    arrivals=2,
    released="all",
    meet=True,
    last=True,
    stages=2,
    mask="all",
    rows=None,
    empty_wait=True,
    second_mask=None,
):
    """Two blocks multiply the same rows of a: each copies half of them to both, and its columns of b to itself."""
    warps, blocks = 2, 2
    rows = BM // blocks if rows is None else rows
    swizzled = gallery.xor_swizzle(stages * BM, BK, 8)
    parent = f2.MmaSync((warps, 1))

    @lego.kernel(grid=N // BN, block=32 * (warps + 1), cluster=blocks)
    def multiplied(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(K, N)), c: lego.Tensor(f32, Row(M, N))):
        left, right = lego.shared(f16, swizzled, "left"), lego.shared(f16, swizzled, "right")
        full, empty = lego.barriers(stages, arrivals=arrivals), lego.barriers(stages, arrivals=blocks * warps)
        if meet:
            lego.cluster_barrier()  # the barriers of both blocks are initialised
        own, column = lego.cluster_rank * rows, lego.block_id[0] * BN
        with lego.warps(warps, warps + 1):
            for k in lego.range(K // BK):
                if empty_wait:
                    empty[k - stages].wait()
                part = left.part((k % stages * BM + own, 0), (BM // blocks, BK))
                lego.copy_async(a, part, at=(own, k * BK), barrier=full[k], blocks=mask)
                lego.copy_async(
                    b,
                    right.part((k % stages * BK, 0), (BK, BN)),
                    at=(k * BK, column),
                    barrier=full[k],
                    blocks=second_mask and second_mask(),
                )
                for r in lego.unroll(blocks):
                    full[k].arrive(block=r)
        with lego.warps(0, warps):
            total = lego.register(lego.zeros(f32, parent.layout((BM, BN))))
            for k in lego.range(K // BK):
                full[k].wait()
                tiles = left.part((k % stages * BM, 0), (BM, BK)), right.part((k % stages * BK, 0), (BK, BN))
                total.set(lego.mma(*tiles, total))
                for r in lego.unroll(blocks):
                    if released == "all":
                        empty[k].arrive(block=r)
                if released == "own":
                    empty[k].arrive()
            total.store(c, at=(0, column))
        if last:
            lego.cluster_barrier()

    return multiplied
