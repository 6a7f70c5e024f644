"""Shares of numbered parts: each part is one block's, and shares of sorted parts are alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, i32
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
