"""Hand-written fused attention, forward: strides as arguments, keys past the end masked."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, positions,
    stride_b, stride_h, stride_s, stride_d,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    base = batch * stride_b + head * stride_h
    queries = block * BLOCK_M + tl.arange(0, BLOCK_M)
    features = tl.arange(0, D)
    inside = queries < positions
    q_ptrs = q_ptr + base + queries[:, None] * stride_s + features[None, :] * stride_d
    q = tl.load(q_ptrs, mask=inside[:, None], other=0.0)
    highest = tl.full([BLOCK_M], -1.0e30, dtype=tl.float32)
    weight = tl.zeros([BLOCK_M], dtype=tl.float32)
    accumulator = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    last = tl.minimum((block + 1) * BLOCK_M, positions) if CAUSAL else positions
    for start in range(0, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        there = keys < positions
        k = tl.load(
            k_ptr + base + keys[None, :] * stride_s + features[:, None] * stride_d, mask=there[None, :], other=0.0
        )
        scores = tl.where(there[None, :], tl.dot(q, k) * scale, -1.0e30)
        if CAUSAL:
            scores = tl.where(queries[:, None] >= keys[None, :], scores, -1.0e30)
        new = tl.maximum(highest, tl.max(scores, axis=1))
        fading = tl.exp2(highest - new)
        powers = tl.exp2(scores - new[:, None])
        weight = weight * fading + tl.sum(powers, axis=1)
        v = tl.load(
            v_ptr + base + keys[:, None] * stride_s + features[None, :] * stride_d, mask=there[:, None], other=0.0
        )
        accumulator = tl.dot(powers.to(v.dtype), v, accumulator * fading[:, None])
        highest = new
    o = accumulator / weight[:, None]
    o_ptrs = o_ptr + base + queries[:, None] * stride_s + features[None, :] * stride_d
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(lse_ptr + tl.program_id(1) * positions + queries, highest + tl.log2(weight), mask=inside)
