"""Inclusive sum in one pass over memory, by decoupled look-back (Merrill, Garland, 2016).

A block publishes the sum of its elements. Its last warp then reads the words of the blocks before it, 32 at once, until
one holds the sum up to its end, and publishes its own. State and sum are one word of 64 bits, so that relaxed atomics
suffice.

lego-mlir run examples/first_day/look_back_scan.py --size N=20000
"""

from itertools import accumulate

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, i1, i32, u32, u64

T, ROWS = 256, 4  # threads of a block; rows of a warp, 128 elements each, four a lane
N, TILE = lego.size("N"), 4 * ROWS * T
BLOCKS = lego.cdiv(N, TILE)
SUM_OF_BLOCK, SUM_UP_TO_END = 1 << 32, 2 << 32  # states, above the sum; 0: nothing is published


@lego.kernel(grid=lego.cdiv(BLOCKS, T), block=T)
def clear(words: lego.Tensor(u64, Row(BLOCKS))):
    words.tile_by([lego.cdiv(BLOCKS, T)], [T])[lego.block_id[0], lego.thread_id[0]] = 0


@lego.kernel(grid=BLOCKS, block=T)
def scan_blocks(x: lego.Tensor(u32, Row(N)), y: lego.Tensor(u32, Row(N)), words: lego.Tensor(u64, Row(BLOCKS))):
    b, lane, warp, before = lego.block_id[0], lego.lane_id, lego.warp_id, lego.shared(u32, Row(1))
    rows = [(b * TILE + (warp * ROWS + k) * 128 + 4 * lane, lego.register(u32, 0, width=4)) for k in range(ROWS)]
    with lego.when((b + 1) * TILE <= N):
        for i, four in rows:
            four.set(x.load(i, width=4))
    with lego.otherwise():
        for i, four in rows:
            four.set(lego.vector(*(x.halo()[i + k] for k in range(4))))
    sums, warp_total = [], u32(0)
    for i, four in rows:
        *_, total = own = list(accumulate(four))
        up_to_lane = lego.warp_scan(total)
        sums.append((i, [warp_total + (up_to_lane - total) + one for one in own]))
        warp_total += lego.shuffle(up_to_lane, 31)
    below = lego.block_scan(lego.where(lane == 31, warp_total, 0), exclusive=True)
    with lego.when(warp == T // 32 - 1):
        part = below + warp_total
        with lego.when(lane == 0):
            words.atomic_store(u64(part) | SUM_OF_BLOCK, b)
        total, end, running = lego.register(u32, 0), lego.register(i32, i32(b)), lego.register(i1, True)
        with lego.while_(running):
            k, word = end - 1 - i32(lane), lego.register(u64, SUM_UP_TO_END)
            with lego.when(k >= 0):
                word.set(words.atomic_load(k))
            with lego.when(lego.warp_all(word != 0)):
                complete = lego.warp_ballot(word >= SUM_UP_TO_END)
                total += lego.warp_reduce(lego.where(u32(lane) <= lego.ctz(complete), u32(word & 0xFFFFFFFF), 0))
                end -= 32
                running.set(complete == 0)
        with lego.when(lane == 0):
            words.atomic_store(u64(total + part) | SUM_UP_TO_END, b)
            before[0] = total
    lego.barrier()
    shift = before[0] + below
    with lego.when((b + 1) * TILE <= N):
        for i, four in sums:
            y.store(lego.vector(*(shift + one for one in four)), i)
    with lego.otherwise():
        for i, four in sums:
            for k, one in enumerate(four):
                y.halo()[i + k] = shift + one


@lego.program
def scan(x: lego.Tensor(u32, Row(N)), y: lego.Tensor(u32, Row(N))):
    words = lego.empty(u64, Row(BLOCKS))
    clear(words)
    scan_blocks(x, y, words)


@scan.reference
def expected(x):
    return np.cumsum(x, dtype=np.uint32)
