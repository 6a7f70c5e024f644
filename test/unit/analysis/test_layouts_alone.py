"""Layouts without a kernel: their cost, the method that found it, and verified repairs."""

import numpy as np
import pytest

from lego_mlir import Col, Row, gallery
from lego_mlir.analysis import layouts, patterns
from lego_mlir.analysis.patterns import AccessPattern, parse, sweeps
from lego_mlir.analysis.repair import TileAccess, repairs, wavefronts_of, widest_vector
from lego_mlir.errors import UsageError

COLUMN = AccessPattern("a column", lambda lane, j: (lane, j), {"j": 32})
ROW = AccessPattern("a row", lambda lane, i: (i, lane), {"i": 32})


@pytest.mark.parametrize(
    ("layout", "column", "row"),
    [
        (Row(32, 32), 32, 1),
        (Col(32, 32), 1, 32),
        (gallery.padded(32, 32), 1, 1),
        (gallery.padded(32, 32, 2), 2, 1),
        (gallery.padded(32, 32, 8), 8, 1),
        (gallery.xor_swizzle(32, 32), 1, 1),
        (gallery.xor_swizzle(32, 32, vec=4), 4, 1),
        (gallery.antidiagonal(32), 3, 2),
    ],
)
def test_ways_of_rows_and_columns(layout, column: int, row: int):
    assert layouts.shared(layout, COLUMN, 4).ways == column
    assert layouts.shared(layout, ROW, 4).ways == row


@pytest.mark.parametrize("stride", range(1, 65))
def test_the_closed_form_is_what_counting_gives(stride: int):
    found = layouts.shared(Row(32 * 64), AccessPattern("strided", lambda lane: (lane * stride,)), 4)
    assert found.by == f"closed form: lanes {stride} word{'s' * (stride > 1)} apart, gcd({stride}, 32) = {found.ways}"


def test_half_precision_columns_share_words():
    found = layouts.shared(Row(32, 32), COLUMN, 2)
    assert (found.ways, found.conflicts) == (16, 15 * 32)  # two rows are 32 words: 16 rows apart is the same bank
    wide = layouts.shared(Row(64, 64), AccessPattern("rows of 8", lambda lane, k: (lane, 8 * k), {"k": 8}), 2, width=8)
    assert (wide.ways, wide.wavefronts, wide.ideal) == (8, 8 * 32, 8 * 4)
    assert wide.lanes == tuple(range(8))


def test_sectors_and_the_widest_access():
    along = layouts.through_cache(Row(64, 64), parse("i, lane", {"i": 64}), 4)
    assert (along.sectors, along.ideal, along.widest, along.coalescing) == (64 * 4, 64 * 4, 16, 1.0)
    across = layouts.through_cache(Row(64, 64), parse("lane, j", {"j": 64}), 4)
    assert (across.sectors, across.coalescing, across.widest) == (64 * 32, 4 / 32, 4)
    strided = layouts.through_cache(Row(4096), parse("2 * lane"), 4)
    assert (strided.sectors, strided.ideal) == (8, 4)


def test_too_many_warps_are_proved_or_sampled_and_it_is_said_which():
    many = {"i": 1 << 15, "j": 64}
    proved = layouts.shared(Row(1 << 20, 64), parse("lane + 32 * i, j", many), 2)
    assert proved.by == f"proof: 2 shifts of a warp represent all {1 << 21}, which differ by a shift"
    assert proved.sure
    assert proved.ways == 32
    sampled = layouts.shared(gallery.xor_swizzle(1 << 20, 64), parse("lane + 32 * i, j", many), 4)
    assert not sampled.sure
    assert (sampled.ways, sampled.warps) == (1, layouts.MAX_WARPS)


def test_a_proof_for_all_warps_agrees_with_enumerating_a_smaller_case():
    for element in (1, 2, 4, 8):
        for text in ("lane + 32 * i, j", "i, (lane + 3 * j) % 64", "j, 2 * lane"):
            pattern = parse(text, {"i": 2, "j": 64})
            counted = layouts.through_cache(Row(64, 64), pattern, element)
            alone = _as_if_too_many(lambda p=pattern, e=element: layouts.through_cache(Row(64, 64), p, e))
            if alone.by.startswith("proof"):
                worst = counted.sectors / counted.warps
                assert alone.sectors / alone.warps == pytest.approx(worst, rel=0.35)
                assert alone.widest <= counted.widest


def _as_if_too_many(compute):
    before = layouts.MAX_WARPS
    try:
        layouts.MAX_WARPS = 1
        return compute()
    finally:
        layouts.MAX_WARPS = before


