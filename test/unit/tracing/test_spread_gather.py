"""`lego.gather` against NumPy: by shuffles and through memory, every type, packed words, copies, bad indices, PTX."""

import dataclasses
import importlib
from collections import Counter

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import in_memory, launch, launch_on_cpu
from spread_layouts import blocked, custom, mma, of_one_block, operand

import lego_mlir as lego
from lego_mlir import Row, f2, f8e4m3fn, f16, f32, f64, i1, i8, i16, i32, i64, interp, u8
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.f2.gathers import gather_plan, random_wavefronts, stored_plan
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel

spread_gather = importlib.import_module("lego_mlir.tracing.spread.gather")
NARROW = f2.Blocked((1, 2), (8, 4), (4, 1), order=(1, 0)).layout((32, 8))
WIDE = f2.Blocked((1, 4), (1, 32), (4, 1), order=(1, 0)).layout((4, 1024))
ACROSS = f2.Blocked((1, 4), (1, 32), (1, 4), order=(1, 0)).layout((4, 1024))


def gathered(source, target, dtype, axis, index_dtype=i32, forced=None):
    shapes = [tuple(layout.out_sizes.values()) for layout in (source, target)]

    @lego.kernel(grid=1, block=32 * source.in_sizes["warp"])
    def k(
        x: lego.Tensor(dtype, Row(*shapes[0])),
        i: lego.Tensor(index_dtype, Row(*shapes[1])),
        y: lego.Tensor(dtype, Row(*shapes[1])),
    ):
        value, index = lego.load(x, source), lego.load(i, target)
        found = spread_gather.by_plan(value, index, forced, f"dim{axis}") if forced else lego.gather(value, index, axis)
        found.store(y)

    return k


def inputs(source, target, axis):
    shapes = [tuple(layout.out_sizes.values()) for layout in (source, target)]
    numbers = np.random.default_rng(0)
    return numbers.integers(0, 9, shapes[0]), numbers.integers(0, shapes[0][axis], shapes[1])


def check(source, target, dtype, axis, run=launch, **options):
    x, i = inputs(source, target, axis)
    x = x % 2 if dtype is i1 else x
    *_, y = run(gathered(source, target, dtype, axis, **options), x, i, np.zeros(i.shape))
    np.testing.assert_array_equal(y.astype(int), np.take_along_axis(x, i, axis))


@pytest.mark.parametrize("dtype", [i1, i8, u8, f8e4m3fn, f16, i16, f32, i64, f64], ids=str)
def test_every_type_by_shuffles(dtype, monkeypatch):
    def planned(*given):
        plan = gather_plan(*given)
        assert plan.local and plan.shuffles() > 0
        return dataclasses.replace(plan, by_shuffles=True)

    monkeypatch.setattr(spread_gather, "gather_plan", planned)
    check(NARROW, NARROW, dtype, 1)


@pytest.mark.parametrize("dtype", [i1, i8, f16, f32, f64], ids=str)
@pytest.mark.parametrize("layout", [WIDE, ACROSS], ids=["in a warp", "across warps"])
def test_every_type_through_memory(dtype, layout):
    plan = gather_plan(layout, layout, "dim1", max(8, dtype.bits))
    assert not plan.by_shuffles and plan.local == (layout is WIDE)
    check(layout, layout, dtype, 1)


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_pair_of_layouts(draw):
    shape, warps = [draw.choice([8, 16]) for _ in range(2)], draw.choice([1, 2, 4])
    dtype, axis, layouts = draw.choice([i8, f16, f32, f64]), draw.randint(0, 1), []
    for n in (shape[axis], draw.choice([4, 16])):
        shape = [n if k == axis else other for k, other in enumerate(shape)]
        family = draw.choice([blocked, mma, operand, None])
        made = custom(draw, shape, warps) if family is None else family(draw, shape, warps, dtype.bits).layout(shape)
        layouts.append(of_one_block(made))
    source, target = layouts if draw.random() < 0.5 else layouts[:1] * 2
    check(source, target, dtype, axis)


