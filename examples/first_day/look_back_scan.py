"""Inclusive sum in one pass over memory, by decoupled look-back (Merrill, Garland, 2016).

A block publishes the sum of its elements, adds up what the blocks before it have published until one knows the sum up
to its end, and publishes its own. State and sum are one word of 64 bits, so that relaxed atomics suffice.

lego-mlir run examples/first_day/look_back_scan.py --size N=20000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, i1, i32, u32, u64

T = 256
N = lego.size("N")
BLOCKS = lego.cdiv(N, T)
SUM_OF_BLOCK, SUM_UP_TO_END = 1 << 32, 2 << 32  # states, above the sum; 0: nothing is published


@lego.kernel(grid=lego.cdiv(BLOCKS, T), block=T)
def clear(words: lego.Tensor(u64, Row(BLOCKS))):
    words.tile_by([lego.cdiv(BLOCKS, T)], [T])[lego.block_id[0], lego.thread_id[0]] = 0


@lego.kernel(grid=BLOCKS, block=T)
def scan_blocks(x: lego.Tensor(u32, Row(N)), y: lego.Tensor(u32, Row(N)), words: lego.Tensor(u64, Row(BLOCKS))):
    b, t, before = lego.block_id[0], lego.thread_id[0], lego.shared(u32, Row(1))
    part = lego.block_scan(x.tile_by([BLOCKS], [T])[b, t])
    with lego.when(t == T - 1):
        words.atomic_store(lego.where(b == 0, u64(SUM_UP_TO_END), SUM_OF_BLOCK) | u64(part), b)
        total, k, running = lego.register(u32, 0), lego.register(i32, i32(b) - 1), lego.register(i1, b > 0)
        with lego.while_(running):
            word = words.atomic_load(k)
            total += u32(word & 0xFFFFFFFF)
            k -= lego.where(word == 0, i32(0), 1)
            running.set(word < SUM_UP_TO_END)
        words.atomic_store(u64(total + part) | SUM_UP_TO_END, b)
        before[0] = total
    lego.barrier()
    y.tile_by([BLOCKS], [T])[b, t] = before[0] + part


@lego.program
def scan(x: lego.Tensor(u32, Row(N)), y: lego.Tensor(u32, Row(N))):
    words = lego.empty(u64, Row(BLOCKS))
    clear(words)
    scan_blocks(x, y, words)


@scan.reference
def expected(x):
    return np.cumsum(x, dtype=np.uint32)
