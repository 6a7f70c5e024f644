"""Writes of tiles under conditions that all threads have, or that each has: proved, or refuted by a run."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, f32, i32, interp
from lego_mlir.expr.verdict import Proved
from lego_mlir.interp.report import Kind
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.confirm import launched

T = 32


def fetched_ahead(guard, slots=2, first=True):
    """A ring of slots: each round fetches the slot of the next one under a condition, and reads its own."""
    copies = lego.size("K", multiple_of=64)

    @lego.kernel(grid=1, block=128)
    def kernel(a: lego.Tensor(f32, Row(8, copies)), y: lego.Tensor(f32, Row(8, 16))):
        t, n = lego.thread_id[0], copies // 64
        ring, total = lego.shared(f32, Row(8 * slots, 64), name="ring"), lego.register(f32, 0.0)
        if first:
            lego.copy_async(a, ring.part((0, 0), (8, 64)), at=(0, 0))
        lego.commit_copies()
        for k in lego.range(n):
            with lego.when(guard(k, n)):
                lego.copy_async(a, ring.part((8 * ((k + 1) % slots), 0), (8, 64)), at=(0, 64 * (k + 1)))
            lego.commit_copies()
            lego.wait_copies(1)
            lego.barrier()
            total += ring[8 * (k % slots) + t // 16, t % 16]
            lego.barrier()
        y[t // 16, t % 16] = total

    return kernel


GUARDS = {
    "a round follows": lambda k, n: k + 1 < n, "always": lambda k, n: k < n,
    "two rounds follow": lambda k, n: k + 2 < n, "not after the third": lambda k, n: (k + 1 < n) & ((k < 2) | (k > 2)),
}  # fmt: skip


@pytest.mark.parametrize("slots", [2, 4])
@pytest.mark.parametrize("first", [True, False], ids=["filled", "unfilled"])
@pytest.mark.parametrize("guard", GUARDS)
def test_a_fetch_may_be_left_out_where_no_round_needs_it(guard, first, slots):
    kernel = fetched_ahead(GUARDS[guard], slots, first)
    (verdict,) = (v for text, v in kernel_claims(kernel) if "comes after a write" in text)
    faults = [f for n in range(1, 6) for f in launched(kernel, {"K": 64 * n}).report.faults]
    unwritten = [fault for fault in faults if fault.kind is Kind.UNINITIALISED]
    assert isinstance(verdict, Proved) == (not unwritten)


def between_loaded_bounds(counts, tile, t, read):
    lo, hi = lego.index(counts[0], range=(0, 4)), lego.index(counts[1], range=(0, 4))
    for _ in lego.range(lo, hi):
        lego.barrier()
        tile[t] = 1.0
        lego.barrier()
        read((t + 1) % T)


def inside_one_branch(counts, tile, t, read):
    n = lego.index(counts[0], range=(0, 4))
    with lego.when(n > 0):
        tile[t] = 1.0
        lego.barrier()
        read((t + 1) % T)


def inside_a_branch_of_each_thread(counts, tile, t, read):
    n = lego.index(counts[t % 4], range=(0, 4))
    with lego.when(n > 0):
        tile[t] = 1.0
        lego.barrier()
        read((t + 1) % T)


def guarded_rounds(tile, t, read, number):
    """Rounds that write a tile and read that of the round before, where the number of a round is not 0."""
    for k in lego.range(4):
        n = number(k)
        with lego.when((n > 0) & (k > 0)):
            read((t + 1) % T)
        lego.barrier()
        with lego.when(n > 0):
            tile[t] = 1.0
        lego.barrier()


def guarded_by_one_load(counts, tile, t, read):
    n = lego.index(counts[0], range=(0, 4))
    guarded_rounds(tile, t, read, lambda k: n)


def guarded_by_a_load_of_each_round(counts, tile, t, read):
    guarded_rounds(tile, t, read, lambda k: lego.index(counts[k], range=(0, 4)))


def guarded_by_a_load_of_each_thread(counts, tile, t, read):
    n = lego.index(counts[t % 4], range=(0, 4))
    with lego.when(n > 0):
        tile[t] = 1.0
    lego.barrier()
    with lego.when(n > 0):
        read((t + 1) % T)


def guarded_by_two_loads(counts, tile, t, read):
    n, m = (lego.index(counts[i], range=(0, 4)) for i in (0, 1))
    with lego.when(n > 0):
        tile[t] = 1.0
    lego.barrier()
    with lego.when(m > 0):
        read((t + 1) % T)


def guarded_by_a_loaded_tile(counts, tile, t, read):
    shared = lego.shared(i32, Row(T), name="shared")
    shared[t] = counts[t % 4]
    lego.barrier()
    n = lego.index(shared[0], range=(0, 4))
    with lego.when(n > 0):
        tile[t] = 1.0
    lego.barrier()
    with lego.when(n > 0):
        read((t + 1) % T)


BY_DATA = {
    between_loaded_bounds: "proved", inside_one_branch: "proved",
    guarded_by_one_load: "clean", guarded_by_a_loaded_tile: "clean",
    guarded_by_a_load_of_each_round: "faulty", guarded_by_a_load_of_each_thread: "faulty",
    guarded_by_two_loads: "faulty", inside_a_branch_of_each_thread: "faulty",
}  # fmt: skip


@pytest.mark.parametrize("body", BY_DATA, ids=lambda body: body.__name__)
def test_data_that_all_threads_have_guard_writes_and_reads(body):
    @lego.kernel(grid=1, block=T)
    def kernel(counts: lego.Tensor(i32, Row(4)), y: lego.Tensor(f32, Row(T))):
        t, tile, total = lego.thread_id[0], lego.shared(f32, Row(T), name="tile"), lego.register(f32, 0.0)

        def read(place):
            total.set(total + tile[place])

        body(counts, tile, t, read)
        y[t] = total

    (verdict,) = (v for text, v in kernel_claims(kernel) if "every read of tile comes after a write" in text)
    assert isinstance(verdict, Proved) == (BY_DATA[body] == "proved")
    rng, faults = np.random.default_rng(3), []
    for _ in range(20):
        args = [rng.integers(0, 4, 4).astype(np.int32), np.zeros(T, np.float32)]
        faults += interp.launch(kernel.mlir(), grid=1, block=T, args=args).faults
    assert bool(faults) == (BY_DATA[body] == "faulty")


@settings(max_examples=25, deadline=None)
@given(st.permutations([1, 2, 4, 8, 16, 32]), st.booleans(), st.sampled_from([0, 1, 4, 32]))
def test_bits_of_threads_that_are_placed_one_by_one(weights, both, other):
    """Bit k of t goes to the place of weights[k]; the sixth is written by two statements, or by one."""
    sixth = weights[5] if both else other

    def place(t):
        parts = [((t >> k) & 1) << (w.bit_length() - 1) for k, w in enumerate(weights[:5])]
        return functools.reduce(operator.or_, parts)

    @lego.kernel(grid=1, block=T)
    def kernel(y: lego.Tensor(f32, Row(64))):
        for k in lego.unroll(2):
            y[place(lego.thread_id[0]) ^ k * sixth] = 1.0

    reached = {place(t) ^ k * sixth for t in range(T) for k in range(2)}
    (verdict,) = (v for text, v in kernel_claims(kernel, tried=False) if text == "every element of y is written")
    assert isinstance(verdict, Proved) == (reached >= set(range(64)))
