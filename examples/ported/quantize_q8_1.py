"""llama.cpp's `quantize_q8_1` (CUDA): rows of f32 as blocks of 32 numbers of 8 bits, with a scale and a sum in f16.

A block has 36 bytes: the scale d, the sum of the 32 numbers, then the numbers; a lane makes 4 of them, a word.

lego-mlir run examples/ported/quantize_q8_1.py --size M=3 --size N=96
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i8, u32

M, N, T, LANES = lego.size("M"), lego.size("N", multiple_of=32), 128, 8
HALF = 0.5 - 2**-25  # the f32 below a half: 0.5 more would round what is just below a half up
X, BLOCKS = lego.Tensor(f32, Row(M, N)), lego.Tensor(u32, Row(M, N // 32, 1 + LANES))


@lego.kernel(grid=(lego.cdiv(N, 4 * T), M), block=T)
def quantize_q8_1(x: X, y: BLOCKS):
    row, t = lego.block_id[1], lego.thread_id[0]
    first = 4 * (lego.block_id[0] * T + t)
    block, lane = first // 32, t % LANES
    v = x.halo().load(row, first, width=4)  # 0 past the end of a row: every lane takes part in the reductions
    most = lego.warp_reduce(max_of([abs(v[k]) for k in range(4)]), "max", width=LANES)
    total = lego.warp_reduce((v[0] + v[1]) + (v[2] + v[3]), width=LANES)
    d = most / 127.0
    with lego.when(first < N):
        y[row, block, 1 + lane] = lego.bitcast(lego.vector(*(code(v[k], d) for k in range(4))), u32)
        with lego.when(lane == 0):
            y[row, block, 0] = lego.bitcast(lego.vector(d.to(f16), total.to(f16)), u32)


def code(x, d):
    """The number nearest to x / d; halves are rounded away from 0, as C's roundf does."""
    size = lego.where(d == 0.0, 0.0, x / d)
    return lego.trunc(size + lego.copysign(f32(HALF), size)).to(i8)


def max_of(numbers):
    return lego.maximum(lego.maximum(numbers[0], numbers[1]), lego.maximum(numbers[2], numbers[3]))


@quantize_q8_1.reference
def expected(x):
    blocks = x.astype(np.float32).reshape(*x.shape[:-1], -1, 32)
    d = np.abs(blocks).max(axis=-1) / np.float32(127)
    with np.errstate(invalid="ignore"):
        scaled = np.nan_to_num(blocks / d[..., None])
    codes = (np.sign(scaled) * np.floor(np.abs(scaled).astype(np.float64) + 0.5)).astype(np.int8)
    pairs = np.stack([d, blocks.sum(axis=-1)], axis=-1).astype(np.float16)
    return np.concatenate([pairs.view(np.uint32), codes.view(np.uint32)], axis=-1)


@quantize_q8_1.inputs
def inputs(rng, M, N):
    x = rng.integers(-8, 9, (M, N)) / np.float32(4)  # sums are exact in any order
    x[:, :32] = 0
    return {"x": x}
