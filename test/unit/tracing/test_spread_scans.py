"""`lego.scan` against NumPy and a loop: functions that do not commute, several values, random layouts, all backends."""

import re
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated, launch_on_cpu
from spread_strategies import layouts

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, i8, i32, i64, u32
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.toolchain import compile_kernel

IN_WARPS = f2.Blocked((1, 4), (1, 32), (4, 1), order=(1, 0)).layout((4, 256))
ACROSS = f2.Blocked((1, 2), (2, 16), (2, 2), order=(1, 0)).layout((4, 128))
MMA = f2.MmaSync((2, 2)).layout((32, 32))
VECTOR = f2.Blocked((4,), (32,), (4,), order=(0,)).layout((512,))
BOXED = f2.MmaSync((2, 1)).layout((32, 24))


def recurrence(left, right):
    """h = a h + b, as a function of pairs."""
    return left[0] * right[0], left[1] * right[0] + right[1]


def scanned(layout, axis, reverse, dtype=i32):
    shape = layout_shape(layout)

    @lego.kernel(grid=1, block=32 * layout.in_sizes["warp"])
    def k(
        a: lego.Tensor(dtype, Row(*shape)),
        b: lego.Tensor(dtype, Row(*shape)),
        total: lego.Tensor(dtype, Row(*shape)),
        h: lego.Tensor(dtype, Row(*shape)),
    ):
        x, y = lego.load(a, layout), lego.load(b, layout)
        x.cumsum(axis, reverse).store(total)
        lego.scan((x, y), axis, recurrence, reverse)[1].store(h)

    return k


def layout_shape(layout):
    return getattr(layout, "box", None) or tuple(layout.out_sizes.values())


def expected(a, b, axis, reverse):
    if reverse:
        return [np.flip(v, axis) for v in expected(np.flip(a, axis), np.flip(b, axis), axis, False)]
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    h, found = np.zeros_like(b[0]), []
    for x, y in zip(a, b, strict=True):
        h = h * x + y
        found.append(h)
    return [np.moveaxis(v, 0, axis) for v in (np.cumsum(a, 0, dtype=a.dtype), np.stack(found))]


