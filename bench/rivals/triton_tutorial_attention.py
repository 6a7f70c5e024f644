"""Fused attention, forward, with the structure of Triton's tutorial: unmasked tiles first, then those on the diagonal.

Lengths are multiples of the tiles, so that no access has a mask. Tiles are read through pointers or, on Hopper, through
descriptors of the tensor-copy engine, whichever is faster.
"""

import triton
import triton.language as tl


@triton.jit
def advance(
    total, weight, highest, q, keys, values, scale, first, start, end,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, DESCRIPTORS: tl.constexpr,
    head_start,
):  # fmt: skip
    rows = first + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    features = tl.arange(0, D)
    for at in tl.range(start, end, BLOCK_N):
        if DESCRIPTORS:
            k = keys.load([head_start + at, 0]).T
        else:
            k = tl.load(keys + (at + columns)[None, :] * D + features[:, None])
        scores = tl.dot(q, k)
        if MASKED:
            scores = scores * scale + tl.where(rows[:, None] >= (at + columns)[None, :], 0.0, -1.0e6)
            new = tl.maximum(highest, tl.max(scores, 1))
            powers = tl.exp2(scores - new[:, None])
        else:
            new = tl.maximum(highest, tl.max(scores, 1) * scale)
            powers = tl.exp2(scores * scale - new[:, None])
        fade = tl.exp2(highest - new)
        weight = weight * fade + tl.sum(powers, 1)
        total = total * fade[:, None]
        if DESCRIPTORS:
            v = values.load([head_start + at, 0])
        else:
            v = tl.load(values + (at + columns)[:, None] * D + features[None, :])
        total = tl.dot(powers.to(v.dtype), v, total)
        highest = new
    return total, weight, highest


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, heads, positions,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    head_start = tl.program_id(1) * positions
    rows = first + tl.arange(0, BLOCK_M)
    features = tl.arange(0, D)
    base = head_start.to(tl.int64) * D
    if DESCRIPTORS:
        all_rows = heads * positions
        keys = tl.make_tensor_descriptor(k_ptr, shape=[all_rows, D], strides=[D, 1], block_shape=[BLOCK_N, D])
        values = tl.make_tensor_descriptor(v_ptr, shape=[all_rows, D], strides=[D, 1], block_shape=[BLOCK_N, D])
    else:
        keys = k_ptr + base
        values = v_ptr + base
    q = tl.load(q_ptr + base + rows[:, None] * D + features[None, :])
    total = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    weight = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    highest = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    whole = first if CAUSAL else positions
    total, weight, highest = advance(
        total, weight, highest, q, keys, values, scale, first, 0, whole, D, BLOCK_M, BLOCK_N, False, DESCRIPTORS,
        head_start,
    )  # fmt: skip
    if CAUSAL:
        total, weight, highest = advance(
            total, weight, highest, q, keys, values, scale, first, first, first + BLOCK_M, D, BLOCK_M, BLOCK_N, True,
            DESCRIPTORS, head_start,
        )  # fmt: skip
    out = total / weight[:, None]
    tl.store(o_ptr + base + rows[:, None] * D + features[None, :], out.to(o_ptr.dtype.element_ty))
