"""Registers for kernels that load tiles: by the values that a thread holds, so that loads are issued together."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32
from lego_mlir.hardware.limits import REGISTERS_PER_SM

ROWS = lego.Tensor(f32, Row(64, 128))


def added(**options):
    @lego.kernel(grid=1, block=128, **options)
    def added(x: ROWS, y: ROWS, z: ROWS):
        (lego.load(x, (64, 128)) + lego.load(y, (64, 128))).store(z)

    return added


def summed():
    @lego.kernel(grid=4, block=128)
    def summed(x: ROWS, ends: lego.Tensor(i32, Row(5), range=(0, 65)), y: lego.Tensor(f32, Row(4, 128))):
        r = lego.block_id[0]
        total = lego.register(lego.zeros(f32, (32, 128)))
        for first in lego.range(lego.index(ends[r]), lego.index(ends[r + 1]), 32):
            total += lego.load(x, (32, 128), at=(first, 0))
        total.get().sum(0).store(y, at=(r, 0))

    return summed


def multiplied():
    half = lego.Tensor(f16, Row(64, 64))

    @lego.kernel(grid=1, block=128)
    def multiplied(a: half, b: half, c: lego.Tensor(f32, Row(64, 64))):
        acc = lego.register(lego.zeros(f32, (64, 64)))
        for k in lego.range(0, 64, 16):
            x, y = lego.load(a, (64, 16), at=(0, k)), lego.load(b, (16, 64), at=(k, 0))
            acc.set(lego.mma(x, y, acc))
        acc.get().store(c)

    return multiplied


def test_words_are_those_of_the_values_alive():
    kernel = added()
    assert kernel.layout_choice.most_words() == 2 * 64 * 128 / 128  # both loads, issued together
    assert summed().layout_choice.most_words() == 2 * 32 * 128 / 128  # the sums, and the rows that are added


@pytest.mark.parametrize(("kernel", "words"), [(added(), 128), (summed(), 64)])
def test_a_bound_leaves_room_for_the_values(kernel, words):
    blocks = kernel.trace().bounds.min_blocks
    assert REGISTERS_PER_SM // (128 * blocks) >= words + 16
    assert REGISTERS_PER_SM // (128 * (blocks + 1)) < words + 16
    assert f".minnctapersm {blocks}\n" in kernel.ptx("sm_90")


def test_no_more_blocks_are_asked_for_than_shared_memory_has_room_for():
    """Of 128 threads with few values registers hold eight blocks, and shared memory two."""

    @lego.kernel(grid=1, block=128)
    def staged(x: ROWS, y: ROWS):
        tile = lego.shared(f32, Row(200, 128))
        lego.load(x, (64, 128)).store(tile, at=(0, 0))
        lego.barrier()
        lego.load(tile, (64, 128), at=(0, 0)).store(y)

    assert staged.trace().bounds.min_blocks == 2


def test_few_values_leave_registers_for_half_of_the_warps():
    @lego.kernel(grid=1, block=256)
    def copied(x: lego.Tensor(f32, Row(16, 128)), y: lego.Tensor(f32, Row(16, 128))):
        lego.load(x, (16, 128)).store(y)

    assert copied.trace().bounds.min_blocks == 4


def test_bounds_that_are_written_are_kept():
    assert added(min_blocks=2).trace().bounds.attributes() == {"nvvm.minctasm": 2}
    assert added(max_registers=40).trace().bounds.attributes() == {"nvvm.maxnreg": 40}


def test_none_for_products_in_loops_and_kernels_without_tiles():
    @lego.kernel(grid=1, block=128)
    def single(x: lego.Tensor(f32, Row(128)), y: lego.Tensor(f32, Row(128))):
        y[lego.thread_id[0]] = x[lego.thread_id[0]]

    for kernel in (multiplied(), single):
        assert kernel.trace().bounds.attributes() == {}
