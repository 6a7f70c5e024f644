"""Barriers take shared memory beside the tiles: 48 KB of both can be declared, more is dynamic."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32
from lego_mlir.errors import TraceError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.toolchain import compile_kernel


def copied(bytes_of_tiles, rings=1):
    """A kernel whose tile and barriers fill the memory that a block may declare."""
    rows = bytes_of_tiles // 128

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f16, Row(rows, 64)), y: lego.Tensor(f16, Row(32))):
        tile = lego.shared(f16, Row(rows, 64), "tile")
        full = [lego.barriers(3) for _ in range(rings)]
        for ring in full:
            lego.copy_async(x, tile.part((0, 0), (8, 64)), at=(0, 0), barrier=ring[0])
            ring[0].arrive()
            ring[0].wait()
        y[lego.lane_id] = tile[0, lego.lane_id]

    return kernel


@pytest.mark.parametrize(("size", "dynamic"), [(47 << 10, False), (48 << 10, True), ((48 << 10) - 128, True)])
def test_tiles_and_barriers_beyond_48_kilobytes_are_dynamic(size, dynamic):
    kernel = copied(size)
    assert ("gpu.dynamic_shared_memory" in kernel.mlir()) is dynamic


def test_ptxas_accepts_a_ring_beside_48_kilobytes():
    compiled = compile_kernel(copied(48 << 10), target="sm_80", emit="cubin")
    assert compiled.manifest["kernels"][0]["dynamic_shared_bytes"] == 48 << 10


def test_barriers_beside_the_largest_tiles_are_refused():
    @lego.kernel(grid=1, block=32)
    def full(y: lego.Tensor(f32, Row(32))):
        tile = lego.shared(f32, Row(LARGEST_SHARED_BYTES // 4), "tile")
        ring = lego.barriers(2)
        ring[0].arrive()
        y[lego.lane_id] = tile[lego.lane_id]

    with pytest.raises(TraceError, match=f"the shared tiles and barriers of full take {LARGEST_SHARED_BYTES + 16} byt"):
        full.trace()
