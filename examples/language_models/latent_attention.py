"""Decoding with multi-head latent attention: all heads attend to one cached latent, both their keys and their values.

    scores[h, k] = scale * q[h] . cache[k]     o[h] = sum over k of softmax(scores[h])[k] * cache[k, :512]

A cached token has 512 numbers of the latent and 64 of the rotary part; queries and results are in the latent's space,
with the projections absorbed. A tile of 64 tokens is copied to shared memory once: its 576 columns are the keys of one
product, the first 512 the values of the next. Up to 64 rows, the heads of a query one by one, share it. The tokens of a
sequence are divided among blocks, and the last block to arrive combines their parts (`kernels.key_parts`).

lego-mlir run examples/language_models/latent_attention.py --size B=2 --size P=9

DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.
"""

import functools
import math

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f32, i32
from lego_mlir.kernels.attention_tiles import staged
from lego_mlir.kernels.key_parts import LOWEST, combined, part_of_block

LATENT, ROPE, PAGE = 512, 64, 64  # features of values, those of keys beside them, tokens of a page and of a tile
WIDTH, WARPS, VECTOR = LATENT + ROPE, 8, 4
SCALE = 1 / math.sqrt(128 + ROPE)  # by the features of a head of which projections have not been absorbed


def latent_attention(heads, queries=1, dtype=bf16, most=7, parts=3, scale=SCALE):
    """The program for sequences of up to `most` pages, whose tokens are divided into about `parts` in all.

    Heads times queries are a multiple of 16. Query i attends to the tokens up to i + length - queries. Scores are
    products times `scale`.
    """
    B, P = lego.size("B", max=2**15), lego.size("P", max=2**24)
    U, count, exponent = B + parts, heads * queries, scale * math.log2(math.e)
    rows = math.gcd(count, 64)
    if rows < 16:
        raise ValueError(f"latent_attention: heads times queries are a multiple of 16, got {heads} x {queries}")
    tiles, parent = count // rows, f2.MmaSync((rows // 16, WARPS * 16 // rows))
    scores, whole = (parent.layout((rows, n)) for n in (PAGE, LATENT))
    sliced = f2.Sliced(1, parent).layout((rows,))

    queries_, results = (lego.Tensor(dtype, Row(B, count, n)) for n in (WIDTH, LATENT))
    cache_ = lego.Tensor(dtype, Row(P, PAGE, WIDTH))
    table_ = lego.Tensor(i32, Row(B, most), range=(0, P))
    lengths_ = lego.Tensor(i32, Row(B), range=(0, most * PAGE + 1))
    of_parts, of_sums, of_counters = Row(U, tiles, rows, LATENT), Row(U, tiles, rows), Row(B, tiles)

    @lego.kernel(grid=B, block=tiles)
    def clear(counters: lego.Tensor(i32, of_counters)):
        counters[lego.block_id[0], lego.thread_id[0]] = 0

    @lego.kernel(grid=(tiles, U), block=32 * WARPS, fast=True)
    def attend(
        q: queries_, cache: cache_, table: table_, lengths: lengths_, o: results,
        partial: lego.Tensor(f32, of_parts), sums: lego.Tensor(f32, of_sums), counters: lego.Tensor(i32, of_counters),
    ):  # fmt: skip
        place, number = lego.block_id[:2]
        held = lego.shared(dtype, staged(rows, WIDTH), "queries")
        ring = lego.shared(dtype, staged(PAGE, WIDTH, 2), "ring")
        weights = lego.shared(dtype, staged(rows, PAGE), "weights")
        part = part_of_block(lengths, number, B, U, PAGE)

        def tile(n, width):
            return ring.part((n % 2 * PAGE, 0), (PAGE, width))

        def fill(n):
            first = part.begin + n * PAGE
            with lego.when(first < part.end):
                page = lego.index(table[part.b, first // PAGE])
                lego.copy_async(
                    cache,
                    tile(n, WIDTH),
                    at=lambda t: (lego.where(first + t < part.end, page, P), t, 0),  # zeros after the last token
                )
            lego.commit_copies()

        with lego.when(part.exists == 1):
            lego.copy_async(q, held, at=(part.b, place * rows, 0))
            fill(0)
            best = lego.register(lego.full(f32, sliced, LOWEST))
            total = lego.register(lego.zeros(f32, sliced))
            out = lego.register(lego.zeros(f32, whole))
            query = (place * rows + lego.arange(sliced, 0)) // heads
            ends = lego.minimum(part.end, part.length - queries + query + 1)[:, None]
            for n in lego.range(lego.cdiv(lego.maximum(part.end - part.begin, 0), PAGE)):
                lego.wait_copies(0)
                lego.barrier()  # all warps have read the tile that is replaced
                fill(n + 1)
                s = lego.mma(held, tile(n, WIDTH).T, lego.zeros(f32, scores))
                key = part.begin + n * PAGE + lego.arange(scores, 1)
                s = lego.where(key < ends, s, -math.inf)
                top = lego.maximum(best.get(), s.max(axis=1))
                fade = lego.exp2((best.get() - top) * exponent)
                p = lego.exp2((s - top[:, None]) * exponent)
                p.to(dtype).store(weights)
                total.set(total.get() * fade + p.sum(axis=1))
                best.set(top)
                lego.barrier()
                out.set(lego.mma(weights, tile(n, LATENT), out.get() * fade[:, None]))
            share = lego.where(total.get() > 0.0, 1.0 / total.get(), 0.0)
            found = out.get() * share[:, None]
            with lego.when(part.parts == 1):
                found.to(dtype).store(o, at=(part.b, place * rows, 0))
            with lego.otherwise():
                partial.atomic_store(found, number, place, lego.arange(whole, 0), lego.arange(whole, 1))
                log = lego.fma(best.get(), exponent, lego.log2(total.get()))
                sums.atomic_store(log, number, place, lego.arange(sliced, 0))
            with lego.when(part.parts > 1), lego.when(part.is_last(counters, place)):
                across = LATENT // VECTOR

                def of_part(row, column, block):
                    vector = partial.atomic_load(block, place, row, column, width=VECTOR)
                    return sums.atomic_load(block, place, row), vector

                for v in lego.range(lego.thread_id[0], rows * across, 32 * WARPS):
                    row, column = v // across, v % across * VECTOR
                    read = functools.partial(of_part, row, column)
                    _, vector = combined(part.first, part.parts, read, VECTOR)
                    o.store(vector.to(dtype), part.b, place * rows + row, column)

    @lego.program
    def latent_attention(q: queries_, cache: cache_, table: table_, lengths: lengths_, o: results):
        partial, sums = lego.empty(f32, of_parts, name="partial"), lego.empty(f32, of_sums, name="sums")
        counters = lego.empty(i32, of_counters, name="counters")
        clear(counters)  # which every launch leaves as 0: an engine that keeps them clears them once
        attend(q, cache, table, lengths, o, partial, sums, counters)

    @latent_attention.inputs
    def inputs(rng, B):
        lengths = rng.integers(0, most * PAGE + 1, B).astype(np.int32)
        lengths[0] = most * PAGE - 1  # several parts
        return {"lengths": lengths}

    @latent_attention.reference(rtol=2**-6, atol=2**-7)
    def expected(q, cache, table, lengths):
        o = np.zeros((len(q), count, LATENT), np.float32)
        for b, row in np.ndindex(o.shape[:2]):
            keys = cache[table[b]].reshape(-1, WIDTH)[: max(lengths[b] - queries + row // heads + 1, 0)]
            if len(keys):
                s = keys.astype(np.float32) @ q[b, row].astype(np.float32) * scale
                p = np.exp(s - s.max())
                o[b, row] = p @ keys[:, :LATENT].astype(np.float32) / p.sum()
        return o

    return latent_attention


decode = latent_attention(16)
