"""Flash linear attention 0.6: chunked and recurrent forms of one operator against each other. Package `fla-core`.

Forward and backward of both forms; where a package has a plain form in PyTorch, that is the other one.
"""

import torch
import torch.nn.functional as F
from cases import add, case
from fla import ops
from fla.ops.utils.cumsum import chunk_global_cumsum, chunk_local_cumsum
from fla.ops.utils.matmul import matmul
from fla.ops.utils.pooling import mean_pooling as pooled
from fla.ops.utils.softmax import softmax_fwd
from fla.ops.utils.solve_tril import solve_tril

TOLERANCE = 2e-2
B, T, H, K, V = 1, 80, 2, 32, 32


def n(*shape):
    return torch.randn(*shape).requires_grad_()


def unit(*shape):
    return F.normalize(torch.randn(*shape), dim=-1).requires_grad_()


def gate(*shape):
    return F.logsigmoid(torch.randn(*shape) + 2).requires_grad_()


def beta(*shape):
    return torch.rand(*shape).requires_grad_()


QKV = lambda: [unit(B, T, H, K), unit(B, T, H, K), n(B, T, H, V)]


def first(value):
    return value[0] if isinstance(value, tuple) else value


def forms(name, functions, make, *, backward=True, dtype=torch.float32, **options):
    """Several forms of one operator: each one's results are those of the first."""

    def call():
        out = []
        for function in functions:
            torch.manual_seed(0)
            values = [v.detach().to(dtype).requires_grad_() for v in make()]
            found = first(function(*values, **options))
            grads = []
            if backward:
                torch.manual_seed(1)
                found.backward(torch.randn(found.shape, dtype=found.dtype))
                grads = [v.grad for v in values]
            out.append((found.detach().clone(), *grads))
        return out if len(out) == 2 else None

    add(name, call)


forms("linear", [ops.chunk_linear_attn, ops.fused_recurrent_linear_attn], QKV, normalize=False)
forms("linear_fused", [ops.fused_chunk_linear_attn, ops.fused_recurrent_linear_attn], QKV, normalize=False)
forms("retention", [ops.chunk_retention, ops.fused_recurrent_retention], QKV)
forms("retention_parallel", [ops.parallel_retention, ops.fused_recurrent_retention], QKV)
forms("retention_fused", [ops.fused_chunk_retention, ops.fused_recurrent_retention], QKV)
forms("gla", [ops.chunk_gla, ops.fused_recurrent_gla], lambda: [*QKV(), gate(B, T, H, K)])
forms("simple_gla", [ops.chunk_simple_gla, ops.fused_recurrent_simple_gla], lambda: [*QKV(), gate(B, T, H)])
forms("simple_gla_parallel", [ops.parallel_simple_gla, ops.fused_recurrent_simple_gla], lambda: [*QKV(), gate(B, T, H)])
forms("simple_gla_fused", [ops.fused_chunk_simple_gla, ops.fused_recurrent_simple_gla], lambda: [*QKV(), gate(B, T, H)])
forms("delta_rule", [ops.chunk_delta_rule, ops.fused_recurrent_delta_rule], lambda: [*QKV(), beta(B, T, H)],
      dtype=torch.bfloat16)  # fmt: skip
forms("gated_delta_rule", [ops.chunk_gated_delta_rule], lambda: [*QKV(), gate(B, T, H), beta(B, T, H)])
forms("gated_delta_rule_recurrent", [lambda q, k, v, g, b: ops.fused_recurrent_gated_delta_rule(q, k, v, g, beta=b)],
      lambda: [*QKV(), gate(B, T, H), beta(B, T, H)], backward=False)  # fmt: skip
forms("kda", [ops.chunk_kda], lambda: [*QKV(), gate(B, T, H, K), beta(B, T, H)])
forms("kda_recurrent", [ops.fused_recurrent_kda], lambda: [*QKV(), gate(B, T, H, K), beta(B, T, H)], backward=False)
forms("hgrn", [ops.fused_recurrent_hgrn], lambda: [n(B, T, 64), gate(B, T, 64)])
forms("gsa", [ops.chunk_gsa], lambda: [*QKV(), n(B, T, H, 16), gate(B, T, H, 16)], backward=False)
forms("gsa_recurrent", [ops.fused_recurrent_gsa], lambda: [*QKV(), n(B, T, H, 16), gate(B, T, H, 16)])
forms("rwkv6", [ops.chunk_rwkv6, ops.fused_recurrent_rwkv6], lambda: [*QKV(), gate(B, T, H, K), n(H, K)])
forms("rwkv7", [ops.chunk_rwkv7], lambda: (
    lambda r, k, v, w, a: [r, w, k, v, a, a.detach().neg().requires_grad_()])(
        *QKV(), gate(B, T, H, K), unit(B, T, H, K)))  # fmt: skip