@pytest.mark.parametrize(("bits", "shuffles"), [(8, 2), (16, 2), (32, 4), (64, 8)])
def test_elements_of_one_lane_travel_together(bits, shuffles):
    """Two registers along the axis: two shuffles for each of two results of 32 bits, one below."""
    plan = gather_plan(NARROW, NARROW, "dim1", bits)
    assert (plan.shuffles(), plan.selects()) == (shuffles, 2 * max(1, bits // 32))


def test_an_axis_within_a_thread_needs_no_shuffle():
    layout = f2.Blocked((4, 1), (1, 32), (1, 4), order=(1, 0)).layout((4, 128))
    assert gather_plan(layout, layout, "dim0", 32).shuffles() == 0
    check(layout, layout, f32, 0)


def test_long_axes_go_through_memory():
    layouts = [f2.Blocked((1, 1), (4, 8), (4, 1), order=(1, 0)).layout((16, 8 << k)) for k in range(6)]
    ways = [gather_plan(layout, layout, "dim1", 32).by_shuffles for layout in layouts]
    assert ways[0] and not ways[-1] and ways == sorted(ways, reverse=True)


@pytest.mark.parametrize("dtype", [i8, i64, u8], ids=str)
def test_indices_of_other_types(dtype):
    check(NARROW, NARROW, f32, 1, index_dtype=dtype)


@pytest.mark.parametrize("layout", [NARROW, ACROSS], ids=["shuffles", "memory"])
@pytest.mark.parametrize("bad", [-1, 1024])
def test_an_index_outside_is_reported(layout, bad):
    x, i = inputs(layout, layout, 1)
    i[3, 5] = bad
    kernel = gathered(layout, layout, f32, 1)
    memories, _ = in_memory(kernel, (x, i, np.zeros(i.shape)), {})
    report = interp.launch(kernel.mlir(), grid=[1], block=kernel.block, args=memories)
    assert Kind.ASSERTION in report.kinds()


@pytest.mark.parametrize("dtype", [i8, f16, f64], ids=str)
@pytest.mark.parametrize("layout", [NARROW, ACROSS], ids=["shuffles", "memory"])
def test_the_processor_gathers_too(layout, dtype):
    check(layout, layout, dtype, 1, run=launch_on_cpu)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@needs_ptxas
def test_ptx_has_the_planned_instructions(target):
    text = compile_kernel(gathered(NARROW, NARROW, f16, 1), target=target).text
    assert text.count("shfl.sync") == gather_plan(NARROW, NARROW, "dim1", 16).shuffles()
    assemble(text, target)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, i: lego.gather(x, i.to(f32), axis=1), TraceError, "spread value of integers as its indices"),
        (lambda x, i: lego.gather(x, 3, axis=1), TraceError, "spread value of integers as its indices, got 3"),
        (lambda x, i: lego.gather(x, i, axis=2), LayoutError, r"axis 2 of a value of shape \[32, 8\]"),
        (lambda x, i: lego.gather(x, i.T, axis=1), LayoutError, r"indices of shape \[8, 32\]; their sizes"),
        (lambda x, i: lego.gather(3, i, axis=1), TraceError, "takes a spread value, such as that of"),
    ],
)
def test_bad_gathers_are_refused(call, error, message):
    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(f32, Row(32, 8)), i: lego.Tensor(i32, Row(32, 8))):
        call(lego.load(x, NARROW), lego.load(i, NARROW)).store(x)

    with pytest.raises(error, match=message):
        k.trace()


@pytest.mark.parametrize(("groups", "rows"), [(0, 1), (0, 3), (0, 12), (2, 2), (4, 6), (5, 3)])
def test_random_words_meet_as_the_model_expects(groups, rows):
    """32 lanes in groups; each group has as many banks as lanes."""
    banks = 32 >> groups
    numbers = np.random.default_rng(7).integers(0, banks << rows, (3000, 1 << groups, banks))
    worst = [max(max(Counter(w % banks for w in set(group)).values()) for group in lanes) for lanes in numbers.tolist()]
    exponent = banks.bit_length() - 1
    assert abs(np.mean(worst) - random_wavefronts(exponent, groups, exponent, rows)) < 0.08


def test_lanes_in_columns_do_not_conflict_whatever_the_indices_are():
    """A gather down the columns: all lanes ask for the same row, or for random ones."""
    layout = f2.Blocked((8, 1), (1, 32), (4, 1), order=(1, 0)).layout((64, 32))
    plan = gather_plan(layout, layout, "dim0", 32)
    assert not plan.by_shuffles
    stored = stored_plan(plan, layout, layout, "dim0")
    kernel = gathered(layout, layout, f32, 0)
    for i in (np.full((64, 32), 5), np.random.default_rng(1).integers(0, 64, (64, 32))):
        x = np.arange(64.0 * 32).reshape(64, 32)
        memories, _ = in_memory(kernel, (x, i, np.zeros(i.shape)), {})
        report = interp.launch(kernel.mlir(), grid=[1], block=kernel.block, args=memories)
        shared = [site for site in report.sites if site.space == "shared"]
        assert report.clean
        assert sum(site.wavefronts for site in shared) == 4 * (layout.in_sizes["register"] + stored.store_wavefronts())
        assert stored.store_wavefronts() == layout.in_sizes["register"]


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_an_axis_within_a_row_of_banks_has_no_conflict(bits):
    """Whatever the indices are: the interpreter counts one wavefront for each load."""
    columns = 1024 // bits
    layout = f2.Blocked((1, columns // 32), (1, 32), (4, 1), order=(1, 0)).layout((8, columns))
    dtype = {8: i8, 16: f16, 32: f32}[bits]
    plan = gather_plan(layout, layout, "dim1", bits)
    stored = stored_plan(plan, layout, layout, "dim1")
    kernel = gathered(layout, layout, dtype, 1, forced=dataclasses.replace(plan, by_shuffles=False))
    x, i = inputs(layout, layout, 1)
    memories, _ = in_memory(kernel, (x, i, np.zeros(i.shape)), {})
    report = interp.launch(kernel.mlir(), grid=[1], block=kernel.block, args=memories)
    loads = 4 * layout.in_sizes["register"]
    shared = [site for site in report.sites if site.space == "shared"]
    assert report.clean
    assert sum(site.wavefronts for site in shared) == loads + 4 * stored.store_wavefronts()
