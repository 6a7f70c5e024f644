"""The named permutations: their definitions, that they are bijections, their inverses, reprs that rebuild them."""

import itertools

import numpy as np
import pytest

import lego_mlir.expr.index as lego
from lego_mlir.errors import LayoutError
from lego_mlir.expr.cost import operations
from lego_mlir.expr.nodes import Larger, Select
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout import GenP, Padded, Row, gallery

ENTRIES = [
    gallery.antidiagonal(1),
    gallery.antidiagonal(7),
    gallery.antidiagonal(16),
    gallery.morton(1),
    gallery.morton(32),
    gallery.morton(64),
    gallery.morton(8, 32),
    gallery.morton(64, 4),
    gallery.morton(1, 16),
    gallery.hilbert(1),
    gallery.hilbert(2),
    gallery.hilbert(32),
    gallery.xor_swizzle(8, 8),
    gallery.xor_swizzle(32, 32),
    gallery.xor_swizzle(32, 64, vec=8),
    gallery.xor_swizzle(64, 32, vec=4, per_phase=2, max_phase=4),
    gallery.xor_swizzle(5, 24, vec=3),
    gallery.reverse(3, 5),
    gallery.reverse(7),
    gallery.block_cyclic(48, 4, 3),
    gallery.table([3, 4], np.random.default_rng(0).permutation(12)),
    gallery.table([8, 16], np.random.default_rng(1).permutation(128), name="order"),
]


@pytest.mark.parametrize("perm", ENTRIES, ids=repr)
def test_is_a_bijection_with_its_inverse(perm):
    assert isinstance(perm.check(), Proved)
    size = int(np.prod(perm.dims()))
    index = np.unravel_index(np.arange(size), perm.dims())
    position = perm.apply(*index)
    assert np.array_equal(np.sort(position), np.arange(size))
    assert all(np.array_equal(a, b) for a, b in zip(perm.inv(position), index, strict=True))
    for one in itertools.islice(zip(*index, position, strict=True), 0, size, 5):  # ints agree with arrays
        *at, p = map(int, one)
        assert perm.apply(*at) == p
        assert perm.inv(p) == tuple(at)


@pytest.mark.parametrize("perm", [p for p in ENTRIES if "<" not in repr(p)], ids=repr)
def test_repr_rebuilds(perm):
    assert eval(repr(perm), {"gallery": gallery}) == perm


def test_antidiagonals_need_no_choice_in_a_loop_over_them():
    """Rodinia's alignment: thread t computes (m - t + 1, t + 1) on diagonal m, later (b - t, t + past + 1)."""
    t, m, past, b = lego.index_symbol("t"), lego.index_symbol("m"), lego.index_symbol("past"), 16
    layout = gallery.antidiagonal(b + 1)
    growing = {t: Range(0, m + 1), m: Range(0, b - 1)}
    shrinking = {t: Range(0, b - past), past: Range(1, b)}
    for i, j, ranges in ((m - t + 1, t + 1, growing), (b - t, t + past + 1, shrinking)):
        for di, dj in ((0, 0), (-1, 0), (0, -1), (-1, -1)):
            found = simplify(layout.apply(i + di, j + dj), ranges).expr
            assert not found.has(Select, Larger)
            assert operations(found) <= 12
    everywhere = simplify(layout.apply(t, m), {t: Range(0, b + 1), m: Range(0, b + 1)}).expr
    assert operations(everywhere) == 14


def test_morton_interleaves_bits():
    z = gallery.morton(32)
    for i, j in itertools.product(range(32), range(32)):
        bits = [(i >> b & 1) << (2 * b + 1) | (j >> b & 1) << 2 * b for b in range(5)]
        assert z.apply(i, j) == sum(bits)


