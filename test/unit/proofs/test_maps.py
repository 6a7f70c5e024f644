"""Claims about indices that pass through `layout.inv` and `layout.apply`: bijections, whose formulas are not needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, GenP, OrderBy, RegP, Row, f32, gallery
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.interp import run_kernel
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.images import named_trace
from lego_mlir.proofs.models import Models

B, M, N = lego.size("B"), lego.size("M"), lego.size("N")
T = 16
CURVES = [
    gallery.hilbert(8),
    gallery.morton(16, 4),
    gallery.antidiagonal(8),
    gallery.reverse(4, 8),
    GenP([8, 8], lambda i, j: (i ^ j) * 8 + j, lambda p: ((p // 8) ^ (p % 8), p % 8)),
    OrderBy(RegP([4, 4, 2, 2], [1, 3, 2, 4])).GroupBy([8, 8]),
]


def tiles_along(curve, number=lambda p: p, tile=(T, T)):
    """Each block copies the tile at its position of the curve."""
    rows, columns = curve.dims()

    @lego.kernel(grid=(rows * columns, B), block=(tile[1], tile[0]))
    def copy(
        x: lego.Tensor(f32, Row(B, rows * tile[0], columns * tile[1])),
        y: lego.Tensor(f32, Row(B, rows * tile[0], columns * tile[1])),
    ):
        (p, batch), (tx, ty) = lego.block_id, lego.thread_id
        i, j = curve.inv(number(p))
        a, b = (t.tile_by([B, rows, columns], [1, *tile]) for t in (x, y))
        b[batch, i, j, 0, ty, tx] = a[batch, i, j, 0, ty, tx]

    return copy


def through(layout, number=lambda p: p, size=None):
    """Each thread writes the element whose index a layout has at its number."""
    elements = layout.numel() if size is None else size

    @lego.kernel(grid=lego.cdiv(elements, 256), block=256)
    def copy(x: lego.Tensor(f32, layout), y: lego.Tensor(f32, Row(*layout.dims()))):
        p = lego.block_id[0] * 256 + lego.thread_id[0]
        index = layout.inv(number(p))
        with lego.when(p < elements):
            y[index] = x[index]

    return copy


def to_positions(layout):
    """Each thread writes the position that a layout has for its index."""
    rows, columns = layout.dims()

    @lego.kernel(grid=rows, block=columns)
    def number(y: lego.Tensor(f32, Row(rows * columns))):
        i, j = lego.block_id[0], lego.thread_id[0]
        y[layout.apply(i, j)] = 1.0

    return number


def verdicts(kernel, tried=True):
    return {claim: type(verdict) for claim, verdict in kernel_claims(kernel, tried)}


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_tiles_in_the_order_of_a_curve_are_proved(curve):
    assert set(verdicts(tiles_along(curve), tried=False).values()) == {Proved}


@pytest.mark.parametrize("curve", [gallery.hilbert(1024), gallery.morton(4096)], ids=repr)
def test_curves_of_many_levels_are_proved_without_their_formulas(curve):
    kernel = tiles_along(curve)
    models = Models(kernel)
    assert models.first is models.named
    assert "inverse0_1[bx]" in str([models.named.element(a).index for a in models.named.accesses])
    assert set(verdicts(kernel, tried=False).values()) == {Proved}


@pytest.mark.parametrize(
    "layout",
    [
        Row(M, N),
        Col(M, N),
        GenP([N], lambda i: N - 1 - i, lambda p: (N - 1 - p,)),
        gallery.reverse(M, N),
        gallery.hilbert(16),
        OrderBy(gallery.antidiagonal(16)).GroupBy([16, 16]),
    ],
    ids=repr,
)
def test_the_elements_at_all_positions_are_proved(layout):
    assert set(verdicts(through(layout), tried=False).values()) == {Proved}


@pytest.mark.parametrize("layout", CURVES, ids=repr)
def test_positions_of_all_indices_are_proved(layout):
    assert set(verdicts(to_positions(layout), tried=False).values()) == {Proved}


def test_a_position_taken_back_is_the_index_itself():
    curve = gallery.hilbert(8)

    @lego.kernel(grid=1, block=64)
    def copy(y: lego.Tensor(f32, Row(64))):
        y[curve.apply(*curve.inv(lego.thread_id[0]))] = 1.0

    model = Models(copy).named
    assert str(model.element(model.accesses[0]).index) == "(tx,)"
    assert set(verdicts(copy, tried=False).values()) == {Proved}


def test_maps_of_maps_are_proved():
    one, other = gallery.hilbert(16), GenP([256], lambda i: i ^ 85, lambda p: (p ^ 85,))

    @lego.kernel(grid=1, block=256)
    def copy(y: lego.Tensor(f32, Row(16, 16))):
        y[one.inv(other.inv(lego.thread_id[0])[0])] = 1.0

    assert set(verdicts(copy, tried=False).values()) == {Proved}


def test_unrolled_accesses_through_a_map_are_one_access():
    curve = gallery.morton(32)

    @lego.kernel(grid=1, block=64)
    def copy(y: lego.Tensor(f32, Row(32, 32))):
        for r in lego.unroll(16):
            y[curve.inv(lego.thread_id[0] + 64 * r)] = 1.0

    assert len(Models(copy).named.accesses) == 1
    assert set(verdicts(copy, tried=False).values()) == {Proved}


ONCE, RACE, WRITTEN = (
    "no element of y is written twice",
    "no race for y between two blocks",
    "every element of y is written",
)


@pytest.mark.parametrize(
    ("number", "wrong"),
    [
        (lambda p: p // 2, {ONCE, RACE, WRITTEN}),
        (lambda p: p % 32, {ONCE, RACE, WRITTEN}),
        (lambda p: p * 2 % 64, {ONCE, RACE, WRITTEN}),
        (lambda p: p + 1 - p % 2, {ONCE, RACE, WRITTEN}),
    ],
)
@pytest.mark.parametrize("curve", [gallery.hilbert(8), gallery.antidiagonal(8)], ids=repr)
def test_two_blocks_at_one_position_are_refuted(curve, number, wrong):
    found = verdicts(tiles_along(curve, number, (2, 4)))
    assert {claim for claim, verdict in found.items() if verdict is Refuted} == wrong


def test_one_axis_of_a_map_is_no_bijection():
    curve = gallery.hilbert(16)

    @lego.kernel(grid=1, block=256)
    def copy(y: lego.Tensor(f32, Row(16))):
        y[curve.inv(lego.thread_id[0])[1]] = 1.0

    found = verdicts(copy)
    assert found["no race for y between two threads of a block"] is Refuted and found[ONCE] is Refuted


def test_two_maps_are_not_taken_for_one():
    one, other = gallery.hilbert(16), gallery.morton(16)

    @lego.kernel(grid=1, block=128)
    def copy(y: lego.Tensor(f32, Row(16, 16))):
        y[one.inv(lego.thread_id[0])] = 1.0
        y[other.inv(lego.thread_id[0] + 64)] = 1.0

    found = verdicts(copy)
    assert found["no race for y between two threads of a block"] is Refuted and found[ONCE] is Refuted


def test_a_map_outside_its_positions_uses_its_formula():
    swapped = GenP([256], lambda i: i ^ 1, lambda p: (p ^ 1,))
    wide = through(swapped, size=256)
    assert Models(wide).named is not None

    @lego.kernel(grid=1, block=256)
    def halves(y: lego.Tensor(f32, Row(1024))):
        y[swapped.inv(lego.thread_id[0] * 3)[0]] = 1.0

    models = Models(halves)
    assert models.named is None and models.first is models.plain
    assert verdicts(halves)[ONCE] is Proved


def test_branches_that_depend_on_the_range_of_a_map_use_its_formula():
    low = GenP([16], lambda i: i ^ 1, lambda p: (p ^ 1,))

    @lego.kernel(grid=1, block=32)
    def beyond(y: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        with lego.when(low.inv(t)[0] >= 16):
            y[0] = 1.0
        with lego.when(t < 16):
            y[low.inv(t)[0] + 16] = 2.0

    assert Models(beyond).named is None
    assert verdicts(beyond)["no race for y between two threads of a block"] is Refuted


def test_padded_layouts_keep_their_formulas():
    padded = gallery.padded(8, 8)

    @lego.kernel(grid=1, block=64)
    def copy(y: lego.Tensor(f32, Row(72))):
        y[padded.apply(lego.thread_id[0] // 8, lego.thread_id[0] % 8)] = 1.0

    assert copy.trace().maps == (padded,) and named_trace(copy) is None


@pytest.mark.examples(2)
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([c for c in CURVES if c.dims() == (8, 8)]),
    st.integers(1, 8),
    st.integers(0, 9),
    st.sampled_from([16, 48, 64]),
    st.booleans(),
)
def test_verdicts_agree_with_the_positions_of_the_threads(curve, factor, offset, modulus, both):
    """Elements are written once exactly where the numbers of two threads differ, whatever the curve."""

    @lego.kernel(grid=1, block=32)
    def write(y: lego.Tensor(f32, Row(8, 8))):
        t = lego.thread_id[0]
        y[curve.inv((factor * t + offset) % modulus)] = 1.0
        if both:
            y[curve.inv(63 - t)] = 2.0

    numbers = [((factor * t + offset) % modulus, t) for t in range(32)]
    writers = {*numbers, *((63 - t, t) for t in range(32) if both)}  # a thread may replace what it wrote
    found = verdicts(write)[ONCE]
    assert found is not Unknown and (found is Proved) == (len({number for number, _ in writers}) == len(writers))
    y = np.zeros(64, np.float32)
    report = run_kernel(write, {"y": y}, {})
    assert (found is Proved) <= (not report.faults)
