"""The kernels of examples/language_models next to torch.compile, Liger, QuACK and FlashInfer; their share of the roof.

A case is a kernel, rows and columns: in bf16, with about as many elements in all cases; of `sampling` sequences and
logits of f32, whose tokens are compared with the set of which they are drawn. `--drawn N --seed S` draws columns
between 4,096 and 262,144, multiples of 8. Gradients of Liger and QuACK are called through autograd, whose time on the
host a flush of the cache before each launch hides. A contender that is not installed, or refuses a size, is left out.
"""

import itertools
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import harness
import mlir_kernels
import runner
from rivals.row_calls import (
    backward,
    compiled,
    launched,
    liger_layer_norm,
    liger_norm,
    liger_op,
    liger_swiglu,
    quack_package,
)

NAME: Final = "language_models"
PAGE: Final = "results/language-models.md"
TARGET: Final = "sm_90a"
DEVICE = "cuda"
PEAK: Final = 4.8e12
"""Bytes a second of an H200's memory, by its data sheet."""
ELEMENTS: Final = 1 << 27
COLUMNS: Final = (4096, 16_384, 32_768, 131_072, 262_144)
HEADS, QUERIES, SIZE = 32, 24, 128  # of a token of `rope`: a row of 4096 elements
RIVALS: Final = {"torch": "torch.compile", "liger": "Liger", "quack": "QuACK", "flashinfer": "FlashInfer"}
TOP_K, TOP_P = 50, 0.9
CHOSEN, TILE = 8, 64  # experts of a token; choices of a tile
TOLERANCE: Final = 0.02  # of the largest value: results are rounded to bf16, some intermediates of others too
F8_TOLERANCE: Final = 0.08  # an f8, or its neighbour
OPTIONAL: Final = ("residual", "bias", "sums", "mean", "scales")

sys.path.insert(0, str(harness.BENCH.parent / "examples" / NAME))


@dataclass(frozen=True)
class RowKernel:
    """A kernel of rows: `build` makes those of N columns, by name; `call` its launches and rivals on the GPU.

    `moved` counts the arrays of M x N elements that are read or written, in bytes for an element; 0 where the memory's
    rate says nothing.
    """

    build: Callable[[int], dict[str, Any]]
    call: Callable[["Given"], dict[str, Callable[[], Any]]]
    moved: int
    columns: Sequence[int] = COLUMNS
    rows: Sequence[int] = ()
    """Rows of each case; empty where all cases have about ELEMENTS elements."""
    check: Callable[["Given", Any], float] | None = None
    """The error of results that are not to be PyTorch's. Raises WrongResultError."""

    def sizes(self) -> list[tuple[int, int]]:
        return [(rows, n) for n in self.columns for rows in self.rows or [rows_for(n)]]


class Given:
    """Random arrays of a case on the device, made when they are asked for; and our kernels, by name."""

    def __init__(self, kernels: dict[str, Any], rows: int, columns: int) -> None:
        import torch

        torch.manual_seed(0)
        self.kernels, self.rows, self.columns = kernels, rows, columns

    x = cached_property(lambda self: self.drawn(self.rows, self.columns))
    gradient = cached_property(lambda self: self.drawn(self.rows, self.columns))
    other = cached_property(lambda self: self.drawn(self.rows, self.columns))
    weight = cached_property(lambda self: self.drawn(self.columns))
    bias = cached_property(lambda self: self.drawn(self.columns))

    @cached_property
    def labels(self) -> Any:
        """A column for each row."""
        import torch

        return torch.randint(0, self.columns, (self.rows,), device=DEVICE)

    @cached_property
    def logits(self) -> Any:
        """Of f32, a few of which have most of the mass."""
        return 4 * self.drawn(self.rows, self.columns, dtype="float32")

    def drawn(self, *shape: int, dtype: str = "bfloat16") -> Any:
        """Normal numbers."""
        import torch

        return torch.randn(shape, device=DEVICE, dtype=getattr(torch, dtype))

    def empty(self, *shape: int, dtype: str = "bfloat16") -> Any:
        """An array of the rows' shape, or of another one."""
        import torch

        return torch.empty(shape or (self.rows, self.columns), device=DEVICE, dtype=getattr(torch, dtype))

    def of_rows(self) -> Any:
        """A number of f32 for each row."""
        return self.empty(self.rows, dtype="float32")


# -- the kernels, and what computes the same


