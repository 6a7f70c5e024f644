"""Orders of execution: the thesis's formulas, ragged sizes, zigzags, more axes, substitution of sizes, pickles."""

import pickle

import numpy as np
import pytest

from lego_mlir import OrderBy, Padded, Row, gallery, schedule, size, symbols
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.checking import check_permutation
from lego_mlir.schedule.cuts import Cuts

H, W, w = size("H"), size("W"), size("w")


def mapped(i, width, height, col):
    """Equations 4.1 to 4.6 with 4.3 mended, as (y, x)."""
    c = i // (height * col)
    o = c * col
    tw = min(col, width - o)
    r = i - c * height * col
    return r // tw, o + r % tw


@pytest.mark.parametrize("width", [1, 3, 8, 40])
@pytest.mark.parametrize(("h", "wide"), [(1, 1), (4, 8), (5, 13), (7, 9), (3, 40)])
def test_columns_are_those_of_the_thesis(h, wide, width):
    order = schedule.columns(h, wide, width=width)
    found = [order.inv(i) for i in range(h * wide)]
    assert found == [mapped(i, wide, h, width) for i in range(h * wide)]
    assert [order.apply(*at) for at in found] == list(range(h * wide))


@pytest.mark.parametrize(("h", "wide", "width"), [(4, 8, 4), (5, 13, 4), (7, 9, 3), (1, 5, 2)])
def test_a_zigzag_steps_to_neighbours_within_a_column(h, wide, width):
    order = schedule.columns(h, wide, width=width, zigzag=True)
    y, x = order.inv(np.arange(h * wide))
    same = x[1:] // width == x[:-1] // width
    assert np.all((abs(np.diff(y)) + abs(np.diff(x)))[same] == 1)
    assert np.all(x[: min(width, wide)] == np.arange(min(width, wide))[::-1])  # row 0 from right to left


def test_up_and_down_turns_at_the_end_of_a_column():
    order = schedule.columns(5, 7, width=3, up_down=True)
    y, _ = order.inv(np.arange(35))
    assert np.all(abs(np.diff(y)) <= 1)


