"""Shuffles, votes, reductions and scans against NumPy; lanes that do not take part; PTX."""

import functools

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, i8, i16, i32, i64, interp, u16, u32, u64
from lego_mlir.errors import LegoError, TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts

DTYPES = (i8, i16, i32, i64, u16, u32, u64, f16, bf16, f32, f64)
LANE = np.arange(64) % 32
SOURCES = {
    "shuffle": lambda w, n: LANE // w * w + n % w,
    "shuffle_up": lambda w, n: np.where(LANE % w >= n, LANE - n, LANE),
    "shuffle_down": lambda w, n: np.where(LANE % w + n < w, LANE + n, LANE),
    "shuffle_xor": lambda w, n: np.where(LANE % w ^ n < w, LANE ^ n, LANE),
}
MOVES = ("shuffle_up", "shuffle_down", "shuffle_xor")
FUNCTIONS = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
NEUTRAL = {"add": 0, "mul": 1, "min": 2**31 - 1, "max": -(2**31), "and": -1, "or": 0, "xor": 0}
BLOCKS = [(32,), (256,), (100,), (7,), (8, 4, 2), (96,), (33,), (1000,)]


def shuffled(dtype, mode, width, number):
    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(dtype, Row(64)), y: lego.Tensor(dtype, Row(64))):
        t = lego.thread_id[0]
        y[t] = getattr(lego, mode)(x[t], number, width=width)

    return k


