"""Values spread over threads against NumPy: loads and stores of every layout, arithmetic, masks, widths."""

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from launching import launch
from spread_layouts import blocked, mma, of_one_block, operand
from spread_strategies import layouts

import lego_mlir as lego
from lego_mlir import Col, Row, f2, f8e4m3fn, f16, f32, f64, gallery, i8, i32
from lego_mlir.errors import LayoutError
from lego_mlir.tracing.trace.trace import If, Load, Store

BLOCKED = f2.Blocked((1, 4), (4, 8), (4, 1), order=(1, 0)).layout((32, 64))


def elementwise(layout, dtype, function, at=(0, 0), rows=None, columns=None, order=Row):
    shape = (rows or layout.out_sizes["dim0"], columns or layout.out_sizes["dim1"])

    @lego.kernel(grid=1, block=32 * layout.in_sizes.get("warp", 1))
    def k(a: lego.Tensor(dtype, order(*shape)), b: lego.Tensor(dtype, order(*shape))):
        function(lego.load(a, layout, at=at)).store(b, at=at)

    return k


def statements(kernel, kind):
    return [s for s in kernel.trace().body if isinstance(s, kind)]


SHARED = f2.LinearLayout(  # a bit of dim1 is a register's and a lane's, so that registers are at two starts
    {"register": [(0, 17), (1, 16)], "lane": [(0, 4), (0, 16), (0, 8), (2, 0), (2, 18)], "warp": []},
    {"dim0": 4, "dim1": 32},
)


@pytest.mark.examples(4)
@settings(max_examples=40, deadline=None)
@example(SHARED, i32, False)
@example(SHARED, i32, True)
@given(layouts(), st.sampled_from([i8, f16, f32, f64, i32]), st.booleans())
def test_a_tile_is_copied_through_any_layout(layout, dtype, ragged):
    shape = tuple(layout.out_sizes.values())
    if ragged:
        shape = (shape[0] - 1, shape[1] - 1)
    kernel = elementwise(layout, dtype, lambda x: x + x, rows=shape[0], columns=shape[1])
    a = np.random.default_rng(0).integers(-50, 50, shape)
    _, b = launch(kernel, a, np.zeros(shape))
    np.testing.assert_array_equal(b.astype(np.int64), 2 * a)


def test_a_tile_of_one_dimension_takes_a_single_index():
    layout = f2.Blocked((4,), (32,), (1,), order=(0,)).layout((128,))

    @lego.kernel(grid=lego.cdiv(500, 128), block=32)
    def k(a: lego.Tensor(f32, Row(500)), b: lego.Tensor(f32, Row(500))):
        at = lego.block_id.x * 128
        lego.load(a, layout, at=at).store(b, at=at)

    a = np.arange(500, dtype=np.float32)
    _, b = launch(k, a, np.zeros(500))
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize(("dtype", "width"), [(i8, 4), (f8e4m3fn, 4), (f16, 4), (f32, 4), (f64, 2)], ids=str)
def test_loads_are_as_wide_as_registers_and_alignment_allow(dtype, width):
    kernel = elementwise(BLOCKED, dtype, lambda x: x)
    assert {s.access.width for s in statements(kernel, Load)} == {width}
    assert {s.access.width for s in statements(kernel, Store)} == {width}
    odd = elementwise(BLOCKED, dtype, lambda x: x, columns=65)
    assert {s.access.width for s in statements(odd, Load)} == {1}


