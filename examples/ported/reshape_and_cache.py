"""vLLM's `reshape_and_cache_flash` (CUDA): keys and values of new tokens into the pages of a cache, in f8.

A slot is a page times its size plus a row; tokens of padding have the slot -1 and are left out. The other slots are
distinct, which the kernel states: so it is proved free of races.

lego-mlir run examples/ported/reshape_and_cache.py --size L=5 --size P=7
"""

import ml_dtypes
import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f8e4m3fn, f16, f32, i32

HEADS, SIZE, PAGE, V = 4, 64, 16, 8
L, P = lego.size("L"), lego.size("P")  # tokens, pages
TOKENS, CACHE = lego.Tensor(f16, Row(L, HEADS * SIZE)), lego.Tensor(f8e4m3fn, Row(P * PAGE, HEADS * SIZE))


@lego.kernel(grid=L, block=HEADS * SIZE // V)
def reshape_and_cache(
    key: TOKENS, value: TOKENS, slots: lego.Tensor(i32, Row(L)), keys: CACHE, values: CACHE, scale: f32
):
    token, column = lego.block_id[0], lego.thread_id[0] * V
    lego.assume_distinct(slots, range=(0, P * PAGE))
    slot = lego.index(slots[token])
    with lego.when((slot >= 0) & (slot < P * PAGE)):
        for given, cache in ((key, keys), (value, values)):
            numbers = given.load(token, column, width=V).to(f32) * (1.0 / scale)
            cache.store(numbers.to(f8e4m3fn), slot, column)


@reshape_and_cache.reference(rtol=0.07, atol=1e-2)
def expected(key, value, slots, keys, values, scale):
    kept = slots >= 0
    for given, cache in ((key, keys), (value, values)):
        cache[slots[kept]] = (given[kept].astype(np.float32) / np.float32(scale)).astype(ml_dtypes.float8_e4m3fn)
    return keys, values


@reshape_and_cache.inputs
def inputs(rng, L, P):
    slots = rng.permutation(P * PAGE)[:L] if L <= P * PAGE else np.arange(L) % (P * PAGE)
    slots[::4] = -1
    drawn = rng.standard_normal((4, max(L, P * PAGE), HEADS * SIZE))
    return {
        "key": drawn[0, :L], "value": drawn[1, :L], "slots": slots,
        "keys": drawn[2, : P * PAGE], "values": drawn[3, : P * PAGE], "scale": 0.5,
    }  # fmt: skip
