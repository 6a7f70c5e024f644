"""`lego.convert`: every pair of layout families in the interpreter; barriers, scratch memory, copies, types, PTX."""

import importlib
import itertools
import random

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from launching import in_memory, launch, launch_on_cpu, logical
from spread_layouts import blocked, custom, mma, of_one_block, operand

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f8e4m3fn, f8e5m2, f16, f32, f64, i1, i8, i16, i32, i64, interp, u8
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.f2.conversion import Unchanged, conversion_plan
from lego_mlir.f2.queries import copies
from lego_mlir.f2.shuffles import ShufflePlan, shuffle_plan
from lego_mlir.f2.swizzle import SwizzlePlan
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.spread import scratch
from lego_mlir.tracing.trace.trace import Barrier, MatrixLoad, MlirOperation

DTYPES = {8: i8, 16: f16, 32: f32, 64: f64}
EVERY_PAIR = (0, 0, 1, 0, 2, 0, 3, 1, 1, 2, 1, 3, 2, 2, 3, 3, 0)
"""A sequence of four numbers in which each ordered pair occurs once."""
ROWS = f2.Blocked((1, 8), (4, 8), (4, 1), order=(1, 0)).layout((32, 64))
COLUMNS = f2.Blocked((8, 1), (4, 8), (1, 4), order=(0, 1)).layout((32, 64))
SQUARE_ROWS = of_one_block(f2.Blocked((1, 8), (4, 8), (4, 1), order=(1, 0)).layout((64, 64)))
SQUARE_COLUMNS = of_one_block(f2.Blocked((8, 1), (8, 4), (1, 4), order=(0, 1)).layout((64, 64)))


def chain(draw, warps, bits, rank, shape):
    """Layouts of four families of tiles, or of their slices, in which each ordered pair of families occurs."""
    families, layouts = (blocked, mma, operand), []
    for number in EVERY_PAIR:
        if number == 3:
            layouts.append(custom(draw, shape, warps))
        else:
            encoding = families[number](draw, shape, warps, bits)
            given = f2.Sliced(draw.choice([0, 1]), encoding) if rank == 1 else encoding
            layouts.append(of_one_block(given.layout(shape)))
    return layouts


def converted(layouts, dtype, name="k"):
    """The kernel that passes a tile through the layouts."""
    shape, warps = tuple(layouts[0].out_sizes.values()), layouts[0].in_sizes["warp"]

    @lego.kernel(grid=1, block=32 * warps)
    def k(x: lego.Tensor(dtype, Row(*shape)), y: lego.Tensor(dtype, Row(*shape))):
        value = lego.load(x, layouts[0])
        for layout in layouts[1:]:
            value = lego.convert(value, to=layout)
        value.store(y)

    return k


def numbers(shape, dtype):
    top = 9 if dtype.is_f8 else 2 if dtype is i1 else 120
    return np.random.default_rng(0).integers(0 if dtype is i1 else -top, top, shape).astype(dtype.numpy)


def check(kernel, dtype, shape):
    """Run a copy in the interpreter; its report."""
    given = numbers(shape, dtype)
    memories, placed = in_memory(kernel, (given, np.zeros(shape)), {})
    report = interp.launch(kernel.mlir(), grid=[1], block=kernel.block, args=memories)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(logical(memories, placed)[1], given)
    return report


def predicted(layouts, bits):
    """The wavefronts of the shared accesses of a chain, and whether every thread takes part in each."""
    total, everyone = 0, True
    for source, target in itertools.pairwise(layouts):
        plan = conversion_plan(source, target, bits)
        if isinstance(plan, SwizzlePlan):
            total += source.in_sizes["warp"] * (plan.store_wavefronts() + plan.load_wavefronts())
            everyone &= not {"lane", "warp"} & copies(plan.source).keys()
    return total, everyone


CASES = [(bits, warps, rank) for bits in DTYPES for warps in (1, 2, 4, 8) for rank in (1, 2)]


def drawn(bits, warps, rank):
    """The shape of a case, and a chain of layouts with every pair of families."""
    draw = random.Random(100 * bits + 10 * warps + rank)
    if rank == 1:
        shape = (draw.choice([16, 32, 64, 128]),)
    elif (bits, warps) == (16, 8):
        shape = (128, 128)
    else:
        shape = draw.choice([(16, 16), (32, 32), (16, 64), (32, 16)] + [(64, 64)] * (warps >= 4))
    return shape, chain(draw, warps, bits, rank, shape)


