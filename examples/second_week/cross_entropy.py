"""Cross entropy of rows of logits and a label each: log(sum(exp(x))) - x[label], in one pass over a row.

lego-mlir run examples/second_week/cross_entropy.py --size M=3 --size N=1000
"""

import functools

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f2, f32, i32

T, TILE = 128, 512
FOUR = f2.Blocked((1,), (32,), (4,), order=(0,)).layout((TILE,))  # a thread has 4 numbers of a row at once
M, N = lego.size("M"), lego.size("N")


@lego.kernel(grid=M, block=T)
def cross_entropy(
    logits: lego.Tensor(f32, Row(M, N)),
    labels: lego.Tensor(i32, Row(M), range=(0, N)),
    losses: lego.Tensor(f32, Row(M)),
):
    row, t = lego.block_id[0], lego.thread_id[0]
    greatest, total = lego.register(f32, float("-inf")), lego.register(f32, 0.0)
    ahead = lego.register(lego.load(logits, FOUR, at=(row, 0), other=float("-inf")))
    for j in lego.range(TILE, N + TILE, TILE):
        found = ahead.get().registers
        ahead.set(lego.load(logits, FOUR, at=(row, j), other=float("-inf")))
        raised = lego.maximum(greatest.get(), functools.reduce(lego.maximum, found))
        rest = lego.where(raised > float("-inf"), raised, 0.0)
        total.set(total * lego.exp(greatest - rest) + sum(lego.exp(x - rest) for x in found))
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
