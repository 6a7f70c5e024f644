"""`lego.assume_distinct`: a scatter is proved free of races, and a run checks the data."""

import itertools

import numpy as np
import pytest
from command_line import output_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.runtime import data

M, N, T = lego.size("M"), lego.size("N"), 64


def scatter(assumed=True, stride=1, masked=False):
    @lego.kernel(grid=lego.cdiv(N, T), block=T)
    def kernel(order: lego.Tensor(i32, Row(N), range=(0, N)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        if assumed:
            lego.assume_distinct(order)
        i = lego.block_id[0] * T + lego.thread_id[0]
        if masked:
            y[order.halo()[i]] = 1.0
        else:
            with lego.when(i < N):
                y[order[i // stride]] = x[i]

    return kernel


def races(kernel):
    return [type(verdict) for text, verdict in kernel_claims(kernel) if "no race" in text or "twice" in text]


def test_a_scatter_is_proved_where_its_indices_are_distinct():
    assert races(scatter()) == [Proved] * 3
    assert races(scatter(assumed=False)) == [Refuted, Refuted, Unknown]  # by a run on data of the declared range


def test_distinct_indices_do_not_excuse_threads_that_read_the_same_one():
    assert races(scatter(stride=2)) == [Refuted, Proved, Unknown]  # no two blocks read the same one


def test_a_masked_load_may_repeat_its_default():
    assert races(scatter(masked=True)) == [Refuted, Refuted, Unknown]


def test_drawn_input_is_distinct_and_supplied_input_is_compared():
    kernel = scatter()
    drawn = data.arguments(kernel, {"N": 100}, 0).logical["order"]
    assert sorted(drawn.tolist()) == list(range(100))

    @kernel.inputs
    def repeated(N):
        return {"order": np.zeros(N, np.int32)}

    with pytest.raises(UsageError, match=r"order\[0\] and order\[1\] are both 0, and the kernel assumes that the elem"):
        data.arguments(kernel, {"N": 100}, 0)


def test_check_notes_the_assumption(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text("""
import lego_mlir as lego
from lego_mlir import Row, f32, i32

@lego.kernel(grid=1, block=64)
def scatter(order: lego.Tensor(i32, Row(64), range=(0, 64)), y: lego.Tensor(f32, Row(64))):
    lego.assume_distinct(order)
    y[order[lego.thread_id[0]]] = 1.0
""")
    out = output_of(capsys, ["check", str(path), "--json"])
    assert "assumed, and checked by run: the elements of order are distinct" in out
    assert '"claim": "no race for y between two threads of a block"' in out


def test_what_cannot_be_assumed_to_be_distinct_is_refused():
    @lego.kernel(grid=1, block=64)
    def floats(y: lego.Tensor(f32, Row(64))):
        lego.assume_distinct(y)

    with pytest.raises(TraceError, match="takes a parameter of the kernel that is a tensor of integers, got <y: f32"):
        floats.trace()

    @lego.kernel(grid=1, block=64)
    def stored(y: lego.Tensor(i32, Row(64))):
        lego.assume_distinct(y)
        y[lego.thread_id[0]] = 1

    with pytest.raises(TraceError, match="the elements of y are assumed to be distinct, which loads rely on, so the"):
        stored.trace()

    @lego.kernel(grid=1, block=64)
    def narrow(order: lego.Tensor(i32, Row(64), range=(0, 32)), y: lego.Tensor(f32, Row(64))):
        lego.assume_distinct(order)
        y[order[lego.thread_id[0]]] = 1.0

    with pytest.raises(UsageError, match="order: its 64 elements are assumed to be distinct, and its range has 32 num"):
        data.arguments(narrow, {}, 0)


def test_a_checked_call_compares_the_elements():
    kernel = scatter()
    x, order = np.arange(5, dtype=np.float32), np.array([3, 1, 4, 0, 2], np.int32)
    assert kernel(order, x, np.zeros(5, np.float32), check=True).tolist() == x[np.argsort(order)].tolist()
    order[3] = 1
    with pytest.raises(
        UsageError, match=r"^order\[1\] and order\[3\] are both 1, and the kernel assumes that the elem"
    ):
        kernel(order, x, np.zeros(5, np.float32), check=True)
    kernel(order, x, np.zeros(5, np.float32))  # a call that is not checked does not compare them


def test_a_checked_call_names_logical_indices_and_skips_what_a_partial_tile_does_not_name():
    tiled = Row(3, 5).tile_by([2, 3], [2, 2])

    @lego.kernel(grid=1, block=15)
    def kernel(order: lego.Tensor(i32, tiled, range=(0, 16)), y: lego.Tensor(f32, Row(16))):
        lego.assume_distinct(order)
        i, j = lego.thread_id[0] // 5, lego.thread_id[0] % 5
        y[order[i // 2, j // 2, i % 2, j % 2]] = 1.0

    order = np.arange(15, dtype=np.int32)
    kernel(order, np.zeros(16, np.float32), check=True)
    order[14] = 0
    with pytest.raises(UsageError, match=r"order\[0, 0, 0, 0\] and order\[1, 2, 0, 0\] are both 0"):
        kernel(order, np.zeros(16, np.float32), check=True)


def test_a_checked_program_compares_its_temporaries_too():
    kernel = scatter()

    @lego.kernel(grid=lego.cdiv(N, T), block=T)
    def halved(order: lego.Tensor(i32, Row(N)), half: lego.Tensor(i32, Row(N))):
        i = lego.block_id[0] * T + lego.thread_id[0]
        with lego.when(i < N):
            half[i] = order[i] // 2

    @lego.program
    def both(order: lego.Tensor(i32, Row(N)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        half = lego.empty(i32, Row(N))
        halved(order, half)
        kernel(half, x, y)

    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    both(np.array([6, 4, 2, 0], np.int32), x, y, check=True)
    with pytest.raises(UsageError, match=r"order\[1\] and order\[2\] are both 1"):
        both(np.array([6, 3, 2, 0], np.int32), x, y, check=True)


# ---- elements that are distinct in a range only


def collides(count, among, kept, stride):
    """Whether two threads may store to one element: every array that the assumption allows is tried."""
    for order in itertools.product(range(-1, 4), repeat=count):
        inside = [v for v in order if among[0] <= v < among[1]]
        stored = [(order[i // stride], i) for i in range(count) if kept[0] <= order[i // stride] < kept[1]]
        if len(set(inside)) == len(inside) and len({v for v, _ in stored}) < len(stored):
            return True
    return False


def guarded(count, among, kept, stride):
    @lego.kernel(grid=1, block=count)
    def kernel(order: lego.Tensor(i32, Row(count)), y: lego.Tensor(f32, Row(8))):
        lego.assume_distinct(order, range=among)
        t = lego.thread_id[0]
        slot = lego.index(order[t // stride])
        with lego.when((kept[0] <= slot) & (slot < kept[1])):
            y.store(1.0, slot + 1)

    return kernel


@settings(max_examples=40)
@given(data=st.data())
def test_what_is_outside_the_range_may_repeat(data):
    among, kept = ((lo, data.draw(st.integers(lo + 1, 4))) for lo in data.draw(st.tuples(*[st.integers(-1, 3)] * 2)))
    stride = data.draw(st.sampled_from([1, 1, 2]))
    among, kept = tuple(among), tuple(kept)
    free = races(guarded(4, among, kept, stride))[0] is Proved
    assert free == (not collides(4, among, kept, stride)), (among, kept, stride)


def test_elements_of_a_range_of_sizes_are_proved_apart():
    @lego.kernel(grid=N, block=T)
    def cached(slots: lego.Tensor(i32, Row(N)), x: lego.Tensor(f32, Row(N, T)), y: lego.Tensor(f32, Row(M, T))):
        lego.assume_distinct(slots, range=(0, M))
        slot = lego.index(slots[lego.block_id[0]])
        with lego.when((slot >= 0) & (slot < M)):
            y[slot, lego.thread_id[0]] = x[lego.block_id[0], lego.thread_id[0]]

    assert races(cached) == [Proved] * 3
    written = dict(kernel_claims(cached))["every element of y is written"]
    assert isinstance(written, Unknown) and written.reason.endswith(
        "pass y in the call, whose other elements stay as they are"
    )
    drawn = data.arguments(cached, {"N": 100, "M": 500}, 0).logical["slots"]
    inside = drawn[(drawn >= 0) & (drawn < 500)]
    assert len(set(inside.tolist())) == len(inside) == 75 and set(drawn[drawn < 0].tolist()) == {-1}
    few = data.arguments(cached, {"N": 100, "M": 10}, 0).logical["slots"]
    assert sorted(few.tolist()) == [-1] * 90 + list(range(10))


def test_supplied_elements_are_compared_in_the_range_only():
    @lego.kernel(grid=1, block=4)
    def kernel(slots: lego.Tensor(i32, Row(4)), y: lego.Tensor(f32, Row(M))):
        lego.assume_distinct(slots, range=(0, M))
        slot = lego.index(slots[lego.thread_id[0]])
        with lego.when((slot >= 0) & (slot < M)):
            y[slot] = 1.0

    y = np.zeros(8, np.float32)
    assert kernel(np.array([-1, 3, -1, 0], np.int32), y, check=True).tolist() == [1, 0, 0, 1, 0, 0, 0, 0]
    kernel(np.array([8, 3, 8, 0], np.int32), y, check=True)
    with pytest.raises(
        UsageError, match=r"^slots\[1\] and slots\[2\] are both 7, .* of slots from 0 to below 8 are dis"
    ):
        kernel(np.array([-1, 7, 7, 0], np.int32), y, check=True)

    @lego.program
    def through(order: lego.Tensor(i32, Row(4)), y: lego.Tensor(f32, Row(N))):
        kernel(order, y)

    (order, _) = through.params
    assert [str(end) for end in order.distinct.among] == ["0", "N"]


def test_an_empty_range_is_refused():
    @lego.kernel(grid=1, block=4)
    def kernel(slots: lego.Tensor(i32, Row(4)), y: lego.Tensor(f32, Row(4))):
        lego.assume_distinct(slots, range=(4, 0))

    with pytest.raises(TraceError, match=r"lego\.assume_distinct: the range \(4, 0\) is empty"):
        kernel.trace()