@pytest.mark.parametrize("mode", SOURCES)
@pytest.mark.parametrize(("width", "number"), [(32, 1), (32, 13), (16, 3), (4, 5), (1, 0)])
def test_shuffles_read_the_lane(mode, width, number):
    x = np.random.default_rng(0).integers(-99, 99, 64).astype(np.int32)
    _, y = launch(shuffled(i32, mode, width, number), x, np.zeros(64))
    np.testing.assert_array_equal(y, x[np.arange(64) // 32 * 32 + SOURCES[mode](width, number)])


OUTSIDE = (-(2**31), -33, -32, -1, 0, 3, 15, 16, 31, 32, 33, 64, 2**31 - 1)
RUNS = {"interpreter": launch, "CPU": launch_on_cpu, "PTX": launch_emulated}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("width", [32, 16, 1])
def test_a_distance_outside_of_the_group_leaves_a_lane_its_own(run, width):
    """Known or data: hardware takes it modulo 32, and reads lanes of groups below for a mask."""
    distances = len(OUTSIDE)

    @lego.kernel(grid=1, block=64)
    def k(
        x: lego.Tensor(i32, Row(64)),
        d: lego.Tensor(i32, Row(distances)),
        known: lego.Tensor(i32, Row(3, distances, 64)),
        data: lego.Tensor(i32, Row(3, distances, 64)),
    ):
        t = lego.thread_id[0]
        for word, mode in enumerate(MOVES):
            for place, distance in enumerate(OUTSIDE):
                known[word, place, t] = getattr(lego, mode)(x[t], distance, width=width)
                data[word, place, t] = getattr(lego, mode)(x[t], d[place], width=width)

    x, lane = np.arange(64, dtype=np.int32), np.arange(64) % width
    group = np.arange(64) - lane
    found = RUNS[run](k, x, np.array(OUTSIDE, np.int32), *2 * [np.zeros((3, distances, 64))])
    for word, mode in enumerate(MOVES):
        for place, distance in enumerate(OUTSIDE):
            target = {"up": lane - distance, "down": lane + distance, "xor": lane ^ distance}[mode[8:]]
            other = 0 <= distance < width and (target >= 0) & (target < width)
            expected = np.where(other, group + target, np.arange(64))
            for values in found[2:]:
                np.testing.assert_array_equal(values[word, place], expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shuffles_of_every_type(dtype):
    x = np.arange(64).astype(dtype.numpy)
    _, y = launch(shuffled(dtype, "shuffle_xor", 32, 5), x, np.zeros(64))
    np.testing.assert_array_equal(y, x[np.arange(64) ^ 5])


def test_the_lane_may_be_an_index_or_data():
    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(i32, Row(64)), y: lego.Tensor(i32, Row(64)), z: lego.Tensor(i32, Row(64))):
        t = lego.thread_id[0]
        y[t] = lego.shuffle(x[t], 31 - lego.lane_id)
        z[t] = lego.shuffle(x[t], x[t], width=8)

    x = np.random.default_rng(0).integers(-99, 99, 64).astype(np.int32)
    _, y, z = launch(k, x, np.zeros(64), np.zeros(64))
    np.testing.assert_array_equal(y, x.reshape(2, 32)[:, ::-1].reshape(-1))
    np.testing.assert_array_equal(z, x[np.arange(64) // 8 * 8 + x % 8])


def test_vectors_are_shuffled_element_by_element():
    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f16, Row(64)), y: lego.Tensor(f16, Row(64))):
        t = lego.thread_id[0]
        y.store(lego.shuffle_xor(x.load(2 * t, width=2), 1), 2 * t)

    x = np.arange(64).astype(np.float16)
    _, y = launch(k, x, np.zeros(64))
    np.testing.assert_array_equal(y, x[np.arange(64) ^ 2])


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@needs_ptxas
def test_everything_assembles(dtype, target):
    @lego.kernel(grid=1, block=(16, 6))
    def k(x: lego.Tensor(dtype, Row(96)), y: lego.Tensor(i32, Row(96)), z: lego.Tensor(dtype, Row(96))):
        t = lego.thread_id[0] + 16 * lego.thread_id[1]
        v = lego.shuffle(x[t], lego.warp_id) + lego.shuffle_up(x[t], 1, width=8) + lego.shuffle_down(x[t], i32(t))
        lego.warp_sync()
        v = lego.block_scan(lego.block_reduce(lego.warp_scan(lego.warp_reduce(v, "max"), "min")))
        holds = lego.warp_any(v > 0) & lego.warp_all(v < 3)
        y[t] = lego.where(holds, i32(lego.warp_ballot(lego.lane_id < 4)), 0)
        z[t] = v

    assemble(compile_kernel(k, target=target).text, target)


def test_groups_smaller_than_a_warp_have_the_whole_warp_as_members():
    text = compile_kernel(shuffled(i32, "shuffle_xor", 8, 1), target="sm_80").text
    assert "shfl.sync.bfly.b32" in text and ", 1, 6175, -1;" in text  # (32 - 8) << 8 | 31
    assert ", 1, 6144, -1;" in compile_kernel(shuffled(i32, "shuffle_up", 8, 1), target="sm_80").text


def test_a_shuffled_index_keeps_its_range():
    """A position of another lane is one of the element type's range after the same operations."""

    @lego.kernel(grid=1, block=32)
    def k(order: lego.Tensor(i32, Row(32)), x: lego.Tensor(f32, Row(8)), y: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        y[t] = x[lego.shuffle_xor(order[t] % 8, 1)]

    verdicts = dict(access_verdicts(k.trace(), 1000))
    (text,) = (text for text in verdicts if "load from x" in text)
    assert isinstance(verdicts[text], Proved)


def test_votes():
    @lego.kernel(grid=1, block=72)
    def k(x: lego.Tensor(i32, Row(72)), y: lego.Tensor(u32, Row(72)), z: lego.Tensor(i32, Row(72))):
        t = lego.thread_id[0]
        y[t] = lego.warp_ballot(x[t] > 0)
        z[t] = i32(lego.warp_any(x[t] == 7)) + 2 * i32(lego.warp_all(x[t] < 8))

    x = np.zeros(72, np.int32)
    x[[0, 31, 33, 64]], x[40] = 1, 7
    _, y, z = launch(k, x, np.zeros(72), np.zeros(72))
    assert y[[0, 31, 32, 63, 64, 71]].tolist() == [2**31 + 1] * 2 + [2 + 256] * 2 + [1, 1]
    assert z.tolist() == [2] * 32 + [3] * 32 + [2] * 8


def test_lanes_and_warps_are_numbered_x_fastest():
    @lego.kernel(grid=1, block=(6, 5, 4))
    def k(y: lego.Tensor(i32, Row(4, 5, 6)), z: lego.Tensor(i32, Row(4, 5, 6))):
        x, row, plane = lego.thread_id
        y[plane, row, x], z[plane, row, x] = i32(lego.lane_id), i32(lego.warp_id)

    y, z = launch(k, np.zeros((4, 5, 6)), np.zeros((4, 5, 6)))
    np.testing.assert_array_equal(y.reshape(-1), np.arange(120) % 32)
    np.testing.assert_array_equal(z.reshape(-1), np.arange(120) // 32)


@functools.cache
def combined(word, block, op="add", dtype=i32, width=None, exclusive=None):
    n = int(np.prod(block))
    extra = {"width": width} if width else {} if exclusive is None else {"exclusive": exclusive}

    @lego.kernel(grid=2, block=block)
    def k(x: lego.Tensor(dtype, Row(2 * n)), y: lego.Tensor(dtype, Row(2 * n))):
        t = lego.thread_id[0]
        for axis, stride in zip(range(1, len(block)), np.cumprod(block), strict=False):
            t = t + int(stride) * lego.thread_id[axis]
        i = lego.block_id[0] * n + t
        y[i] = getattr(lego, word)(x[i], op, **extra)

    return k


def drawn(count, dtype=i32):
    return np.random.default_rng(1).integers(-3, 4, count).astype(dtype.numpy)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_block_is_reduced(block, op):
    n = int(np.prod(block))
    x = drawn(2 * n)
    _, y = launch(combined("block_reduce", block, op), x, np.zeros(2 * n))
    rows = FUNCTIONS[op].reduce(x.reshape(2, n), axis=1)
    np.testing.assert_array_equal(y.reshape(2, n), np.repeat(rows[:, None], n, axis=1))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("op", ["add", "max", "xor"])
def test_a_block_is_scanned(block, op, exclusive):
    n = int(np.prod(block))
    x = drawn(2 * n)
    _, y = launch(combined("block_scan", block, op, exclusive=exclusive), x, np.zeros(2 * n))
    np.testing.assert_array_equal(y.reshape(2, n), scanned(x.reshape(2, n), op, exclusive))


def scanned(rows, op, exclusive):
    inclusive = FUNCTIONS[op].accumulate(rows, axis=1)
    first = np.full((len(rows), 1), NEUTRAL[op], rows.dtype)
    return np.concatenate([first, inclusive[:, :-1]], axis=1) if exclusive else inclusive


@pytest.mark.parametrize("width", [1, 2, 8, 32])
@pytest.mark.parametrize("block", [(64,), (40,)], ids=str)
@pytest.mark.parametrize("word", ["warp_reduce", "warp_scan"])
def test_groups_of_a_warp(word, block, width):
    n = block[0]
    x = drawn(2 * n)
    _, y = launch(combined(word, block, "add", width=width), x, np.zeros(2 * n))
    for b in (0, n):
        for start in range(0, n, width):
            group = slice(b + start, b + min(start + width, n))
            expected = np.cumsum(x[group]) if word == "warp_scan" else x[group].sum()
            np.testing.assert_array_equal(y[group], expected)


@given(st.integers(1, 160), st.sampled_from(["min", "max", "add", "mul"]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_last_of_a_scan_is_the_reduction(n, op, floats):
    dtype = f64 if floats else i64
    x = drawn(2 * n, dtype)
    _, total = launch(combined("block_reduce", (n,), op, dtype), x, np.zeros(2 * n))
    _, scan = launch(combined("block_scan", (n,), op, dtype), x, np.zeros(2 * n))
    np.testing.assert_array_equal(total[[0, n]], scan[[n - 1, 2 * n - 1]])


def test_a_block_of_symbolic_size_is_scanned():
    n = lego.size("n", max=1024)

    @lego.kernel(grid=1, block=n)
    def k(x: lego.Tensor(i32, Row(n)), y: lego.Tensor(i32, Row(n)), z: lego.Tensor(i32, Row(n))):
        t = lego.thread_id[0]
        y[t], z[t] = lego.block_scan(x[t]), lego.block_reduce(x[t], "max")

    for count in (5, 32, 77):
        x = drawn(count)
        _, y, z = launch(k, x, np.zeros(count), np.zeros(count), sizes={"n": count})
        np.testing.assert_array_equal(y, np.cumsum(x))
        np.testing.assert_array_equal(z, np.full(count, x.max()))


def test_reductions_in_a_loop_reuse_their_tile():
    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(f32, Row(8, 64)), y: lego.Tensor(f32, Row(8))):
        t = lego.thread_id[0]
        for row in lego.range(8):
            total = lego.block_reduce(x[row, t])
            with lego.when(t == 0):
                y[row] = total

    assert len(k.trace().shared) == 1
    x = drawn(512).reshape(8, 64)
    np.testing.assert_array_equal(launch(k, x, np.zeros(8))[1], x.sum(axis=1))


def test_the_roundings_of_a_reduction_are_counted():
    from lego_mlir.tracing.checks.roundings import roundings

    assert roundings(combined("block_reduce", (256,), "add", f32).trace(), {})["y"].count("f32") == 8


def faults_of(kernel, *arrays):
    return interp.launch(kernel.mlir(), args=list(arrays)).faults


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (lambda v: lego.shuffle_xor(v, 16), "which is inactive"),
        (lambda v: lego.shuffle_xor(v, 1), "16 of the 32 lanes of a warp reach this shuffle xor; all must"),
        (lambda v: i32(lego.warp_any(v > 0)), "16 of the 32 lanes of a warp reach this vote any; all must"),
    ],
)
def test_lanes_that_do_not_take_part_are_reported(word, message):
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(i32, Row(64))):
        t = lego.thread_id[0]
        with lego.when(t < 16):
            y[t] = word(y[t])

    (fault,) = faults_of(k, np.zeros(64, np.int32))
    assert fault.kind is Kind.SHUFFLE and message in fault.message


def test_whole_warps_may_branch():
    @lego.kernel(grid=1, block=72)
    def k(y: lego.Tensor(i32, Row(72))):
        t = lego.thread_id[0]
        with lego.when(lego.warp_id == 2):
            y[t] = lego.warp_reduce(i32(t))

    assert launch(k, np.zeros(72))[0].tolist() == [0] * 64 + [sum(range(64, 72))] * 8


def one(body):
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(f32, Row(64))):
        body(y, lego.thread_id[0])

    return k.trace()


def under_a_branch(y, t):
    with lego.when(t < 32):
        y[t] = lego.block_reduce(y[t])


def in_a_loop(y, t):
    for _ in lego.range(t):
        y[t] = lego.block_scan(y[t])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (under_a_branch, "lego.block_reduce under the condition tx < 32, which depends on the thread"),
        (in_a_loop, "lego.block_scan under the condition .*tx.*, which depends on the thread"),
        (lambda y, t: lego.shuffle(y[t], 0, width=5), "lego.shuffle: width must be 1, 2, 4, 8, 16 or 32, got 5"),
        (lambda y, t: lego.shuffle(t, 0), r"takes data of a kernel, got tx; convert an index, such as lego.i32\(i\)"),
        (lambda y, t: lego.warp_reduce(y[t], "sum"), "lego.warp_reduce: no operation 'sum'; there are add, mul"),
        (lambda y, t: lego.block_reduce(y[t], "xor"), "xor is not defined for f32; it combines integers"),
        (lambda y, t: lego.warp_scan(y.load(0, width=2)), "takes one number of each thread, got <vector<2xf32>"),
        (lambda y, t: lego.warp_any(y[t]), "lego.warp_any takes a condition, got"),
    ],
)
def test_messages(body, message):
    with pytest.raises(TraceError, match=message):
        one(body)


