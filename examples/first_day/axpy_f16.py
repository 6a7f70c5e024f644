"""y = a x + y in f16: eight elements a thread, computed two at a time (fma.rn.f16x2) and rounded once.

lego-mlir run examples/first_day/axpy_f16.py --size N=10000
"""

import lego_mlir as lego
from lego_mlir import Row, f16

T = 256
N = lego.size("N", multiple_of=8)


@lego.kernel(grid=lego.cdiv(N, 8 * T), block=T)
def axpy(a: f16, x: lego.Tensor(f16, Row(N)), y: lego.Tensor(f16, Row(N))):
    i = 8 * (lego.block_id[0] * T + lego.thread_id[0])
    with lego.when(i < N):
        y.store(lego.fma(x.load(i, width=8), lego.vector(*[a] * 8), y.load(i, width=8)), i)


@axpy.reference
def expected(a, x, y):
    return a * x + y
