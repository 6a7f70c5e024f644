"""vLLM's `merge_attn_states_kernel` (CUDA, 0.9): attention to a prefix and to what follows it, as attention to both.

Each part comes with the logarithms of its sums, by head and token; infinite ones, of parts without keys, count as -inf.
A thread has 8 elements of a head.

lego-mlir run examples/ported/merge_attention.py --size T=5 --size H=3
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

D, V, THREADS = 128, 8, 128  # of a head, of a thread, of a block
T, H = lego.size("T", max=1 << 20), lego.size("H", max=1 << 8)
HEADS, SUMS = lego.Tensor(bf16, Row(T, H, D)), lego.Tensor(f32, Row(H, T))


@lego.kernel(grid=lego.cdiv(T * H * (D // V), THREADS), block=THREADS)
def merge_attention(
    prefix: HEADS, prefix_sums: SUMS, suffix: HEADS, suffix_sums: SUMS, merged: HEADS, sums: SUMS | None
):
    number = lego.block_id[0] * THREADS + lego.thread_id[0]
    token, head, chunk = Row(T, H, D // V).inv(number)
    with lego.when(number < T * H * (D // V)):
        p, s = prefix_sums[head, token], suffix_sums[head, token]
        p, s = (lego.where(x == float("inf"), float("-inf"), x) for x in (p, s))
        greatest = lego.maximum(p, s)
        one, other = lego.exp(p - greatest), lego.exp(s - greatest)
        total = one + other
        one, other = one / total, other / total
        left, right = (x.load(token, head, V * chunk, width=V).to(f32) for x in (prefix, suffix))
        merged.store((left * one + right * other).to(bf16), token, head, V * chunk)
        if sums is not None:
            with lego.when(chunk == 0):
                sums[head, token] = lego.log(total) + greatest


@merge_attention.inputs
def inputs(rng, T, H):
    sums = rng.standard_normal((H, T)) * 4
    return {"prefix_sums": np.where(rng.random((H, T)) < 0.2, np.inf, sums), "suffix_sums": sums + 1}


@merge_attention.reference(rtol=1e-2, atol=1e-3)
def expected(prefix, prefix_sums, suffix, suffix_sums, sums):
    p, s = (np.where(x == np.inf, -np.inf, x) for x in (prefix_sums, suffix_sums))
    greatest = np.maximum(p, s)
    one, other = np.exp(p - greatest), np.exp(s - greatest)
    made = (prefix * one.T[..., None] + suffix * other.T[..., None]) / (one + other).T[..., None]
    return (made, np.log(one + other) + greatest) if sums is not None else made
