"""`exact`: values stay, sums begin anew every few steps, and what stands in the way is named."""

import pytest
from tiled_products import PRODUCTS, Tile, after, emulated, interpreted, require

import lego_mlir as lego
from lego_mlir import Col, Row, f16
from lego_mlir.errors import ScheduleError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.tracing.schedules.scheduled import words_in
from lego_mlir.tracing.trace.marks import TileProduct
from lego_mlir.tracing.trace.trace import For

T = Tile(64, 64, 16)


@pytest.mark.parametrize("every", [1, 2, 5, 7])
def test_values_stay_for_every_number_of_steps(every):
    kernel, reference = PRODUCTS["plain"](64, 64, 320, T)
    require(after(kernel, f"warpgroups, exact(every={every})"), reference, interpreted)


def test_two_loops_add_to_one_total_in_roles():
    kernel, reference = PRODUCTS["two_sums"](64, 64, 192, T)
    require(after(kernel, "warpgroups, exact(every=2), pipeline(stages=2), overlay, roles"), reference, emulated)


def test_threads_that_copy_ahead():
    kernel, reference = PRODUCTS["plain"](64, 64, 320, T)
    scheduled = after(kernel, "warps, exact(every=2), pipeline(stages=3), ahead")
    require(scheduled, reference, lambda k, memories: PtxRun(target="sm_80")(k, memories, {}))


def loops(kernel):
    return [s for s in kernel.trace().statements() if isinstance(s, For)]


def test_the_inner_loop_has_as_many_steps():
    kernel, _ = PRODUCTS["plain"](64, 64, 320, T)
    outer, inner, *_ = loops(after(kernel, "warpgroups, exact(every=2)"))
    assert (int(outer.lo), int(outer.hi), int(outer.step)) == (0, 5, 2)
    spans = [(int(inner.lo.subs(outer.symbol, n)), int(inner.hi.subs(outer.symbol, n))) for n in (0, 2, 4)]
    assert spans == [(0, 2), (2, 4), (4, 5)]
    assert any(words_in(inner.body, TileProduct))


def in_a_branch():
    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(f16, Row(64, 128)), b: lego.Tensor(f16, Col(128, 64)), c: lego.Tensor(f16, Row(64, 64))):
        (ta, tb), out, acc = T.operands(), lego.shared(f16, Row(64, 64)), T.accumulator()
        row, column = T.part_of_warp()
        for step in lego.range(2):
            lego.stage(a, (0, step), ta)
            lego.stage(b, (step, 0), tb)
            lego.barrier()
            with lego.when(step > 0):
                lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, 16)), acc)
            lego.barrier()
        T.store(T.kept(acc, out), c, (0, 0))

    return product


@pytest.mark.parametrize(
    ("kernel", "text", "message"),
    [
        (
            lambda: PRODUCTS["plain"](64, 64, 128, T)[0],
            "exact",
            "layout is open; apply warpgroups or warps before exact",
        ),
        (
            lambda: PRODUCTS["plain"](64, 64, 128, T)[0],
            "warpgroups, pipeline(stages=2), exact",
            "the loop has a ring already; apply exact before pipeline",
        ),
        (
            in_a_branch,
            "warps, exact",
            "this one is in no loop, or in a branch of one; multiply in the body of a lego.ra",
        ),
    ],
)
def test_messages(kernel, text, message):
    with pytest.raises(ScheduleError, match=rf"\.py:\d+: .*{message}"):
        kernel().schedule(text)
