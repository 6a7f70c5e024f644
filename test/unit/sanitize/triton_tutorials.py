"""Triton kernels in the manner of its tutorials, each with a test of its values.

    python triton_tutorials.py ARCH [NAME ..]

Prints a JSON object: for each test, its launches, and "ok" or what went wrong.
"""

import json
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from lego_mlir import sanitize

ARCH = int(sys.argv[1])
sanitize.triton(ARCH)
TESTS = []
torch.manual_seed(0)


def test(f):
    TESTS.append(f)
    return f


def close(a, b, tol=1e-2):
    a, b = a.float(), b.float()
    error = (a - b).abs().max().item()
    assert error <= tol * max(1.0, b.abs().max().item()), f"error {error}"


@triton.jit
def add_k(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@test
def vector_add():
    x, y = torch.randn(10000), torch.randn(10000)
    o = torch.empty_like(x)
    add_k[lambda meta: (triton.cdiv(10000, meta["B"]),)](x, y, o, 10000, B=1024)
    close(o, x + y, 0)


@triton.jit
def softmax_k(x, y, sx, sy, rows, cols, B: tl.constexpr, num_stages: tl.constexpr):
    start, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(start, rows, step, num_stages=num_stages):
        i = tl.arange(0, B)
        m = i < cols
        v = tl.load(x + row * sx + i, mask=m, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * sy + i, e / tl.sum(e, 0), mask=m)


@test
def fused_softmax():
    x = torch.randn(37, 781)
    y = torch.empty_like(x)
    softmax_k[(4,)](x, y, x.stride(0), y.stride(0), 37, 781, B=1024, num_stages=2, num_warps=8)
    close(y, x.softmax(1), 1e-5)


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": 64, "BK": 32, "G": 2}, num_stages=3, num_warps=4),
        triton.Config({"BM": 32, "BN": 64, "BK": 64, "G": 4}, num_stages=2, num_warps=2),
        triton.Config({"BM": 128, "BN": 64, "BK": 32, "G": 8}, num_stages=4, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_k(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    G: tl.constexpr,
):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (G * nn)
    first = group * G
    size = min(nm - first, G)
    pm, pn = first + (pid % (G * nn)) % size, (pid % (G * nn)) // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa, pb = a + rm[:, None] * sam + rk[None, :] * sak, b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK * sak
        pb += BK * sbk
    om, on = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))


