"""vLLM's `awq_dequantize_kernel` (Triton): weights of 4 bits in the order of AWQ, less a zero point, times a scale.

A word has columns 0 2 4 6 1 3 5 7 in its nibbles. Triton's text shifts by a table of that order and interleaves twice;
here the order is the layout. Columns 0 and 1 are in the two halves of a word, so that one conversion makes both.

lego-mlir run examples/ported/awq_dequantise.py --size K=256 --size N=72
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f16, u4

GROUP, T, V = 128, 64, 8
K, N = lego.size("K", multiple_of=GROUP, max=1 << 16), lego.size("N", multiple_of=V, max=1 << 16)


def packed(rows):
    """Rows of words of 8 columns, in the order of AWQ."""
    return OrderBy(RegP([rows, N // V, 4, 2], [1, 2, 4, 3])).GroupBy([rows, N])


@lego.kernel(grid=(lego.cdiv(N, T * V), K), block=T)
def awq_dequantise(
    w: lego.Tensor(u4, packed(K)),
    scales: lego.Tensor(f16, Row(K // GROUP, N)),
    zeros: lego.Tensor(u4, packed(K // GROUP)),
    y: lego.Tensor(f16, Row(K, N)),
):
    k, n = lego.block_id[1], (lego.block_id[0] * T + lego.thread_id[0]) * V
    with lego.when(n < N):
        numbers = w.load(k, n, width=V).to(f16) - zeros.load(k // GROUP, n, width=V).to(f16)
        y.store(numbers * scales.load(k // GROUP, n, width=V), k, n)


ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def columns(memory, rows):
    """The numbers of bytes that hold words in the order of AWQ."""
    words = memory.reshape(rows, -1, 4).view(np.uint32)[..., 0]
    found = np.empty((*words.shape, V), np.int32)
    for place, column in enumerate(ORDER):
        found[..., column] = (words >> np.uint32(4 * place)) & 15
    return found.reshape(rows, -1)


@awq_dequantise.reference(rtol=1e-3, atol=1e-5)
def expected(w, scales, zeros):
    numbers = columns(w, w.shape[0]) - np.repeat(columns(zeros, zeros.shape[0]), GROUP, axis=0)
    return (numbers * np.repeat(scales.astype(np.float32), GROUP, axis=0)).astype(np.float16)


@awq_dequantise.inputs
def inputs(rng, K, N):
    return {
        "w": rng.integers(0, 256, (K, N // 2)),
        "zeros": rng.integers(0, 256, (K // GROUP, N // 2)),
        "scales": rng.uniform(0.005, 0.02, (K // GROUP, N)),
    }
