"""FlagGems 5.0: PyTorch's operators as Triton kernels, against PyTorch's own on the CPU. Package `flag-gems`."""

import os
import sys

os.environ.setdefault("GEMS_VENDOR", "nvidia")

import torch
import torch.nn.functional as F
from cases import add, case
from flag_gems.utils import codegen_config_utils as codegen

for config in codegen.CODEGEN_COFIGS.values():
    if config is not None:
        config.prefer_block_pointer = False  # which Triton 3.8 no longer compiles in this form
from flag_gems import fused, ops

sys.modules["flag_gems.utils.libentry"].minor_version = 6  # it knows Triton up to 3.6, and gives 3.8 too few arguments

TOLERANCE = 5e-3


def r(*shape, low=-1.0, high=1.0):
    return torch.rand(*shape) * (high - low) + low


def i(*shape, high=10):
    return torch.randint(0, high, shape)


def compared(name, ours, theirs, make):
    """A case that gives equal arguments to both."""

    def call():
        arguments = make()
        found = ours(*(a.clone() for a in arguments))
        return None if theirs is None else (found, theirs(*arguments))

    add(name, call)


def table(entries, make):
    for name in entries.split():
        ours, theirs = getattr(ops, name), getattr(torch, name.rstrip("_"), None) or getattr(F, name.rstrip("_"), None)
        compared(name, ours, theirs, make)


table("abs absolute acos angle arcsinh atan ceil celu conj_physical contiguous cos cosh deg2rad".replace(" deg2rad", "")
      .replace(" contiguous", ""), lambda: (r(37, 65),))  # fmt: skip
table("elu erf exp exp2 expm1 gelu hardsigmoid i0 isfinite isinf isnan isneginf logical_not log_sigmoid".replace(
      "log_sigmoid", "logsigmoid").replace(" logsigmoid", ""), lambda: (r(33, 129),))  # fmt: skip
table("neg relu relu6 round selu sigmoid signbit silu sin softplus softshrink special_i0e special_i1 square tan tanh"
      .replace("special_i0e special_i1 ", ""), lambda: (r(41, 77),))  # fmt: skip
table("log log10 reciprocal rsqrt sqrt", lambda: (r(31, 66, low=0.1, high=4),))
table("add sub mul true_divide atan2 copysign maximum minimum fmin hypot logaddexp eq ne lt le gt ge greater isclose "
      "logical_and logical_or logical_xor", lambda: (r(17, 130), r(17, 130)))  # fmt: skip
table("arcsinh_ asinh_ arctanh_ floor_ digamma_ hardswish_ i0_ log1p_ logit_ selu_ sgn_ sinh_",
      lambda: (r(29, 68, low=0.1, high=0.9),))  # fmt: skip
table("remainder", lambda: (i(16, 70), i(16, 70, high=4) + 1))
table(
    "prod sum mean max min all any argmax argmin std var count_nonzero nonzero", lambda: (r(19, 67, low=0.9, high=1.1),)
)
table("vdot dot", lambda: (r(301), r(301)))
table("mm", lambda: (r(40, 72), r(72, 56)))
table("bmm", lambda: (r(3, 24, 40), r(3, 40, 33)))
table("mv", lambda: (r(40, 72), r(72)))
table("addmm", lambda: (r(40, 56), r(40, 72), r(72, 56)))
table("addmv", lambda: (r(40), r(40, 72), r(72)))
table("baddbmm", lambda: (r(2, 24, 33), r(2, 24, 40), r(2, 40, 33)))
table("addr", lambda: (r(24, 33), r(24), r(33)))
table("addcdiv addcmul", lambda: (r(24, 33), r(24, 33), r(24, 33, low=0.5, high=2)))
table("kron", lambda: (r(5, 7), r(6, 3)))
table("isin", lambda: (i(16, 20), i(5)))
table("trace diag tril triu", lambda: (r(37, 41),))
table("equal allclose", lambda: ((x := r(20, 31)), x))

