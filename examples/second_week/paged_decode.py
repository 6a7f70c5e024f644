"""Attention of one query a sequence to keys and values in pages: decoding with a paged cache.

A block has a head of a sequence. Tiles of 64 positions select their pages by the sequence's table; rows of the cache
are loaded by tiles of indices, in vectors, and the softmax is that of flash attention: a running maximum and sum.

lego-mlir run examples/second_week/paged_decode.py --size B=3 --size P=9
"""

import math

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32

D, PAGE, TILE, MOST = 64, 16, 64, 8  # features, positions of a page and of a tile, pages of a sequence
B, P = lego.size("B"), lego.size("P", max=2**20)
HEADS = 2
CACHE, QUERY = lego.Tensor(f16, Row(P, HEADS, PAGE, D)), lego.Tensor(f16, Row(B, HEADS, D))
SCALE = math.log2(math.e) / math.sqrt(D)


@lego.kernel(grid=(HEADS, B), block=128, max_registers=55)
def paged_decode(
    query: QUERY,
    keys: CACHE,
    values: CACHE,
    table: lego.Tensor(i32, Row(B, MOST), range=(0, P)),
    length: lego.Tensor(i32, Row(B), range=(1, MOST * PAGE + 1)),
    out: QUERY,
):
    head, b = lego.block_id[:2]
    q = lego.load(query, (D,), at=(b, head, 0)).to(f32)[None, :]
    columns, end = lego.arange((TILE, D), 1), lego.index(length[b])
    best = lego.register(f32, -math.inf)
    total = lego.register(lego.zeros(f32, (16,)))
    found = lego.register(lego.zeros(f32, (16, D)))
    for first in lego.range(0, end, TILE):
        position = first + lego.arange((TILE,), 0)
        page = table.load(b, position // PAGE, mask=position < end)
        row = page[:, None], head, (position % PAGE)[:, None], columns
        s = (keys[row].to(f32) * q).sum(axis=1) * SCALE
        s = lego.where(position < end, s, -math.inf)
        top = lego.maximum(best.get(), s.max(axis=0))
        p, fade = lego.exp2(s - top, fast=True), lego.exp2(best.get() - top, fast=True)
        total.set(total * fade + p.reshape(4, 16).sum(axis=0))
        found.set(found * fade + (values[row].to(f32) * p[:, None]).reshape(4, 16, D).sum(axis=0))
        best.set(top)
    (found.get().sum(axis=0) * (1.0 / total.get().sum(axis=0))).to(f16).store(out, at=(b, head, 0))


@paged_decode.inputs
def inputs(rng, B, P):
    return {"length": rng.integers(1, MOST * PAGE + 1, B).astype(np.int32)}


@paged_decode.reference(rtol=2**-9, atol=2**-9)
def expected(query, keys, values, table, length):
    out = np.zeros(query.shape, np.float32)
    for b, n in enumerate(length):
        k, v = (
            cache[table[b]].astype(np.float32).transpose(1, 0, 2, 3).reshape(HEADS, -1, D)[:, :n]
            for cache in (keys, values)
        )
        s = np.einsum("hd,hnd->hn", query[b].astype(np.float32), k) / math.sqrt(D)
        weights = np.exp(s - s.max(1, keepdims=True))
        out[b] = np.einsum("hn,hnd->hd", weights / weights.sum(1, keepdims=True), v)
    return out