def softmax(g: Given) -> dict[str, Callable[[], Any]]:
    import torch

    y, x = g.empty(), g.x
    return {
        "ours": launched(g.kernels["softmax"], (x, y), y),
        "torch": compiled(lambda: (torch.softmax(x, 1),)),
        "liger": lambda: liger_op("softmax", "LigerSoftmaxFunction").apply(x),
        "quack": lambda: quack_package().softmax(x),
    }


def softmax_gradient(g: Given) -> dict[str, Callable[[], Any]]:
    import torch

    found, given = g.empty(), g.gradient
    y = torch.softmax(g.x, 1)

    def formula() -> Any:
        share, gradient = y.float(), given.float()
        return ((share * (gradient - (gradient * share).sum(1, keepdim=True))).to(y.dtype),)

    return {
        "ours": launched(g.kernels["softmax_gradient"], (given, y, found), found),
        "torch": compiled(formula),
        "liger": backward(lambda x: liger_op("softmax", "LigerSoftmaxFunction").apply(x), given, g.x),
        "quack": backward(lambda x: quack_package().softmax(x), given, g.x),
    }


def rms_norm(g: Given) -> dict[str, Callable[[], Any]]:
    from torch.nn import functional

    y, x, weight = g.empty(), g.x, g.weight
    return {
        "ours": launched(g.kernels["norm"], (x, weight, y, g.of_rows()), y),
        "torch": compiled(lambda: (functional.rms_norm(x, (g.columns,), weight, 1e-6),)),
        "liger": lambda: liger_norm(x, weight),
        "quack": lambda: quack_package().rmsnorm(x, weight),
    }