PLAIN = {
    "bitwise_and_tensor": (lambda x, y: ops.bitwise_and_tensor(x, y), torch.bitwise_and),
    "bitwise_or_tensor": (lambda x, y: ops.bitwise_or_tensor(x, y), torch.bitwise_or),
    "floor_divide": (lambda x, y: ops.floor_divide(x, y + 1), lambda x, y: torch.floor_divide(x, y + 1)),
    "div_mode": (
        lambda x, y: ops.div_mode(x, y + 1, rounding_mode="trunc"),
        lambda x, y: torch.div(x, y + 1, rounding_mode="trunc"),
    ),
    "bitwise_not": (lambda x, y: ops.bitwise_not(x), lambda x, y: ~x),
    "scatter_add": (
        lambda x, y: ops.scatter_add_(torch.zeros(16, 10), 1, y, x.float()),
        lambda x, y: torch.zeros(16, 10).scatter_add_(1, y, x.float()),
    ),
    "sort": (lambda x, y: ops.sort(x, 1)[0], lambda x, y: x.sort(1)[0]),
    "sort_stable": (
        lambda x, y: ops.sort_stable(x, stable=True, dim=1),
        lambda x, y: tuple(x.sort(dim=1, stable=True)),
    ),
    "unique": (lambda x, y: ops._unique2(x)[0], lambda x, y: x.unique()),
    "one_hot": (lambda x, y: ops.one_hot(y, 10), lambda x, y: F.one_hot(y, 10)),
    "repeat_interleave": (lambda x, y: ops.repeat_interleave_self_int(x, 3, 1), lambda x, y: x.repeat_interleave(3, 1)),
    "embedding": (lambda x, y: ops.embedding(x.float(), y), lambda x, y: F.embedding(y, x.float())),
}
for name, (ours, theirs) in PLAIN.items():
    compared(name, ours, theirs, lambda: (i(16, 20), i(16, 20)))

