"""Liger Kernel 0.8: training kernels of language models, forward and backward. Package `liger-kernel`."""

import torch
import torch.nn.functional as F
from cases import add, case
from liger_kernel.ops import (
    attn_res,
    cross_entropy,
    dyt,
    fused_add_rms_norm,
    fused_linear_cross_entropy,
    fused_linear_jsd,
    geglu,
    group_norm,
    jsd,
    kl_div,
    layer_norm,
    llama4_rope,
    modulated_rms_norm,
    multi_token_attention,
    poly_norm,
    qwen2vl_mrope,
    relu_squared,
    rms_norm,
    rope,
    softmax,
    sparsemax,
    swiglu,
    tvd,
)  # fmt: skip

TOLERANCE = 5e-3


def x(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).requires_grad_()


def both(name, ours, theirs, make):
    """Forward and backward of both, on equal arguments."""

    def call():
        out = []
        for function in (ours, theirs):
            torch.manual_seed(0)
            values = make()
            found = function(*values)
            torch.manual_seed(1)
            found.backward(torch.randn_like(found))
            out.append((found.detach().clone(), *(v.grad for v in values if v.requires_grad)))
        return out

    add(name, call)


both("layer_norm", lambda a, w, b: layer_norm.LigerLayerNormFunction.apply(a, w, b, 1e-5),
     lambda a, w, b: F.layer_norm(a, (100,), w, b), lambda: [x(40, 100), x(100), x(100)])  # fmt: skip
both("rms_norm", lambda a, w: rms_norm.LigerRMSNormFunction.apply(a, w, 1e-6, 0.0, "llama", False),
     lambda a, w: F.rms_norm(a, (100,), w, 1e-6), lambda: [x(40, 100), x(100)])  # fmt: skip
both("rms_norm_gemma", lambda a, w: rms_norm.LigerRMSNormFunction.apply(a, w, 1e-6, 1.0, "gemma", False),
     lambda a, w: F.rms_norm(a, (100,), w + 1, 1e-6), lambda: [x(40, 100), x(100)])  # fmt: skip
both("rms_norm_rows", lambda a, w: rms_norm.LigerRMSNormFunction.apply(a, w, 1e-6, 0.0, "llama", False, True),
     lambda a, w: F.rms_norm(a, (100,), w, 1e-6), lambda: [x(300, 100), x(100)])  # fmt: skip
both("group_norm", lambda a, w, b: group_norm.LigerGroupNormFunction.apply(a, w, b, 6, 3, 1e-5),
     lambda a, w, b: F.group_norm(a, 3, w, b), lambda: [x(4, 6, 50), x(6), x(6)])  # fmt: skip
both("geglu", lambda a, b: geglu.LigerGELUMulFunction.apply(a, b),
     lambda a, b: F.gelu(a, approximate="tanh") * b, lambda: [x(30, 70), x(30, 70)])  # fmt: skip
both("swiglu", lambda a, b: swiglu.LigerSiLUMulFunction.apply(a, b), lambda a, b: F.silu(a) * b,
     lambda: [x(30, 70), x(30, 70)])  # fmt: skip
both("relu_squared", lambda a: relu_squared.LigerReLUSquaredFunction.apply(a), lambda a: F.relu(a) ** 2,
     lambda: [x(30, 70)])  # fmt: skip
both("softmax", lambda a: softmax.LigerSoftmaxFunction.apply(a), lambda a: a.softmax(-1), lambda: [x(30, 70)])
both("softmax_long", lambda a: softmax.LigerSoftmaxFunction.apply(a), lambda a: a.softmax(-1), lambda: [x(3, 9000)])
both("dyt", lambda a, s, g, b: dyt.LigerDyTFunction.apply(a, s, g, b), lambda a, s, g, b: g * torch.tanh(s * a) + b,
     lambda: [x(30, 70), x(1), x(70), x(70)])  # fmt: skip
both("kl_div", lambda a, b: kl_div.LigerKLDivLossFunction.apply(a.log_softmax(1), b.softmax(1), "batchmean"),
     lambda a, b: F.kl_div(a.log_softmax(1), b.softmax(1), reduction="batchmean"),
     lambda: [x(30, 70), torch.randn(30, 70)])  # fmt: skip
both("cross_entropy", lambda a, y: cross_entropy.LigerCrossEntropyFunction.apply(a, y.long(), None)[0],
     lambda a, y: F.cross_entropy(a, y.long()), lambda: [x(30, 70), (torch.rand(30) * 70).floor()])  # fmt: skip
both("cross_entropy_smoothed",
     lambda a, y: cross_entropy.LigerCrossEntropyFunction.apply(a, y.long(), None, -100, 0.0, 0.1)[0],
     lambda a, y: F.cross_entropy(a, y.long(), label_smoothing=0.1),
     lambda: [x(30, 700), (torch.rand(30) * 70).floor()])  # fmt: skip
