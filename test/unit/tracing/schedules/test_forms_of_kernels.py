"""Forms of kernels that schedules take: blocks of two dimensions, tiles filled in loops and branches, names."""

import runpy
from pathlib import Path

import pytest
from tiled_products import BK, Tile, emulated, interpreted, require

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, i1, i32
from lego_mlir.errors import ScheduleError, TraceError, UsageError
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.toolchain import compile_kernel

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
ROLES = "warpgroups, pipeline(stages=2), roles"
AHEAD = "warps, pipeline(stages=2), ahead"
T = Tile(64, 64, 16)


def filled(fill, k=128):
    """A product whose left tile `fill(a, step, ta)` stores, by 4 warps of 64 x 16."""

    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(f16, Row(64, k)), b: lego.Tensor(f16, Col(k, 64)), c: lego.Tensor(f16, Row(64, 64))):
        T.product(a, b, c, (0, 0), k, lambda ta, step: fill(a, step, ta))

    return product


def in_a_loop(a, step, ta):
    for chunk in lego.range(4):
        i, j = chunk * 16 + lego.thread_id.x // 8, lego.thread_id.x % 8 * 8
        ta.store(a.load(i, step * BK + j, width=8) * 2.0, i, j)


def in_a_branch(a, step, ta):
    with lego.when(lego.thread_id.x < 64):
        for chunk in lego.unroll(8):
            i, j = chunk * 8 + lego.thread_id.x // 8, lego.thread_id.x % 8 * 8
            ta.store(a.load(i, step * BK + j, width=8) * 2.0, i, j)


def staged_in_a_branch(a, step, ta):
    with lego.when(step < 2):
        lego.stage(a, (0, step), ta)


@pytest.mark.parametrize("fill", [in_a_loop, in_a_branch])
@pytest.mark.parametrize(("schedule", "machine"), [(ROLES, emulated), (AHEAD, interpreted)])
def test_tiles_that_threads_fill_in_a_loop_or_a_branch(fill, schedule, machine):
    require(filled(fill).schedule(schedule), lambda a, b: 2 * a @ b, machine)


def test_a_copy_of_a_tile_in_a_branch():
    with pytest.raises(
        ScheduleError, match=r"\.py:\d+: lego.stage is in a branch or a loop in the loop that multiplie"
    ):
        filled(staged_in_a_branch).schedule(ROLES)


@pytest.mark.parametrize(("schedule", "machine"), [(ROLES, emulated), (AHEAD, interpreted)])
def test_a_block_and_a_grid_of_two_dimensions(schedule, machine):
    kernel = runpy.run_path(str(EXAMPLES / "matmul.py"))["matmul"]
    scheduled = kernel.schedule(schedule)
    assert scheduled.block == ((32, 8) if "roles" in schedule else (32, 4))
    require(scheduled, lambda a, b: a @ b, machine)


def repeated(k=128):
    """A product whose steps are repeated as often as a register says, added up."""

    @lego.kernel(grid=1, block=128)
    def product(
        a: lego.Tensor(f16, Row(64, k)), times: lego.Tensor(i32, Row(4), range=(0, 4)),
        b: lego.Tensor(f16, Col(k, 64)), c: lego.Tensor(f16, Row(64, 64)),
    ):  # fmt: skip
        (ta, tb), out, acc = T.operands(), lego.shared(f16, Row(64, 64)), T.accumulator()
        turn, running = lego.register(i32, 0), lego.register(i1, times[0] > 0)
        with lego.while_(running):
            T.multiply(a, b, ta, tb, acc, (0, 0), k)
            turn.set(turn.get() + 1)
            running.set(turn.get() < times[0])
        T.store(T.kept(acc, out), c, (0, 0))

    return product


@pytest.mark.parametrize(("schedule", "machine"), [(ROLES, emulated), (ROLES, interpreted), (AHEAD[:-7], interpreted)])
def test_steps_in_a_loop_whose_end_a_register_says(schedule, machine):
    """Copies and products count the turns in registers of their own."""
    require(repeated().schedule(schedule), lambda a, times, b: int(times[0]) * (a @ b), machine)


