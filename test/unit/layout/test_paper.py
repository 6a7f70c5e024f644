"""The LEGO paper's own figures and numbers."""

import itertools

import numpy as np
import pytest

from lego_mlir.layout import Col, GroupBy, OrderBy, RegP, Row, TileBy, TileOrderBy, gallery, tile_sigma


def figure9():
    return (
        OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6])
    )


def test_figure9_forward_and_back():
    layout = figure9()
    assert layout.apply(4, 2) == 15
    assert layout.inv(15) == (4, 2)
    assert layout.dims() == (6, 6)
    positions = {}
    for i, j in itertools.product(range(6), range(6)):
        p = layout.apply(i, j)
        assert layout.inv(p) == (i, j)
        positions[p] = (i, j)
    assert sorted(positions) == list(range(36))


def test_figure9_by_hand():
    """Element (4, 2) is 26; in blocks it is 23, place (1, 2) of block (1, 0); transposed and anti-diagonal, 15."""
    assert OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([36]).apply(26) == 23
    assert OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).GroupBy([36]).apply(23) == 15


def test_figure10_all_32_positions():
    layout = GroupBy([2, 2, 2, 2, 2]).OrderBy(RegP([2, 2, 2, 2, 2], [5, 2, 4, 3, 1]))
    for i1, i2, i3, i4, i5 in itertools.product(range(2), repeat=5):
        # Graphene's strides of equation 8: tiles (1, 8), inside (2, (4, 16)).
        assert layout.apply(i1, i2, i3, i4, i5) == 1 * i1 + 8 * i2 + 2 * i3 + 4 * i4 + 16 * i5
        assert layout.inv(layout.apply(i1, i2, i3, i4, i5)) == (i1, i2, i3, i4, i5)
    positions = layout[:, :, :, :, :].positions()
    assert sorted(positions.reshape(-1).tolist()) == list(range(32))
    assert layout == OrderBy(RegP([2, 2, 2, 2, 2], [5, 2, 4, 3, 1])).GroupBy([2, 2, 2, 2, 2])


def test_figure8_antidiagonal_order():
    """The 2n-1 anti-diagonals one after the other, the first holding (0, 0) alone."""
    for n in range(1, 9):
        order = gallery.antidiagonal(n)
        by_position = sorted(itertools.product(range(n), range(n)), key=lambda index: order.apply(*index))
        assert [i + j for i, j in by_position] == sorted(i + j for i in range(n) for j in range(n))
        assert [order.inv(p) for p in range(n * n)] == by_position


def test_sigma_of_tile_by_as_printed():
    assert tile_sigma(2, 3) == (1, 3, 5, 2, 4, 6)
    assert tile_sigma(3, 2) == (1, 4, 2, 5, 3, 6)


def test_tile_by_is_the_tiled_view_of_a_row_major_box():
    layout = TileBy([2, 5], [3, 4], [7, 2])  # a 42 x 40 box
    for a, b, c, d, e, f in itertools.product(range(2), range(5), range(3), range(4), range(7), range(2)):
        assert layout.apply([a, b], [c, d], [e, f]) == ((a * 3 + c) * 7 + e) * 40 + (b * 4 + d) * 2 + f


def test_tile_by_expands_as_printed():
    assert TileBy([2, 5], [3, 4]) == OrderBy(RegP([2, 5, 3, 4], [1, 3, 2, 4])).GroupBy([2, 5], [3, 4])


def test_tile_order_by_lays_tiles_one_after_the_other():
    layout = TileOrderBy(Col(2, 3), Row(4, 5)).GroupBy([8, 15])
    for i, j in itertools.product(range(8), range(15)):
        tile, inside = (j // 5) * 2 + i // 4, (i % 4) * 5 + j % 5
        assert layout.apply(i, j) == tile * 20 + inside
    assert layout == OrderBy(Col(2, 3), Row(4, 5)).OrderBy(RegP([2, 4, 3, 5], [1, 3, 2, 4])).GroupBy([8, 15])


def test_row_and_col():
    assert [Row(2, 3).apply(i, j) for i in range(2) for j in range(3)] == [0, 1, 2, 3, 4, 5]
    assert [Col(2, 3).apply(i, j) for i in range(2) for j in range(3)] == [0, 2, 4, 1, 3, 5]
    assert Col(2, 3) == RegP([2, 3], [2, 1])
    assert Row(2, 3) == RegP([2, 3], [1, 2])


def test_tiles_of_differing_rank():
    """A 1-D grid of 3-D blocks."""
    layout = OrderBy(RegP([4], [1]), RegP([2, 3, 5], [3, 1, 2])).GroupBy([4], [2, 3, 5])
    index = np.unravel_index(np.arange(120), (4, 2, 3, 5))
    assert np.array_equal(layout.apply(*index), index[0] * 30 + (index[3] * 2 + index[1]) * 3 + index[2])


@pytest.mark.parametrize("length", [1, 2, 5])
def test_chains_of_any_length(length):
    chain = OrderBy(Col(6, 6))
    for _ in range(length):
        chain = chain.OrderBy(Col(4, 9))
    layout = chain.GroupBy([36])
    assert [layout.inv(layout.apply(k)) for k in range(36)] == [(k,) for k in range(36)]
    expected = np.arange(36)
    for _ in range(length):
        expected = (expected % 9) * 4 + expected // 9
    assert np.array_equal(layout.apply(np.arange(36)), (expected % 6) * 6 + expected // 6)
