"""The transpose of layouts with partial tiles, which no chain of reorderings expresses."""

from lego_mlir import Padded, Row, cdiv, size
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.transposed import Transposed

PARTIAL = Row(100).tile_by([4], [32])


def test_a_layout_with_partial_tiles_is_transposed():
    transposed = PARTIAL.transpose()
    assert isinstance(transposed, Transposed)
    assert transposed.dims() == (32, 4)
    assert isinstance(transposed.check(), Proved)
    for tile in range(4):
        for i in range(32):
            inside = tile * 32 + i < 100
            assert transposed.mask(i, tile) is inside
            if inside:
                assert transposed.apply(i, tile) == PARTIAL.apply(tile, i)
                assert transposed.inv(transposed.apply(i, tile)) == (i, tile)


def test_two_transposes_are_the_layout_itself():
    assert PARTIAL.transpose().transpose() is PARTIAL
    assert PARTIAL.transpose(1, 2) is PARTIAL
    assert PARTIAL.transpose().transpose(1, 2) == PARTIAL.transpose()
    assert isinstance(Padded(PARTIAL, [4, 31]).transpose(), Padded)


def test_the_sizes_of_a_transpose_are_replaced():
    n = size("n")
    tiled = Row(n).tile_by([cdiv(n, 32)], [32])
    assert tiled.transpose().subs(n=100) == PARTIAL.transpose()
