"""5. Sizes that are known only when the kernel runs, and tiles that do not divide them.

    lego-mlir compile examples/symbolic.py -o kernel.mlir
    lego-mlir run examples/symbolic.py --on interp --size M=100 --size N=52

`M` and `N` become arguments of the kernel. `tile_by` rounds the number of tiles up, so the last tiles reach past the
end; their loads and stores carry a mask: a load gives 0 there, a store does nothing. N is declared a multiple of 4, so
that 4 columns are proved to be inside together and a thread may load and store 16 bytes at once.
"""

import lego_mlir as lego
from lego_mlir import Row, f32

M, N = lego.size("M"), lego.size("N", min=4, multiple_of=4)
ROWS, COLUMNS = 8, 128


@lego.kernel(grid=(lego.cdiv(N, COLUMNS), lego.cdiv(M, ROWS)), block=(COLUMNS // 4, ROWS))
def scale(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N)), alpha: f32):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    tiles = [lego.cdiv(M, ROWS), lego.cdiv(N, COLUMNS)]
    a, b = x.tile_by(tiles, [ROWS, COLUMNS]), y.tile_by(tiles, [ROWS, COLUMNS])
    values = a.load(by, bx, ty, tx * 4, width=4)
    b.store(alpha * values, by, bx, ty, tx * 4)


@scale.reference
def expected(x, alpha):
    return alpha * x