def test_repairs_are_proved_bijections_without_conflict():
    uses = [TileAccess.of(ROW), TileAccess.of(COLUMN)]
    swizzle, padding = repairs((32, 32), uses, 4)
    assert swizzle.layout == gallery.xor_swizzle(32, 32)
    assert (swizzle.kind, swizzle.extra_bytes, swizzle.wavefronts) == ("xor swizzle", 0, 64)
    assert (padding.kind, padding.extra_bytes) == ("padding", 128)
    for repair in (swizzle, padding):
        assert repair.layout.check()
        assert wavefronts_of(repair.layout, uses, 4) == (64, 64)
        assert repair.by.startswith("bijection by ")
        assert repair.by.endswith("wavefronts by counting 64 warps")


@pytest.mark.parametrize("columns", [16, 32, 64, 128])
@pytest.mark.parametrize("element", [2, 4])
def test_repairs_keep_vectors_whole(columns: int, element: int):
    """Rows of 16 bytes are stored a row at a time and read a column of rows at a time, as ldmatrix does."""
    width = 16 // element
    per_row = columns // width
    store = AccessPattern(
        "store", lambda lane, k: ((lane + 32 * k) // per_row, (lane + 32 * k) % per_row * width), {"k": 2 * per_row}
    )
    load = AccessPattern("load", lambda lane, k: (lane, k * width), {"k": per_row})
    uses = [TileAccess.of(store, width), TileAccess.of(load, width)]
    plain, ideal = wavefronts_of(Row(64, columns), uses, element)
    found = repairs((64, columns), uses, element)
    if plain == ideal:
        assert not found
        return
    best = found[0]
    assert best.is_free_of_conflicts
    place = np.asarray(best.layout.apply(*np.indices((64, columns))))
    groups = place.reshape(64, per_row, width)
    assert (groups == groups[..., :1] + np.arange(width)).all()
    assert (groups[..., 0] % width == 0).all()


def test_a_vector_access_that_is_not_aligned_rules_every_candidate_out():
    apart = AccessPattern("from column 1", lambda lane, k: (lane, 1 + 4 * (k + 0 * lane)), {"k": 4})
    assert repairs((32, 32), [TileAccess.of(apart, 4)], 4) == []
    aligned = AccessPattern("from column 0", lambda lane, k: (lane, 4 * (k + 0 * lane)), {"k": 4})
    assert repairs((32, 32), [TileAccess.of(aligned, 4)], 4)[0].is_free_of_conflicts


def test_nothing_is_suggested_where_nothing_helps():
    assert repairs((32, 32), [TileAccess.of(ROW)], 4) == []
    assert repairs((1024,), [TileAccess.of(AccessPattern("strided", lambda lane: (lane * 32,)))], 4) == []
    broadcast = TileAccess.of(AccessPattern("one word", lambda lane: (lane * 0, lane * 0)))
    assert repairs((32, 32), [broadcast], 4) == []


def test_a_wider_vector_is_one_whose_neighbours_are_one_run():
    assert widest_vector(patterns.positions(Row(32, 32), ROW), 4) == 4
    assert widest_vector(patterns.positions(Row(32, 32), ROW), 2) == 8
    assert widest_vector(patterns.positions(Row(32, 32), COLUMN), 4) == 1
    assert widest_vector(patterns.positions(gallery.xor_swizzle(32, 32, vec=2), ROW), 4) == 2
    assert widest_vector(patterns.positions(gallery.padded(32, 32), ROW), 4) == 1


def test_sweeps_cover_a_tile_once_along_each_axis():
    for dims in ((8, 16), (4, 6, 10), (64,)):
        total = int(np.prod(dims))
        for pattern in sweeps(dims):
            place = patterns.positions(Row(*dims), pattern).reshape(-1)
            assert len(np.unique(place)) == len(place) == total // 32 * 32
    with pytest.raises(UsageError, match="has 12 elements, fewer than a warp's 32 lanes"):
        sweeps((3, 4))


def test_the_text_of_an_access():
    assert patterns.positions(Row(64, 8), parse("lane // 4 + 8 * k, lane % 4 ^ 1", {"k": 3})).shape == (3, 32)
    for text, message in (
        ("lane +", "is not an expression"),
        ("lane, k", "uses the unknown name k; known: lane"),
        (
            "__import__('os')",
            r"\"__import__\('os'\)\" is not integer arithmetic; use names, integers and \+ - \* // % ",
        ),
        ("lane / 2", "'lane / 2' is not integer arithmetic"),
        ("lane, 1.5", "'1.5' is not integer arithmetic"),
        ("lane.shape", "'lane.shape' is not integer arithmetic"),
        ("lane ** 2", r"'lane \*\* 2' is not integer arithmetic"),
    ):
        with pytest.raises(UsageError, match=message):
            parse(text)