@pytest.mark.parametrize(("bits", "warps", "rank"), CASES)
def test_every_pair_of_families_is_right_without_conflicts(bits, warps, rank):
    shape, layouts = drawn(bits, warps, rank)
    kernel = converted(layouts, DTYPES[bits])
    report = check(kernel, DTYPES[bits], shape)
    shared = [site for site in report.sites if site.space == "shared"]
    expected, everyone = predicted(layouts, bits)
    found = sum(site.wavefronts for site in shared)
    assert sum(site.conflicts for site in shared) == 0
    assert found == expected if everyone else found <= expected


def way(plan):
    """The kind of a plan."""
    if isinstance(plan, SwizzlePlan):
        return ("slices" if plan.slice_elements else "memory") + (" by ldmatrix" if plan.matrices else "")
    return type(plan).__name__


def test_the_pairs_are_many_and_of_every_kind():
    ways = []
    for case in CASES:
        _, layouts = drawn(*case)
        ways += [way(conversion_plan(a, b, case[0])) for a, b in itertools.pairwise(layouts)]
    assert len(ways) == 512
    fewest = {"Unchanged": 10, "Renamed": 1, "ShufflePlan": 50, "slices": 50, "memory": 200, "memory by ldmatrix": 10}
    assert all(ways.count(kind) >= count for kind, count in fewest.items()), sorted(ways)


@pytest.mark.parametrize("dtype", [i1, i8, u8, f8e4m3fn, i16, bf16, i32, i64, f64], ids=str)
def test_every_type_moves_by_shuffles_and_through_memory(dtype, monkeypatch):
    result = of_one_block(f2.MmaSync((4, 1)).layout((64, 32)))
    operand = of_one_block(f2.MmaOperand(0, f2.MmaSync((4, 1)), 4).layout((64, 32)))
    columns = of_one_block(f2.Blocked((8, 1), (4, 8), (1, 4), order=(0, 1)).layout((64, 32)))
    ways = []

    def planned(source, target, bits, in_order):
        plan = shuffle_plan(source, target, bits) or conversion_plan(source, target, bits, in_order)
        ways.append(type(plan))
        return plan

    monkeypatch.setattr(importlib.import_module("lego_mlir.tracing.spread.conversion"), "conversion_plan", planned)
    check(converted([result, operand, columns], dtype), dtype, (64, 32))
    assert ways == [ShufflePlan, SwizzlePlan]


