"""Rounds of data in the roles: numbers that may wrap around, or that a function or a copy in flight gives.

The oracle is the interpreter: where a ring is proved, it finds no fault for numbers that wrap around.
"""

import functools
import random

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, gallery, i32, i64, u32
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.proofs.rings.claims import ring_proof

TILE, WARPS = 64, 3
RANGE = (0, 3)
WIDE = (-(2**40), 2**40)

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
    "a register that no data is in, of i32 or i64": (
        i32, 0, lambda n: powers(i32), lambda n: powers(i64)),
    "a register that is data after it is multiplied, of i32 or i64": (
        i32, 2**30, lambda n: of_round_before(i32, n), lambda n: of_round_before(i64, n)),
    "bits of a negative number in i64, or i32": (
        i32, -1, lambda n: lego.index(lego.popcount(n[0]) % 3, range=RANGE),
        lambda n: lego.index(lego.popcount(n[0].to(i64)) % 3, range=RANGE)),
}  # fmt: skip


def powers(dtype):
    """5**30 % 3."""
    held = lego.register(dtype, 1)
    for _ in lego.range(30):
        held.set(held.get() * 5)
    return lego.index(held.get() % 3, range=RANGE)


def of_round_before(dtype, n):
    held, product = lego.register(dtype, 0), lego.register(dtype, 0)
    for _ in lego.range(2):
        product.set(held.get() * 4)
        held.set(n[0].to(dtype))
    return lego.index(product.get() % 3, range=RANGE)


def doubled(n):
    held = lego.register(i32, n[0])
    return (held.get() + held.get()) % 3


@lego.function(inline=False)
def element(n, k):
    return lego.index(n[k], range=RANGE)


