"""Causal attention without its matrix of scores (FlashAttention, forward): f16, one query a thread, keys by tiles.

lego-mlir run examples/first_day/flash_attention.py
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32

HEADS, S, D, T = 2, 128, 64, 64  # heads, sequence, head dimension; queries and keys of a tile
SCALE = D**-0.5 * np.log2(np.e)  # exp(x) = exp2(x log2(e))
TENSOR = lego.Tensor(f16, Row(HEADS, S, D))


@lego.kernel(grid=(S // T, HEADS), block=T)
def attention(q: TENSOR, k: TENSOR, v: TENSOR, o: TENSOR):
    tile, head, t = lego.block_id[0], lego.block_id[1], lego.thread_id[0]
    row, columns = tile * T + t, range(0, D, 8)
    keys, values = (lego.shared(f16, Row(T, D), name=name) for name in ("keys", "values"))
    query = {d: q.load(head, row, d, width=8).to(f32) * SCALE for d in columns}
    out = {d: lego.register(f32, 0.0, width=8) for d in columns}
    best, total = lego.register(f32, -1e30), lego.register(f32, 0.0)
    for j in lego.range(tile + 1):
        for d in columns:
            keys.store(k.load(head, j * T + t, d, width=8), t, d)
            values.store(v.load(head, j * T + t, d, width=8), t, d)
        lego.barrier()
        for i in lego.range(T):
            with lego.when(j * T + i <= row):
                score = sum(sum(part * keys.load(i, d, width=8).to(f32)) for d, part in query.items())
                top = lego.maximum(best, score)
                old, new = lego.exp2(best - top), lego.exp2(score - top)
                for d, part in out.items():
                    part.set(part * old + values.load(i, d, width=8).to(f32) * new)
                total.set(total * old + new)
                best.set(top)
        lego.barrier()
    for d, part in out.items():
        o.store((part / total).to(f16), head, row, d)


@attention.reference(rtol=2**-9, atol=2**-10)
def expected(q, k, v):
    scores = np.where(np.tri(S), q @ k.swapaxes(1, 2) * D**-0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)
