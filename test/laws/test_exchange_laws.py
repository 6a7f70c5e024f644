"""Random sequences of exchanges between threads, and random atomic updates, against NumPy: interpreter and CPU."""

import functools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, i32, i64, u32

COMBINE = {"add": np.add, "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor, "and": np.bitwise_and}
NEUTRAL = {"add": 0, "min": 2**31 - 1, "max": -(2**31), "xor": 0, "and": -1}
WIDTHS = st.sampled_from([1, 2, 4, 8, 16, 32])
OPS = st.sampled_from(sorted(COMBINE))
steps = st.one_of(
    st.tuples(st.sampled_from(["warp_reduce", "warp_scan"]), OPS, WIDTHS),
    st.tuples(st.sampled_from(["block_reduce", "block_scan"]), OPS, st.booleans()),
    st.tuples(st.sampled_from(["warp_ballot", "warp_any", "warp_all"]), st.integers(-20, 20), st.none()),
    st.tuples(st.just("match_any"), st.integers(1, 9), st.none()),
    st.tuples(st.sampled_from(["shuffle", "shuffle_up", "shuffle_down", "shuffle_xor"]), st.integers(0, 31), WIDTHS),
)


def apply(step, v):
    """A step in a kernel, on an i32."""
    name, what, more = step
    if name.startswith("block_scan"):
        return lego.block_scan(v, what, exclusive=more)
    if name.startswith("block"):
        return lego.block_reduce(v, what)
    if name in ("warp_ballot", "warp_any", "warp_all"):
        return i32(getattr(lego, name)(v > what))
    if name == "match_any":
        equal, alike = lego.match_any(v % what), lego.match_any((v % what).to(i64))
        return i32(lego.popcount(equal)) * 32 + i32(lego.ctz(alike))
    return getattr(lego, name)(v, what, width=more)


def expected(step, v):
    """The same for all threads of a block, in NumPy."""
    name, what, more = step
    if name.startswith("block"):
        return of_group(name.removeprefix("block_"), what, v, more is True)
    groups = [v[k : k + 32] for k in range(0, len(v), 32)]
    if name in ("warp_ballot", "warp_any", "warp_all"):
        return np.concatenate([np.full(len(g), vote(name, g > what), np.uint32).view(np.int32) for g in groups])
    if name == "match_any":
        equal = [np.equal.outer(g % what, g % what) for g in groups]
        return np.concatenate([e.sum(1) * 32 + e.argmax(1) for e in equal]).astype(np.int32)
    if name.startswith("warp"):
        groups = [v[k : k + more] for w in range(0, len(v), 32) for k in range(w, min(w + 32, len(v)), more)]
        return np.concatenate([of_group(name.removeprefix("warp_"), what, g, False) for g in groups])
    lane = np.arange(len(v)) % 32
    within, base = lane % more, np.arange(len(v)) - lane % more
    target = {"shuffle": what % more + 0 * lane, "shuffle_up": within - what, "shuffle_down": within + what}
    source = target.get(name, within ^ what)
    return v[np.where((source >= 0) & (source < more), base + source, np.arange(len(v)))]


def vote(name, holds):
    return {
        "warp_any": holds.any(),
        "warp_all": holds.all(),
        "warp_ballot": sum(1 << k for k in np.flatnonzero(holds)),
    }[name]


def of_group(kind, op, group, exclusive):
    if kind == "reduce":
        return np.full(len(group), COMBINE[op].reduce(group))
    inclusive = COMBINE[op].accumulate(group)
    return np.concatenate([[np.int32(NEUTRAL[op])], inclusive[:-1]]).astype(np.int32) if exclusive else inclusive


@given(st.lists(steps, min_size=1, max_size=4), st.sampled_from([32, 64, 96, 7, 45]), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_exchanges_in_any_order(chosen, threads, seed):
    if threads % 32:  # a lane past the end of the block has no value
        chosen = [step for step in chosen if not step[0].startswith("shuffle")]

    @lego.kernel(grid=1, block=threads)
    def k(x: lego.Tensor(i32, Row(threads)), y: lego.Tensor(i32, Row(threads))):
        t = lego.thread_id[0]
        y[t] = functools.reduce(lambda v, step: apply(step, v) ^ i32(t), chosen, x[t])

    x = np.random.default_rng(seed).integers(-50, 50, threads).astype(np.int32)
    wanted = x
    for step in chosen:
        wanted = expected(step, wanted) ^ np.arange(threads, dtype=np.int32)
    for run in (launch, launch_on_cpu):
        np.testing.assert_array_equal(run(k, x, np.zeros(threads))[1], wanted)


@given(st.integers(1, 130), st.integers(1, 9), OPS, st.booleans(), st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_updates_that_commute_give_the_same_in_any_order(threads, bins, op, shared, seed):
    @lego.kernel(grid=1, block=threads)
    def k(x: lego.Tensor(i32, Row(threads)), where: lego.Tensor(i32, Row(threads)), y: lego.Tensor(i32, Row(bins))):
        t, memory = lego.thread_id[0], y
        if shared:
            memory = lego.shared(i32, Row(bins))
            with lego.when(t == 0):
                for n in range(bins):
                    memory[n] = y[n]
            lego.barrier()
        getattr(memory, f"atomic_{op}")(x[t], where[t])
        lego.barrier()
        with lego.when(t == 0):
            for n in range(bins) if shared else ():
                y[n] = memory[n]

    rng = np.random.default_rng(seed)
    x, where = rng.integers(-99, 99, threads).astype(np.int32), rng.integers(0, bins, threads).astype(np.int32)
    y = rng.integers(-99, 99, bins).astype(np.int32)
    wanted = np.array([COMBINE[op].reduce(np.append(x[where == n], y[n])) for n in range(bins)])
    for run in (launch, launch_on_cpu):
        np.testing.assert_array_equal(run(k, x, where, y)[2], wanted)


@given(st.integers(1, 200), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_tickets_are_all_different(threads, queues, seed):
    """The old values of additions of 1 are 0, 1, 2, .. in each queue."""

    @lego.kernel(grid=2, block=threads)
    def k(
        queue: lego.Tensor(i32, Row(2 * threads)),
        tickets: lego.Tensor(u32, Row(queues)),
        mine: lego.Tensor(u32, Row(2 * threads)),
    ):
        i = lego.block_id[0] * threads + lego.thread_id[0]
        mine[i] = tickets.atomic_add(1, queue[i])

    queue = np.random.default_rng(seed).integers(0, queues, 2 * threads)
    for run in (launch, launch_on_cpu):
        _, tickets, mine = run(k, queue, np.zeros(queues), np.zeros(2 * threads))
        for n in range(queues):
            assert sorted(mine[queue == n]) == list(range(tickets[n]))
