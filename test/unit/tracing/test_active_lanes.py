"""`lego.activemask` and `members=`: exchanges among the lanes that take a branch, on each machine that has them."""

import numpy as np
import pytest
from launching import in_memory, launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f2, i32, u32
from lego_mlir.errors import TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.interp import launch as interpret
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.transforms.modules import ModuleError

THREADS, BINS = 80, 5  # the last warp is partial


@lego.kernel(grid=2, block=THREADS)
def counted(x: lego.Tensor(i32, Row(2 * THREADS), range=(-2, BINS)), counts: lego.Tensor(u32, Row(BINS))):
    """Numbers that are not negative, counted: the lanes with one number add theirs together."""
    key = x[lego.block_id[0] * THREADS + lego.thread_id[0]]
    with lego.when(key >= 0):
        same = lego.match_any(key, members=lego.activemask())
        with lego.when(lego.lane_id == lego.index(lego.ctz(same))):
            counts.atomic_add(lego.popcount(same), lego.index(key))


@lego.kernel(grid=1, block=THREADS)
def voted(x: lego.Tensor(i32, Row(THREADS)), y: lego.Tensor(u32, Row(4, THREADS))):
    """Votes in both sides of a branch, of the lanes of each."""
    t = lego.thread_id[0]
    for odd in range(2):
        with lego.when((x[t] & 1) == odd):
            m = lego.activemask()
            y[0, t] = m
            y[1, t] = lego.warp_ballot(x[t] > 3, members=m)
            y[2, t] = lego.where(lego.warp_any(x[t] > 3, members=m), u32(1), u32(0))
            y[3, t] = lego.where(lego.warp_all(x[t] > 3, members=m), u32(1), u32(0))


def votes(x):
    """The same in NumPy, with all lanes of a side together."""
    found = np.zeros((4, THREADS), np.uint32)
    for t in range(THREADS):
        warp = np.arange(t // 32 * 32, min(t // 32 * 32 + 32, THREADS))
        lanes = warp[x[warp] % 2 == x[t] % 2]
        holds = x[lanes] > 3
        bits = 1 << (lanes % 32)
        found[:, t] = bits.sum(), bits[holds].sum(), holds.any(), holds.all()
    return found


@pytest.mark.parametrize("run", [launch, launch_emulated])
def test_a_histogram_by_the_lanes_of_a_branch(run):
    x = np.random.default_rng(0).integers(-2, BINS, 2 * THREADS).astype(np.int32)
    counts = run(counted, x, np.zeros(BINS, np.uint32))[1]
    assert counts.tolist() == [int((x == k).sum()) for k in range(BINS)]
    assert "activemask.b32" in counted.ptx("sm_80")


@pytest.mark.parametrize("run", [launch, launch_emulated])
def test_votes_among_the_lanes_of_a_branch(run):
    x = np.random.default_rng(1).integers(0, 7, THREADS).astype(np.int32)
    np.testing.assert_array_equal(run(voted, x, np.zeros((4, THREADS), np.uint32))[1], votes(x))


def test_the_race_of_a_histogram_is_proved_away_and_claims_name_no_whole_warp():
    claims = dict(kernel_claims(counted))
    assert not [text for text in claims if "lane" in text]
    (race,) = [verdict for text, verdict in claims.items() if text.startswith("no race for counts between two threads")]
    assert isinstance(race, Proved)


def test_members_that_are_elsewhere_are_a_fault():
    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(i32, Row(32)), y: lego.Tensor(u32, Row(32))):
        t = lego.thread_id[0]
        with lego.when(x[t] > 1):
            y[t] = lego.warp_ballot(x[t] > 1, members=lego.activemask() | 1)

    memories, _ = in_memory(k, (np.arange(32), np.zeros(32)), {})
    report = interpret(k.mlir(), grid=[1], block=[32], args=memories)
    assert any("are not the lanes that reach it together" in fault.message for fault in report.faults)