def few_rows(columns, warps, order=Col):
    tiling = ProductTile(m=64, n=columns, k=64, warps=warps)
    return matmul.build(64, columns, 192, f16, b=order(192, columns), result=f16, tiling=tiling)


@pytest.mark.parametrize(
    ("columns", "warps", "order"),
    [(128, (2, 4), Row), *(pytest.param(256, (n, 8), Col, marks=pytest.mark.long) for n in (1, 2))],
)
def test_64_rows_by_several_groups_that_divide_the_columns(columns, warps, order):
    kernel = few_rows(columns, warps, order)
    scheduled = kernel.schedule(ROLES)
    (product,) = scheduled.trace().products
    assert product.columns == columns * 4 // (warps[0] * warps[1])
    require(scheduled, lambda a, b: a @ b, interpreted)
    require(scheduled, lambda a, b: a @ b, emulated)


@pytest.mark.parametrize(
    ("kernel", "text", "message"),
    [
        (lambda: few_rows(128, (2, 8), Row), ROLES, "wgmma cannot compute this product of f16 tiles"),
        (lambda: few_rows(192, (2, 4)), ROLES, "fewer warps, or a multiple of 64 rows and a power of two of columns"),
        (
            lambda: few_rows(128, (2, 4)),
            "warpgroups, copied_out",
            "warps divide the columns of .* leave out copied_out",
        ),
    ],
)
def test_columns_that_groups_do_not_divide(kernel, text, message):
    """Four groups of 32 columns, in lines of 64, are not equally far apart."""
    with pytest.raises(ScheduleError, match=rf"\.py:\d+: .*{message}"):
        kernel().schedule(text)


def test_lines_of_threads_that_do_not_divide_the_copies_threads():
    @lego.kernel(grid=1, block=(256, 2))
    def wide(a: lego.Tensor(f16, Row(128, 64)), b: lego.Tensor(f16, Col(64, 128)), c: lego.Tensor(f32, Row(128, 128))):
        ta, tb, out = lego.shared(f16, Row(128, 64)), lego.shared(f16, Col(64, 128)), lego.shared(f32, Row(128, 128))
        acc, row, column = lego.accumulator(f32, 32, 32), lego.warp_id // 4 * 32, lego.warp_id % 4 * 32
        for k in lego.range(1):
            lego.stage(a, (0, k), ta)
            lego.stage(b, (k, 0), tb)
            lego.barrier()
            lego.mma(ta.part((row, 0), (32, 64)), tb.part((0, column), (64, 32)), acc)
            lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        for i in lego.range(0, 128, 4):
            row = i + lego.thread_id.y * 2 + lego.thread_id.x // 128
            c[row, lego.thread_id.x % 128] = out[row, lego.thread_id.x % 128]

    with pytest.raises(ScheduleError, match="the copies' 128 threads are not whole lines of 256 threads of the block"):
        wide.schedule("warps, pipeline(stages=2), roles")


def test_a_kernel_and_its_scheduled_version_in_one_module():
    kernel = filled(in_a_loop)
    fast, ahead = kernel.schedule(ROLES, name="fast"), kernel.schedule("warps", name="ahead")
    assert (kernel.name, fast.name, fast.schedules) == ("product", "fast", kernel.schedule(ROLES).schedules)
    text = compile_kernel((kernel, fast, ahead), target="sm_90a", emit="mlir").text
    assert [f"gpu.func @{name}(" in text for name in ("product", "fast", "ahead")] == [True] * 3
    with pytest.raises(UsageError, match=r"two kernels are named product, .* with kernel.schedule\(.., name=..\)"):
        compile_kernel((kernel, kernel.schedule("warps")), target="sm_90a")
    with pytest.raises(TraceError, match="a kernel cannot be named 2nd"):
        kernel.schedule(ROLES, name="2nd")