def test_outside_a_kernel_there_are_no_lanes():
    assert repr(lego.lane_id) == "lego.lane_id"
    with pytest.raises(TraceError, match=r"lego\.lane_id can be used only inside"):
        _ = lego.lane_id + 1


@pytest.mark.parametrize("word", ["block_reduce", "block_scan", "warp_reduce", "warp_scan"])
@pytest.mark.parametrize(("block", "dtype"), [((256,), i32), ((100,), f64), ((8, 4, 2), f16), ((33,), i64)], ids=str)
def test_the_cpu_exchanges_the_same_values(word, block, dtype):
    kernel, count = combined(word, block, "add", dtype), 2 * int(np.prod(block))
    x = drawn(count, dtype)
    np.testing.assert_array_equal(launch_on_cpu(kernel, x, np.zeros(count))[1], launch(kernel, x, np.zeros(count))[1])


@pytest.mark.parametrize("mode", SOURCES)
@pytest.mark.parametrize(("width", "number"), [(32, 13), (4, 3)])
def test_the_cpu_reads_the_same_lanes(mode, width, number):
    x = np.random.default_rng(0).integers(-99, 99, 64).astype(np.int32)
    _, y = launch_on_cpu(shuffled(i32, mode, width, number), x, np.zeros(64))
    np.testing.assert_array_equal(y, x[np.arange(64) // 32 * 32 + SOURCES[mode](width, number)])


@pytest.mark.parametrize("run", [launch, launch_on_cpu])
def test_a_warp_exchanges_through_memory_after_its_barrier(run):
    @lego.kernel(grid=1, block=72)
    def k(y: lego.Tensor(i32, Row(72)), z: lego.Tensor(i32, Row(72))):
        t, tile = lego.thread_id[0], lego.shared(i32, Row(72))
        tile[t] = i32(t)
        lego.warp_sync()
        y[t] = tile[t // 8 * 8 + 7 - t % 8]
        z[t] = i32(lego.warp_ballot(t % 3 == 0)) + i32(lego.warp_any(t == 40)) + i32(lego.warp_all(t < 64))

    y, z = run(k, np.zeros(72), np.zeros(72))
    t = np.arange(72)
    np.testing.assert_array_equal(y, t // 8 * 8 + 7 - t % 8)
    for warp in range(3):
        lanes = t[32 * warp : 32 * warp + 32]
        bits = sum(1 << (n % 32) for n in lanes if n % 3 == 0) + (40 in lanes) + all(n < 64 for n in lanes)
        np.testing.assert_array_equal(z[lanes], np.full(len(lanes), bits, np.int64).astype(np.int32))


def test_in_a_loop_the_cpu_keeps_iterations_apart():
    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(f32, Row(8, 64)), y: lego.Tensor(f32, Row(8, 64))):
        t = lego.thread_id[0]
        for row in lego.range(8):
            y[row, t] = lego.block_reduce(x[row, t]) + lego.shuffle_xor(x[row, t], 1)

    x = drawn(512).reshape(8, 64)
    expected = x.sum(axis=1, keepdims=True) + x[:, np.arange(64) ^ 1]
    np.testing.assert_array_equal(launch_on_cpu(k, x, np.zeros((8, 64)))[1], expected)


def test_the_cpu_refuses_a_warp_that_branches_alone():
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(i32, Row(64))):
        with lego.when(lego.warp_id == 1):
            y[lego.thread_id[0]] = lego.warp_reduce(i32(lego.lane_id))

    with pytest.raises(LegoError, match=r"inside scf.if that not all threads of the block need take alike"):
        launch_on_cpu(k, np.zeros(64))


def test_blocks_that_branch_apart_shuffle_what_is_the_same_in_all_of_them():
    @lego.kernel(grid=3, block=64)
    def k(y: lego.Tensor(i32, Row(3, 64))):
        t, v = lego.thread_id[0], lego.register(i32, 7)
        with lego.when(lego.block_id[0] >= 1):
            v.set(lego.shuffle_xor(i32(t), 1) + lego.block_reduce(i32(t)))
        y[lego.block_id[0], t] = v

    (y,) = launch(k, np.zeros((3, 64)))
    t = np.arange(64)
    np.testing.assert_array_equal(y, np.stack([0 * t + 7, *[(t ^ 1) + 2016] * 2]))