@pytest.mark.examples(4)
@settings(max_examples=25, deadline=None)
@given(layouts(), st.tuples(*[st.integers(-20, 30)] * 2), st.sampled_from(["known", "block", "loop"]), st.booleans())
def test_tiles_anywhere_are_masked_on_all_sides(layout, at, kind, wide):
    shape, tile = (21, 24 if wide else 23), tuple(layout.out_sizes.values())
    at = (at[0], at[1] // 4 * 4)

    @lego.kernel(grid=1, block=32 * layout.in_sizes.get("warp", 1))
    def k(a: lego.Tensor(f32, Row(*shape)), b: lego.Tensor(f32, Row(*shape)), c: lego.Tensor(f32, Row(*tile))):
        for j in lego.range(1) if kind == "loop" else [lego.block_id[0] if kind == "block" else 0]:
            first = (at[0] + j, at[1] + 4 * j)
            x = lego.load(a, layout, at=first, other=-1)
            x.store(c)
            x.store(b, at=first)

    a = np.random.default_rng(0).integers(1, 99, shape)
    _, b, c = launch(k, a, np.zeros(shape), np.zeros(tile))
    i, j = np.indices(tile)
    i, j = i + at[0], j + at[1]
    inside = (i >= 0) & (i < shape[0]) & (j >= 0) & (j < shape[1])
    np.testing.assert_array_equal(c, np.where(inside, a[i.clip(0, shape[0] - 1), j.clip(0, shape[1] - 1)], -1))
    expected = np.zeros(shape)
    expected[i[inside], j[inside]] = a[i[inside], j[inside]]
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("order", [Row, Col])
@pytest.mark.parametrize("at", [(-1, 0), (3, 0), (-4, 8), (9, 9), (0, -500)])
def test_tiles_whose_rows_are_registers_start_outside(at, order):
    layout = f2.Blocked((4, 1), (1, 32), (1, 2), order=(1, 0)).layout((4, 64))
    a = np.arange(1, 3 * 70 + 1).reshape(3, 70)
    _, b = launch(elementwise(layout, f32, lambda x: x + x, at=at, rows=3, columns=70, order=order), a, 0 * a)
    expected = np.zeros_like(a)
    here = tuple(slice(max(0, start), max(0, start + n)) for start, n in zip(at, (4, 64), strict=True))
    expected[here] = 2 * a[here]
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("name", ["blocked", "mma", "operand", "slice"])
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1, 2, 4, 8]), st.sampled_from([i8, f16, f32, f64]))
def test_encodings_of_hardware(name, seed, warps, dtype):
    draw = random.Random(seed)
    shape = draw.choice([(16, 16), (32, 16), (64, 32), (16, 128)])
    family = {"blocked": blocked, "mma": mma, "operand": operand, "slice": blocked}[name]
    encoding = family(draw, shape, warps, dtype.bits)
    layout = of_one_block(encoding.layout(shape))
    if name == "slice":
        layout = of_one_block(f2.Sliced(1, encoding).layout(shape[:1]))
    shape = tuple(layout.out_sizes.values())

    @lego.kernel(grid=1, block=32 * warps)
    def k(a: lego.Tensor(dtype, Row(*shape)), b: lego.Tensor(dtype, Row(*shape)), c: lego.Tensor(f32, Row(1))):
        x = lego.load(a, layout)
        x.store(b)
        total = x.to(f32).sum()
        with lego.when(lego.thread_id[0] < 1):
            c[0] = total

    a = np.random.default_rng(seed).integers(-9, 9, shape)
    _, b, c = launch(k, a, 0 * a, np.zeros(1))
    np.testing.assert_array_equal(b.astype(np.int64), a)
    assert c[0] == a.sum()


def test_vectors_run_along_any_axis_and_across_axes():
    down = f2.Blocked((4, 1), (8, 4), (1, 4), order=(0, 1)).layout((32, 64))
    kernel = elementwise(down, f32, lambda x: x, order=Col)
    assert {s.access.width for s in statements(kernel, Load)} == {4}
    tall = f2.Blocked((8, 2), (32, 1), (4, 1), order=(1, 0)).layout((1024, 2))
    for dtype, width in ((f8e4m3fn, 16), (f16, 8), (f64, 2)):
        kernel = elementwise(tall, dtype, lambda x: x)
        assert {s.access.width for s in statements(kernel, Load)} == {width}
        a = np.arange(2048).reshape(1024, 2) % 8
        np.testing.assert_array_equal(launch(kernel, a, 0 * a)[1].astype(np.int64), a)
    assert {s.access.width for s in statements(elementwise(tall, f16, lambda x: x, columns=3), Load)} == {1}


@pytest.mark.parametrize("memory", ["rows", "columns", "padded", "swizzled", "every element", "bit reversed"])
@settings(max_examples=6, deadline=None)
@given(layouts(), st.sampled_from([i8, f16, f32]), st.booleans())
def test_tiles_in_shared_memory_of_any_order(memory, layout, dtype, transposed):
    """In the middle of a larger tile; the first column is known, or a loop's variable."""
    rows, columns = shape = tuple(layout.out_sizes.values())
    large = (2 * rows, 4 * columns)
    held = {
        "rows": Row(*large),
        "columns": Col(*large),
        "padded": gallery.padded(*large, pad=8),
        "swizzled": gallery.xor_swizzle(*large, vec=4),
        "every element": gallery.xor_swizzle(*large),
        "bit reversed": f2.to_layout(f2.LinearLayout(_reversed_bits(large), {"offset": large[0] * large[1]})),
    }[memory]

    @lego.kernel(grid=1, block=32 * layout.in_sizes.get("warp", 1))
    def k(a: lego.Tensor(dtype, Row(*shape)), b: lego.Tensor(dtype, Row(*shape)), c: lego.Tensor(dtype, Row(*large))):
        tile = lego.shared(dtype, held)
        view = tile.T if transposed else tile
        at = (0, rows) if transposed else (rows, 0)
        lego.load(a, layout).T.store(view, at=at) if transposed else lego.load(a, layout).store(view, at=at)
        for j in lego.range(1, 4):
            lego.load(a, layout).store(tile, at=(rows, columns * j))
        lego.barrier()
        lego.load(tile, layout, at=(rows, 2 * columns)).store(b)
        for j in lego.range(4):
            lego.load(tile, layout, at=(rows, columns * j)).store(c, at=(0, columns * j))

    a = np.arange(rows * columns).reshape(shape) % 100
    _, b, c = launch(k, a, 0 * a, np.zeros(large))
    np.testing.assert_array_equal(b.astype(np.int64), a)
    np.testing.assert_array_equal(c.astype(np.int64), np.concatenate([np.tile(a, 4), np.zeros_like(np.tile(a, 4))]))


