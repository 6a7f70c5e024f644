"""A product with weights of 4 bits: activations in f16, a scale for 128 weights of a column (W4A16, as GPTQ and AWQ).

The engine gives a lane 8 neighbours along K of its operands, so that it loads its weights as whole words and converts
two at a time by patterns of bits. The product of a group is scaled in f32 and added up.

lego-mlir run examples/second_week/w4a16.py --size M=17 --size N=80 --size K=256
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery, i4

ROWS, COLUMNS, GROUP = 32, 64, 128
M, N = lego.size("M", max=1 << 16), lego.size("N", max=1 << 16)
K = lego.size("K", max=1 << 16, multiple_of=GROUP)


@lego.kernel(grid=(lego.cdiv(N, COLUMNS), lego.cdiv(M, ROWS)), block=128)
def w4a16(
    x: lego.Tensor(f16, Row(M, K)),
    w: lego.Tensor(i4, Row(N, K)),
    scales: lego.Tensor(f16, Row(K // GROUP, N)),
    y: lego.Tensor(f16, Row(M, N)),
):
    row, column = ROWS * lego.block_id[1], COLUMNS * lego.block_id[0]
    ring = lego.shared(f16, gallery.xor_swizzle(2 * ROWS, GROUP, 32), name="ring")
    total = lego.register(lego.zeros(f32, (ROWS, COLUMNS)))

    def stage(group):
        slot = ring.part((group % 2 * ROWS, 0), (ROWS, GROUP))
        lego.copy_async(x, slot, at=(row, group * GROUP))
        lego.commit_copies()

    def loaded(group):
        return lego.load(w.T, (GROUP, COLUMNS), at=(group * GROUP, column))

    stage(0)
    ahead = lego.register(loaded(0))
    for group in lego.range(K // GROUP):
        weights = ahead.get()
        lego.wait_copies()
        lego.barrier()
        with lego.when(group + 1 < K // GROUP):
            stage(group + 1)
            ahead.set(loaded(group + 1))
        scale = lego.load(scales, (COLUMNS,), at=(group, column))
        rows = ring.part((group % 2 * ROWS, 0), (ROWS, GROUP))
        total += lego.mma(rows, weights, lego.zeros(f32, (ROWS, COLUMNS))) * scale.to(f32)[None, :]
    total.get().to(f16).store(y, at=(row, column))


def unpacked(w):
    """The numbers of packed bytes, low bits first."""
    digits = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1).astype(np.int8)
    return np.where(digits > 7, digits - 16, digits)


@w4a16.reference(rtol=2e-3, atol=2e-2)  # sums of f32 in another order, and the result in f16
def expected(x, w, scales):
    of_groups = np.repeat(scales.astype(np.float32), GROUP, axis=0).T
    return x.astype(np.float32) @ (unpacked(w) * of_groups).T


@w4a16.inputs
def inputs(rng, M, N, K):
    return {
        "x": rng.standard_normal((M, K)),
        "w": rng.integers(0, 256, (N, K // 2)),
        "scales": rng.uniform(0.005, 0.02, (K // GROUP, N)),
    }
