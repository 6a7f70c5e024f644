"""A kernel whose warps split at a branch around a store to shared memory, for `counters.py`."""

# mypy: disable-error-code="valid-type"

from typing import Any

import lego_mlir as lego
from lego_mlir import Row, f32


def reversed_tiles(size: int) -> Any:
    """Each block writes its 128 elements of a ragged vector in reverse, threads below 70 two columns of a tile."""
    blocks = lego.cdiv(size, 128)

    @lego.kernel(grid=blocks, block=128)
    def transpose(src: lego.Tensor(f32, Row(size)), dst: lego.Tensor(f32, Row(size))):  # type: ignore[no-untyped-def]
        block, thread = lego.block_id.x, lego.thread_id.x
        tile = lego.shared(f32, Row(4, 33))
        a, b = src.tile_by([blocks], [128]), dst.tile_by([blocks], [128])
        value = a[block, thread]
        with lego.when(thread < 70):
            tile[thread % 4, thread // 4] = value
        with lego.when(thread >= 70):
            tile[thread % 4, thread // 4] = value * 2.0
        lego.barrier()
        b[block, thread] = tile[3 - thread % 4, 31 - thread // 4]

    return transpose
