"""RMS norm with a quantised result: rows divided by their root mean squares, weighted, in f8 with a scale for each row.

lego-mlir run examples/second_week/rms_norm_f8.py --size M=3 --size N=1000
"""

import ml_dtypes
import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f8e4m3fn, f32

T, V, LARGEST = 128, 8, 448.0  # threads, elements of a load, the largest f8
PARTS = 2
M, N = lego.size("M"), lego.size("N", max=T * V * PARTS, multiple_of=V)


@lego.kernel(grid=M, block=T)
def rms_norm_f8(
    x: lego.Tensor(bf16, Row(M, N)),
    weight: lego.Tensor(bf16, Row(N)),
    y: lego.Tensor(f8e4m3fn, Row(M, N)),
    scales: lego.Tensor(f32, Row(M)),
):
    row, t = lego.block_id[0], lego.thread_id[0]
    columns = [(part * T + t) * V for part in range(PARTS)]
    kept = [x.halo().load(row, j, width=V).to(f32) for j in columns]
    total = sum(v[k] * v[k] for v in kept for k in range(V))
    norm = lego.rsqrt(lego.block_reduce(total, "add") / f32(N) + 1e-6)
    kept = [v * norm * weight.halo().load(j, width=V).to(f32) for v, j in zip(kept, columns, strict=True)]
    largest = f32(1e-12)
    for v in kept:
        for k in range(V):
            largest = lego.maximum(largest, abs(v[k]))
    scale = lego.block_reduce(largest, "max") / LARGEST
    inverse = f32(1.0) / scale
    for v, j in zip(kept, columns, strict=True):
        y.halo().store((v * inverse).to(f8e4m3fn), row, j)
    with lego.when(t == 0):
        scales[row] = scale


def values(x, weight):
    x, weight = x.astype(np.float32), weight.astype(np.float32)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * weight


@rms_norm_f8.reference(rtol=0.14, atol=0.002)  # an f8, or its neighbour
def expected(x, weight):
    found = values(x, weight)
    scale = np.maximum(np.abs(found).max(1), 1e-12) / LARGEST
    return (found / scale[:, None]).astype(ml_dtypes.float8_e4m3fn), scale
