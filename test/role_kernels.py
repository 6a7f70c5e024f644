"""Kernels with warp roles that several tests run: in the interpreter, and as PTX in the emulator."""

import lego_mlir as lego
from lego_mlir import Row, f16, gallery

ROWS, COLUMNS, TILE, STAGES = 128, 256, 64, 2


def staged(
    *,
    rows=ROWS,
    columns=COLUMNS,
    full_wait=True,
    empty_wait=True,
    arrival=True,
    early=False,
    arrivals=2,
    on_barrier=True,
    stages=STAGES,
):
    """One warp copies tiles into a ring, two warps store them doubled."""

    @lego.kernel(grid=(ROWS // TILE,), block=96)
    def doubled(x: lego.Tensor(f16, Row(rows, columns)), y: lego.Tensor(f16, Row(ROWS, COLUMNS))):
        top = lego.block_id[0] * TILE
        ring = lego.shared(f16, gallery.xor_swizzle(stages * TILE, TILE, 8), "ring")
        full, empty = lego.barriers(stages), lego.barriers(stages, arrivals=arrivals)
        with lego.warps(0, 1):
            for k in lego.range(COLUMNS // TILE):
                if empty_wait:
                    empty[k - stages].wait()
                tile = ring.part((k % stages * TILE, 0), (TILE, TILE))
                lego.copy_async(x, tile, at=(top, k * TILE), barrier=full[k] if on_barrier else None)
                full[k].arrive()
        with lego.warps(1, 3):
            column = lego.warp_id * 32 + lego.lane_id
            for k in lego.range(COLUMNS // TILE):
                if full_wait:
                    full[k].wait()
                if early:
                    empty[k].arrive()
                for row in lego.range(TILE):
                    y[top + row, k * TILE + column] = ring[k % stages * TILE + row, column] * 2
                if arrival and not early:
                    empty[k].arrive()

    return doubled


def heads():
    """Tiles of a tensor whose sizes are known at launch, past its end as well."""
    h, s = lego.size("H", min=1, max=1000), lego.size("S", min=1, max=10000)
    tensor = lego.Tensor(f16, Row(h, s, 64))

    @lego.kernel(grid=(lego.cdiv(s, 64), h), block=96)
    def moved(x: tensor, y: tensor):
        top, head, out = lego.block_id[0] * 64, lego.block_id[1], y.halo("zero")
        tile, full = lego.shared(f16, gallery.xor_swizzle(64, 64, 8), "tile"), lego.barriers(1)
        with lego.warps(0, 1):
            lego.copy_async(x, tile, at=(head, top, 0), barrier=full[0])
            full[0].arrive()
        with lego.warps(1, 3):
            column = lego.warp_id * 32 + lego.lane_id
            full[0].wait()
            for row in lego.range(64):
                out[head, top + row, column] = tile[row, column]

    return moved


def stored(warps=4, rows=100):
    """Threads fill a swizzled tile, which is copied to global memory."""

    @lego.kernel(grid=(2,), block=32 * warps)
    def out(y: lego.Tensor(f16, Row(rows, 64))):
        tile = lego.shared(f16, gallery.xor_swizzle(64, 64, 8), "tile")
        for i in lego.range(64 * 64 // (32 * warps)):
            n = i * 32 * warps + lego.thread_id[0]
            tile[n // 64, n % 64] = lego.f16(n % 64 + lego.block_id[0])
        lego.barrier()
        lego.copy_async(tile, y, at=(lego.block_id[0] * 64, 0))
        lego.commit_copies()
        lego.wait_copies()

    return out