def check(layout, axis, reverse, run=launch, dtype=i32, seed=0):
    draws, shape = np.random.default_rng(seed), layout_shape(layout)
    low = 0 if dtype.is_unsigned else -1
    a, b = (draws.integers(low, 2, shape).astype(dtype.numpy) for _ in range(2))
    *_, total, h = run(scanned(layout, axis, reverse, dtype), a, b, 0 * a, 0 * a)
    for found, wanted in zip((total, h), expected(a, b, axis, reverse), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.examples(2)
@settings(max_examples=8, deadline=None)
@given(layout=layouts(), axis=st.integers(0, 1), reverse=st.booleans())
def test_random_layouts(layout, axis, reverse):
    check(layout, axis, reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", [IN_WARPS, ACROSS, MMA, VECTOR, BOXED], ids=["warp", "across", "mma", "1d", "boxed"])
def test_layouts_of_kernels(layout, reverse):
    for axis in range(len(layout.outs)):
        check(layout, axis, reverse)


@pytest.mark.parametrize("run", [launch_on_cpu, launch_emulated])
@pytest.mark.parametrize("layout", [ACROSS, MMA], ids=["across", "mma"])
def test_other_backends(layout, run):
    check(layout, 1, False, run)


@pytest.mark.parametrize("dtype", [i8, f16, u32, i64, f32], ids=str)
def test_types(dtype):
    check(ACROSS, 1, True, dtype=dtype)


def test_the_plan_is_that_of_the_layout():
    """Registers alone: nothing moves. Within warps: shuffles. Across warps: one store and the totals of the others."""

    def moves(layout, axis):
        @lego.kernel(grid=1, block=32 * layout.in_sizes["warp"])
        def k(x: lego.Tensor(i32, Row(*layout_shape(layout))), y: lego.Tensor(i32, Row(*layout_shape(layout)))):
            lego.load(x, layout).cumsum(axis).store(y)

        text = compile_kernel((k,), target="sm_80").text
        return len(re.findall("shfl", text)), len(re.findall(r"st\.shared", text)), len(re.findall(r"bar\.sync", text))

    assert moves(f2.Blocked((1, 16), (32, 1), (1, 1), order=(1, 0)).layout((32, 16)), 1) == (0, 0, 0)
    shuffles, stores, barriers = moves(IN_WARPS, 1)
    assert shuffles > 0 and (stores, barriers) == (0, 0)
    shuffles, stores, barriers = moves(VECTOR, 0)
    assert shuffles == 5 and (stores, barriers) == (1, 1)  # by the last lane, whose total no other lane needs


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("run", [launch, launch_emulated, launch_on_cpu])
def test_a_sum_takes_the_total_of_a_scan(run, reverse):
    """One exchange for both, unless the sum is of another tile, comes first, or is computed where the scan was not."""

    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(i32, Row(512)), y: lego.Tensor(i32, Row(512)), sums: lego.Tensor(i32, Row(2))):
        tile = lego.load(x, VECTOR)
        with lego.when(x[0] > 0):
            tile.cumsum(0, reverse).store(y)
        first = tile.sum()
        (tile.cumsum(0, reverse) + tile.sum()).store(y)
        twice = (tile * 2).sum()
        with lego.when(lego.thread_id[0] == 0):
            sums[0], sums[1] = first, twice

    x = np.random.default_rng(0).integers(-9, 9, 512).astype(np.int32)
    _, y, sums = run(k, x, 0 * x, np.zeros(2, np.int32))
    np.testing.assert_array_equal(y - x.sum(), expected(x, 0 * x, 0, reverse)[0])
    assert sums.tolist() == [x.sum(), 2 * x.sum()]
    assert compile_kernel((k,), target="sm_80").text.count("redux.sync") == 2


@pytest.mark.parametrize(
    ("word", "error", "pattern"),
    [
        (
            lambda x: lego.scan(3, 0, recurrence),
            TraceError,
            "lego.scan takes a spread value, or a tuple of them, got 3",
        ),
        (lambda x: lego.scan(x, 2, lambda a, b: a), LayoutError, r"lego.scan: a tile of shape \[4, 128\] has the axes"),
        (lambda x: (x > 0).cumsum(0), TraceError, "lego.scan of .*; convert it, for example with .to"),
        (lambda x: lego.scan(x, 0, lambda a, b: a > b), TraceError, "the function returned .*, and of two of i32 it"),
        (lambda x: lego.scan((x, x), 0, lambda a, b: a[0]), TraceError, "of two of i32, i32 it returns the same types"),
    ],
)
def test_refused(word, error, pattern):
    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(i32, Row(4, 128))):
        word(lego.load(x, ACROSS))

    with pytest.raises(error, match=pattern):
        k.trace()


@pytest.mark.parametrize(("shape", "axis", "warps"), [((16, 256), 0, 4), ((16, 256), 0, 3), ((256, 16), 1, 16)])
def test_tiles_whose_layout_the_engine_chooses(shape, axis, warps):
    """Also each conversion that the engine did not plan costs no less than the bound that it was left out by."""

    @lego.kernel(grid=1, block=32 * warps)
    def k(x: lego.Tensor(i32, Row(*shape)), y: lego.Tensor(i32, Row(*shape))):
        tile = lego.load(x, shape)
        (tile.cumsum(axis) - tile.cumsum(1 - axis)).store(y)

    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.int32)
    _, y = launch(k, x, np.zeros_like(x))
    np.testing.assert_array_equal(y, np.cumsum(x, axis) - np.cumsum(x, 1 - axis))
    alternatives = k.layout_choice.alternatives
    for node in alternatives.nodes:
        for source, target in permutations(range(len(alternatives.layouts[node])), 2):
            alternatives.plan(node, source, target)
