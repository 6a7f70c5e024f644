"""Symbolic sizes: proved for all values, refuted with a counter-example, or unknown."""

import pytest

import lego_mlir as lego
from lego_mlir import Col, GenP, GroupBy, OrderBy, Padded, RegP, Row, TileBy, TileOrderBy, gallery
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved, Refuted, Unknown

M = lego.size("M", min=32, multiple_of=32)
N = lego.size("N", min=32, multiple_of=32)
K = lego.size("K", min=1)


@pytest.mark.parametrize(
    "layout",
    [
        Row(M, N),
        Col(K, M),
        TileBy([M // 32, N // 32], [32, 32]),
        OrderBy(Row(M, N)).TileBy([M // 32, N // 32], [32, 32]),
        TileOrderBy(Col(M // 32, N // 32), gallery.xor_swizzle(32, 32)).GroupBy([M, N]),
        Row(M, N).tile_by([M // 32, N // 32], [32, 32]),
        Row(K, N).tile_by([lego.cdiv(K, 32), N // 32], [32, 32]),
        Padded(Row(K, N + 1), [K, N]),
        gallery.xor_swizzle(K, 32),
        gallery.reverse(K),
        GenP([K], lambda i: K - 1 - i, lambda p: (K - 1 - p,)),
        GenP([K, 4], lambda i, j: i * 4 + (j + 1) % 4, lambda p: (p // 4, (p + 3) % 4)),
    ],
    ids=repr,
)
def test_proved_for_all_sizes(layout):
    verdict = layout.check()
    assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize(
    ("layout", "example"),
    [
        (GenP([K], lambda i: i // 2, lambda p: (p,)), r"for K = 2, apply maps \[0\] and \[1\] both to position 0"),
        (GenP([K], lambda i: (i + 1) % K, lambda p: (p,)), r"for K = 2, apply maps \[1\] to position 0, but f_inv"),
        (GenP([K, 3], lambda i, j: j * K + i, lambda p: (p // 3, p % 3)), "for K = "),
    ],
)
def test_refuted_with_sizes_that_show_it(layout, example):
    verdict = layout.check()
    assert isinstance(verdict, Refuted)
    with pytest.raises(LayoutError, match=example):
        layout.require()


def test_unknown_says_what_was_not_proved():
    verdict = gallery.antidiagonal(K).check()
    assert isinstance(verdict, (Proved, Unknown))
    if isinstance(verdict, Unknown):
        assert "small instances are bijections" in verdict.reason


def test_masks_follow_divisibility():
    by, bx, ty, tx = lego.symbols("by bx ty tx")
    assert Row(M, N).tile_by([M // 32, N // 32], [32, 32]).mask(by, bx, ty, tx) is True
    mask = Row(K, N).tile_by([lego.cdiv(K, 32), N // 32], [32, 32]).mask(by, bx, ty, tx)
    assert str(mask) == "32*by + ty < K"


def test_tiles_that_may_not_reach_the_end():
    with pytest.raises(LayoutError, match=r"the tiles of axis 0 cover .* round the number of tiles up with lego.cdiv"):
        Row(K, N).tile_by([K // 32, N // 32], [32, 32])


def test_symbolic_sizes_are_compared_by_proof():
    assert GroupBy([M, N], orders=OrderBy(RegP([M // 32, 32, N], [1, 2, 3])).GroupBy([M * N]).orders)
    with pytest.raises(LayoutError, match="must multiply to the same number"):
        OrderBy(Row(M, N)).GroupBy([M, N + 1])


def test_derived_expressions_have_no_division():
    i, j = lego.symbols("i j")
    by, bx, ty, tx = lego.symbols("by bx ty tx")
    assert "//" not in str(OrderBy(Row(M, N)).TileBy([M // 32, N // 32], [32, 32]).derive(by, bx, ty, tx).expr)
    assert str(Row(M, N).derive(i, j).expr) == "N*i + j"