def stored_rows(bits):
    """Rows of 16 bytes in a lane, and the operand that `ldmatrix` makes of them."""
    shape = (64, 128 // bits * 2)
    rows = f2.Blocked((1, 128 // bits), (16, 2), (4, 1), order=(1, 0)).layout(shape)
    return of_one_block(rows), of_one_block(f2.MmaOperand(0, f2.MmaSync((4, 1)), 32 // bits).layout(shape))


@pytest.mark.parametrize("dtype", [i8, u8, f8e4m3fn, f16, bf16, i16, f32, i32], ids=str)
def test_every_type_is_loaded_by_ldmatrix(dtype):
    layouts = stored_rows(dtype.bits)
    assert way(conversion_plan(*layouts, dtype.bits)).endswith("by ldmatrix")
    report = check(converted(layouts, dtype), dtype, tuple(layouts[0].out_sizes.values()))
    assert report.totals.ldmatrix == 4 * len(conversion_plan(*layouts, dtype.bits).loaded_matrices.each)


@pytest.mark.parametrize("dtype", [f16, i16], ids=str)
def test_rows_become_columns_by_transposed_matrices(dtype):
    plan = conversion_plan(SQUARE_ROWS, SQUARE_COLUMNS, 16)
    assert plan.matrices and plan.loaded_matrices.transposed
    assert (plan.store_vector, plan.load_wavefronts()) == (8, 16)
    check(converted([SQUARE_ROWS, SQUARE_COLUMNS], dtype), dtype, (64, 64))


def barriers(kernel):
    """The barriers of a kernel, of the block (b) and of warps (w), in order."""
    kinds = []
    for statement in kernel.trace().statements():
        if isinstance(statement, Barrier):
            kinds.append("b")
        elif isinstance(statement, MlirOperation) and statement.name == "nvvm.bar.warp.sync":
            kinds.append("w")
    return "".join(kinds)


def test_the_first_conversion_waits_once_and_later_ones_twice():
    assert barriers(converted([ROWS, COLUMNS], f16)) == "b"
    assert barriers(converted([ROWS, COLUMNS, ROWS], f16)) == "bbb"
    assert len(converted([ROWS, COLUMNS, ROWS], f16).trace().shared) == 1


def test_a_barrier_in_between_serves():
    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(f16, Row(32, 64)), y: lego.Tensor(f16, Row(32, 64))):
        value = lego.convert(lego.load(x, ROWS), to=COLUMNS)
        lego.barrier()
        lego.convert(value, to=ROWS).store(y)

    assert barriers(k) == "bbb"
    check(k, f16, (32, 64))


SLICED = [
    f2.Blocked(size, threads, (4, 1), order).layout((64, 64))
    for size, threads, order in (((1, 32), (16, 2), (1, 0)), ((16, 1), (1, 32), (0, 1)))
]


def test_elements_that_stay_in_their_warps_wait_for_the_warp_only():
    layouts = [of_one_block(layout) for layout in SLICED]
    assert way(conversion_plan(*layouts, 32)).startswith("slices")
    kernel = converted([*layouts, layouts[0]], f32)
    assert barriers(kernel) == "www"
    check(kernel, f32, (64, 64))


def test_warps_that_hold_copies_use_their_own_slices():
    """Rows over four warps that all hold everything: each warp converts alone."""
    first, second = (
        f2.LinearLayout(
            {"register": registers, "lane": lanes, "warp": [(0, 0), (0, 0)]}, {"dim0": 32, "dim1": 32}
        )
        for registers, lanes in (
            ([(0, 1), (0, 2), (0, 4), (0, 8), (0, 16)], [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)]),
            ([(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)], [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16)]),
        )
    )  # fmt: skip
    assert way(conversion_plan(first, second, 32)).startswith("slices")
    kernel = converted([first, second], f32)
    assert barriers(kernel) == "w"
    check(kernel, f32, (32, 32))


@pytest.mark.parametrize("missing", ["before_stores", "before_loads"])
def test_a_missing_barrier_is_a_race(missing, monkeypatch):
    monkeypatch.setattr(scratch.Scratch, missing, lambda self: None)
    kernel = converted([ROWS, COLUMNS, ROWS], f16)
    memories, _ = in_memory(kernel, (numbers((32, 64), f16), np.zeros((32, 64))), {})
    report = interp.launch(kernel.mlir(), grid=[1], block=kernel.block, args=memories)
    assert Kind.RACE in report.kinds()


def in_loop(layouts, dtype):
    shape, warps = tuple(layouts[0].out_sizes.values()), layouts[0].in_sizes["warp"]

    @lego.kernel(grid=1, block=32 * warps)
    def k(x: lego.Tensor(dtype, Row(3, *shape)), y: lego.Tensor(dtype, Row(3, *shape))):
        for i in lego.range(3):
            value = lego.load(x, layouts[0], at=(i, 0, 0))
            for layout in layouts[1:]:
                value = lego.convert(value, to=layout)
            value.store(y, at=(i, 0, 0))

    return k


@pytest.mark.parametrize(("layouts", "expected"), [([ROWS, COLUMNS], "bb"), (SLICED, "ww")])
def test_a_conversion_in_a_loop_waits_for_the_previous_iteration(layouts, expected):
    kernel = in_loop([of_one_block(layout) for layout in layouts], f32)
    assert barriers(kernel) == expected
    check(kernel, f32, (3, *layouts[0].out_sizes.values()))


def test_blocks_of_two_dimensions():
    @lego.kernel(grid=1, block=(32, 4))
    def k(x: lego.Tensor(f16, Row(32, 64)), y: lego.Tensor(f16, Row(32, 64))):
        lego.convert(lego.load(x, ROWS), to=COLUMNS).store(y)

    check(k, f16, (32, 64))


def test_what_does_not_move_costs_nothing():
    result = f2.MmaSync((4, 1)).layout((64, 32))
    operand = f2.MmaOperand(0, f2.MmaSync((4, 1)), 2).layout((64, 32))
    same, plain = (converted([of_one_block(x) for x in layouts], f16) for layouts in ((result, operand), (result,)))
    assert len(same.trace().body) == len(plain.trace().body)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@needs_ptxas
def test_ptx_has_the_planned_instructions(target):
    result = of_one_block(f2.MmaSync((4, 1)).layout((64, 32)))
    operand = of_one_block(f2.MmaOperand(0, f2.MmaSync((4, 1)), 4).layout((64, 32)))
    columns = of_one_block(f2.Blocked((16, 1), (4, 8), (1, 4), order=(0, 1)).layout((64, 32)))
    text = compile_kernel(converted([result, operand, columns], i32), target=target).text
    first, second = conversion_plan(result, operand, 32), conversion_plan(operand, columns, 32)
    assert text.count("shfl.sync") == first.shuffles()
    assert text.count("st.shared") == len(second.store().each)
    assert text.count("ld.shared") == len(second.load().each)
    assemble(text, target)


@pytest.mark.parametrize("dtype", [i8, u8, f8e4m3fn, f8e5m2, f16, bf16, i16, f32, i32], ids=str)
@needs_ptxas
def test_ptx_has_ldmatrix(dtype):
    layouts = stored_rows(dtype.bits)
    plan = conversion_plan(*layouts, dtype.bits)
    text = compile_kernel(converted(layouts, dtype), target="sm_80").text
    assert text.count("ldmatrix.sync") == len(plan.loaded_matrices.each)
    assert text.count("st.shared.v4") == len(plan.store().each)
    assemble(text, "sm_80")


@pytest.mark.parametrize("dtype", [i8, f16, f64], ids=str)
def test_the_processor_converts_too(dtype):
    result = of_one_block(f2.MmaSync((4, 1)).layout((64, 32)))
    operand = of_one_block(f2.MmaOperand(0, f2.MmaSync((4, 1)), 4).layout((64, 32)))
    columns = of_one_block(f2.Blocked((16, 1), (4, 8), (1, 4), order=(0, 1)).layout((64, 32)))
    given = numbers((64, 32), dtype)
    _, found = launch_on_cpu(converted([result, operand, columns], dtype), given, np.zeros((64, 32)))
    np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize("dtype", [i8, f8e4m3fn, f16, i32], ids=str)
def test_the_processor_loads_matrices(dtype):
    layouts = stored_rows(dtype.bits)
    given = numbers(tuple(layouts[0].out_sizes.values()), dtype)
    _, found = launch_on_cpu(converted(layouts, dtype), given, np.zeros(given.shape))
    np.testing.assert_array_equal(found, given)


def test_the_processor_loads_transposed_matrices_in_a_loop():
    given = numbers((3, 64, 64), f16)
    kernel = in_loop([SQUARE_ROWS, SQUARE_COLUMNS], f16)
    assert any(isinstance(s, MatrixLoad) and s.transposed for s in kernel.trace().statements())
    _, found = launch_on_cpu(kernel, given, np.zeros(given.shape))
    np.testing.assert_array_equal(found, given)


def test_a_condition_of_indices_is_data():
    @lego.kernel(grid=1, block=128)
    def k(y: lego.Tensor(i32, Row(32, 64))):
        x = lego.arange(ROWS, 1) < 5 if hasattr(lego, "arange") else lego.load(y, ROWS) < 5
        lego.convert(x, to=COLUMNS).to(i32).store(y)

    (found,) = launch(k, np.zeros((32, 64)))
    assert set(np.unique(found)) <= {0, 1}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x: lego.convert(x, to=f2.MmaSync((4, 1)).layout((64, 32))), LayoutError, r"\[32, 64\], the layout"),
        (lambda x: lego.convert(x.registers[0], to=COLUMNS), TraceError, "takes a spread value, such as that of"),
        (lambda x: lego.convert(x, to=f2.MmaSync((2, 1)).layout((32, 64))), LayoutError, "use block=64"),
        (lambda x: lego.convert(x, to=f2.MmaSync((4, 1))), LayoutError, "an encoding becomes one for a shape"),
    ],
)  # fmt: skip
def test_bad_conversions_are_refused(make, error, message):
    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(f16, Row(32, 64)), y: lego.Tensor(f16, Row(32, 64))):
        make(lego.load(x, ROWS)).store(y)

    with pytest.raises(error, match=message):
        k.trace()


