"""Laws of clusters: whatever box they are, each block reads and writes the memory of all others, and in order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.interp.report import Kind
from lego_mlir.interp.traced_kernels import run_kernel

boxes = st.tuples(*[st.sampled_from([1, 2, 3, 4])] * 3).filter(lambda box: 1 < np.prod(box) <= 8)


def exchanged(box, times, shift, without=None):
    """Block r sends r to block r + shift of its cluster, by a store or read by the other; `without` a barrier."""
    blocks, grid = int(np.prod(box)), tuple(c * t for c, t in zip(box, times, strict=True))
    total = int(np.prod(grid))

    @lego.kernel(grid=grid, block=32, cluster=box)
    def sent(read: lego.Tensor(i32, Row(total)), stored: lego.Tensor(i32, Row(total))):
        x, y, z = lego.block_id[:3]
        number, rank = x + grid[0] * (y + grid[1] * z), lego.cluster_rank
        mine, box_in = lego.shared(i32, Row(1), "mine"), lego.shared(i32, Row(1), "inbox")
        first = lego.thread_id[0] < 1
        with lego.when(first):
            mine[0] = lego.i32(rank)
        if without != 0:
            lego.cluster_barrier()
        with lego.when(first):
            box_in.of_block((rank + shift) % blocks)[0] = lego.i32(rank)
            read[number] = mine.of_block((rank + blocks - shift % blocks) % blocks)[0]
        if without != 1:
            lego.cluster_barrier()
        with lego.when(first):
            stored[number] = box_in[0]

    arrays = {"read": np.zeros(total, np.int32), "stored": np.zeros(total, np.int32)}
    report = run_kernel(sent, arrays, counts=False)
    places = np.indices(grid[::-1])[::-1]
    x, y, z = (p % c for p, c in zip(places, box, strict=True))
    expected = ((x + box[0] * (y + box[1] * z) - shift) % blocks).reshape(-1)
    return report, all(np.array_equal(a, expected) for a in arrays.values())


@settings(max_examples=10, deadline=None)
@given(boxes, st.tuples(*[st.integers(1, 2)] * 3), st.integers(0, 9))
def test_blocks_exchange_their_ranks(box, times, shift):
    report, right = exchanged(box, times, shift)
    assert right and report.faults == []


@settings(max_examples=6, deadline=None)
@given(boxes, st.integers(1, 7), st.sampled_from([0, 1]))
def test_a_missing_barrier_is_a_fault(box, shift, without):
    if shift % int(np.prod(box)):
        report, _ = exchanged(box, (1, 1, 1), shift, without)
        assert report.kinds() & {Kind.RACE, Kind.ENDED, Kind.UNINITIALISED}