forms("rwkv7_recurrent", [ops.fused_recurrent_rwkv7], lambda: (
    lambda r, k, v, w, a: [r, w, k, v, a, a.detach().neg().requires_grad_()])(
        *QKV(), gate(B, T, H, K), unit(B, T, H, K)), backward=False)  # fmt: skip
forms("comba", [ops.chunk_comba], lambda: (
    lambda q, k, v, g, b: [q, k, k.detach().clone().requires_grad_(), v, g, b])(
        *QKV(), gate(B, T, H), beta(B, T, H)))  # fmt: skip
forms("iplr", [ops.chunk_iplr_delta_rule], lambda: [*QKV(), unit(B, T, H, K), unit(B, T, H, K)], backward=False)
forms("dplr", [ops.chunk_dplr_delta_rule], lambda: [*QKV(), unit(B, T, H, K), unit(B, T, H, K), gate(B, T, H, K)])
forms("based", [ops.parallel_based, ops.fused_chunk_based],
      lambda: [n(B, T, H, 16), n(B, T, H, 16), n(B, T, H, V)])  # fmt: skip
forms("attention", [ops.parallel_attn], lambda: [n(B, 128, 2, 64), n(B, 128, 2, 64), n(B, 128, 2, 64)])
forms("forgetting_attention", [ops.parallel_forgetting_attn],
      lambda: [n(B, 128, 2, 64), n(B, 128, 2, 64), n(B, 128, 2, 64), gate(B, 128, 2)])  # fmt: skip
forms("abc", [ops.chunk_abc], lambda: [*QKV(), n(B, T, H, 16)])
forms("log_linear", [ops.chunk_log_linear_attn],
      lambda: [unit(B, T, H, 64), unit(B, T, H, 64), n(B, T, H, 64), gate(B, T, H), beta(B, T, H, 8)],
      backward=False)  # fmt: skip
forms("lightning", [lambda q, k, v: ops.chunk_lightning_attn(q, k, v, 1, 12),
                    lambda q, k, v: ops.fused_recurrent_lightning_attn(q, k, v, 1, 12)], QKV)  # fmt: skip


@case
def stickbreaking():
    q, k, v = (n(B, 64, 2, 32) for _ in range(3))
    out = first(ops.parallel_stickbreaking_attn(q, k, v, 0.2, None))
    out.backward(torch.randn_like(out))


@case
def mesa():
    q, k, v, g, b, least = *QKV(), gate(B, T, H), beta(B, T, H), torch.rand(H, K) + 1
    out = first(ops.chunk_mesa_net(q, k, v, g, b, least.requires_grad_()))
    out.backward(torch.randn_like(out))


