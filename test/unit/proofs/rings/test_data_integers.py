"""Rounds of data in the roles: numbers that may wrap around, or that a function or a copy in flight gives.

The oracle is the interpreter: where a ring is proved, it finds no fault for numbers that wrap around.
"""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, gallery, i32, i64
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.proofs.rings.claims import ring_proof

TILE, WARPS = 64, 3
RANGE = (0, 3)

WAYS = {
    "a product in i32, or of indices": (
        i32, 2**30, lambda n: lego.index(n[0] * 4 % 3, range=RANGE), lambda n: lego.index(n[0]) * 4 % 3),
    "a sum in i32, or of indices": (
        i32, 2**31 - 1, lambda n: lego.index((n[0] + n[1]) % 3, range=RANGE),
        lambda n: (lego.index(n[0]) + lego.index(n[1])) % 3),
    "i64, or cut to i32": (
        i64, 2**33, lambda n: lego.index(n[0] % 3, range=RANGE), lambda n: lego.index(n[0].to(i32) % 3, range=RANGE)),
    "an index, or cut to i32": (
        i64, 2**33, lambda n: lego.index(n[0]) % 3, lambda n: lego.index(i32(lego.index(n[0])) % 3, range=RANGE)),
    "a register of i32, or an index": (
        i32, 2**30, lambda n: lego.index(doubled(n), range=RANGE), lambda n: lego.index(n[0]) * 2 % 3),
}  # fmt: skip


def doubled(n):
    held = lego.register(i32, n[0])
    return (held.get() + held.get()) % 3


@lego.function(inline=False)
def element(n, k):
    return lego.index(n[k], range=RANGE)


def kernel_of(dtype, of_copies, of_reads, values=None):
    """A ring of one stage: the warp that copies and those that read have numbers of rounds of their own."""

    @lego.kernel(grid=1, block=32 * WARPS)
    def kernel(
        x: lego.Tensor(f16, Row(TILE, TILE)), n: lego.Tensor(dtype, Row(96), range=values),
        y: lego.Tensor(f16, Row(TILE, TILE)),
    ):  # fmt: skip
        ring = lego.shared(f16, gallery.xor_swizzle(TILE, TILE, 8), "ring")
        full, empty = lego.barriers(1), lego.barriers(1, arrivals=2)
        with lego.warps(0, 1):
            for k in lego.range(of_copies(n)):
                empty[k - 1].wait()
                lego.copy_async(x, ring.part((0, 0), (TILE, TILE)), at=(0, 0), barrier=full[k])
                full[k].arrive()
        with lego.warps(1, 3):
            column = lego.warp_id * 32 + lego.lane_id
            for k in lego.range(of_reads(n)):
                full[k].wait()
                for row in lego.range(TILE):
                    y[row, column] = ring[row, column] * 2
                empty[k].arrive()

    return kernel


def report(kernel, n):
    given = {"x": np.zeros(TILE * TILE, np.float16), "n": n, "y": np.zeros(TILE * TILE, np.float16)}
    return run_kernel(kernel, given, {})


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_wrap_around_are_not_those_that_do_not(way):
    dtype, number, one, other = WAYS[way]
    kernel = kernel_of(dtype, one, other)
    assert ring_proof(kernel.trace()).reasons
    assert not report(kernel, np.full(96, number, dtype.numpy)).clean


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_wrap_around_alike_are_equal(way, side):
    dtype, number, *counts = WAYS[way]
    kernel = kernel_of(dtype, counts[side], counts[side])
    assert ring_proof(kernel.trace()).reasons == ()
    assert report(kernel, np.full(96, number, dtype.numpy)).clean


def test_numbers_whose_declared_range_fits_do_not_wrap_around():
    dtype, _, one, other = WAYS["a product in i32, or of indices"]
    assert ring_proof(kernel_of(dtype, one, other, values=(0, 100)).trace()).reasons == ()


@pytest.mark.parametrize("roles", [False, True])
def test_an_index_that_a_function_returns_may_differ_between_threads(roles):
    @lego.kernel(grid=1, block=64)
    def kernel(n: lego.Tensor(i32, Row(64)), y: lego.Tensor(i32, Row(64))):
        full, thread = lego.barriers(1, arrivals=2), lego.thread_id[0]

        def rounds():
            for k in lego.range(element(n, thread)):
                full[k].arrive()
                full[k].wait()
                y[thread] = n[thread]

        if roles:
            with lego.warps(0, 2):
                rounds()
        else:
            rounds()

    (reason,) = ring_proof(kernel.trace()).reasons
    assert "the number of rounds may differ between threads" in reason
    given = {"n": np.repeat(np.array([1, 2], np.int32), 32), "y": np.zeros(64, np.int32)}
    assert "deadlock" in str(run_kernel(kernel, given, {}))


@pytest.mark.parametrize("waits", [False, True])
def test_a_tile_that_a_copy_fills_is_not_settled_by_a_barrier(waits):
    @lego.kernel(grid=1, block=64)
    def kernel(n: lego.Tensor(i32, Row(1, 64)), y: lego.Tensor(i32, Row(64))):
        full, plan = lego.barriers(1, arrivals=2), lego.shared(i32, Row(1, 64), "plan")
        lego.copy_async(n, plan, at=(0, 0))
        lego.commit_copies()
        if waits:
            lego.wait_copies(0)
        lego.barrier()
        count = lego.index(plan[0, 0], range=RANGE)
        with lego.warps(0, 2):
            for k in lego.range(count):
                full[k].arrive()
                full[k].wait()
                y[lego.thread_id[0]] = lego.i32(k)

    (reason,) = ring_proof(kernel.trace()).reasons
    assert "the number of rounds may differ between threads" in reason
    given = {"n": np.full(64, 2, np.int32), "y": np.zeros(64, np.int32)}
    assert run_kernel(kernel, given, {}).clean == waits