@test
def matmul_autotuned():
    M, N, K = 192, 160, 136
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    c = torch.empty(M, N).half()
    matmul_k[lambda m: (triton.cdiv(M, m["BM"]) * triton.cdiv(N, m["BN"]),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride()
    )
    close(c, a.float() @ b.float(), 1e-2)


@triton.jit
def dropout_k(x, o, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    keep = tl.rand(seed, i) > p
    tl.store(o + i, tl.where(keep, tl.load(x + i, mask=m) / (1 - p), 0.0), mask=m)


@test
def dropout():
    x = torch.randn(3000)
    o = torch.empty_like(x)
    dropout_k[(3,)](x, o, 3000, 0.5, 123, B=1024)
    kept = o != 0
    close(o[kept], (2 * x)[kept], 1e-5)
    assert 0.4 < kept.float().mean() < 0.6


@triton.jit
def ln_fwd(x, y, w, b, mean, rstd, s, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    total = tl.zeros([B], tl.float32)
    for o in range(0, n, B):
        i = o + tl.arange(0, B)
        total += tl.load(x + r * s + i, mask=i < n, other=0.0).to(tl.float32)
    mu = tl.sum(total, 0) / n
    var = tl.zeros([B], tl.float32)
    for o in range(0, n, B):
        i = o + tl.arange(0, B)
        v = tl.where(i < n, tl.load(x + r * s + i, mask=i < n, other=0.0).to(tl.float32) - mu, 0.0)
        var += v * v
    rs = 1 / tl.sqrt(tl.sum(var, 0) / n + eps)
    tl.store(mean + r, mu)
    tl.store(rstd + r, rs)
    for o in range(0, n, B):
        i = o + tl.arange(0, B)
        m = i < n
        v = (tl.load(x + r * s + i, mask=m, other=0.0).to(tl.float32) - mu) * rs
        tl.store(y + r * s + i, v * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.jit
def ln_bwd(dx, dy, pw, pb, x, w, mean, rstd, lock, s, n, G: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    v = tl.load(x + r * s + i, mask=m, other=0).to(tl.float32)
    g = tl.load(dy + r * s + i, mask=m, other=0).to(tl.float32)
    k = tl.load(w + i, mask=m).to(tl.float32)
    mu, rs = tl.load(mean + r), tl.load(rstd + r)
    h = tl.where(m, (v - mu) * rs, 0.0)
    wg = tl.where(m, k * g, 0.0)
    c1, c2 = tl.sum(h * wg, 0) / n, tl.sum(wg, 0) / n
    tl.store(dx + r * s + i, (wg - (h * c1 + c2)) * rs, mask=m)
    j = r % G
    lock += j
    count = lock + G
    pw, pb = pw + j * n + i, pb + j * n + i
    gw, gb = g * h, g
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        gw += tl.load(pw, mask=m)
        gb += tl.load(pb, mask=m)
    tl.store(pw, gw, mask=m)
    tl.store(pb, gb, mask=m)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@test
def layer_norm_forward():
    x, w, b = torch.randn(16, 700), torch.rand(700), torch.rand(700)
    y, mean, rstd = torch.empty_like(x), torch.empty(16), torch.empty(16)
    ln_fwd[(16,)](x, y, w, b, mean, rstd, 700, 700, 1e-5, B=256)
    close(y, torch.nn.functional.layer_norm(x, (700,), w, b, 1e-5), 1e-4)


@test
def layer_norm_backward_with_locks():
    x, w, b = (
        torch.randn(16, 200, requires_grad=True),
        torch.rand(200, requires_grad=True),
        torch.rand(200, requires_grad=True),
    )
    y = torch.nn.functional.layer_norm(x, (200,), w, b, 1e-5)
    dy = torch.randn_like(y)
    y.backward(dy)
    mean = x.detach().mean(1)
    rstd = 1 / torch.sqrt(x.detach().var(1, unbiased=False) + 1e-5)
    dx, pw, pb = torch.empty(16, 200), torch.zeros(4, 200), torch.zeros(4, 200)
    ln_bwd[(16,)](
        dx, dy, pw, pb, x.detach(), w.detach(), mean, rstd, torch.zeros(8, dtype=torch.int32), 200, 200, G=4, B=256
    )
    close(dx, x.grad, 1e-3)
    close(pw.sum(0), w.grad, 1e-3)


@triton.jit
def attn_k(q, k, v, o, S, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1) * S * D
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d, j = tl.arange(0, D), tl.arange(0, BN)
    Q = tl.load(q + head + i[:, None] * D + d[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = (tl.program_id(0) + 1) * BM if CAUSAL else S
    for s in range(0, last, BN):
        x = tl.dot(Q, tl.load(k + head + (s + j)[None, :] * D + d[:, None])) * scale
        if CAUSAL:
            x = tl.where(i[:, None] >= (s + j)[None, :], x, -1e6)
        mn = tl.maximum(m, tl.max(x, 1))
        p = tl.exp2(x - mn[:, None])
        a = tl.exp2(m - mn)
        total = total * a + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v + head + (s + j)[:, None] * D + d[None, :]), acc * a[:, None])
        m = mn
    tl.store(o + head + i[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16))


@test
def fused_attention_causal():
    q, k, v = (torch.randn(2, 128, 64).half() for _ in range(3))
    o = torch.empty_like(q)
    attn_k[(2, 2)](q, k, v, o, 128, 0.125 * 1.44269504, BM=64, BN=64, D=64, CAUSAL=True, num_stages=2)
    close(o, torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True), 1e-2)


@triton.jit
def grouped_k(pa, pb, pc, sizes, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        nn = tl.cdiv(N, BN)
        here = tl.cdiv(M, BM) * nn
        while tile >= before and tile < before + here:
            a = tl.load(pa + g).to(tl.pointer_type(tl.float16))
            b = tl.load(pb + g).to(tl.pointer_type(tl.float16))
            c = tl.load(pc + g).to(tl.pointer_type(tl.float16))
            t = tile - before
            rm, rn = t // nn * BM + tl.arange(0, BM), t % nn * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                acc = tl.dot(
                    tl.load(a + rm[:, None] * K + (k + rk)[None, :]),
                    tl.load(b + (k + rk)[:, None] * N + rn[None, :]),
                    acc,
                )
            tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))
            tile += PROGRAMS
        before += here


@test
def grouped_gemm_by_pointer_table():
    shapes = [(64, 64, 64), (128, 64, 32)]
    A = [torch.randn(m, k).half() for m, n, k in shapes]
    B = [torch.randn(k, n).half() for m, n, k in shapes]
    C = [torch.zeros(m, n).half() for m, n, k in shapes]
    table = lambda ts: torch.tensor([t.data_ptr() for t in ts])  # noqa: E731
    grouped_k[(2,)](
        table(A), table(B), table(C), torch.tensor(shapes, dtype=torch.int32), 2, PROGRAMS=2, BM=64, BN=64, BK=32
    )
    for a, b, c in zip(A, B, C, strict=True):
        close(c, a.float() @ b.float())


@triton.jit
def persistent_k(
    da, db, dc, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr
):
    nn = tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * nn, PROGRAMS, flatten=True, warp_specialize=WS):
        om, on = t // nn * BM, t % nn * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(da.load([om, k * BK]), db.load([on, k * BK]).T, acc)
        dc.store([om, on], acc.to(tl.float16))


def _persistent(ws):
    M, N, K = 256, 128, 128
    a, b, c = torch.randn(M, K).half(), torch.randn(N, K).half(), torch.zeros(M, N).half()
    D = TensorDescriptor.from_tensor
    persistent_k[(2,)](
        D(a, [64, 64]), D(b, [64, 64]), D(c, [64, 64]), M, N, K, PROGRAMS=2, BM=64, BN=64, BK=64, WS=ws, num_stages=3
    )
    close(c, a.float() @ b.float().T)


@test
def persistent_matmul_host_descriptors():
    _persistent(False)


@test
def persistent_matmul_warp_specialized():
    _persistent(True)


@triton.jit
def device_desc_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    om, on = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([om, k]), db.load([on, k]).T, acc)
    dc.store([om, on], acc.to(tl.float16))


