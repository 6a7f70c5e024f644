"""Words that all threads of a group run together refuse an index that differs between them, with the remedy."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.errors import TraceError

DIFFERING = {
    "thread": lambda x, t: t // 32,
    "lane": lambda x, t: lego.lane_id // 8,
    "data": lambda x, t: lego.index(x[t], range=(0, 4)),
    "register": lambda x, t: _held(x, t),
}
SAME = {
    "block": lambda x, t: lego.block_id[0],
    "data of all": lambda x, t: lego.index(x[lego.block_id[0]], range=(0, 4)),
    "constant": lambda x, t: 3,
}


def _held(x, t):
    held = lego.register(i32, 0)
    held.set(x[t])
    return lego.index(held.get(), range=(0, 4))


def copying(index, word):
    @lego.kernel(grid=4, block=64)
    def k(a: lego.Tensor(f32, Row(128, 32)), x: lego.Tensor(i32, Row(64)), y: lego.Tensor(f32, Row(4, 64))):
        t = lego.thread_id[0]
        tile = lego.shared(f32, Row(32, 32))
        if word == "copy_async":
            lego.copy_async(a, tile, at=(index(x, t) * 32, 0))
            lego.commit_copies()
            lego.wait_copies()
        else:
            lego.stage(a, (index(x, t), 0), tile)
        lego.barrier()
        y[lego.block_id[0], t] = tile[t % 32, t // 32]

    return k


@pytest.mark.parametrize("word", ["copy_async", "stage"])
@pytest.mark.parametrize("kind", DIFFERING)
def test_an_index_that_differs_between_threads_is_refused(kind, word):
    with pytest.raises(
        TraceError, match=rf"lego.{word} at the index .* differs between the threads of the block; they run"
    ):
        copying(DIFFERING[kind], word).trace()


@pytest.mark.parametrize("word", ["copy_async", "stage"])
@pytest.mark.parametrize("kind", SAME)
def test_an_index_that_is_the_same_for_all_is_taken(kind, word):
    copying(SAME[kind], word).trace()


def test_groups_of_a_role_may_have_indices_of_their_own():
    def k(index):
        @lego.kernel(grid=1, block=128)
        def by_roles(a: lego.Tensor(f32, Row(128, 32)), y: lego.Tensor(f32, Row(128, 32))):
            tile = lego.shared(f32, Row(64, 32))
            with lego.warps(0, 4, groups=2):
                part = tile.part((lego.group_id * 32, 0), (32, 32))
                lego.copy_async(part, y, at=(index() * 32, 0))
                lego.commit_copies()
                lego.wait_copies()

        return by_roles

    k(lambda: lego.group_id).trace()
    with pytest.raises(TraceError, match="differs between the threads of the role"):
        k(lambda: lego.warp_id).trace()