def kernel_of(dtype, of_copies, of_reads, values=None, size=1, layout=None):
    """A ring of one stage: the warp that copies and those that read have numbers of rounds of their own."""

    @lego.kernel(grid=1, block=32 * WARPS)
    def kernel(
        x: lego.Tensor(f16, Row(TILE, TILE)), n: lego.Tensor(dtype, layout or Row(96), range=values),
        y: lego.Tensor(f16, Row(TILE, TILE)), sized: lego.Tensor(i32, Row(size)),
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


def report(kernel, n, **sizes):
    given = {"x": np.zeros(TILE * TILE, np.float16), "n": n, "y": np.zeros(TILE * TILE, np.float16)}
    return run_kernel(kernel, given | {"sized": np.zeros(sizes.get("N", 1), np.int32)}, sizes)


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_wrap_around_are_not_those_that_do_not(way):
    dtype, number, one, other = WAYS[way]
    both = [kernel_of(dtype, *counts) for counts in ((one, other), (other, one))]
    assert all(ring_proof(kernel.trace()).reasons for kernel in both)
    assert not all(report(kernel, np.full(96, number, dtype.numpy)).clean for kernel in both)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_wrap_around_alike_are_equal(way, side):
    dtype, number, *counts = WAYS[way]
    kernel = kernel_of(dtype, counts[side], counts[side])
    assert ring_proof(kernel.trace()).reasons == ()
    assert report(kernel, np.full(96, number, dtype.numpy)).clean


OPERATIONS = {
    "+ 1": lambda it, other, n: it + 1,
    "+ n": lambda it, other, n: it + n[1].to(it.dtype),
    "- n": lambda it, other, n: it - n[1].to(it.dtype),
    "* 3": lambda it, other, n: it * 3,
    "// 2": lambda it, other, n: it // 2,
    "+ other": lambda it, other, n: it + other,
    "other - it": lambda it, other, n: other - it,
    "most": lambda it, other, n: lego.maximum(it, other),
    "where": lambda it, other, n: lego.where(other < it, other, it + 1),
    "bits": lambda it, other, n: lego.popcount(it),
    "index": lambda it, other, n: it.dtype(lego.index(it) + 1),
    "i32": lambda it, other, n: it.to(i32).to(it.dtype),
}


def drawn(choose):
    """The start of one of two registers, statements in a loop, (register, operation), and the rounds."""
    of = choose.sample(tuple(OPERATIONS), 4)
    statements = [(choose.randrange(2), choose.choice(of)) for _ in range(choose.randint(1, 3))]
    return choose.choice(("n", "n // 64", "1")), statements, choose.choice((1, 3))


def count_of(program, dtype, n):
    """The number of rounds that a drawn program computes in a type."""
    start, statements, rounds = program
    first = {"n": lambda: n[0].to(dtype), "n // 64": lambda: n[0].to(dtype) // 64, "1": lambda: 1}[start]()
    held = [lego.register(dtype, first), lego.register(dtype, 2)]
    for _ in lego.range(rounds):
        for place, operation in statements:
            held[place].set(OPERATIONS[operation](held[place].get(), held[1 - place].get(), n))
    return lego.index(held[0].get() % 3, range=RANGE)


def unlike(seed):
    """Whether a drawn program is proved to count in i32 as it does in i64; then the interpreter finds no fault."""
    choose = random.Random(seed)
    program = drawn(choose)
    types = choose.choice(((i32, i64), (i64, i32)))
    kernel = kernel_of(i32, *(functools.partial(count_of, program, dtype) for dtype in types))
    proved = not ring_proof(kernel.trace()).reasons
    if proved:
        for numbers in ((2**30, 2**30), (2**31 - 1, 1), (-(2**31), 2**31 - 1), (-1, -(2**31)), (5, 7)):
            assert report(kernel, np.resize(np.array(numbers, np.int32), 96)).clean, (seed, program, numbers)
    return not proved


def test_programs_of_numbers_that_may_wrap_around_are_not_those_that_do_not():
    assert {unlike(seed) for seed in range(6)} == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_many_programs_of_numbers_that_may_wrap_around(first):
    assert {unlike(seed) for seed in range(first, first + 20)} == {True, False}


# -- registers that become uses


def words(full, empty, use, copies):
    """A word of the role that copies, or of those that read, without data."""
    if copies:
        empty[use - 2].wait()
        full[use].arrive()
    else:
        full[use].wait()
        empty[use].arrive()


def with_uses(steps, types, values=None):
    """Roles that take steps with a register of uses, each in its type, and the rounds that it gives in the end."""

    @lego.kernel(grid=1, block=32 * WARPS)
    def kernel(n: lego.Tensor(i32, Row(96), range=values), y: lego.Tensor(i32, Row(96))):
        rings, last = (lego.barriers(2), lego.barriers(2, arrivals=2)), (lego.barriers(2), lego.barriers(2, arrivals=2))
        y[lego.thread_id[0]] = n[lego.thread_id[0]]
        for first, dtype in zip((0, 1), types, strict=True):
            with lego.warps(first, 2 * first + 1):
                used = lego.register(dtype, 0)
                for step in steps:
                    STEPS[step](n, used, dtype, lambda use, copies=first == 0: words(*rings, use, copies))
                for k in lego.range(lego.index(used.get() % 3, range=RANGE)):
                    words(*last, k, first == 0)

    return kernel


def in_parts(n, used, dtype, word, after=True, times=1):
    for part in lego.range(3):
        begin, rounds = lego.index(used.get(), range=WIDE), lego.index(n[part], range=(0, 4))
        if not after:
            used.set(used + times * dtype(rounds))
        for k in lego.range(rounds):
            word(begin + k)
        if after:
            used.set(used + times * dtype(rounds))


def one_by_one(n, used, dtype, word):
    for _ in lego.range(lego.index(n[0], range=(0, 4))):
        word(lego.index(used.get(), range=WIDE))
        used.set(used + 1)


def in_turns(n, used, dtype, word):
    turn = lego.register(i32, 0)
    for _ in lego.range(3):
        turn.set(lego.where(turn.get() == 1, 0, turn + 1))
    for _ in lego.range(lego.index(turn.get(), range=(0, 2))):
        word(lego.index(used.get(), range=WIDE))
        used.set(used + 1)


def much_data(n, used, dtype, word):
    for _ in range(10):
        used.set(used + n[9].to(dtype))


STEPS = {
    "after": in_parts,
    "before": lambda *given: in_parts(*given, after=False),
    "one by one": one_by_one,
    "in turns": in_turns,
    "much data": much_data,
    "ahead": lambda *given: in_parts(*given, times=4),
    "data": lambda n, used, dtype, word: used.set(used + n[9].to(dtype)),
    "less data": lambda n, used, dtype, word: used.set(used - n[9].to(dtype)),
    "product": lambda n, used, dtype, word: used.set(used * 4),
}


def report_of_uses(kernel, number):
    n = np.resize(np.array([2, 0, 3, 1, 1, 0, 2, 3, 3, number], np.int32), 96)
    return run_kernel(kernel, {"n": n, "y": np.zeros(96, np.int32)}, {})


def counts_alike(steps, types, values=None):
    """Whether the rings are proved; then the interpreter finds no fault."""
    kernel = with_uses(steps, types, values)
    if ring_proof(kernel.trace()).reasons:
        return False
    for number in (2**31 - 1, -(2**31), 2**30, 12) if values is None else (values[1] - 1, values[1] // 2, values[0]):
        assert report_of_uses(kernel, number).clean, (steps, types, values, number)
    return True


@pytest.mark.parametrize("steps", [("after",), ("before",), ("one by one",), ("before", "one by one", "after")])
@pytest.mark.parametrize("types", [(i32, i32), (i32, i64), (i64, i32)])
def test_registers_that_count_uses_do_not_wrap_around(steps, types):
    assert counts_alike(steps, types)


@pytest.mark.parametrize("wild", ["data", "less data", "ahead"])
def test_registers_that_become_uses_and_do_not_count_them_may_wrap_around(wild):
    kernels = [with_uses((wild, wild, "after"), types) for types in ((i32, i64), (i64, i32))]
    for kernel in kernels:
        (reason,) = ring_proof(kernel.trace()).reasons
        assert "this register becomes a use and may wrap around" in reason
    if wild != "ahead":  # whose rounds never end where it wraps around
        assert not all(report_of_uses(kernel, 2**30 + 9).clean for kernel in kernels)


@pytest.mark.parametrize("first", ["one by one", "in turns"])
def test_many_small_sums_with_a_register_of_uses_may_wrap_around(first):
    values = (0, 2**28)  # of which each sum with a register that counts uses fits
    kernels = [with_uses((first, "much data"), types, values) for types in ((i32, i64), (i64, i32))]
    for kernel in kernels:
        (reason,) = ring_proof(kernel.trace()).reasons
        assert "this register becomes a use and may wrap around" in reason
    assert not all(report_of_uses(kernel, 2**28 - 1).clean for kernel in kernels)
    assert all(counts_alike((first,), types, values) for types in ((i32, i64), (i64, i32)))


def test_registers_of_numbers_that_pass_another_type_are_not_slow():
    def beyond(n):
        held = lego.register(i64, 0)
        held.set((held - 1).to(u32).to(i64))  # 2**32 - 1
        return lego.index(1 + (held.get().to(i32).to(i64) - held.get()) // 2**32 % 2, range=RANGE)

    counts = beyond, lambda n: 1
    kernels = [kernel_of(i32, *sides) for sides in (counts, counts[::-1])]
    assert all(ring_proof(kernel.trace()).reasons for kernel in kernels)
    assert not all(report(kernel, np.zeros(96, np.int32)).clean for kernel in kernels)


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(12, 240, 12))])
def test_programs_of_uses_that_are_proved_run(first):
    proved = set()
    for seed in range(first, first + 12):
        choose = random.Random(seed)
        steps = tuple(choose.choices(tuple(STEPS), (3, 3, 3, 3, 1, 1, 1, 1, 1), k=choose.randint(1, 3)))
        values = choose.choice((None, (0, 2**28)))
        proved.add(counts_alike(steps, choose.choice(((i32, i32), (i32, i64), (i64, i32))), values))
    assert proved == {True, False}


def test_an_element_that_is_masked_may_be_outside_of_the_range_of_its_tensor():
    def masked(n):
        return n.load(0, lego.index(n[0, 1]), other=2**30)

    part = Row(60).tile_by([1], [64])
    counts = lambda n: lego.index(masked(n) * 4 % 3, range=RANGE), lambda n: lego.index(masked(n)) * 4 % 3
    for sides in (counts, counts[::-1]):
        assert ring_proof(kernel_of(i32, *sides, values=(0, 64), layout=part).trace()).reasons
    assert not report(kernel_of(i32, *counts, values=(0, 64), layout=part), np.full(60, 62, np.int32)).clean
    assert ring_proof(kernel_of(i32, counts[0], counts[0], values=(0, 64), layout=part).trace()).reasons == ()


def test_a_product_of_sizes_may_wrap_around():
    N = lego.size("N")
    counts = lambda n: lego.index(i32(N * N) % 3, range=RANGE), lambda n: N * N % 3
    kernel = kernel_of(i32, *counts, size=N)
    assert ring_proof(kernel.trace()).reasons
    assert not report(kernel, np.zeros(96, np.int32), N=2**16).clean


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
