"""Cross entropy of rows of logits and a label each: log(sum(exp(x))) - x[label], in one pass over a row.

lego-mlir run examples/second_week/cross_entropy.py --size M=3 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

T = 128
M, N = lego.size("M"), lego.size("N")


@lego.kernel(grid=M, block=T)
def cross_entropy(
    logits: lego.Tensor(f32, Row(M, N)),
    labels: lego.Tensor(i32, Row(M), range=(0, N)),
    losses: lego.Tensor(f32, Row(M)),
):
    row, t = lego.block_id[0], lego.thread_id[0]
    greatest, total = lego.register(f32, float("-inf")), lego.register(f32, 0.0)
    for j in lego.range(t, N, T):
        x = logits[row, j]
        raised = lego.maximum(greatest.get(), x)
        total.set(total * lego.exp(greatest - raised) + lego.exp(x - raised))
        greatest.set(raised)
    best = lego.block_reduce(greatest.get(), "max")
    mine = lego.where(total > 0, total * lego.exp(greatest - best), 0.0)
    whole = lego.block_reduce(mine, "add")
    with lego.when(t == 0):
        losses[row] = lego.log(whole) + best - logits[row, labels[row]]


@cross_entropy.reference(rtol=1e-5, atol=1e-5)
def expected(logits, labels):
    best = logits.max(1)
    return np.log(np.exp(logits - best[:, None]).sum(1)) + best - logits[np.arange(len(labels)), labels]
