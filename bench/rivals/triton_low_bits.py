"""Products with weights of few bits in Triton, written for the comparison: tiles of K divided among blocks, sums added.

A byte has two numbers of 4 bits, the even one in its low half; a scale belongs to 128 of them.
"""

import triton
import triton.language as tl


@triton.jit
def w4a16(
    x, w, scales, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    n, m = tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(1) * BM + tl.arange(0, BM)
    k, half = tl.arange(0, GROUP), tl.arange(0, GROUP // 2)
    inside, rows = m[:, None] < M, n[:, None] < N
    acc = tl.zeros((BM, BN), tl.float32)
    for group in range(tl.program_id(2), K // GROUP, SPLIT):
        left = tl.load(x + m[:, None] * K + (group * GROUP + k)[None, :], mask=inside, other=0.0)
        pairs = tl.load(w + n[:, None] * (K // 2) + (group * GROUP // 2 + half)[None, :], mask=rows, other=0)
        codes = tl.reshape(tl.join(pairs & 15, pairs >> 4), (BN, GROUP))
        numbers = (((codes + 8) & 15).to(tl.float16) - 8.0).to(tl.float16)
        scale = tl.load(scales + group * N + n, mask=n < N, other=0.0).to(tl.float32)
        acc += tl.dot(left, tl.trans(numbers)) * scale[None, :]
    at, whole = m[:, None] * N + n[None, :], inside & (n < N)[None, :]
    if SPLIT == 1:
        tl.store(y + at, acc.to(y.dtype.element_ty), mask=whole)
    else:
        tl.atomic_add(y + at, acc.to(y.dtype.element_ty), mask=whole)
