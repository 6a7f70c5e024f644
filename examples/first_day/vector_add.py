"""z = x + y for arrays of any length: four elements a thread, and one by one past the last four.

lego-mlir run examples/first_day/vector_add.py --size N=1000
"""

import lego_mlir as lego
from lego_mlir import Row, f32

T = 256
N = lego.size("N")


@lego.kernel(grid=lego.cdiv(N, 4 * T), block=T)
def add(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), z: lego.Tensor(f32, Row(N))):
    i = 4 * (lego.block_id[0] * T + lego.thread_id[0])
    with lego.when(i + 4 <= N):
        z.store(x.load(i, width=4) + y.load(i, width=4), i)
    with lego.otherwise():
        for j in lego.range(i, N):
            z[j] = x[j] + y[j]


@add.reference
def expected(x, y):
    return x + y
