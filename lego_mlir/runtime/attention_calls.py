"""`lego_mlir.attention(q, k, v)`: fused attention of arrays on a GPU, and its gradients for PyTorch.

    import torch, lego_mlir
    o = lego_mlir.attention(q, k, v, causal=True)          # [batch, heads, positions, features], f16 or bf16

The kernels (`kernels.fused_attention`, `kernels.attention_gradients`) are traced for these sizes and compiled at their
first use, into the cache on disk: by `wgmma` with tensor copies on sm_90, by `mma.sync` on other GPUs. Keys and values
may have fewer heads than queries, which then share them. With `check=True` the interpreter runs them, on the host.

Gradients of heads of 64 and 128 features are computed in one pass on sm_90, which adds those of queries in any order
(`kernels.added_gradients`). With `deterministic=True` each sum has one order (`kernels.attention_gradients`).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.kernels import added_gradients, attention_gradients, fused_attention
from lego_mlir.kernels.fused_attention import AttentionForm
from lego_mlir.runtime import host_reference
from lego_mlir.runtime.arrays import library_of
from lego_mlir.runtime.products.operands import in_rows

if TYPE_CHECKING:
    from lego_mlir.aliases import Foreign, Tensor
    from lego_mlir.kernels.added_gradients import AddedGradients
    from lego_mlir.kernels.attention_gradients import AttentionGradients
    from lego_mlir.tracing.definition import Kernel
    from lego_mlir.tracing.dtypes import DType

_KEPT: Final = 256  # forms and sizes whose kernels are kept
TENSOR_COPIES: Final = 90  # compute capability
Sizes = tuple[int, int, int]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    deterministic: bool | None = None,
    check: bool = False,
) -> Tensor:
    """softmax(scale q k^T) v: q is [.., heads, M, D], k and v are [.., heads / group, N, D]; D is 64, 128 or 256.

    Arrays in other orders are copied into rows. With `causal` a query attends to keys of no larger position, with a
    `window` only to that many of them. `scale` is 1 / sqrt(D) if left out. The result without keys is 0. PyTorch's
    tensors have gradients, with the same bits in each run if `deterministic`; None follows
    `torch.use_deterministic_algorithms`. Raises UsageError for other shapes and types.
    """
    form, sizes = _problem(q, k, v, causal, window, scale)
    if is_empty(q, k):
        return without_keys(q, k, v)
    if not check and is_computed_by_its_library("attention", q, k, v):
        return host_reference.attention(q, k, v, form)
    flat = [in_rows(x).reshape(-1, x.shape[-2], x.shape[-1]) for x in (q, k, v)]
    if any(getattr(x, "requires_grad", False) for x in flat) and _gradients_enabled():
        found = _function().apply(*flat, form, sizes, deterministic, check)
    else:
        found = _kernel(form, sizes, multiprocessors_of(q, check))(*flat, check=check)[0]
    return found.reshape(q.shape)


def is_computed_by_its_library(operation: str, *arrays: Tensor) -> bool:
    """Whether arrays are of the host, and NumPy or PyTorch computes the operation, with a note at the first."""
    return host_reference.computes(operation, *(library.facts(x) for x in arrays if (library := library_of(x))))


def is_empty(q: Tensor, k: Tensor) -> bool:
    """Whether there are no queries, or no keys."""
    return 0 in q.shape or 0 in k.shape


def without_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The result where there are no queries or no keys: zeros of the shape of q, whose gradients are zeros."""
    if type(q).__module__.partition(".")[0] != "torch":
        found = q.copy()
        found[...] = 0
        return found
    import torch

    never = torch.zeros((), dtype=torch.bool, device=q.device)
    return torch.where(never, q, 0) + 0 * (k.sum() + v.sum())