ON_FLOATS = {
    "softmax": (lambda x: ops.softmax(x, 1), lambda x: x.softmax(1)),
    "softmax_inner": (lambda x: ops.softmax(x, 0), lambda x: x.softmax(0)),
    "log_softmax": (lambda x: ops.log_softmax(x, 1), lambda x: x.log_softmax(1)),
    "safe_softmax": (lambda x: ops._safe_softmax(x, 1), lambda x: x.softmax(1)),
    "sum_dim": (lambda x: ops.sum_dim(x, [0]), lambda x: x.sum(0)),
    "mean_dim": (lambda x: ops.mean_dim(x, [1]), lambda x: x.mean(1)),
    "prod_dim": (lambda x: ops.prod_dim(x, 1), lambda x: x.prod(1)),
    "max_dim": (lambda x: tuple(ops.max_dim(x, 1)), lambda x: tuple(x.max(1))),
    "min_dim": (lambda x: tuple(ops.min_dim(x, 0)), lambda x: tuple(x.min(0))),
    "all_dim": (lambda x: ops.all_dim(x, 1), lambda x: x.all(1)),
    "any_dim": (lambda x: ops.any_dim(x, 1), lambda x: x.any(1)),
    "amax": (lambda x: ops.amax(x, [1]), lambda x: x.amax(1)),
    "aminmax": (lambda x: tuple(ops.aminmax(x)), lambda x: tuple(x.aminmax())),
    "argmax_dim": (lambda x: ops.argmax(x, 1), lambda x: x.argmax(1)),
    "var_mean": (lambda x: ops.var_mean(x, [1]), lambda x: torch.var_mean(x, 1)),
    "std_dim": (lambda x: ops.std(x, [1]), lambda x: x.std(1)),
    "cumsum": (lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1)),
    "cumsum_rows": (lambda x: ops.cumsum(x, 0), lambda x: x.cumsum(0)),
    "cummax": (lambda x: tuple(ops.cummax(x, 1)), lambda x: tuple(x.cummax(1))),
    "cummin": (lambda x: tuple(ops.cummin(x, 1)), lambda x: tuple(x.cummin(1))),
    "layer_norm": (
        lambda x: ops.layer_norm(x, (66,), torch.ones(66), torch.zeros(66))[0],
        lambda x: F.layer_norm(x, (66,)),
    ),
    "rms_norm": (lambda x: ops.rms_norm(x, (66,), torch.ones(66)), lambda x: F.rms_norm(x, (66,), eps=1e-5)),
    "group_norm": (
        lambda x: ops.group_norm(x.view(2, 6, 3, 66), torch.ones(6), torch.zeros(6), 2, 6, 198, 3)[0],
        lambda x: F.group_norm(x.view(2, 6, 3, 66), 3),
    ),
    "batch_norm": (
        lambda x: ops.batch_norm(x.view(2, 6, 198), torch.ones(6), torch.zeros(6), torch.zeros(6), torch.ones(6), True)[
            0
        ],
        lambda x: F.batch_norm(x.view(2, 6, 198), torch.zeros(6), torch.ones(6), training=True),
    ),
    "vector_norm": (lambda x: ops.vector_norm(x), lambda x: x.norm()),
    "clamp": (lambda x: ops.clamp(x, -0.5, 0.5), lambda x: x.clamp(-0.5, 0.5)),
    "threshold": (lambda x: ops.threshold(x, 0.1, 2.0), lambda x: F.threshold(x, 0.1, 2.0)),
    "pow_scalar": (lambda x: ops.pow_tensor_scalar(x, 3), lambda x: x**3),
    "pow_tensor": (lambda x: ops.pow_tensor_tensor(x.abs(), x), lambda x: x.abs() ** x),
    "nan_to_num": (lambda x: ops.nan_to_num(x / x.round()), lambda x: (x / x.round()).nan_to_num()),
    "flip": (lambda x: ops.flip(x, [1]), lambda x: x.flip(1)),
    "roll": (lambda x: ops.roll(x, 3, 1), lambda x: x.roll(3, 1)),
    "tile": (lambda x: ops.tile(x, (2, 3)), lambda x: x.tile(2, 3)),
    "repeat": (lambda x: ops.repeat(x, (2, 1, 3)), lambda x: x.repeat(2, 1, 3)),
    "cat": (lambda x: ops.cat([x, 2 * x], 1), lambda x: torch.cat([x, 2 * x], 1)),
    "stack": (lambda x: ops.stack([x, 2 * x], 1), lambda x: torch.stack([x, 2 * x], 1)),
    "hstack": (lambda x: ops.hstack([x, 2 * x]), lambda x: torch.hstack([x, 2 * x])),
    "vstack": (lambda x: ops.vstack([x, 2 * x]), lambda x: torch.vstack([x, 2 * x])),
    "pad": (lambda x: ops.pad(x, (1, 2, 3, 4)), lambda x: F.pad(x, (1, 2, 3, 4))),
    "reflection_pad1d": (lambda x: ops.reflection_pad1d(x, (2, 3)), lambda x: F.pad(x, (2, 3), "reflect")),
    "replication_pad1d": (lambda x: ops.replication_pad1d(x, (2, 3)), lambda x: F.pad(x, (2, 3), "replicate")),
    "where": (lambda x: ops.where_self(x > 0, x, -x), lambda x: torch.where(x > 0, x, -x)),
    "masked_fill": (lambda x: ops.masked_fill(x, x > 0, 3.0), lambda x: x.masked_fill(x > 0, 3.0)),
    "masked_select": (lambda x: ops.masked_select(x, x > 0), lambda x: x.masked_select(x > 0)),
    "masked_scatter": (
        lambda x: ops.masked_scatter(x, x > 0, 2 * x.abs()),
        lambda x: x.masked_scatter(x > 0, 2 * x.abs()),
    ),
    "lerp": (lambda x: ops.lerp_scalar(x, 2 * x, 0.3), lambda x: x.lerp(2 * x, 0.3)),
    "topk": (lambda x: ops.topk(x, 5)[0], lambda x: x.topk(5)[0]),
    "gather": (
        lambda x: ops.gather(x, 1, torch.arange(360).view(36, 10) % 66),
        lambda x: x.gather(1, torch.arange(360).view(36, 10) % 66),
    ),
    "index_select": (lambda x: ops.index_select(x, 0, torch.arange(0, 36, 5)), lambda x: x[::5]),
    "index_add": (
        lambda x: ops.index_add(x, 0, torch.arange(3), 2 * x[5:8]),
        lambda x: x.index_add(0, torch.arange(3), 2 * x[5:8]),
    ),
    "index_put": (
        lambda x: ops.index_put(x, (torch.arange(3),), x[5:8]),
        lambda x: x.index_put((torch.arange(3),), x[5:8]),
    ),
    "index": (lambda x: ops.index(x, [torch.arange(9)]), lambda x: x[:9]),
    "select_scatter": (lambda x: ops.select_scatter(x, x[3], 0, 5), lambda x: x.select_scatter(x[3], 0, 5)),
    "slice_scatter": (lambda x: ops.slice_scatter(x, x[:4], 0, 5, 9), lambda x: x.slice_scatter(x[:4], 0, 5, 9)),
    "diag_embed": (lambda x: ops.diag_embed(x), lambda x: x.diag_embed()),
    "quantile": (
        lambda x: ops.quantile(x, torch.tensor([0.25, 0.5]), 1),
        lambda x: x.quantile(torch.tensor([0.25, 0.5]), 1),
    ),
    "glu": (lambda x: ops.glu(x, 1), lambda x: F.glu(x, 1)),
    "mse_loss": (lambda x: ops.mse_loss(x, 2 * x), lambda x: F.mse_loss(x, 2 * x)),
    "prelu": (lambda x: ops.prelu(x, torch.tensor([0.2])), lambda x: F.prelu(x, torch.tensor([0.2]))),
    "gelu_backward": (lambda x: ops.gelu_backward(x, 2 * x), lambda x: torch.ops.aten.gelu_backward(x, 2 * x)),
    "silu_backward": (lambda x: ops.silu_backward(x, 2 * x), lambda x: torch.ops.aten.silu_backward(x, 2 * x)),
    "softmax_backward": (
        lambda x: ops.softmax_backward(x, x.softmax(1), 1, torch.float32),
        lambda x: torch.ops.aten._softmax_backward_data(x, x.softmax(1), 1, torch.float32),
    ),
    "log_softmax_backward": (
        lambda x: ops.log_softmax_backward(x, x.log_softmax(1), 1, torch.float32),
        lambda x: torch.ops.aten._log_softmax_backward_data(x, x.log_softmax(1), 1, torch.float32),
    ),
    "conv2d": (
        lambda x: ops.conv2d(x.view(1, 6, 18, 22), x[:4, :54].reshape(4, 6, 3, 3)),
        lambda x: F.conv2d(x.view(1, 6, 18, 22), x[:4, :54].reshape(4, 6, 3, 3)),
    ),
    "conv1d": (
        lambda x: ops.conv1d(x.view(2, 6, 198), x[:4, :18].reshape(4, 6, 3)),
        lambda x: F.conv1d(x.view(2, 6, 198), x[:4, :18].reshape(4, 6, 3)),
    ),
    "max_pool2d": (
        lambda x: ops.max_pool2d_with_indices(x.view(2, 3, 18, 22), (2, 2)),
        lambda x: F.max_pool2d(x.view(2, 3, 18, 22), 2, return_indices=True),
    ),
    "avg_pool2d": (lambda x: ops.avg_pool2d(x.view(2, 3, 18, 22), 2), lambda x: F.avg_pool2d(x.view(2, 3, 18, 22), 2)),
    "upsample_nearest2d": (
        lambda x: ops.upsample_nearest2d(x.view(2, 3, 18, 22), (36, 44)),
        lambda x: F.interpolate(x.view(2, 3, 18, 22), (36, 44), mode="nearest"),
    ),
    "upsample_nearest1d": (
        lambda x: ops.upsample_nearest1d(x.view(2, 6, 198), (300,)),
        lambda x: F.interpolate(x.view(2, 6, 198), 300),
    ),
    "upsample_bicubic2d_aa": (
        lambda x: ops._upsample_bicubic2d_aa(x.view(2, 3, 18, 22), (30, 32), False),
        lambda x: F.interpolate(x.view(2, 3, 18, 22), (30, 32), mode="bicubic", antialias=True),
    ),
    "pixel_unshuffle": (
        lambda x: ops.pixel_unshuffle(x.view(2, 3, 18, 22), 2),
        lambda x: F.pixel_unshuffle(x.view(2, 3, 18, 22), 2),
    ),
    "weight_norm": (
        lambda x: ops.weight_norm_interface(x, x[:, :1].abs())[0],
        lambda x: x / x.norm(dim=1, keepdim=True) * x[:, :1].abs(),
    ),
    "silu_and_mul": (lambda x: fused.silu_and_mul(x, 2 * x), lambda x: F.silu(x) * 2 * x),
    "gelu_and_mul": (lambda x: fused.gelu_and_mul(x, 2 * x), lambda x: F.gelu(x) * 2 * x),
}
for name, (ours, theirs) in ON_FLOATS.items():
    compared(name, ours, theirs, lambda: (r(36, 66),))