def test_morton_of_a_rectangle_is_a_row_of_squares():
    square = gallery.morton(4)
    wide, tall = gallery.morton(4, 16), gallery.morton(16, 4)
    for i, j in itertools.product(range(4), range(16)):
        assert wide.apply(i, j) == (j // 4) * 16 + square.apply(i, j % 4)
        assert tall.apply(j, i) == (j // 4) * 16 + square.apply(j % 4, i)


@pytest.mark.parametrize("n", [2, 4, 8, 16, 64])
def test_hilbert_steps_to_a_neighbour(n):
    path = [gallery.hilbert(n).inv(p) for p in range(n * n)]
    assert path[0] == (0, 0)
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in itertools.pairwise(path))


@pytest.mark.parametrize("curve", [gallery.morton, gallery.hilbert])
@pytest.mark.parametrize("bits", [14, 15, 20, 30])
def test_large_curves_stay_within_64_bits(curve, bits):
    """Arrays are int64 where Python's ints have no end: both must give the same positions."""
    n = 1 << bits
    order = curve(n)
    rng = np.random.default_rng(bits)
    i, j = rng.integers(0, n, (2, 50))
    position = order._apply((i, j))
    assert position.tolist() == [order._apply((int(a), int(b))) for a, b in zip(i, j, strict=True)]
    assert all(np.array_equal(a, b) for a, b in zip(order._inv(position), (i, j), strict=True))


def test_xor_swizzle_is_tritons_formula():
    for vec, per_phase, max_phase in [(1, 1, 8), (4, 2, 8), (2, 4, 4), (8, 1, 1)]:
        swizzle = gallery.xor_swizzle(32, 64, vec, per_phase, max_phase)
        for i, j in itertools.product(range(32), range(64)):
            phase = (i // per_phase) % max_phase
            assert swizzle.apply(i, j) == i * 64 + ((j // vec) ^ phase) * vec + j % vec


def test_a_column_of_a_swizzled_tile_lies_in_all_banks():
    assert sorted(gallery.xor_swizzle(32, 32).apply(np.arange(32), np.full(32, 5)) % 32) == list(range(32))


def test_block_cyclic_deals_blocks_round_robin():
    deal = gallery.block_cyclic(24, 2, 3)
    owner = [deal.apply(i) // 8 for i in range(24)]
    assert owner == [(i // 2) % 3 for i in range(24)]


def test_padded_tile():
    tile = gallery.padded(32, 32)
    assert tile == Padded(Row(32, 33), [32, 32])
    assert (tile.numel(), tile.physical_size()) == (1024, 1056)
    assert sorted(tile.apply(np.arange(32), np.zeros(32, int)) % 32) == list(range(32))
    assert tile.inv(34) == (1, 1)
    assert [tile.holds(p) for p in (31, 32, 33)] == [True, False, True]
    assert np.array_equal(tile.holds(np.arange(66)), np.arange(66) % 33 < 32)


def test_tabulated_gives_arrays_to_an_int_only_function():
    rows = [[3, 1], [0, 2]]
    back = {rows[i][j]: (i, j) for i in range(2) for j in range(2)}
    ints = GenP([2, 2], lambda i, j: rows[i][j], lambda p: back[p])
    assert isinstance(ints.check(), Proved)
    assert gallery.tabulated(ints).apply(np.array([0, 1]), np.array([1, 1])).tolist() == [1, 2]


def test_sizes_may_be_numpy_s_integers():
    """Small ones too, whose own arithmetic would wrap around."""
    n = np.int8(120)
    assert repr(gallery.antidiagonal(n)) == "gallery.antidiagonal(120)"
    assert gallery.reverse(n, n).apply(0, 0) == 120 * 120 - 1
    assert gallery.morton(np.int64(4)) == gallery.morton(4)
    assert gallery.hilbert(np.int32(4)) == gallery.hilbert(4)
    assert gallery.xor_swizzle(np.int8(64), np.int8(64)) == gallery.xor_swizzle(64, 64)
    assert gallery.padded(np.int8(127), np.int8(127)).physical_size() == 127 * 128


def test_an_inverse_for_ints_only_is_called_with_ints():
    perm = GenP([4], lambda i: 3 - i, lambda p: (3, 2)[p] if p < 2 else 3 - p)
    assert perm.check() == Proved("enumeration of 4 elements")


def test_a_function_that_works_in_place_leaves_the_caller_s_array():
    def f(i, j):
        i *= 4
        i += j
        return i

    index = np.arange(4)
    assert GenP([4, 4], f, lambda p: (p // 4, p % 4)).apply(index, index * 0).tolist() == [0, 4, 8, 12]
    assert index.tolist() == [0, 1, 2, 3]


def test_a_slice_s_symbol_is_not_the_user_s():
    s1 = lego.index_symbol("s1")
    taken = Row(4, 6)[s1, :]
    (colon,) = taken.colons
    assert not colon.symbol.same(s1)
    assert taken.expr.same(s1 * 6 + colon.symbol)
    assert len(taken.ranges) == 1
    with pytest.raises(LayoutError, match="symbols besides its colons"):
        Row(4, 6)[1, s1 : s1 + 2].positions()
