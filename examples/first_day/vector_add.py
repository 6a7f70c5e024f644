"""z = x + y for arrays of any length: the last block is masked.

lego-mlir run examples/first_day/vector_add.py --size N=1000
"""

import lego_mlir as lego
from lego_mlir import Row, f32

T = 256
N = lego.size("N")
BLOCKS = lego.cdiv(N, T)


@lego.kernel(grid=BLOCKS, block=T)
def add(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), z: lego.Tensor(f32, Row(N))):
    a, b, c = (v.tile_by([BLOCKS], [T]) for v in (x, y, z))
    i = lego.block_id[0], lego.thread_id[0]
    c[i] = a[i] + b[i]


@add.reference
def expected(x, y):
    return x + y
