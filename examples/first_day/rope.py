"""Rotary position embedding: element pairs (2i, 2i + 1) of each head, turned by the angle position / 10000^(2i / D).

lego-mlir run examples/first_day/rope.py --size S=50
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32

HEADS, D = 8, 64
S = lego.size("S", max=1 << 20)
TENSOR = lego.Tensor(f16, Row(S, HEADS, D))


@lego.kernel(grid=S, block=(D // 2, HEADS))
def rope(x: TENSOR, y: TENSOR):
    s, (i, head) = lego.block_id[0], lego.thread_id
    angle = f32(s) * lego.exp2(f32(i) * (-2 * np.log2(10000) / D))
    sine, cosine = lego.sin(angle), lego.cos(angle)
    a, b = x.load(s, head, 2 * i, width=2).to(f32)
    y.store(lego.vector(a * cosine - b * sine, a * sine + b * cosine).to(f16), s, head, 2 * i)


@rope.reference(rtol=2**-10, atol=2**-9)
def expected(x):
    angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None]
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
