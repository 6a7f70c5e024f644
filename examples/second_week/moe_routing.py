"""Routing of tokens to experts, the pass before a scan: each token's place among those of its expert in a block of 256,
and the number of each expert's tokens in each block.

Lanes of a warp with the same expert find each other by `match_any`; the first of them writes their number.

lego-mlir run examples/second_week/moe_routing.py --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, i32, u32

EXPERTS, T = 8, 256
WARPS = T // 32
N = lego.size("N")
BLOCKS = lego.cdiv(N, T)


@lego.kernel(grid=BLOCKS, block=T)
def moe_routing(
    expert: lego.Tensor(i32, Row(N), range=(0, EXPERTS)),
    place: lego.Tensor(i32, Row(N)),
    count: lego.Tensor(i32, Row(BLOCKS, EXPERTS)),
):
    t, lane, warp = lego.thread_id[0], lego.lane_id, lego.warp_id
    token, counts = lego.block_id[0] * T + t, lego.shared(i32, Row(WARPS, EXPERTS), name="counts")
    with lego.when(t < WARPS * EXPERTS):
        counts[t // EXPERTS, t % EXPERTS] = 0
    lego.barrier()
    mine = lego.where(token < N, expert.halo()[token], EXPERTS)  # past the end: of no expert
    peers = lego.match_any(mine)
    before = i32(lego.popcount(peers & ((u32(1) << u32(lane)) - 1)))
    with lego.when((before == 0) & (token < N)):
        counts[warp, expert[token]] = i32(lego.popcount(peers))
    lego.barrier()
    with lego.when(token < N):
        found = lego.register(i32, before)
        for w in lego.range(warp):
            found += counts[w, expert[token]]
        place[token] = found
    with lego.when(t < EXPERTS):
        count[lego.block_id[0], t] = sum(counts[w, t] for w in range(WARPS))


@moe_routing.reference
def expected(expert):
    place, counts = np.zeros(len(expert), np.int32), []
    for first in range(0, len(expert), T):
        block = expert[first : first + T]
        for e in range(EXPERTS):
            place[first : first + T][block == e] = np.arange((block == e).sum())
        counts.append(np.bincount(block, minlength=EXPERTS))
    return place, np.array(counts, np.int32)
