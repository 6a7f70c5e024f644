"""What clusters of blocks refuse, with the remedy."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import InterpreterError, LegoError, TraceError
from lego_mlir.interp.traced_kernels import run_kernel


def message(function, grid=(4,), cluster=(2,)):
    with pytest.raises(LegoError) as error:
        lego.kernel(grid=grid, block=64, cluster=cluster)(function).trace()
    return str(error.value)


def stored(y: lego.Tensor(f32, Row(64))):
    y[lego.thread_id[0]] = 1.0


def test_clusters_that_no_grid_has_are_refused():
    assert "cluster=(2,): 2 does not divide grid x = 5; launch whole clusters, such as 6 blocks" in message(stored, 5)
    assert "cluster=(3, 3) has 9 blocks; every GPU with clusters runs at most 8 together" in message(
        stored, (9, 9), (3, 3)
    )
    assert "has a positive int for each axis of the grid (4,), or for its first ones" in message(stored, 4, (1, 2))
    assert "cluster='2' has a positive int for each axis" in message(stored, 4, "2")


def test_a_grid_of_known_size_at_launch_consists_of_whole_clusters():
    n = lego.size("N", min=1, max=1000)

    @lego.kernel(grid=n, block=32, cluster=2)
    def written(y: lego.Tensor(f32, Row(n))):
        with lego.when(lego.thread_id[0] < 1):
            y[lego.block_id[0]] = 1.0
        lego.cluster_barrier()

    assert run_kernel(written, {"y": np.zeros(6, np.float32)}, {"N": 6}).faults == []
    with pytest.raises(InterpreterError, match=r"whole clusters: grid x, N, is a multiple of 2, which fails for N = 7"):
        run_kernel(written, {"y": np.zeros(7, np.float32)}, {"N": 7})


def test_ranks_outside_of_the_cluster_are_refused():
    def beyond(y: lego.Tensor(f32, Row(64))):
        y[lego.thread_id[0]] = lego.shared(f32, Row(4), "part").of_block(lego.cluster_rank + 1)[0]

    def data(y: lego.Tensor(f32, Row(64))):
        rank = lego.index(lego.i32(y[0]))
        y[lego.thread_id[0]] = lego.shared(f32, Row(4), "part").of_block(rank)[0]

    def element(y: lego.Tensor(f32, Row(64))):
        y[lego.thread_id[0]] = lego.shared(f32, Row(4), "part").of_block(1)[4]

    assert "part.of_block: a cluster of beyond has the blocks 0 to 1, and" in message(beyond)
    assert "bx % 2 + 1 is outside for bx = " in message(beyond)
    assert "; take it modulo 2, or guard it with lego.when" in message(beyond)
    assert "is not proved to be inside; take it modulo 2" in message(data)
    assert "index 0 of [4] leaves 0 .. 3" in message(element)
    assert "has the blocks 0 to 0" in message(beyond, cluster=None)
    assert "divide the grid into clusters with @lego.kernel(.., cluster=(2, 1))" in message(beyond, cluster=None)


def test_misplaced_words_are_refused():
    def tensor(y: lego.Tensor(f32, Row(64))):
        y.of_block(0)[lego.thread_id[0]] = 1.0

    def in_role(y: lego.Tensor(f32, Row(64))):
        with lego.warps(0, 1):
            lego.cluster_barrier()

    def divergent(y: lego.Tensor(f32, Row(64))):
        with lego.when(lego.thread_id[0] < 32):
            lego.cluster_barrier()

    def atomic(y: lego.Tensor(f32, Row(64))):
        lego.shared(f32, Row(4), "part").of_block(0).atomic_add(1.0, 0)

    def product(y: lego.Tensor(f32, Row(64))):
        lego.copy_async(y, lego.shared(f32, Row(4, 4), "part").of_block(0), at=(0, 0))

    assert "y.of_block: only a shared tile, without a halo, has one place in each block" in message(tensor)
    assert "all threads of the cluster arrive there; put it at the kernel's top level" in message(in_role)
    assert "lego.cluster_barrier under the condition" in message(divergent)
    assert "only the threads of a block update its shared tiles atomically" in message(atomic)
    assert "copies into a shared tile of two dimensions" in message(product)


def test_copies_and_arrivals_of_blocks_that_no_cluster_has_are_refused():
    def copied(mask, barrier=True):
        def function(y: lego.Tensor(f32, Row(64, 64))):
            tile, full = lego.shared(f32, Row(64, 64), "tile"), lego.barriers(1)
            lego.copy_async(y, tile, at=(0, 0), barrier=full[0] if barrier else None, blocks=mask)

        return message(function)

    def arrival(y: lego.Tensor(f32, Row(64))):
        lego.barriers(1)[0].arrive(block=2)

    assert "blocks=4 is not proved to be a mask of some of the 2 blocks of a cluster, from 1 to 3" in copied(4)
    assert "blocks=0 is not proved to be a mask" in copied(0)
    assert "blocks is \"all\" or a mask of blocks from 1 to 3, got 'every'" in copied("every")
    assert "completes on a barrier in each of them: pass barrier=full[k]" in copied("all", barrier=False)
    assert "the barriers of another block: a cluster of arrival has the blocks 0 to 1, and 2" in message(arrival)


def test_outside_of_a_kernel():
    with pytest.raises(TraceError, match=r"lego\.cluster_barrier can be used only inside"):
        lego.cluster_barrier()
    with pytest.raises(TraceError, match="can be used only inside"):
        lego.block_in_cluster[0]
    assert repr(lego.cluster_rank) == "lego.cluster_rank"