@case
def arange():
    return ops.arange_start(3, 400, dtype=torch.int64, layout=None, device="cuda"), torch.arange(3, 400)


@case
def linspace():
    return ops.linspace(0, 1, 333, dtype=torch.float32, device="cuda"), torch.linspace(0, 1, 333)


@case
def eye():
    return ops.eye(37, dtype=torch.float32, device="cuda"), torch.eye(37)


@case
def full():
    return ops.full((30, 31), 2.5, dtype=torch.float32, device="cuda"), torch.full((30, 31), 2.5)


@case
def randperm():
    return ops.randperm(100, device="cuda").sort()[0], torch.arange(100)


@case
def nll_loss():
    x, y = r(36, 10).log_softmax(1), i(36)
    return ops.nll_loss_forward(x, y, None, 1, -100)[0], F.nll_loss(x, y)


@case
def fused_add_rms_norm():
    x, y, w = r(36, 66), r(36, 66), r(66)
    z = x + y
    return fused.fused_add_rms_norm(x.clone(), y.clone(), (66,), w, 1e-5)[0], F.rms_norm(z, (66,), w, 1e-5)


@case
def cross_entropy():
    x, y = r(36, 70), i(36, high=70)
    return fused.cross_entropy_loss(x, y), F.cross_entropy(x, y)


@case
def outer():
    x, y = r(36), r(41)
    return fused.outer(x, y), torch.outer(x, y)
