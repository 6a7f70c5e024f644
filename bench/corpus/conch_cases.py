"""Conch 1.3: inference kernels against the package's plain forms. Package `conch-triton-kernels`."""

import torch
from cases import case
from conch.ops.activation import gelu_tanh_and_mul, silu_and_mul
from conch.ops.attention.paged_attention import paged_attention
from conch.ops.attention.varlen_attention import varlen_attention
from conch.ops.embedding.rotary_embedding import rotary_embedding
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.gemm import mixed_precision_gemm, scaled_gemm
from conch.ops.quantization.int8 import scaled_int8_quant
from conch.ops.vision.nms import nms
from conch.ops.vllm.reshape_and_cache import reshape_and_cache


@case
def gelu():
    x = torch.randn(30, 140)
    a, b = x.chunk(2, 1)
    return gelu_tanh_and_mul.gelu_tanh_and_mul(x), torch.nn.functional.gelu(a, approximate="tanh") * b


@case
def silu():
    x = torch.randn(30, 140)
    a, b = x.chunk(2, 1)
    return silu_and_mul.silu_and_mul(x), torch.nn.functional.silu(a) * b


@case
def rms():
    x, w = torch.randn(30, 100), torch.randn(100)
    return rms_norm(x, w, 1e-6), torch.nn.functional.rms_norm(x, (100,), w, 1e-6)


@case
def rms_added():
    x, y, w = torch.randn(30, 100), torch.randn(30, 100), torch.randn(100)
    wanted = torch.nn.functional.rms_norm(x + y, (100,), w, 1e-6)
    return fused_add_rms_norm(x.clone(), y.clone(), w, 1e-6)[0], wanted


@case
def rms_gemma():
    x, w = torch.randn(30, 100), torch.randn(100)
    return gemma_rms_norm(x.clone(), w, 1e-6), torch.nn.functional.rms_norm(x, (100,), w + 1, 1e-6)


@case
def rotary():
    positions, cache = torch.arange(12), torch.randn(64, 32)
    q, k = torch.randn(12, 4 * 32), torch.randn(12, 2 * 32)
    rotary_embedding(positions, q, k, 32, cache)


@case
def to_fp8():
    x, scale = torch.randn(30, 100), torch.tensor([0.5])
    found = scaled_fp8_quant(x, scale)[0]
    return found.float(), (x / scale).to(found.dtype).float()


@case
def to_int8():
    x, scale = torch.randn(30, 100), torch.tensor([0.05])
    found = scaled_int8_quant(x, scale)[0]
    return found, (x / scale).clamp(-128, 127).to(torch.int8)


@case
def int8_product():
    a, b = torch.randint(-9, 9, (32, 64)).to(torch.int8), torch.randint(-9, 9, (64, 32)).to(torch.int8)
    sa, sb = torch.rand(32, 1), torch.rand(1, 32)
    return scaled_gemm(a, b, sa, sb, torch.float16).float(), a.float() @ b.float() * sa * sb


@case
def int4_product():
    x, w = torch.randn(32, 128).half(), torch.randint(0, 2**31, (16, 64), dtype=torch.int32)
    mixed_precision_gemm(x, w, torch.rand(1, 64).half(), None, 4, 8, 128)


@case
def paged():
    q, kc, vc = torch.randn(2, 4, 64), torch.randn(8, 16, 2, 64), torch.randn(8, 16, 2, 64)
    kc, vc = kc.half(), vc.half()
    table, lengths = torch.arange(8, dtype=torch.int32).view(2, 4), torch.tensor([37, 55], dtype=torch.int32)
    found = paged_attention(q.half(), kc, vc, table, lengths)
    wanted = []
    for s in range(2):
        k, v = (c[table[s].long()].reshape(64, 2, 64)[: lengths[s]].float().repeat_interleave(2, 1) for c in (kc, vc))
        weights = (torch.einsum("hd,nhd->hn", q[s].half().float(), k) / 8).softmax(-1)
        wanted.append(torch.einsum("hn,nhd->hd", weights, v))
    return found.float().view(2, 4, 64), torch.stack(wanted)


@case
def varlen():
    q = torch.randn(20, 4, 64).half()
    kc, vc = torch.randn(8, 16, 2, 64).half(), torch.randn(8, 16, 2, 64).half()
    table, lengths = torch.arange(8, dtype=torch.int32).view(2, 4), torch.tensor([37, 55], dtype=torch.int32)
    starts = torch.tensor([0, 8, 20], dtype=torch.int32)
    varlen_attention(q, kc, vc, starts, 12, lengths, 55, table, causal=True)


@case
def boxes():
    corners = torch.rand(50, 2) * 10
    found = nms(torch.cat([corners, corners + 2], 1), torch.rand(50), 0.3)
    assert len(found) <= 50


@case
def cached():
    k, v = torch.randn(5, 2, 64).half(), torch.randn(5, 2, 64).half()
    kc, vc = torch.zeros(4, 16, 2, 64).half(), torch.zeros(4, 16, 2, 64).half()
    slots = torch.tensor([3, 17, 18, 40, 63])
    reshape_and_cache(k, v, kc, vc, slots)
    return kc.view(64, 2, 64)[slots], k
