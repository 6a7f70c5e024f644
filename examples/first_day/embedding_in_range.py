"""Rows of a table by token, for tokens in range: a gather, proved in bounds without a guard; four elements a thread.

lego-mlir run examples/first_day/embedding_in_range.py --size N=100 --size V=5000 --size D=64
"""

import lego_mlir as lego
from lego_mlir import Row, f32, i32

N, V, D = lego.size("N"), lego.size("V"), lego.size("D", multiple_of=4)


@lego.kernel(grid=N, block=128)
def embedding(
    tokens: lego.Tensor(i32, Row(N), range=(0, V)), table: lego.Tensor(f32, Row(V, D)), y: lego.Tensor(f32, Row(N, D))
):
    i, token = lego.block_id[0], tokens[lego.block_id[0]]
    for j in lego.range(lego.thread_id[0] * 4, D, 512):
        y.store(table.load(token, j, width=4), i, j)


@embedding.reference
def expected(tokens, table):
    return table[tokens]