def test_on_a_cpu_a_thread_runs_alone_and_some_lanes_cannot_exchange():
    @lego.kernel(grid=1, block=THREADS)
    def own(y: lego.Tensor(u32, Row(THREADS))):
        t = lego.thread_id[0]
        with lego.when(t % 3 > 0):
            y[t] = lego.activemask()

    (y,) = launch_on_cpu(own, np.zeros(THREADS, np.uint32))
    assert y.tolist() == [1 << t % 32 if t % 3 else 0 for t in range(THREADS)]
    with pytest.raises(ModuleError, match="among the members of a warp has no form on a CPU"):
        launch_on_cpu(voted, np.zeros(THREADS, np.int32), np.zeros((4, THREADS), np.uint32))


TYPES = (lego.i8, i32, lego.i64, lego.f16, lego.f32, lego.f64, lego.bf16)
MODES = ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor")


def moved(dtype, mode, distance, width):
    """The lanes of each half of a group of 16 exchange alone, in the two sides of a branch."""

    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(dtype, Row(2, 64)), y: lego.Tensor(dtype, Row(2, 64))):
        t = lego.thread_id[0]
        for half in range(2):
            upper = (t // 8 % 2) == half
            lanes = lego.warp_ballot(upper)
            with lego.when(upper):
                pair = lego.vector(x[0, t], x[1, t])
                given = {"lane": lego.lane_id - distance} if mode == "shuffle" else {}
                by = (given["lane"],) if given else (distance,)
                pair = getattr(lego, mode)(pair, *by, width=width, members=lanes)
                y[0, t], y[1, t] = pair[0], pair[1]

    return k


def source_of(t, mode, distance, width):
    lane, first = t % 32, t % 32 // width * width
    found = {"shuffle": first + (lane - distance) % width, "shuffle_up": lane - distance,
             "shuffle_down": lane + distance, "shuffle_xor": lane ^ distance}[mode]  # fmt: skip
    return t - lane + (found if first <= found < first + width else lane)


@pytest.mark.parametrize("run", [launch, launch_emulated])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("distance", "width"), [(1, 8), (3, 4), (5, 8)])
def test_shuffles_among_the_lanes_of_a_branch(run, dtype, mode, distance, width):
    x = np.random.default_rng(2).integers(-100, 100, (2, 64)).astype(dtype.numpy)
    sources = [source_of(t, mode, distance, width) for t in range(64)]
    found = run(moved(dtype, mode, distance, width), x, np.zeros_like(x))[1]
    np.testing.assert_array_equal(found.reshape(x.shape).view(x.dtype), x[:, sources])


def test_a_lane_that_is_no_member_is_a_fault():
    kernel = moved(i32, "shuffle_xor", 8, 32)
    memories, _ = in_memory(kernel, (np.arange(128).reshape(2, 64), np.zeros((2, 64))), {})
    report = interpret(kernel.mlir(), grid=[1], block=[64], args=memories)
    assert any("reads lane 8 of its warp, which is not a member" in fault.message for fault in report.faults)
    assert not [text for text, _ in kernel_claims(kernel) if "all lanes of the warp execute the shuffle" in text]


def test_claims_are_those_of_a_shuffle_among_all_lanes():
    def claims(among):
        @lego.kernel(grid=1, block=32)
        def k(x: lego.Tensor(i32, Row(32), range=(0, 32)), y: lego.Tensor(i32, Row(32))):
            t = lego.thread_id[0]
            given = {"members": lego.warp_ballot(t >= 0)} if among else {}
            y[lego.index(lego.shuffle_xor(x[t], 1, **given))] = 1

        return {(text, type(verdict)) for text, verdict in kernel_claims(k) if "warp" not in text}

    assert claims(True) == claims(False)


def test_members_are_bits_of_lanes():
    @lego.kernel(grid=1, block=32)
    def wrong(y: lego.Tensor(u32, Row(32))):
        y[lego.thread_id[0]] = lego.warp_ballot(lego.thread_id[0] > 1, members=3)

    with pytest.raises(TraceError, match=r"lego.warp_ballot: members are the bits of a u32, such as lego.activemask"):
        wrong.trace()

    @lego.kernel(grid=1, block=32)
    def tile(y: lego.Tensor(u32, Row(32))):
        held = lego.full(i32, f2.Blocked((1,), (32,), (1,), order=(0,)).layout((32,)), 1)
        y[0] = lego.warp_ballot(held > 0, members=lego.activemask())

    with pytest.raises(TraceError, match=r"of a tile is a vote of all lanes; leave out members"):
        tile.trace()