@test
def matmul_device_descriptors():
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    M, N, K = 128, 128, 128
    a, b, c = torch.randn(M, K).half(), torch.randn(N, K).half(), torch.zeros(M, N).half()
    device_desc_k[(2, 2)](a, b, c, M, N, K, BM=64, BN=64, BK=64, num_stages=2)
    close(c, a.float() @ b.float().T)


@triton.jit
def scaled_k(a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rm, rn, rk, rs = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    x, y = tl.load(a + rm[:, None] * K + rk[None, :]), tl.load(b + rk[:, None] * N + rn[None, :])
    u, w = tl.load(sa + rm[:, None] * (K // 32) + rs[None, :]), tl.load(sb + rn[:, None] * (K // 32) + rs[None, :])
    tl.store(c + rm[:, None] * N + rn[None, :], tl.dot_scaled(x, u, "e4m3", y, w, "e4m3"))


@test
def block_scaled_matmul_mxfp8():
    M = N = K = 128
    a, b = torch.randn(M, K).to(torch.float8_e4m3fn), torch.randn(K, N).to(torch.float8_e4m3fn)
    sa, sb = (
        torch.randint(125, 129, (M, K // 32), dtype=torch.uint8),
        torch.randint(125, 129, (N, K // 32), dtype=torch.uint8),
    )
    c = torch.zeros(M, N)
    scaled_k[(1,)](a, sa, b, sb, c, M, N, K)
    fa = a.float() * torch.exp2(sa.float() - 127).repeat_interleave(32, 1)
    fb = b.float() * torch.exp2(sb.float() - 127).repeat_interleave(32, 1).T
    close(c, fa @ fb, 1e-2)


@triton.jit
def hist_k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(y + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@test
def histogram_atomics():
    x = torch.randint(0, 16, (1000,), dtype=torch.int32)
    y = torch.zeros(16, dtype=torch.int32)
    hist_k[(4,)](x, y, 1000, B=256)
    assert (y == torch.bincount(x, minlength=16)).all()


@triton.jit
def scan_k(x, y, z, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(y + i, tl.cumsum(v, 0))
    tl.store(z + i, tl.sort(v))


@test
def scan_and_sort():
    x = torch.randn(512)
    y, z = torch.empty(512), torch.empty(512)
    scan_k[(1,)](x, y, z, B=512)
    close(y, x.cumsum(0), 1e-4)
    close(z, x.sort().values, 0)


@triton.jit
def math_k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    r = (
        libdevice.tanh(v)
        + libdevice.erf(v)
        + tl.sigmoid(v)
        + libdevice.log1p(v * v)
        + tl.rsqrt(1 + v * v)
        + libdevice.pow(v * v + 1, 0.3)
        + tl.cos(v)
    )
    tl.store(y + i, r, mask=i < n)


@test
def libdevice_math():
    x = torch.randn(500)
    y = torch.empty_like(x)
    math_k[(2,)](x, y, 500, B=256)
    close(
        y, x.tanh() + x.erf() + x.sigmoid() + (x * x).log1p() + (1 + x * x).rsqrt() + (x * x + 1) ** 0.3 + x.cos(), 1e-4
    )


@triton.jit
def print_k(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_print("value", v)
    tl.device_assert(v < n, "too large")


@test
def device_print_and_assert():
    print_k[(1,)](torch.arange(32, dtype=torch.int32), 40, B=32, num_warps=1, debug=True)


@triton.jit
def splitk_k(a, b, c, K, BK: tl.constexpr, N: tl.constexpr):
    r, rk = tl.arange(0, N), tl.program_id(0) * BK + tl.arange(0, BK)
    x = tl.load(a + r[:, None] * K + rk[None, :])
    y = tl.load(b + rk[:, None] * N + r[None, :])
    tl.atomic_add(c + r[:, None] * N + r[None, :], tl.dot(x, y, input_precision="ieee"))


@test
def split_k_float_atomics():
    a, b, c = torch.randn(32, 128), torch.randn(128, 32), torch.zeros(32, 32)
    splitk_k[(4,)](a, b, c, 128, BK=32, N=32)
    close(c, a @ b, 1e-4)


@triton.jit
def fp8_k(a, b, c, N: tl.constexpr):
    r = tl.arange(0, N)
    tl.store(
        c + r[:, None] * N + r[None, :],
        tl.dot(tl.load(a + r[:, None] * N + r[None, :]), tl.load(b + r[:, None] * N + r[None, :])),
    )


@test
def fp8_matmul():
    a, b = torch.randn(64, 64).to(torch.float8_e4m3fn), torch.randn(64, 64).to(torch.float8_e4m3fn)
    c = torch.zeros(64, 64)
    fp8_k[(1,)](a, b, c, N=64)
    close(c, a.float() @ b.float(), 1e-2)


@test
def int8_matmul():
    a, b = torch.randint(-9, 9, (64, 64), dtype=torch.int8), torch.randint(-9, 9, (64, 64), dtype=torch.int8)
    c = torch.zeros(64, 64, dtype=torch.int32)
    fp8_k[(1,)](a, b, c, N=64)
    close(c, a.float() @ b.float(), 0)


@test
def tf32_and_bf16_matmul():
    for dtype in (torch.float32, torch.bfloat16):
        a, b, c = torch.randn(64, 64).to(dtype), torch.randn(64, 64).to(dtype), torch.zeros(64, 64)
        fp8_k[(1,)](a, b, c, N=64)
        close(c, a.float() @ b.float(), 1e-2)


@triton.jit
def argmax_k(x, y, z, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
    tl.store(y + r, tl.argmax(v, 0))
    best = tl.max(v, 0)
    tl.store(z + r, tl.log(tl.sum(tl.exp(v - best), 0)) + best)


@test
def argmax_logsumexp():
    x = torch.randn(8, 300)
    y, z = torch.zeros(8, dtype=torch.int32), torch.zeros(8)
    argmax_k[(8,)](x, y, z, 300, B=512)
    assert (y == x.argmax(1)).all()
    close(z, x.logsumexp(1), 1e-5)


@triton.jit
def combine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def ssm_k(a, b, o, T: tl.constexpr, D: tl.constexpr):
    i = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    _, h = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, combine)
    tl.store(o + i, h)


@test
def associative_scan_recurrence():
    a, b = torch.rand(64, 16), torch.randn(64, 16)
    o, h = torch.zeros(64, 16), torch.zeros(16)
    ssm_k[(1,)](a, b, o, T=64, D=16)
    want = []
    for t in range(64):
        h = a[t] * h + b[t]
        want.append(h)
    close(o, torch.stack(want), 1e-4)


@triton.jit
def asm_k(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    w = tl.inline_asm_elementwise("shl.b32 $0, $1, 3;", "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y + i, tl.flip(w, 0))
    p = tl.gather(v, (i * 7) % B, 0)
    tl.store(y + B + i, p)


@test
def inline_asm_flip_gather():
    x = torch.arange(128, dtype=torch.int32)
    y = torch.zeros(256, dtype=torch.int32)
    asm_k[(1,)](x, y, B=128)
    assert (y[:128] == (x << 3).flip(0)).all() and (y[128:] == x[(torch.arange(128) * 7) % 128]).all()


@triton.jit
def stream_k(x, y, flags, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.cumsum(tl.load(x + p * B + i), 0)
    total = tl.sum(tl.load(x + p * B + i), 0)
    before = 0.0
    if p > 0:
        while tl.atomic_add(flags + p - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(y + n + p - 1, volatile=True)
    tl.store(y + n + p, before + total)
    tl.debug_barrier()
    tl.atomic_xchg(flags + p, 1, sem="release")
    tl.store(y + p * B + i, v + before)


@test
def chained_scan_between_blocks():
    x = torch.randint(0, 5, (1024,)).float()
    y, flags = torch.zeros(1024 + 8), torch.zeros(8, dtype=torch.int32)
    stream_k[(8,)](x, y, flags, 1024, B=128)
    close(y[:1024], x.cumsum(0), 1e-5)


@triton.jit
def clustered_k(a, b, c, N: tl.constexpr):
    r = tl.arange(0, N)
    x = tl.load(a + r[:, None] * N + r[None, :])
    tl.store(c + r[:, None] * N + r[None, :], tl.dot(x, tl.load(b + r[:, None] * N + r[None, :])))


@test
def num_ctas_2():
    a, b = torch.randn(128, 128).half(), torch.randn(128, 128).half()
    c = torch.zeros(128, 128)
    clustered_k[(1,)](a, b, c, N=128, num_ctas=2)
    close(c, a.float() @ b.float())


@triton.jit
def rope_k(q, cos, sin, S, H: tl.constexpr, D: tl.constexpr):
    s = tl.program_id(0)
    h, d = tl.arange(0, H), tl.arange(0, D // 2)
    c, n = tl.load(cos + s * D // 2 + d), tl.load(sin + s * D // 2 + d)
    p = q + s * H * D + h[:, None] * D + d[None, :]
    x, y = tl.load(p), tl.load(p + D // 2)
    tl.store(p, x * c[None, :] - y * n[None, :])
    tl.store(p + D // 2, y * c[None, :] + x * n[None, :])


@test
def rope_in_place():
    q, cos, sin = torch.randn(8, 4, 32), torch.rand(8, 16), torch.rand(8, 16)
    x, y = q[..., :16].clone(), q[..., 16:].clone()
    rope_k[(8,)](q, cos, sin, 8, H=4, D=32)
    close(q[..., :16], x * cos[:, None] - y * sin[:, None], 1e-5)


@triton.jit
def xent_k(x, t, loss, n, B: tl.constexpr):
    r = tl.program_id(0)
    m, d = -float("inf"), 0.0
    for o in range(0, n, B):
        i = o + tl.arange(0, B)
        v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
        best = tl.maximum(m, tl.max(v, 0))
        d = d * tl.exp(m - best) + tl.sum(tl.exp(v - best), 0)
        m = best
    tl.store(loss + r, m + tl.log(d) - tl.load(x + r * n + tl.load(t + r)))
    tl.debug_barrier()
    for o in range(0, n, B):
        i = o + tl.arange(0, B)
        v = tl.load(x + r * n + i, mask=i < n)
        tl.store(x + r * n + i, tl.exp(v - m) / d, mask=i < n)


@test
def cross_entropy_in_place():
    x = torch.randn(8, 1000)
    t, loss = torch.randint(0, 1000, (8,)), torch.zeros(8)
    want = torch.nn.functional.cross_entropy(x, t, reduction="none")
    xent_k[(8,)](x, t, loss, 1000, B=512)
    close(loss, want, 1e-4)


@triton.jit
def conv_k(x, w, y, H, W, C: tl.constexpr, F: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    j, c, f = tl.arange(0, B), tl.arange(0, C), tl.arange(0, F)
    acc = tl.zeros((B, F), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            r, s = row + dy - 1, j + dx - 1
            ok = (r >= 0) & (r < H) & (s >= 0) & (s < W)
            v = tl.load(x + (r * W + s)[:, None] * C + c[None, :], mask=ok[:, None], other=0.0)
            acc = tl.dot(v, tl.load(w + ((dy * 3 + dx) * C + c)[:, None] * F + f[None, :]), acc)
    tl.store(y + (row * W + j)[:, None] * F + f[None, :], acc, mask=(j < W)[:, None])


@test
def convolution_3x3():
    x, w = torch.randn(12, 14, 16).half(), torch.randn(3, 3, 16, 16).half()
    y = torch.zeros(12, 14, 16)
    conv_k[(12,)](x, w, y, 12, 14, C=16, F=16, B=16)
    want = torch.nn.functional.conv2d(x.float().permute(2, 0, 1)[None], w.float().permute(3, 2, 0, 1), padding=1)[
        0
    ].permute(1, 2, 0)
    close(y, want)


@triton.jit
def quant_k(x, q, s, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    scale = tl.max(tl.abs(v), 0) / 127.0
    tl.store(s + r, scale)
    tl.store(q + r * n + i, libdevice.rint(v / scale).to(tl.int8), mask=i < n)


@test
def int8_quantize_rows():
    x = torch.randn(8, 300)
    q, s = torch.zeros(8, 300, dtype=torch.int8), torch.zeros(8)
    quant_k[(8,)](x, q, s, 300, B=512)
    close(q.float() * s[:, None], x, 2e-2)


@triton.jit
def w4_k(x, w, s, o, K, N: tl.constexpr, BK: tl.constexpr):
    r, n, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((16, N), tl.float32)
    for b in range(0, K, BK):
        word = tl.load(w + ((b + k)[:, None] // 8) * N + n[None, :])
        v = ((word >> ((k[:, None] % 8) * 4)) & 15) - 8
        acc = tl.dot(tl.load(x + r[:, None] * K + (b + k)[None, :]), (v * tl.load(s + n)[None, :]).to(tl.float16), acc)
    tl.store(o + r[:, None] * N + n[None, :], acc)


@test
def int4_weights_matmul():
    K, N = 128, 64
    x, s = torch.randn(16, K).half(), torch.rand(N)
    v = torch.randint(0, 16, (K, N), dtype=torch.int64)
    w = sum(v[i::8] << (4 * i) for i in range(8))
    w = torch.where(w >= 2**31, w - 2**32, w).to(torch.int32)
    o = torch.zeros(16, N)
    w4_k[(1,)](x, w, s, o, K, N=N, BK=64)
    close(o, x.float() @ ((v - 8).float() * s).half().float(), 1e-2)


@triton.jit
def helper(x, n):
    t = x
    for _ in range(n):
        t = t * 1.5 + 1
    return t


@triton.jit(noinline=True)
def outlined(x, y):
    return x * y + 1


@triton.jit
def calls_k(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(y + i, helper(v, n) * outlined(n, n + 1))


@test
def noinline_device_function():
    x, y = torch.randn(128), torch.zeros(128)
    calls_k[(1,)](x, y, 3, B=128)
    t = x.clone()
    for _ in range(3):
        t = t * 1.5 + 1
    close(y, t * 13, 1e-5)


def main():
    found = {}
    for f in [f for f in TESTS if f.__name__ in sys.argv[2:]] or TESTS:
        with sanitize.session() as session:
            try:
                f()
                said = "ok"
            except sanitize.LaunchFaultError as error:
                said = f"fault: {error}"
            except AssertionError as error:
                said = f"wrong: {error}"
            except Exception as error:
                said = f"stop: {type(error).__name__}: {' '.join(str(error).split())[-200:]}"
        found[f.__name__] = {"launches": len(session.reports), "said": said}
    print()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
