"""Tiles that scans and conversions exchange through are one block of shared memory, with the same results."""

import re

import numpy as np
from launching import launch_emulated

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, i32
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import parse, session
from lego_mlir.transforms.passes.allocate_shared import attributions
from lego_mlir.transforms.passes.join_scratch import JoinScratch

LAYOUT = f2.Blocked((1, 2), (2, 16), (1, 4), order=(1, 0)).layout((2, 128))


@lego.kernel(grid=1, block=128)
def exchanged(x: lego.Tensor(f32, Row(2, 128)), y: lego.Tensor(f32, Row(2, 128)), count: lego.Tensor(i32, Row(2, 128))):
    """A scan of pairs of two types over four warps, beside a tile of the user's."""
    own = lego.shared(f16, Row(128), name="own")
    own[lego.thread_id[0]] = 1
    lego.barrier()
    values = lego.load(x, LAYOUT)
    ones = lego.full(i32, LAYOUT, 1)
    sums, counts = lego.scan((values, ones), 1, lambda a, b: (a[0] + b[0], a[1] + b[1]))
    (sums * own[127 - lego.thread_id[0]].to(f32)).store(y)
    counts.store(count)


def test_results_and_one_block_beside_other_tiles():
    x = np.arange(256, dtype=np.float32).reshape(2, 128)
    _, y, count = launch_emulated(exchanged, x, np.zeros_like(x), np.zeros(x.shape, np.int32))
    np.testing.assert_array_equal(y, np.cumsum(x, axis=1))
    np.testing.assert_array_equal(count, np.tile(np.arange(1, 129), (2, 1)))
    declared = re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", exchanged.ptx("sm_90a"))
    assert sorted(map(int, declared)) == [256, 1024]


def test_only_several_scratch_tiles_are_joined():
    with session():
        module = parse(exchanged.mlir(), "-")
        (function,) = kernels(module)
        before = [str(tile.type) for tile in attributions(function)]
        JoinScratch().run_on(function)
        after = [str(tile.type) for tile in attributions(function)]
        JoinScratch().run_on(function)
        assert [str(tile.type) for tile in attributions(function)] == after
        module.operation.verify()
    assert len(before) == 3 and len(after) == 2
    assert after[0] == before[0] and "1024xi8" in after[1]


def test_equal_positions_have_one_address():
    loads = re.findall(r"ld\.shared\.b32 \t%r\d+, \[(%r\d+)(?:\+(\d+))?\]", exchanged.ptx("sm_90a"))
    assert len({register for register, _ in loads}) < len(loads) / 2
