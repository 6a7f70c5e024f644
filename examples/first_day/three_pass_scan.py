"""Inclusive sum of an array of any length, in three kernels: scan blocks, scan their sums, add these to the blocks.

lego-mlir run examples/first_day/three_pass_scan.py --size N=100000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

T = 512
N = lego.size("N", max=T * T)
BLOCKS = lego.cdiv(N, T)


@lego.kernel(grid=BLOCKS, block=T)
def scan_blocks(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), sums: lego.Tensor(f32, Row(BLOCKS))):
    b, t = lego.block_id[0], lego.thread_id[0]
    part = lego.block_scan(x.tile_by([BLOCKS], [T])[b, t])
    y.tile_by([BLOCKS], [T])[b, t] = part
    with lego.when(t == T - 1):
        sums[b] = part


@lego.kernel(grid=1, block=T)
def scan_sums(sums: lego.Tensor(f32, Row(BLOCKS))):
    tile, t = sums.tile_by([1], [T]), lego.thread_id[0]
    tile[0, t] = lego.block_scan(tile[0, t])


@lego.kernel(grid=BLOCKS, block=T)
def add_sums(sums: lego.Tensor(f32, Row(BLOCKS)), y: lego.Tensor(f32, Row(N))):
    b, t = lego.block_id[0], lego.thread_id[0]
    with lego.when(b > 0):
        y.tile_by([BLOCKS], [T])[b, t] += sums[b - 1]


@lego.program
def scan(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    sums = lego.empty(f32, Row(BLOCKS))
    scan_blocks(x, y, sums)
    scan_sums(sums)
    add_sums(sums, y)


@scan.reference
def expected(x):
    return np.cumsum(x)