def _problem(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int | None, scale: float | None
) -> tuple[AttentionForm, Sizes]:
    """What is to be computed. Raises UsageError for arrays that do not fit each other."""
    from lego_mlir.tracing.dtypes import bf16, f16

    facts = []
    for name, given in (("q", q), ("k", k), ("v", v)):
        library = library_of(given)
        if library is None or len(library.facts(given).shape) < 3:
            raise UsageError(
                f"attention: {name} is an array of [.., heads, positions, features], got "
                f"{getattr(given, 'shape', type(given).__name__)}"
            )
        facts.append(library.facts(given))
    of_q, of_k, of_v = (fact.shape for fact in facts)
    heads, shared = of_q[-3], of_k[-3]
    fits = of_k == of_v and of_q[:-3] == of_k[:-3] and of_q[-1] == of_k[-1] and shared and not heads % shared
    types: dict[str, DType] = {"float16": f16, "bfloat16": bf16}
    names = {fact.dtype for fact in facts}
    if not fits or len(names) > 1 or not names <= types.keys():
        shown = ", ".join(f"{n} {list(f.shape)} {f.dtype}" for n, f in zip("qkv", facts, strict=True))
        raise UsageError(
            f"attention of {shown}: k and v have one shape, the batch and features of q, and a divisor of its heads; "
            "all are float16 or bfloat16"
        )
    form = AttentionForm(of_q[-1], types[facts[0].dtype], causal, window, heads // shared, scale)
    form.require_keys(of_q[-2], of_k[-2])
    batch = 1
    for n in of_k[:-2]:
        batch *= n
    return form, (batch, of_q[-2], of_k[-2])


def multiprocessors_of(q: Tensor, check: bool) -> int | None:
    """Those of the GPU that holds an array, if it has the copy unit for which kernels are chosen by their sizes."""
    library = library_of(q)
    if check or library is None:
        return None
    kind, device = library.facts(q).device[:2]
    if kind != "cuda":
        return None
    from lego_mlir.runtime.driver import MULTIPROCESSORS, driver

    if int(driver().capability(device)) < TENSOR_COPIES:
        return None
    return driver().attribute(device, MULTIPROCESSORS)


@lru_cache(_KEPT)
def _kernel(form: AttentionForm, sizes: Sizes, multiprocessors: int | None = None) -> Kernel:
    if multiprocessors is None:
        return fused_attention.build(form, sizes=sizes)
    tile, blocks = fused_attention.fastest(form, sizes, multiprocessors)
    return fused_attention.build(form, tile, sizes, blocks)


@lru_cache(_KEPT)
def _gradients(form: AttentionForm) -> AttentionGradients:
    return attention_gradients.build(form)


@lru_cache(_KEPT)
def _added(form: AttentionForm) -> AddedGradients:
    return added_gradients.build(form)


def _adds(form: AttentionForm, q: Tensor, check: bool) -> bool:
    """Whether the kernel that adds gradients takes this problem: it is made for the copy unit of sm_90."""
    if check or form.features > added_gradients.WIDEST:
        return form.features <= added_gradients.WIDEST
    from lego_mlir.runtime.driver import driver

    return int(driver().capability(q.device.index)) >= TENSOR_COPIES


def _differentiated(
    form: AttentionForm, saved: tuple[Tensor, ...], do: Tensor, adds: bool, check: bool
) -> list[Tensor]:
    """The gradients of q, k and v."""
    q, k, v, o, lse = saved
    if adds:
        added = _added(form)
        delta, sums = added.prepare(o, do, check=check)
        sums, dk, dv = added.main(q, k, v, do, lse, delta, sums, check=check)
        return [added.round(sums, check=check), dk, dv]
    kernels = _gradients(form)
    delta = kernels.deltas(o, do, check=check)
    found = [kernel(q, k, v, do, lse, delta, check=check) for kernel in kernels.of_keys]
    dk, dv = found if len(found) > 1 else found[0]
    return [kernels.of_queries(q, k, v, do, lse, delta, check=check), dk, dv]


def _gradients_enabled() -> bool:
    import torch

    return torch.is_grad_enabled()


@cache
def _function() -> Foreign:
    """The differentiable function of PyTorch."""
    import torch

    class FusedAttention(torch.autograd.Function):
        """Saves the result and its log-sum-exps, from which the gradients compute the weights again."""

        @staticmethod
        def forward(
            context: Foreign,
            q: Tensor,
            k: Tensor,
            v: Tensor,
            form: AttentionForm,
            sizes: Sizes,
            deterministic: bool | None,
            check: bool,
        ) -> Tensor:
            q, k, v = (in_rows(x.detach()) for x in (q, k, v))
            o, lse = _kernel(form, sizes, multiprocessors_of(q, check))(q, k, v, check=check)
            context.save_for_backward(q, k, v, o, lse)
            context.form, context.check = form, check
            if deterministic is None:
                deterministic = torch.are_deterministic_algorithms_enabled()
            context.adds = not deterministic and _adds(form, q, check)
            return o

        @staticmethod
        def backward(context: Foreign, gradient: Tensor) -> tuple[Tensor | None, ...]:
            do, options = gradient.contiguous(), (context.adds, context.check)
            return *_differentiated(context.form, context.saved_tensors, do, *options), None, None, None, None

    return FusedAttention