@pytest.mark.parametrize("called", ["a conversion", "a gather"])
def test_shared_memory_in_a_branch_on_the_thread_is_refused(called):
    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(f16, Row(32, 64)), y: lego.Tensor(f16, Row(32, 64))):
        value = lego.load(x, ROWS)
        with lego.when(lego.thread_id[0] < 64):
            if called == "a gather":
                lego.gather(value, lego.arange(ROWS, 1), axis=0).store(y)
            else:
                lego.convert(value, to=COLUMNS).store(y)

    with pytest.raises(
        TraceError, match=f"{called} through shared memory under the condition .* depends on the thread"
    ):
        k.trace()


def test_a_tile_beyond_shared_memory_is_refused():
    rows = f2.Blocked((1, 8), (4, 8), (8, 1), order=(1, 0)).layout((256, 256))
    columns = f2.Blocked((8, 1), (4, 8), (1, 8), order=(0, 1)).layout((256, 256))

    @lego.kernel(grid=1, block=256)
    def k(x: lego.Tensor(f32, Row(1))):
        value = lego.Spread(rows, f32, [x[0]] * rows.in_sizes["register"])
        lego.convert(value, to=columns)

    with pytest.raises(LayoutError, match="takes 262144 bytes of shared memory, and GPUs have at most"):
        k.trace()


def test_plans_without_movement():
    assert conversion_plan(ROWS, ROWS, 16) == Unchanged()