both("fused_linear_cross_entropy",
     lambda a, w, y: fused_linear_cross_entropy.LigerFusedLinearCrossEntropyFunction.apply(a, w, y.long())[0],
     lambda a, w, y: F.cross_entropy(a @ w.T, y.long()),
     lambda: [x(30, 20), x(70, 20), (torch.rand(30) * 70).floor()])  # fmt: skip
both("sparsemax", lambda a: sparsemax.LigerSparsemaxFunction.apply(a, 1), lambda a: sparse(a),
     lambda: [x(20, 50)])  # fmt: skip
both("tvd", lambda a, b: tvd.LigerTVDLossFunction.apply(a.softmax(1), b.softmax(1)),
     lambda a, b: 0.5 * (a.softmax(1) - b.softmax(1)).abs().sum() / 30,
     lambda: [x(30, 70), torch.randn(30, 70)])  # fmt: skip
both("fused_add_rms_norm",
     lambda a, r, w: fused_add_rms_norm.LigerFusedAddRMSNormFunction.apply(a, r, w, 1e-6)[0],
     lambda a, r, w: F.rms_norm(a + r, (100,), w, 1e-6), lambda: [x(40, 100), x(40, 100), x(100)])  # fmt: skip
both("poly_norm", lambda a, w, b: poly_norm.LigerPolyNormFunction.apply(a, w, b, 1e-6, False),
     lambda a, w, b: poly(a, w, b),
     lambda: [x(40, 100), x(3), torch.randn(()).requires_grad_()])  # fmt: skip


def sparse(a):
    ordered = a.sort(dim=1, descending=True)[0]
    sums, k = ordered.cumsum(1) - 1, torch.arange(1, a.shape[1] + 1)
    size = (ordered * k > sums).sum(1, keepdim=True)
    return (a - sums.gather(1, size - 1) / size).clamp(min=0)


def poly(a, w, b):
    n = lambda v: v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w[0] * n(a**3) + w[1] * n(a**2) + w[2] * n(a) + b


@case
def rope_llama():
    q, k = torch.randn(2, 4, 24, 32), torch.randn(2, 2, 24, 32)
    angles = torch.arange(24)[:, None] * (10000 ** (-torch.arange(16) / 16.0))
    cos, sin = (f(torch.cat([angles, angles], 1))[None] for f in (torch.cos, torch.sin))
    half = lambda v: torch.cat([-v[..., 16:], v[..., :16]], -1)
    wanted = [v * cos[:, None] + half(v) * sin[:, None] for v in (q, k)]
    return tuple(rope.LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)), tuple(wanted)


@case
def rope_qwen2vl():
    q, k = torch.randn(2, 4, 24, 32), torch.randn(2, 2, 24, 32)
    qwen2vl_mrope.LigerQwen2VLMRopeFunction.apply(q, k, torch.randn(3, 2, 24, 32), torch.randn(3, 2, 24, 32), [4, 6, 6])


@case
def rope_llama4():
    q, k = torch.randn(2, 24, 4, 32), torch.randn(2, 24, 2, 32)
    llama4_rope.LigerLlama4RopeFunction.apply(q, k, torch.polar(torch.ones(24, 16), torch.randn(24, 16)))


@case
def jsd_loss():
    a, b = x(30, 70), torch.randn(30, 70)
    out = jsd.LigerJSDFunction.apply(a.log_softmax(1), b.log_softmax(1))
    out.backward()
    p, q = a.detach().softmax(1), b.softmax(1)
    m = (p + q) / 2
    wanted = (0.5 * (p * (p / m).log() + q * (q / m).log())).sum() / 30
    return out.detach(), wanted


@case
def fused_linear_jsd_loss():
    out = fused_linear_jsd.LigerFusedLinearJSDFunction.apply(
        x(30, 20), x(70, 20), torch.randn(30, 24), torch.randn(70, 24)
    )
    out.backward()


@case
def modulated_norm():
    a, w, s, t = x(2, 20, 100), x(100), x(2, 100), x(2, 100)
    out = modulated_rms_norm.LigerModulatedRMSNormFunction.apply(a, w, s, t, 1e-6)
    out.backward(torch.randn_like(out))


@case
def attention_residual():
    v, q, w = x(5, 2, 20, 64), x(64), x(64)
    out = attn_res.LigerAttnResFunction.apply(v, q, w, 1e-6)
    out = out[0] if isinstance(out, tuple) else out
    out.backward(torch.randn_like(out))


@case
def multi_token():
    scores, weight = x(1, 2, 16, 16), x(2, 2, 3, 3)
    out = multi_token_attention.LigerMultiTokenAttentionFunction.apply(scores, weight, None, 1, 1, 1, 1, False)
    out.backward(torch.randn_like(out))


@case
def swiglu_fused():
    y = x(30, 128)
    out = (
        swiglu.LigerFusedGateUpSiLUMulFunction.apply(y) if hasattr(swiglu, "LigerFusedGateUpSiLUMulFunction") else None
    )
    if out is not None:
        out.backward(torch.randn_like(out))
