"""Numbers of rounds that a block computes before its roles: proved if all threads have the same, refused otherwise.

The oracle is the interpreter: it runs each kernel, whose rounds differ between the warps of a role where they may.
"""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, gallery, i32
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.proofs.rings.claims import ring_proof

TILE, WARPS = 64, 3
MOST = 4


@lego.function(inline=False)
def element(n, k):
    return lego.index(n[k], range=(0, MOST + 1))


def rounds_of(by, n, plan):
    """How many rounds each thread does: `by` names the way in which the block computes it."""
    thread = lego.thread_id[0]
    if by in ("tile", "tile at the thread", "changed later", "without a barrier", "of several threads"):
        value = n[thread] if by == "of several threads" else n[0]
        with lego.when(thread < (32 * WARPS if by == "tile at the thread" else 1)):
            plan[thread] = n[thread] if by == "tile at the thread" else value
        if by != "without a barrier":
            lego.barrier()
        return lego.index(plan[thread if by == "tile at the thread" else 0], range=(0, MOST + 1))
    if by == "register of a branch":
        count = lego.register(i32, 1)
        with lego.when(thread < 64):
            count.set(n[0])
        return lego.index(count.get(), range=(0, MOST + 1))
    if by == "none":
        return lego.index(n[0]) % 2 // 2
    if by == "sum":
        return lego.index(lego.minimum(n[0] + n[1], MOST), range=(0, MOST + 1))
    if by == "warp of the thread":
        return lego.index(n[thread // 32], range=(0, MOST + 1))
    return lego.index(n[thread if by == "thread" else 0], range=(0, MOST + 1))


def kernel_by(by, writes=False):
    """A ring of one stage, so that no index of a copy or of a stage depends on the round."""

    @lego.kernel(grid=1, block=32 * WARPS)
    def kernel(
        x: lego.Tensor(f16, Row(TILE, TILE)), n: lego.Tensor(i32, Row(96)), y: lego.Tensor(f16, Row(TILE, TILE))
    ):
        ring = lego.shared(f16, gallery.xor_swizzle(TILE, TILE, 8), "ring")
        plan = lego.shared(i32, Row(96), "plan")
        full, empty = lego.barriers(1), lego.barriers(1, arrivals=2)
        count = rounds_of(by, n, plan)
        with lego.warps(0, 1):
            for k in lego.range(count):
                empty[k - 1].wait()
                lego.copy_async(x, ring.part((0, 0), (TILE, TILE)), at=(0, 0), barrier=full[k])
                full[k].arrive()
        with lego.warps(1, 3):
            column = lego.warp_id * 32 + lego.lane_id
            if by == "changed later":
                plan[column] = n[column]
            if writes:
                n[95] = i32(0)
            for k in lego.range(count):
                full[k].wait()
                for row in lego.range(TILE):
                    y[row, column] = ring[row, column] * 2
                empty[k].arrive()

    return kernel


SAME = ("element", "tile", "sum", "of several threads")
DIFFERENT = ("thread", "warp of the thread", "tile at the thread", "register of a branch")


def report(by):
    n = np.array([3] * 32 + [2] * 32 + [4] * 32, np.int32)
    n[:2] = 3, 1
    given = {"x": np.zeros((TILE, TILE), np.float16), "n": n, "y": np.zeros((TILE, TILE), np.float16)}
    return run_kernel(kernel_by(by), {name: x.reshape(-1) for name, x in given.items()}, {})


@pytest.mark.parametrize("by", SAME)
def test_a_number_that_all_threads_have_is_followed(by):
    assert ring_proof(kernel_by(by).trace()).reasons == ()
    assert report(by).clean


@pytest.mark.parametrize("by", DIFFERENT)
def test_a_number_that_differs_is_refused_and_the_interpreter_reports_a_fault(by):
    (reason,) = ring_proof(kernel_by(by).trace()).reasons
    assert "the number of rounds may differ between threads" in reason
    assert not report(by).clean


@pytest.mark.parametrize("by", ["changed later", "without a barrier"])
def test_a_tile_that_threads_may_still_change_is_not_followed(by):
    (reason,) = ring_proof(kernel_by(by).trace()).reasons
    assert "the number of rounds may differ between threads" in reason


def test_an_element_of_a_tensor_that_the_kernel_writes_is_not_followed():
    (reason,) = ring_proof(kernel_by("element", writes=True).trace()).reasons
    assert "the number of rounds may differ between threads" in reason


def test_rounds_that_are_none_for_all_numbers_are_proved():
    proof = ring_proof(kernel_by("none").trace())
    assert (proof.reasons, proof.unfilled) == ((), {})
    assert report("none").clean