@case
def native_sparse():
    q, k, v = n(B, 64, 16, 32), n(B, 64, 1, 32), n(B, 64, 1, 32)
    gates = [torch.rand(B, 64, 16) for _ in range(3)]
    index = (torch.arange(64) // 16)[None, :, None, None].expand(B, 64, 1, 2).clone()
    ops.parallel_nsa(q, k, v, *gates, block_indices=index, block_counts=2, block_size=16)


@case
def path():
    q, k, v, w = (n(B, 64, 2, 32) for _ in range(4))
    first(ops.parallel_path_attn(q, k, v, F.normalize(w, dim=-1), beta(B, 64, 2), gate(B, 64, 2)))


@case
def local_cumsum():
    g = torch.randn(B, T, H)
    found = chunk_local_cumsum(g, chunk_size=16)
    return found, g.view(B, T // 16, 16, H).cumsum(2).view(B, T, H)


@case
def local_cumsum_vector():
    g = torch.randn(B, T, H, K)
    found = chunk_local_cumsum(g, chunk_size=16)
    return found, g.view(B, T // 16, 16, H, K).cumsum(2).view(B, T, H, K)


@case
def global_cumsum():
    g = torch.randn(B, T, H)
    return chunk_global_cumsum(g), g.cumsum(1)


@case
def products():
    a, b = torch.randn(40, 64), torch.randn(64, 72)
    return matmul(a, b), a @ b


@case
def row_softmax():
    a = torch.randn(40, 64)
    return softmax_fwd(a), a.softmax(-1)


@case
def mean_pooling():
    a = n(B, T, H, K)
    out = pooled(a, 16)
    out.backward(torch.randn_like(out))
    return out.detach(), a.detach().view(B, T // 16, 16, H, K).mean(2)


@case
def inverse_of_triangles():
    a = torch.zeros(B, 64, H, 64)
    for h in range(H):
        a[0, :, h] = (torch.randn(64, 64) * 0.1).tril(-1)
    found = solve_tril(a)
    wanted = torch.stack([torch.linalg.inv(torch.eye(64) + a[0, :, h]) for h in range(H)], 1)[None]
    return found, wanted


def module_cases():
    """Kernels of fla's modules: activations, norms, convolutions, losses, rotary embeddings, token shift."""
    from fla.modules import (
        activations,
        convolution,
        fused_cross_entropy,
        fused_norm_gate,
        l2norm,
        layernorm,
        rotary,
        token_shift,
    )
    from fla.modules.grpo import fused_grpo_loss  # noqa: F401

    def simple(name, ours, theirs, make):
        def call():
            out = []
            for function in (ours, theirs):
                torch.manual_seed(0)
                values = make()
                found = first(function(*values))
                torch.manual_seed(1)
                found.backward(torch.randn(found.shape, dtype=found.dtype))
                out.append((found.detach().clone(), *(v.grad for v in values if v.requires_grad)))
            return out

        add(name, call)

    simple("swish", activations.swish, F.silu, lambda: [n(30, 70)])
    simple("logsigmoid", activations.logsigmoid, F.logsigmoid, lambda: [n(30, 70)])
    simple("swiglu", activations.swiglu, lambda a, b: F.silu(a) * b, lambda: [n(30, 70), n(30, 70)])
    simple("sigmoid", activations.sigmoid, torch.sigmoid, lambda: [n(30, 70)])
    simple("l2norm", l2norm.l2norm, lambda a: a / (a.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt(), lambda: [n(30, 64)])
    simple("layer_norm", lambda a, w, b: layernorm.layer_norm(a, w, b), lambda a, w, b: F.layer_norm(a, (64,), w, b),
           lambda: [n(30, 64), n(64), n(64)])  # fmt: skip
    simple("rms_norm", layernorm.rms_norm, lambda a, w, b: F.rms_norm(a, (64,), w, 1e-5) + b,
           lambda: [n(30, 64), n(64), n(64)])  # fmt: skip
    simple("rms_norm_gate", lambda a, g, w: fused_norm_gate.rms_norm_gated(a, g, w, None, "swish"),
           lambda a, g, w: F.rms_norm(a, (64,), w, 1e-6) * F.silu(g),
           lambda: [n(30, 64), n(30, 64), n(64)])  # fmt: skip
    simple("token_shift", token_shift.token_shift, lambda a: F.pad(a, (0, 0, 1, -1)) - a, lambda: [n(2, 40, 64)])
    simple("short_convolution", lambda a, w: convolution.causal_conv1d(a, w),
           lambda a, w: F.conv1d(a.mT, w[:, None], padding=3, groups=64)[..., :40].mT,
           lambda: [n(2, 40, 64), n(64, 4)])  # fmt: skip
    simple("fused_cross_entropy", lambda a: fused_cross_entropy.cross_entropy_loss(a, torch.arange(30))[0].sum(),
           lambda a: F.cross_entropy(a, torch.arange(30), reduction="sum"), lambda: [n(30, 70)])  # fmt: skip
    angles = torch.arange(24)[:, None] * (10000 ** (-torch.arange(16) / 16.0))
    cos, sin = angles.cos(), angles.sin()
    half = lambda v: torch.cat([-v[..., 16:], v[..., :16]], -1)
    simple("rotary", lambda a: rotary.rotary_embedding(a, cos, sin),
           lambda a: a * cos.repeat(1, 2)[:, None] + half(a) * sin.repeat(1, 2)[:, None],
           lambda: [n(2, 24, 4, 32)])  # fmt: skip


module_cases()
