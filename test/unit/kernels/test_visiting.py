"""Shares of numbered parts: each part is one block's, and shares of sorted parts are alike."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, i32, schedule
from lego_mlir.kernels.visiting import in_turns

BLOCKS = 5


@pytest.fixture(scope="module")
def visits():
    """A kernel that counts the visits of each part, and adds its length to its block's share."""
    parts = lego.size("P", min=1, max=200)

    @lego.kernel(grid=BLOCKS, block=32)
    def visits(
        length: lego.Tensor(i32, Row(parts)), count: lego.Tensor(i32, Row(parts)), share: lego.Tensor(i32, Row(BLOCKS)),
        turns: lego.Tensor(i32, Row(BLOCKS)),
    ):  # fmt: skip
        with lego.when(lego.thread_id[0] == 0):
            for turn, part in in_turns(parts, BLOCKS):
                count[part] = count[part] + 1
                share[lego.block_id[0]] = share[lego.block_id[0]] + length[part]
                turns[lego.block_id[0]] = lego.i32(turn + 1)

    return visits


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60))
def test_each_part_is_visited_once_and_sorted_ones_are_shared_evenly(visits, lengths):
    lengths = np.array(sorted(lengths, reverse=True), np.int32)
    zeros = [np.zeros(n, np.int32) for n in (len(lengths), BLOCKS, BLOCKS)]
    _, count, share, turns = launch(visits, lengths, *zeros, sizes={"P": len(lengths)})
    assert (count == 1).all()
    assert share.sum() == lengths.sum() and share.max() - share.min() <= lengths[0]
    assert turns.sum() == len(lengths) and turns.max() - turns.min() <= 1


@pytest.fixture(scope="module")
def shares():
    """A kernel that counts the visits of the parts of rows by length, and adds the lengths of each block's."""
    rows, parts, together = (lego.size(name, min=1, max=200) for name in ("R", "P", "T"))
    order = schedule.by_length(rows, parts, together=together)

    @lego.kernel(grid=BLOCKS, block=32)
    def shares(count: lego.Tensor(i32, Row(rows, parts)), share: lego.Tensor(i32, Row(BLOCKS))):
        with lego.when(lego.thread_id[0] == 0):
            for _, number in in_turns(rows * parts, BLOCKS):
                row, part = order.inv(number)
                count[row, part] = count[row, part] + 1
                share[lego.block_id[0]] = share[lego.block_id[0]] + lego.i32(part) + 1

    return shares


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 8))
@example(26, 9, 8)
@example(30, 3, 0)
def test_parts_by_length_are_visited_once_and_shared_evenly(shares, rows, parts, more):
    together = -(-4 * BLOCKS // parts) + more  # sections of four turns or more
    zeros = np.zeros((rows, parts), np.int32), np.zeros(BLOCKS, np.int32)
    count, share = launch(shares, *zeros, sizes={"R": rows, "P": parts, "T": together})
    assert (count == 1).all()
    assert share.sum() == rows * parts * (parts + 1) // 2
    assert share.max() - share.min() <= 2.5 * parts  # row by row it is 4.4 parts
