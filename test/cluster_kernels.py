"""Kernels with clusters that several tests run: in the interpreter, and as PTX in the emulator."""

import lego_mlir as lego
from lego_mlir import Row, f32

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