def _reversed_bits(shape):
    bits = [n.bit_length() - 1 for n in shape]
    columns = [1 << k for k in range(sum(bits))][::-1]
    return {"row": [(c,) for c in columns[: bits[0]]], "column": [(c,) for c in columns[bits[0] :]]}


def test_a_swizzled_tile_is_accessed_in_whole_segments():
    encoding = f2.Blocked((1, 8), (8, 4), (4, 1), order=(1, 0))
    segments, half = encoding.layout((32, 64)), encoding.layout((32, 32))

    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f16, Row(32, 64)), b: lego.Tensor(f16, Row(32, 64))):
        tile = lego.shared(f16, gallery.xor_swizzle(32, 64, vec=8))
        lego.load(a, segments).store(tile)
        lego.barrier()
        lego.load(tile.part((0, 32), (32, 32)), half).store(b, at=(0, 32))

    assert {s.access.width for s in statements(k, Load) + statements(k, Store)} == {8}


def test_accesses_under_one_mask_share_its_branch():
    m = lego.size("M", min=1)

    @lego.kernel(grid=lego.cdiv(m, 32), block=128)
    def k(a: lego.Tensor(f32, Row(m, 64)), b: lego.Tensor(f32, Row(m, 64))):
        at = (32 * lego.block_id[0], 0)
        lego.load(a, BLOCKED, at=at, other=7).store(b, at=at)

    loads, stores = (s for s in k.trace().body if isinstance(s, If)), statements(k, Store)
    assert [len(s.then) for s in loads] == [4, 4, 4, 4] and not stores  # two rows, two accesses each
    a = np.arange(70 * 64.0).reshape(70, 64)
    np.testing.assert_array_equal(launch(k, a, 0 * a, sizes={"M": 70})[1], a)


def test_operators_functions_and_numbers():
    def function(x):
        y = lego.maximum(2 * x - 1, x / 2) + lego.f32(1)
        return lego.where(x > 3, lego.exp2(-abs(y)), lego.fma(x, x, 1.0)).to(f32)

    a = np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32) * 4
    _, b = launch(elementwise(BLOCKED, f32, function), a, np.zeros((32, 64)))
    y = np.maximum(2 * a - 1, a / 2) + 1
    np.testing.assert_allclose(b, np.where(a > 3, np.exp2(-abs(y)), a * a + 1), rtol=1e-5)


def test_two_layouts_do_not_combine():
    other = f2.Blocked((4, 1), (4, 8), (4, 1), order=(0, 1)).layout((32, 64))

    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f32, Row(32, 64))):
        (lego.load(a, BLOCKED) + lego.load(a, other)).store(a)

    with pytest.raises(LayoutError, match=r"test_spread.py:\d+: .*different layouts .* lego.convert\(y, to=x.layout\)"):
        k.trace()


@pytest.mark.parametrize("block", [(64,), (100,), (16, 16), (lego.size("B"),)], ids=str)
def test_the_threads_must_match(block):
    @lego.kernel(grid=1, block=block)
    def k(a: lego.Tensor(f32, Row(32, 64))):
        lego.load(a, BLOCKED).store(a)

    with pytest.raises(LayoutError, match=r"4 warps of 32 lanes, .* use block=128"):
        k.trace()


@pytest.mark.parametrize("block", [(128,), (32, 4), (8, 16), (4, 4, 8)], ids=str)
def test_blocks_of_any_rank(block):
    @lego.kernel(grid=1, block=block)
    def k(a: lego.Tensor(f32, Row(32, 64)), b: lego.Tensor(f32, Row(32, 64))):
        lego.load(a, BLOCKED).store(b)

    a = np.arange(2048.0).reshape(32, 64)
    np.testing.assert_array_equal(launch(k, a, 0 * a)[1], a)
