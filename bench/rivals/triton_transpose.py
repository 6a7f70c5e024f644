"""The rival transpose in Triton: a tile is loaded, turned and stored; Triton finds the way through shared memory."""

import triton
import triton.language as tl


@triton.jit
def transpose(in_ptr, out_ptr, M, N, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    rows = tl.program_id(1) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(in_ptr + rows[:, None] * N + columns[None, :], mask=inside)
    tl.store(out_ptr + columns[:, None] * M + rows[None, :], tl.trans(tile), mask=tl.trans(inside))