def added_rms_norm(g: Given) -> dict[str, Callable[[], Any]]:
    from torch.nn import functional

    y, sums, x, other, weight = g.empty(), g.empty(), g.x, g.other, g.weight

    def both() -> Any:
        total = x + other
        return functional.rms_norm(total, (g.columns,), weight, 1e-6), total

    def liger() -> Any:
        function = liger_op("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
        return function.apply(x, other, weight, 1e-6, 0.0, "llama", False)

    return {
        "ours": launched(g.kernels["norm"], (x, other, weight, y, sums, g.of_rows()), y, sums),
        "torch": compiled(both),
        "liger": liger,
        "quack": lambda: quack_package().rmsnorm(x, weight, residual=other, prenorm=True),
    }


def rms_norm_f8(g: Given) -> dict[str, Callable[[], Any]]:
    import torch
    from torch.nn import functional

    x, weight, y, scales = g.x, g.weight, g.empty(dtype="float8_e4m3fn"), g.of_rows()

    def quantised() -> Any:
        found = functional.rms_norm(x.float(), (g.columns,), weight.float(), 1e-6)
        scale = found.abs().amax(1).clamp(min=1e-12) / 448
        return (found / scale[:, None]).to(torch.float8_e4m3fn), scale

    ours = launched(g.kernels["norm"], (x, weight, y, g.of_rows(), scales), y, scales)
    return {"ours": ours, "torch": compiled(quantised)}


def layer_norm(g: Given) -> dict[str, Callable[[], Any]]:
    from torch.nn import functional

    y, x, weight, bias = g.empty(), g.x, g.weight, g.bias
    return {
        "ours": launched(g.kernels["norm"], (x, weight, bias, y, g.of_rows(), g.of_rows()), y),
        "torch": compiled(lambda: (functional.layer_norm(x, (g.columns,), weight, bias, 1e-6),)),
        "liger": lambda: liger_layer_norm(x, weight, bias),
    }


def _norm_gradient(g: Given, centred: bool) -> dict[str, Callable[[], Any]]:
    import torch
    from norm_gradients import FUSED, groups_for

    x, given, weight = g.x, g.gradient, g.weight
    mean = x.float().mean(1) * centred
    inverse = torch.rsqrt((x.float() - mean[:, None]).square().mean(1) + 1e-6)
    found, of_weight, of_bias = g.empty(), g.empty(g.columns), g.empty(g.columns)
    groups = groups_for(g.rows, g.columns)
    parts = [g.empty(groups, g.columns, dtype="float32") for _ in range(1 + centred)]
    means = [mean] * centred
    if g.columns <= FUSED:
        launches = [g.kernels["fused"].prepare(given, x, weight, inverse, *means, found, *parts)]
    else:
        launches = [
            g.kernels["of_rows"].prepare(given, x, weight, inverse, *means, found),
            g.kernels["of_weights"].prepare(given, x, inverse, *means, *parts),
        ]
    launches += [g.kernels["sums"].prepare(part, y) for part, y in zip(parts, (of_weight, of_bias), strict=False)]

    def ours() -> Any:
        for launch in launches:
            launch()
        return found, of_weight, *((of_bias,) * centred)

    def formula() -> Any:
        z, upper = (x.float() - mean[:, None]) * inverse[:, None], given.float()
        u = upper * weight.float()
        of_x = u - z * (u * z).mean(1, keepdim=True)
        if centred:
            of_x = of_x - u.mean(1, keepdim=True)
        more = (upper.sum(0).to(x.dtype),) * centred
        return (of_x * inverse[:, None]).to(x.dtype), (upper * z).sum(0).to(x.dtype), *more

    runs = {"ours": ours, "torch": compiled(formula)}
    if centred:
        return runs | {"liger": backward(liger_layer_norm, given, x, weight, g.bias)}
    runs["liger"] = backward(liger_norm, given, x, weight)
    return runs | {"quack": backward(lambda a, w: quack_package().rmsnorm(a, w), given, x, weight)}


def rms_norm_gradient(g: Given) -> dict[str, Callable[[], Any]]:
    return _norm_gradient(g, False)


def layer_norm_gradient(g: Given) -> dict[str, Callable[[], Any]]:
    return _norm_gradient(g, True)


def cross_entropy(g: Given) -> dict[str, Callable[[], Any]]:
    """The losses, and the gradient of their mean; Liger's and ours take the place of the logits, QuACK's of a copy."""
    import torch

    x, labels, scale, losses, logits = g.x, g.labels, 1 / g.rows, g.of_rows(), g.x.clone()
    ours = g.kernels["cross_entropy"].prepare(logits, labels, losses, scale)
    of_liger, of_quack = g.x.clone().requires_grad_(), g.x.clone()

    def formula() -> Any:
        values = x.float()
        whole = torch.logsumexp(values, 1)
        own = torch.arange(g.columns, device=DEVICE) == labels[:, None]
        gradient = (torch.exp(values - whole[:, None]) - own.float()) * scale
        return gradient.to(x.dtype), whole - values.gather(1, labels[:, None])[:, 0]

    def liger() -> Any:
        liger_op("cross_entropy", "LigerCrossEntropyFunction").apply(of_liger, labels, None)
        return (of_liger.detach(),)  # which the forward kernel has overwritten by the gradient

    def quack() -> Any:
        with torch.enable_grad():
            given = of_quack.detach().requires_grad_()
            losses = quack_package().cross_entropy(given, labels, reduction="none", inplace_backward=True)
            (gradient,) = torch.autograd.grad(losses, given, torch.full_like(losses, scale))
        return gradient, losses.detach()

    def run() -> Any:
        ours()
        return logits, losses

    return {"ours": run, "torch": compiled(formula), "liger": liger, "quack": quack}


def rope(g: Given) -> dict[str, Callable[[], Any]]:
    """All heads of tokens at ascending positions, halves turned; Liger's turns its argument in place."""
    import torch

    x, y = g.x.view(g.rows, HEADS, SIZE), g.empty(g.rows, HEADS, SIZE)
    exponents = torch.arange(SIZE // 2, device=DEVICE) / (SIZE // 2)
    angles = torch.arange(g.rows, device=DEVICE)[:, None] * 10_000.0**-exponents
    cosine, sine = angles.cos(), angles.sin()
    positions = torch.arange(g.rows, device=DEVICE, dtype=torch.int32)

    def formula() -> Any:
        a, b = x.float().chunk(2, dim=2)
        c, s = cosine[:, None], sine[:, None]
        turned = torch.cat([a * c - b * s, a * s + b * c], dim=2).to(x.dtype)
        return turned[:, :QUERIES], turned[:, QUERIES:]

    parts = [part.contiguous()[None] for part in (x[:, :QUERIES], x[:, QUERIES:])]
    wide = [torch.cat([table, table], dim=1)[None] for table in (cosine, sine)]

    def liger() -> Any:
        turned = liger_op("rope", "LigerRopeFunction").apply(*(part.transpose(1, 2) for part in parts), *wide)
        return tuple(part.transpose(1, 2)[0] for part in turned)

    return {
        "ours": launched(g.kernels["rope"], (x, cosine, sine, positions, 1.0, y), y[:, :QUERIES], y[:, QUERIES:]),
        "torch": compiled(formula),
        "liger": liger,
    }


def swiglu(g: Given) -> dict[str, Callable[[], Any]]:
    from torch.nn import functional

    a, b, y = g.x, g.other, g.empty()
    return {
        "ours": launched(g.kernels["swiglu"], (a, b, y), y),
        "torch": compiled(lambda: (functional.silu(a) * b,)),
        "liger": lambda: liger_swiglu(a, b),
    }


def swiglu_gradient(g: Given) -> dict[str, Callable[[], Any]]:
    import torch

    a, b, given, of_a, of_b = g.x, g.other, g.gradient, g.empty(), g.empty()

    def formula() -> Any:
        upper, x, y = (array.float() for array in (given, a, b))
        share = torch.sigmoid(x)
        return (upper * y * share * (1 + x * (1 - share))).to(a.dtype), (upper * x * share).to(a.dtype)

    return {
        "ours": launched(g.kernels["swiglu_gradient"], (given, a, b, of_a, of_b), of_a, of_b),
        "torch": compiled(formula),
        "liger": backward(liger_swiglu, given, a.clone(), b.clone()),  # which it overwrites
    }


def sampling(g: Given) -> dict[str, Callable[[], Any]]:
    """Tokens by top-k and top-p together, of the probabilities of all tokens."""
    import torch

    logits, tokens = g.logits, g.empty(g.rows, dtype="int32")
    many = torch.full((g.rows,), TOP_K, device=DEVICE, dtype=torch.int32)
    ones, mass = (torch.full((g.rows,), n, device=DEVICE) for n in (1.0, TOP_P))

    def formula() -> Any:
        _, which = logits.topk(TOP_K, dim=1)
        share = torch.softmax(logits, dim=1).gather(1, which)
        kept = torch.where(share.cumsum(1) - share < TOP_P, share, 0.0)
        noise = torch.empty_like(kept).exponential_()
        return (which.gather(1, (kept / noise).argmax(1, keepdim=True))[:, 0],)

    def flashinfer() -> Any:
        module = import_module("flashinfer.sampling")
        return module.top_k_top_p_sampling_from_logits(logits, TOP_K, TOP_P, filter_apply_order="joint")

    return {
        "ours": launched(g.kernels["sampling"], (logits, ones, many, mass, 7, 0, tokens), tokens),
        "torch": compiled(formula),
        "flashinfer": flashinfer,
    }


def tokens_outside(g: Given, tokens: Any) -> float:
    """The share of tokens outside of the set by top-k and top-p, but for one whose mass before it rounds to TOP_P."""
    import torch

    share = torch.softmax(g.logits.double(), dim=1)
    own = share.gather(1, tokens.long()[:, None])
    above = share > own
    outside = (above.sum(1) >= TOP_K) | ((share * above).sum(1) > TOP_P + 1e-5)
    if outside.any():
        raise harness.WrongResultError(f"{int(outside.sum())} of {len(tokens)} tokens are outside of their set")
    return 0.0


def top_experts(g: Given) -> dict[str, Callable[[], Any]]:
    """The best experts of tokens, and their weights, which add up to 1."""
    import torch

    scores = g.logits
    weights, which = (g.empty(g.rows, CHOSEN, dtype=dtype) for dtype in ("float32", "int32"))

    def formula() -> Any:
        best, experts = torch.softmax(scores, dim=1).topk(CHOSEN, dim=1)
        return best / best.sum(1, keepdim=True), experts

    ours = launched(g.kernels["top_experts"], (scores, weights, which), weights, which)
    return {"ours": ours, "torch": compiled(formula)}


def permutation(g: Given) -> dict[str, Callable[[], Any]]:
    """Choices of `columns` experts in order, in tiles: their places, and the choice at each place."""
    import torch

    n, experts = g.rows, g.columns
    choice = torch.randint(0, experts, (n,), device=DEVICE, dtype=torch.int32)
    most, blocks = n + experts * (TILE - 1), -(-n // 2048)
    counts, before = (g.empty(blocks, experts, dtype="int32") for _ in range(2))
    numbers, starts, order, of_tile, places = (
        g.empty(size, dtype="int32") for size in (experts, experts, most, most // TILE, n)
    )
    launches = [
        g.kernels["count"].prepare(choice, counts),
        g.kernels["add_up"].prepare(counts, before, numbers, starts, order, of_tile, N=n),
        g.kernels["place"].prepare(choice, before, starts, order, places),
    ]

    def ours() -> Any:
        for launch in launches:
            launch()
        return order, places

    def formula() -> Any:
        long, every = choice.long(), torch.arange(n, device=DEVICE)
        numbers = torch.zeros(experts, device=DEVICE, dtype=torch.long).scatter_add_(0, long, torch.ones_like(long))
        whole = (numbers + (TILE - 1)) // TILE * TILE
        by_expert = torch.argsort(choice, stable=True)
        shift = (whole.cumsum(0) - whole) - (numbers.cumsum(0) - numbers)
        at = every + shift[long[by_expert]]
        order = torch.full((most,), n, device=DEVICE).scatter_(0, at, by_expert)
        return order.int(), torch.empty_like(at).scatter_(0, by_expert, at).int()

    return {"ours": ours, "torch": compiled(formula)}


def _built(module: str, **others: str) -> Callable[[int], dict[str, Any]]:
    """Kernels of an example's families in bf16, with parameters written as text: `norm[T, N, False, False, T]`."""

    def build(columns: int) -> dict[str, Any]:
        from lego_mlir import bf16, f8e4m3fn, f32

        names = vars(import_module(module)) | {"T": bf16, "F8": f8e4m3fn, "F32": f32, "N": columns}
        return {kernel: eval(text, names) for kernel, text in others.items()}

    return build


PASSES: Final = ("count", "add_up", "place")


def _norm(centred: bool, result: str, *kept: str) -> Callable[[int], dict[str, Any]]:
    left = ", ".join(repr(name) for name in OPTIONAL if name not in kept)
    return _built("norms", norm=f"norm[T, N, {centred}, {'residual' in kept}, {result}].without({left})")


def _gradients(centred: bool) -> Callable[[int], dict[str, Any]]:
    left = {"fused": ["onward", "mean", "of_bias"], "of_rows": ["onward", "mean"], "of_weights": ["mean", "of_bias"]}
    families = {"fused": "fused_gradient", "of_rows": "row_gradient", "of_weights": "weight_gradient"}
    made = {}
    for name, family in families.items():
        absent = [each for each in left[name] if each == "onward" or not centred]
        made[name] = f"{family}[T, N].without(*{absent})"

    def build(columns: int) -> dict[str, Any]:
        from norm_gradients import FUSED

        used = ["fused"] if columns <= FUSED else ["of_rows", "of_weights"]
        return _built("norm_gradients", **{name: made[name] for name in used}, sums="column_sums[T]")(columns)

    return build


KERNELS: Final = {
    "softmax": RowKernel(_built("softmax", softmax="softmax[T, N]"), softmax, 4),
    "softmax_gradient": RowKernel(
        _built("softmax", softmax_gradient="softmax_gradient[T, N]"), softmax_gradient, 6
    ),
    "rms_norm": RowKernel(_norm(False, "T"), rms_norm, 4),
    "added_rms_norm": RowKernel(_norm(False, "T", "residual", "sums"), added_rms_norm, 8),
    "rms_norm_f8": RowKernel(_norm(False, "F8", "scales"), rms_norm_f8, 3),
    "layer_norm": RowKernel(_norm(True, "T", "bias", "mean"), layer_norm, 4),
    "rms_norm_gradient": RowKernel(_gradients(False), rms_norm_gradient, 6),
    "layer_norm_gradient": RowKernel(_gradients(True), layer_norm_gradient, 6),
    "cross_entropy": RowKernel(_built("cross_entropy", cross_entropy="cross_entropy[T, N, True]"), cross_entropy, 4),
    "rope": RowKernel(_built("rope", rope=f"rope[T, {HEADS}, {SIZE}, False]"), rope, 4, (HEADS * SIZE,)),
    "swiglu": RowKernel(_built("swiglu", swiglu="swiglu[T, N]"), swiglu, 6, (14_336, 11_008)),
    "swiglu_gradient": RowKernel(
        _built("swiglu", swiglu_gradient="swiglu_gradient[T, N]"), swiglu_gradient, 10, (14_336, 11_008)
    ),
    "sampling": RowKernel(
        _built("sampling", sampling="sampling[F32, N]"),
        sampling,
        moved=4,
        columns=(32_000, 128_256),
        rows=(1, 16, 64, 256),
        check=tokens_outside,
    ),
    "top_experts": RowKernel(
        _built("routing", top_experts=f"top_experts[F32, N, {CHOSEN}, True]"), top_experts, 0, (8, 64, 256), (65_536,)
    ),
    "permutation": RowKernel(
        _built("routing", **{name: f"permutation(N, {TILE}).steps[{k}].kernel" for k, name in enumerate(PASSES)}),
        permutation,
        moved=0,
        columns=(8, 64, 256),
        rows=(1 << 12, 1 << 19),
    ),
}  # fmt: skip


# -- times


def rows_for(columns: int) -> int:
    return max(1, ELEMENTS // columns)


def drawing() -> Callable[[random.Random], harness.Case]:
    """Draws columns of one kernel after another, between those that are listed."""
    names = itertools.cycle(KERNELS)

    def drawn(generator: random.Random) -> harness.Case:
        name = next(names)
        listed, rows = KERNELS[name].columns, KERNELS[name].rows
        columns = 8 * round(math.exp(generator.uniform(math.log(min(listed)), math.log(max(listed)))) / 8)
        return name, (generator.choice(rows) if rows else rows_for(columns), columns)

    return drawn


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for name, (_, columns) in cases:
        for kernel, made in KERNELS[name].build(columns).items():
            mlir_kernels.keep_cubin(folder / f"{name}-{columns}" / kernel, made, TARGET)


def timed(folder: Path, name: str, size: tuple[int, int]) -> list[harness.Contender]:
    import torch

    torch.cuda.empty_cache()
    rows, columns = size
    places = (folder / f"{name}-{columns}").iterdir()
    given = Given({p.name: mlir_kernels.kept_kernel(next(p.glob("*.cubin"))) for p in places}, rows, columns)
    runs, expected, found = KERNELS[name].call(given), None, []
    for kernel in sorted(runs, key=["torch", "ours", *RIVALS].index):  # the others are compared with PyTorch's
        try:
            results = runs[kernel]()
        except Exception as error:  # not installed, or a size that it refuses
            print(f"  left out {kernel}: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
            continue
        results = results if isinstance(results, tuple) else (results,)
        expected = [result.clone() for result in results] if expected is None else expected
        what, tolerance = f"{kernel} {name} {rows} x {columns}", F8_TOLERANCE if name == "rms_norm_f8" else TOLERANCE
        if check := KERNELS[name].check:
            error = check(given, *results)
        else:
            error = max(harness.require_close(*pair, tolerance, what) for pair in zip(results, expected, strict=False))
        moved = KERNELS[name].moved * rows * columns
        found.append(harness.contender(runs[kernel], kernel=kernel, error=error, bytes=moved))
    return found


def table() -> None:
    """Our time, its share of the peak of memory, and the rivals' times over ours."""
    results, cells = mlir_kernels.newest(NAME), []
    timed = {row["kernel"] for row in results["rows"]}
    names = {rival: name for rival, name in RIVALS.items() if rival in timed}
    ratios = {rival: [] for rival in names}
    for (name, size), rows in mlir_kernels.by_case(results).items():
        ours = rows["ours"]["ms"]
        relative = {rival: rows[rival]["ms"] / ours for rival in names if rival in rows}
        for rival, ratio in relative.items():
            ratios[rival].append(ratio)
        share = f"{rows['ours']['bytes'] / (ours * 1e-3) / PEAK:.3f}" if rows["ours"]["bytes"] else ""
        others = [f"{relative[rival]:.2f}" if rival in relative else "" for rival in names]
        cells.append([f"`{name}`", size.replace("x", " x "), f"{1000 * ours:.1f}", share, *others])
    means = [f"{geometric_mean(found):.2f}" if found else "" for found in ratios.values()]
    cells.append(["geometric mean", "", "", "", *means])
    heads = ["kernel|rows x columns|us|of the peak", *(f"{rival} / ours" for rival in names.values())]
    known = mlir_kernels.circumstances(NAME, results, "torch", "triton")
    known += f", columns drawn by seed {results['seed']}" if "seed" in results else ""
    mlir_kernels.put_into(PAGE, NAME, f"{known}:\n\n", mlir_kernels.table("|".join(heads), cells))


BENCHMARK = runner.Benchmark(
    NAME, [(name, size) for name, kernel in KERNELS.items() for size in kernel.sizes()], timed, table, render,
    target=TARGET, draw=drawing(), protocol=harness.Protocol(patience_ms=400),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
