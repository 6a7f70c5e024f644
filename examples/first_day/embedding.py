"""Rows of a table by the numbers of tokens, eight f16 a thread; a token beyond the vocabulary gets zeros.

lego-mlir run examples/first_day/embedding.py --size N=100
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, u32

V, D = 1000, 256
N = lego.size("N")


@lego.kernel(grid=lego.cdiv(N, 4), block=(D // 8, 4))
def embed(token: lego.Tensor(u32, Row(N)), table: lego.Tensor(f16, Row(V, D)), y: lego.Tensor(f16, Row(N, D))):
    (tx, ty), row = lego.thread_id, lego.register(f16, 0.0, width=8)
    n = lego.block_id[0] * 4 + ty
    with lego.when(n < N):
        word = lego.index(token[n])
        with lego.when(word < V):
            row.set(table.load(word, 8 * tx, width=8))
        y.store(row.get(), n, 8 * tx)


@embed.inputs
def some_beyond(rng, N):
    return {"token": rng.integers(0, V + 10, N, dtype=np.uint32)}


@embed.reference
def expected(token, table):
    return np.concatenate([table, np.zeros((1, D))])[np.minimum(token, V)]
