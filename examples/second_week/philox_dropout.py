"""Dropout with Philox 4x32-10 random numbers (Salmon et al., SC 2011): the counter is the element's number.

A thread makes four numbers and drops or scales four elements; no state is kept, so a gradient repeats them.

lego-mlir run examples/second_week/philox_dropout.py --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

KEYS, FACTORS = (0x9E3779B9, 0xBB67AE85), (0xD2511F53, 0xCD9E8D57)  # of the reference
T, V = 128, 4
N = lego.size("N", multiple_of=V)
VECTOR = lego.Tensor(f32, Row(N))


@lego.kernel(grid=lego.cdiv(N, T * V), block=T)
def philox_dropout(x: VECTOR, y: VECTOR, keep: f32):
    number = lego.block_id[0] * T + lego.thread_id[0]
    words = lego.philox(number, key=(1234, 5678))
    values = x.halo().load(number * V, width=V)
    made = [lego.where((w >> 8).to(f32) * 2.0**-24 < keep, values[k] / keep, 0.0) for k, w in enumerate(words)]
    y.halo().store(lego.vector(*made), number * V)


@philox_dropout.inputs
def kept(N, rng):
    return {"x": rng.standard_normal(N).astype(np.float32), "keep": np.float32(0.75)}


@philox_dropout.reference
def expected(x, keep):
    a = np.arange(len(x) // V, dtype=np.uint64)
    b, c, d = (np.zeros_like(a) for _ in range(3))
    for n in range(10):
        first, second = ((k + n * step) & 0xFFFFFFFF for k, step in zip((1234, 5678), KEYS, strict=True))
        p, q = a * np.uint64(FACTORS[0]), c * np.uint64(FACTORS[1])
        a, b, c, d = (q >> 32) ^ b ^ np.uint64(first), q & 0xFFFFFFFF, (p >> 32) ^ d ^ np.uint64(second), p & 0xFFFFFFFF
    words = np.stack([a, b, c, d], 1).reshape(-1)
    drawn = (words >> 8).astype(np.float32) * np.float32(2.0**-24)
    return np.where(drawn < keep, x / np.float32(keep), np.float32(0))
