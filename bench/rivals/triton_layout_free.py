"""Kernels of TritonBench in Triton, written for the comparison: the programs of `layout_free_kernels` in its words."""

import triton
import triton.language as tl


@triton.jit
def vector_exp(x, y, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < N)), mask=i < N)


@triton.jit
def softmax(x, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    t = tl.load(x + r * N + c, mask=c < N, other=-float("inf"))
    e = tl.exp(t - tl.max(t, 0))
    tl.store(y + r * N + c, e / tl.sum(e, 0), mask=c < N)


@triton.jit
def layer_norm(x, w, b, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    t = tl.load(x + r * N + c, mask=c < N, other=0.0)
    d = tl.where(c < N, t - tl.sum(t, 0) / N, 0.0)
    s = tl.rsqrt(tl.sum(d * d, 0) / N + 1e-5)
    out = d * s * tl.load(w + c, mask=c < N) + tl.load(b + c, mask=c < N)
    tl.store(y + r * N + c, out, mask=c < N)


@triton.jit
def rms_norm(x, w, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    t = tl.load(x + r * N + c, mask=c < N, other=0.0)
    s = tl.rsqrt(tl.sum(t * t, 0) / N + 1e-6)
    tl.store(y + r * N + c, t * s * tl.load(w + c, mask=c < N), mask=c < N)


@triton.jit
def cross_entropy(x, target, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    t = tl.load(x + r * N + c, mask=c < N, other=-float("inf"))
    most = tl.max(t, 0)
    total = tl.sum(tl.exp(t - most), 0)
    tl.store(y + r, tl.log(total) + most - tl.load(x + r * N + tl.load(target + r)))


@triton.jit
def embedding(i, table, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    tl.store(y + r * N + c, tl.load(table + tl.load(i + r) * N + c, mask=c < N), mask=c < N)


@triton.jit
def rope(x, c, s, y, H, B: tl.constexpr):
    r, k = tl.program_id(0), tl.arange(0, B)
    inside = k < H
    first, second = tl.load(x + r * 2 * H + k, mask=inside), tl.load(x + (r * 2 + 1) * H + k, mask=inside)
    cosine, sine = tl.load(c + r * H + k, mask=inside), tl.load(s + r * H + k, mask=inside)
    tl.store(y + r * 2 * H + k, first * cosine - second * sine, mask=inside)
    tl.store(y + (r * 2 + 1) * H + k, second * cosine + first * sine, mask=inside)


@triton.jit
def swiglu(a, b, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    t = tl.load(a + r * N + c, mask=c < N)
    tl.store(y + r * N + c, t * tl.sigmoid(t) * tl.load(b + r * N + c, mask=c < N), mask=c < N)


@triton.jit
def geglu(a, b, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    t = tl.load(a + r * N + c, mask=c < N)
    u = (t + t * t * t * 0.044715) * 1.5957691216057308
    tl.store(y + r * N + c, t * tl.sigmoid(u) * tl.load(b + r * N + c, mask=c < N), mask=c < N)


@triton.jit
def jagged_sum(x, ends, y, N, B: tl.constexpr, ROWS: tl.constexpr):
    r, c, k = tl.program_id(0), tl.arange(0, B), tl.arange(0, ROWS)
    start, end = tl.load(ends + r), tl.load(ends + r + 1)
    total = tl.zeros((ROWS, B), tl.float32)
    for first in range(start, end, ROWS):
        row = first + k
        inside = (row < end)[:, None] & (c < N)[None, :]
        total += tl.load(x + row[:, None] * N + c[None, :], mask=inside, other=0.0)
    tl.store(y + r * N + c, tl.sum(total, 0), mask=c < N)


@triton.jit
def row_sum(x, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    tl.store(y + r, tl.sum(tl.load(x + r * N + c, mask=c < N, other=0.0), 0))


@triton.jit
def welford(x, y, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    mean = tl.zeros((B,), tl.float32)
    spread = tl.zeros((B,), tl.float32)
    count = 0.0
    for first in range(0, N, B):
        count += 1.0
        part = tl.load(x + r * N + first + c)
        delta = part - mean
        mean += delta / count
        spread += delta * (part - mean)
    of_all = tl.sum(mean, 0) / B
    off = mean - of_all
    total = tl.sum(spread, 0) + tl.sum(off * off, 0) * count
    tl.store(y + 2 * r, of_all)
    tl.store(y + 2 * r + 1, total / N)


@triton.jit
def low_mem_dropout(x, keep, y, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    kept = tl.load(keep + i, mask=i < N)
    tl.store(y + i, tl.where(kept != 0, tl.load(x + i, mask=i < N) * 2.0, 0.0), mask=i < N)


@triton.jit
def tile_of(M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rows, columns = M // BM, N // BN
    first = tl.program_id(0) // (GROUP * columns) * GROUP
    height, inside = tl.minimum(rows - first, GROUP), tl.program_id(0) % (GROUP * columns)
    return first + inside % height, inside // height


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, column = tile_of(M, N, BM, BN, GROUP)
    m, n = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left, right = a + m[:, None] * K + k[None, :], b + n[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def int4_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, column = tile_of(M, N, BM, BN, GROUP)
    m, n = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left = a + m[:, None] * K + k[None, :]
    packed = b + n[:, None] * (K // 2) + tl.arange(0, BK // 2)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        pairs = tl.load(packed)
        numbers = tl.reshape(tl.join((pairs << 4) >> 4, pairs >> 4), (BN, BK)).to(tl.float16)
        acc = tl.dot(tl.load(left), tl.trans(numbers), acc)
        left += BK
        packed += BK // 2
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def grouped_product(a, b, of, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    row, column = tile_of(M, N, BM, BN, GROUP)
    m, n = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    of_group = b + tl.load(of + row * BM // 128) * N * K
    left, right = a + m[:, None] * K + k[None, :], of_group + n[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def attention(
    q, k, v, slopes, o, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FLEXIBLE: tl.constexpr
):  # fmt: skip
    base = tl.program_id(1).to(tl.int64) * S * D
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    m, n, d = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    queries = tl.load(q + base + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    slope = tl.load(slopes + tl.program_id(1)) * 1.4426950408889634 if FLEXIBLE else 0.0
    best, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    out = tl.zeros([BM, D], tl.float32)
    end = tl.minimum(S, first + BM) if FLEXIBLE else S
    whole = tl.minimum(S, first) // BN * BN if FLEXIBLE else S // BN * BN
    for start in range(0, whole, BN):
        keys = tl.load(k + base + (start + n)[None, :] * D + d[:, None])
        s = tl.dot(queries, keys) * (1.4426950408889634 / 8)
        if FLEXIBLE:
            s += ((start + n)[None, :] - m[:, None]).to(tl.float32) * slope
        new = tl.maximum(best, tl.max(s, 1))
        fade, p = tl.exp2(best - new), tl.exp2(s - new[:, None])
        total = total * fade + tl.sum(p, 1)
        values = tl.load(v + base + (start + n)[:, None] * D + d[None, :])
        out = tl.dot(p.to(tl.float16), values, out * fade[:, None])
        best = new
    for start in range(whole, end, BN):
        there = start + n < S
        keys = tl.load(k + base + (start + n)[None, :] * D + d[:, None], mask=there[None, :], other=0.0)
        s = tl.dot(queries, keys) * (1.4426950408889634 / 8)
        if FLEXIBLE:
            s += ((start + n)[None, :] - m[:, None]).to(tl.float32) * slope
            s = tl.where((start + n)[None, :] <= m[:, None], s, -float("inf"))
        s = tl.where(there[None, :], s, -float("inf"))
        new = tl.maximum(best, tl.max(s, 1))
        fade, p = tl.exp2(best - new), tl.exp2(s - new[:, None])
        total = total * fade + tl.sum(p, 1)
        values = tl.load(v + base + (start + n)[:, None] * D + d[None, :], mask=there[:, None], other=0.0)
        out = tl.dot(p.to(tl.float16), values, out * fade[:, None])
        best = new
    out = out / total[:, None]
    tl.store(o + base + m[:, None] * D + d[None, :], out.to(tl.float16), mask=m[:, None] < S)
