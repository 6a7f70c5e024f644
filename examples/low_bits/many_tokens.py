"""W4A16 for many tokens, by `wgmma`: weights become halves in registers, scaled, and are the left operand.

The plain kernel is scheduled: its tiles of activations and weights become rings that copying warps fill; scales
are loaded a step ahead.

lego-mlir run examples/low_bits/many_tokens.py --size M=130 --size N=144 --size G=2
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, i4

ROWS, TOKENS, STEP, GROUP = 128, 128, 64, 128  # of weights, of a tile, columns of a step, weights of a scale
WARPS = 8
M, N = lego.size("M", max=1 << 16), lego.size("N", max=1 << 20, multiple_of=16)
G = lego.size("G", max=1 << 13)  # groups along K
K = GROUP * G
OF_LANES = f2.MmaOperand(0, f2.MmaSync((WARPS, 1)), 2).layout((ROWS, STEP))  # of products: no exchange in the loop


@lego.kernel(grid=(lego.cdiv(M, TOKENS), lego.cdiv(N, ROWS)), block=32 * WARPS)
def plain(
    x: lego.Tensor(f16, Row(M, K)),
    w: lego.Tensor(i4, Row(N, K)),
    scales: lego.Tensor(f16, Row(G, N)),
    y: lego.Tensor(f16, Row(M, N)),
):
    token, row = TOKENS * lego.block_id[0], ROWS * lego.block_id[1]
    of_w = lego.shared(i4, Row(ROWS, STEP), name="of_w")
    ahead = lego.register(lego.load(scales, (ROWS,), at=(0, row)))
    total = lego.register(lego.zeros(f32, (ROWS, TOKENS)))
    for step in lego.range(0, K, STEP):
        right = lego.load(x, (TOKENS, STEP), at=(token, step))
        lego.copy_async(w.bytes, of_w.bytes, at=(row, step // 2))
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        left = lego.load(of_w, (ROWS, STEP), pin=OF_LANES).to(f16) * ahead.get()[:, None]
        ahead.set(lego.load(scales, (ROWS,), at=((step + STEP) // GROUP, row)))
        total.set(lego.mma(left, right.T, total))
        lego.barrier()
    total.get().to(f16).T.store(y, at=(token, row))


w4a16 = plain.schedule("warpgroups, pipeline(stages=4), overlay, roles", name="w4a16")


def expected(x, w, scales):
    codes = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1).astype(int)
    numbers = (codes + 8) % 16 - 8
    return x.astype(np.float32) @ (numbers * np.repeat(scales.astype(np.float32), GROUP, axis=0).T).T


def inputs(rng, M, N, G):
    scales = rng.uniform(0.005, 0.02, (G, N))
    return {"x": rng.standard_normal((M, GROUP * G)), "w": rng.integers(0, 256, (N, GROUP * G // 2)), "scales": scales}


for kernel in (plain, w4a16):
    kernel.reference(rtol=4e-3, atol=4e-2)(expected)  # scaled weights are rounded to f16
    kernel.inputs(inputs)
