"""bitsandbytes' `kDequantizeBlockwise` for NF4 (CUDA): 4-bit numbers of a table of 16, times the scale of 64 of them.

The first number of a byte is in its high nibble, which the layout says. The table is an argument, read from the cache;
the CUDA text compares in a tree of 15 branches.

lego-mlir run examples/ported/nf4_dequantise.py --size B=100
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import GenP, OrderBy, Row, bf16, f32, u4

T, V, BLOCK = 64, 8, 64
B = lego.size("B", max=1 << 20)
N = B * BLOCK
HIGH_FIRST = OrderBy(Row(N // 2), GenP([2], lambda i: 1 - i, lambda p: 1 - p)).GroupBy([N])


@lego.kernel(grid=lego.cdiv(N, T * V), block=T)
def nf4_dequantise(
    w: lego.Tensor(u4, HIGH_FIRST),
    largest: lego.Tensor(f32, Row(B)),
    table: lego.Tensor(f32, Row(16)),
    y: lego.Tensor(bf16, Row(N)),
):
    i = (lego.block_id[0] * T + lego.thread_id[0]) * V
    with lego.when(i < N):
        scale = largest.repeat(BLOCK)[i]
        codes = w.load(i, width=V)
        y.store(lego.vector(*(table[code.to(lego.i32)] * scale for code in codes)).to(bf16), i)


NF4 = [
    -1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0, 0.0795803, 0.1609302,
    0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0,
]  # fmt: skip


@nf4_dequantise.reference(rtol=8e-3, atol=1e-6)
def expected(w, largest, table):
    codes = np.stack([w >> 4, w & 15], axis=-1).reshape(-1)
    return table[codes] * np.repeat(largest, BLOCK)


@nf4_dequantise.inputs
def inputs(rng, B):
    return {"w": rng.integers(0, 256, B * BLOCK // 2), "largest": rng.uniform(0.5, 2, B), "table": np.array(NF4)}