@pytest.mark.parametrize(("rows", "parts", "together"), [(1, 2, 1), (7, 5, 2), (6, 4, 3), (5, 3, 9), (9, 1, 2)])
def test_parts_by_length_have_no_jump_and_end_with_the_shortest(rows, parts, together):
    order = schedule.by_length(rows, parts, together=together)
    row, part = order.inv(np.arange(rows * parts))
    assert len(set(zip(row.tolist(), part.tolist(), strict=True))) == rows * parts
    assert np.array_equal(order.apply(row, part), np.arange(rows * parts))
    assert part[-1] == 0 and np.all(abs(np.diff(part)) <= 1)
    sections = row[np.r_[True, np.diff(row // together) != 0]] // together
    assert np.array_equal(sections, np.arange(-(-rows // together))[::-1])


def test_more_axes_are_the_rows_of_a_column():
    """Section 4.1.2; a zigzag alternates with the row of all axes, so that it goes on across planes."""
    deep, flat = (schedule.columns(*sizes, width=4, zigzag=True) for sizes in ((3, 5, 10), (15, 10)))
    z, y, x = deep.inv(np.arange(150))
    row, column = flat.inv(np.arange(150))
    assert np.array_equal(5 * z + y, row) and np.array_equal(x, column)
    assert isinstance(check_permutation(deep), Proved)
    assert isinstance(schedule.columns(size("D"), H, W, width=32).check(), Proved)


@pytest.mark.parametrize("width", [32, w], ids=["32", "w"])
@pytest.mark.parametrize(
    "make",
    [
        lambda width: schedule.columns(H, W, width=width),
        lambda width: schedule.columns(H, W, width=width, zigzag=True),
        lambda width: schedule.columns(H, W, width=width, zigzag=True, up_down=True),
        lambda width: schedule.grouped(H, W, rows=width),
        lambda width: schedule.grouped(H, W, rows=width, columns=2),
        lambda width: schedule.by_length(H, W, together=width),
        lambda width: schedule.tiles(H, W, tile=(8, width)),
        lambda width: schedule.tiles(H, W, tile=(64, 64), inner=(8, width)),
        lambda width: Cuts([H, W], [(2, 256), (1, 16), (2, width)]),
    ],
)
def test_symbolic_sizes_are_proved(make, width):
    assert isinstance(make(width).check(), Proved)


def test_the_last_column_of_constant_sizes_takes_no_run_time_division():
    y, x = schedule.columns(4037, 4037, width=32).derive_inv()
    assert str(y.expr) == "where(p // 129184 < 126, (p % 129184) // 32, (p % 129184) // 5)"
    assert str(x.expr) == "32*(p // 129184) + where(p // 129184 < 126, p % 32, (p % 129184) % 5)"
    assert str(schedule.columns(4096, 4096, width=32).derive_inv()[0].expr) == "(p // 32) % 4096"


def test_a_run_time_last_column_takes_the_minimum_of_listing_5():
    y, x = schedule.columns(H, W, width=w).derive_inv()
    assert str(y.expr) == "(p % (H*w)) // minimum(w, W - w*(p // (H*w)))"
    p = symbols("p")[0].expr
    positions = np.arange(11 * 29)
    values = {H.expr: 11, W.expr: 29, w.expr: 4, p: positions}
    found = [evaluate(d.expr, values) for d in (y, x)]
    assert np.array_equal(found, schedule.columns(11, 29, width=4).inv(positions))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 7), (2, 3), (5, 5), (6, 10), (9, 4), (16, 16), (7, 24), (31, 18)])
def test_a_generalised_hilbert_curve_steps_to_neighbours(m, n):
    y, x = schedule.generalised_hilbert(m, n).inv(np.arange(m * n))
    steps = np.maximum(abs(np.diff(y)), abs(np.diff(x)))
    diagonal = (abs(np.diff(y)) + abs(np.diff(x)) == 2).sum()
    assert np.all(steps == 1) and diagonal <= (max(m, n) % 2 == 1 and min(m, n) % 2 == 0)


def test_curves_of_a_rectangle_skip_what_is_outside():
    for curve in (schedule.morton(5, 9), schedule.hilbert(5, 9)):
        assert isinstance(curve, Padded)
        held = [p for p in range(curve.physical_size()) if curve.holds(p)]
        assert sorted(curve.inv(p) for p in held) == [(y, x) for y in range(5) for x in range(9)]
    assert schedule.morton(8, 8) == gallery.morton(8)


def test_levels_of_blocks_warps_and_threads():
    order = schedule.nested(schedule.columns(3, 5, width=2), Row(2, 1), gallery.morton(4, 8))
    assert order.dims() == (24, 40) and isinstance(order.check(), Proved)
    y, x = order.inv(np.arange(64))  # the first block: two warps of 4 x 8 below each other
    assert y.max() == 7 and x.max() == 7 and y[:32].max() == 3
    assert order.inv(64) == (0, 8) and order.inv(128) == (8, 0)  # the column of two blocks goes down
    cropped = schedule.nested(schedule.columns(3, 5, width=2), Row(8, 8), of=(20, 37))
    assert sum(bool(cropped.holds(p)) for p in range(cropped.physical_size())) == 20 * 37


@pytest.mark.parametrize(
    "order",
    [
        schedule.columns(5, 13, width=4, zigzag=True),
        schedule.columns(H, 5, W, width=4),
        schedule.grouped(H, 7, rows=3),
        schedule.tiles(9, W, tile=(4, 4), inner=(2, 2)),
        Cuts([H, 9], [(2, 4), (1, 3, "odd")]),
    ],
    ids=repr,
)
def test_an_order_is_a_value(order):
    again = pickle.loads(pickle.dumps(order))
    assert again == order and hash(again) == hash(order) and repr(again) == repr(order)
    assert again != schedule.columns(5, 13, width=4)
    replaced = order.subs(**{str(s): 6 for s in (H, W) if str(s) in repr(order)})
    assert isinstance(check_permutation(replaced), Proved)
    assert eval(repr(replaced), {"schedule": schedule}) == replaced


def test_sizes_of_a_tile_order_are_replaced():
    m = size("M")
    order = schedule.grouped(m, 3, rows=2)
    assert order.subs(M=5) == schedule.grouped(5, 3, rows=2)
    for rows in (4, 5):
        replaced = OrderBy(order).GroupBy([m, 3]).subs(M=rows)
        assert isinstance(replaced.equivalent(schedule.grouped(rows, 3, rows=2)), Proved)


def test_a_run_time_width_is_replaced_too():
    assert schedule.columns(H, W, width=w).subs(H=4, W=9, w=2) == schedule.columns(4, 9, width=2)


@pytest.mark.parametrize(("m", "n", "rows"), [(1, 1, 1), (4, 5, 2), (7, 5, 3), (9, 4, 16), (6, 1, 2)])
def test_a_snake_of_groups_turns_at_their_ends(m, n, rows):
    order, plain = schedule.grouped(m, n, rows=rows, snake=True), schedule.grouped(m, n, rows=rows)
    found = [order.inv(i) for i in range(m * n)]
    assert isinstance(order.check(), Proved)
    assert [order.apply(*at) for at in found] == list(range(m * n))
    for i, (row, column) in enumerate(map(plain.inv, range(m * n))):
        assert found[i][0] // rows == row // rows
        assert found[i][1] == (n - 1 - column if row // rows % 2 else column)
    assert pickle.loads(pickle.dumps(order)) == order
    assert order != plain or m <= rows
