"""5. Sizes known only at run time, and tiles that do not divide them.

    lego-mlir compile examples/symbolic.py -o kernel.mlir
    lego-mlir run examples/symbolic.py --on interp --size M=100 --size N=52

`M` and `N` become arguments of the kernel. `tile_by` rounds the number of tiles up, so the last tiles extend past the
end; their loads and stores are masked: a masked load returns 0, a masked store does nothing. N is declared a multiple
of 4, so that each group of 4 columns is proved in bounds as a whole and a thread can access 16 bytes at once.
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
