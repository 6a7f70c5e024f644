"""Cross entropy of rows of logits and a label each: log(sum(exp(x))) - x[label], in one pass over a row.

lego-mlir run examples/second_week/cross_entropy.py --size M=3 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

T, EACH = 256, 4  # threads, and numbers of a row that are folded at once
TILE = T * EACH
M, N = lego.size("M"), lego.size("N", max=1 << 30)


@lego.kernel(grid=M, block=T)
def cross_entropy(
    logits: lego.Tensor(f32, Row(M, N)),
    labels: lego.Tensor(i32, Row(M), range=(0, N)),
    losses: lego.Tensor(f32, Row(M)),
):
    row = lego.block_id[0]
    greatest, total = lego.register(lego.full(f32, (T,), float("-inf"))), lego.register(lego.zeros(f32, (T,)))
    ahead = lego.register(lego.load(logits, (TILE,), at=(row, 0), other=float("-inf")))
    for j in lego.range(TILE, N + TILE, TILE):
        found = ahead.get().reshape(EACH, T)
        ahead.set(lego.load(logits, (TILE,), at=(row, j), other=float("-inf")))
        raised = lego.maximum(greatest.get(), found.max(axis=0))
        rest = lego.where(raised > float("-inf"), raised, 0.0)
        total.set(total * lego.exp(greatest - rest) + lego.exp(found - rest[None, :]).sum(axis=0))
        greatest.set(raised)
    best = greatest.get().max()
    whole = lego.where(total > 0, total * lego.exp(greatest - best), 0.0).sum()
    with lego.when(lego.thread_id[0] == 0):
        losses[row] = lego.log(whole) + best - logits[row, labels[row]]


@cross_entropy.reference(rtol=1e-5, atol=1e-5)
def expected(logits, labels):
    best = logits.max(1)
    return np.log(np.exp(logits - best[:, None]).sum(1)) + best - logits[np.arange(len(labels)), labels]
