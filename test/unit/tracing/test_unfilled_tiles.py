"""Bounds by what a shared tile holds need the tile to be filled, also where its values cancel in the claim."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.checks.claims import access_verdicts


def guarded(condition):
    """A store far outside, where `condition` of an element of a tile holds that half of the threads fill."""

    @lego.kernel(grid=1, block=32)
    def kernel(table: lego.Tensor(i32, Row(32), range=(0, 100)), y: lego.Tensor(f32, Row(32))):
        t, tile = lego.thread_id.x, lego.shared(i32, Row(32))
        with lego.when(t < 16):
            tile[t] = table[t]
        lego.barrier()
        with lego.when(condition(tile[t ^ 1])):
            y[t + 64] = 1.0

    return kernel


@pytest.mark.parametrize("condition", [
    lambda v: lego.index(v + 1000) - lego.index(v) != 1000, lambda v: lego.index(v + 1000) < 1000, lambda v: v > 100,
])  # fmt: skip
def test_a_guard_that_never_holds_counts_where_the_tile_is_filled(condition):
    trace = guarded(condition).trace()
    for filled in (False, True):
        found = dict(access_verdicts(trace, 500, lambda tile, filled=filled: filled))
        (store,) = (verdict for text, verdict in found.items() if "y[" in text)
        assert isinstance(store, Proved) == filled, store
