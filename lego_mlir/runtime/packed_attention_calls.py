"""`lego_mlir.attention_varlen(q, k, v, starts)`: attention of packed sequences of different lengths, with gradients.

    starts = torch.tensor([0, 70, 75, 205], dtype=torch.int32, device="cuda")       three sequences
    o = lego_mlir.attention_varlen(q, k, v, starts, causal=True)                    q: [205, heads, features]

The lengths stay on the device, and one compiled kernel takes all of them (`kernels.packed_attention`,
`kernels.packed_gradients`). Gradients are added in any order: two runs may differ in their last bits.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.kernels import added_gradients, packed_attention, packed_gradients
from lego_mlir.kernels.fused_attention import AttentionForm
from lego_mlir.runtime import host_reference
from lego_mlir.runtime.arrays import library_of
from lego_mlir.runtime.attention_calls import is_computed_by_its_library, is_empty, without_keys
from lego_mlir.runtime.products.groups import require_rising
from lego_mlir.runtime.products.operands import in_rows

if TYPE_CHECKING:
    from lego_mlir.aliases import Foreign, Tensor
    from lego_mlir.kernels.added_gradients import AddedGradients
    from lego_mlir.tracing.definition import Kernel
    from lego_mlir.tracing.dtypes import DType

_KEPT: Final = 256  # forms whose kernels are kept


def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    check: bool = False,
) -> Tensor:
    """Attention within each of B sequences: q is [T, heads, D], k and v are [S, heads / group, D]; D is 64, 128 or 256.

    Sequence b is the rows `cu_seqlens[b]` to `cu_seqlens[b + 1] - 1`; both are [B + 1], int32, the second the first if
    left out. With `causal`, query i attends to keys up to i + keys - queries of the sequence, with a `window` only to
    that many of them. `scale` is 1 / sqrt(D) if left out. The result of a query without keys is 0. Arrays in other
    orders are copied into rows. PyTorch's tensors have gradients, for D of 64 and 128. Raises UsageError for other
    shapes and types.
    """
    starts = (cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k)
    form, heads = _problem((q, k, v), starts, causal, window, scale)
    on_host = not is_empty(q, k) and not check and is_computed_by_its_library("attention_varlen", q, k, v, *starts)
    if check or on_host:
        for name, ends, rows in (("q", starts[0], q.shape[0]), ("k", starts[1], k.shape[0])):
            _require_starts(f"attention_varlen: cu_seqlens_{name}", ends, rows)
    if is_empty(q, k):
        return without_keys(q, k, v)
    if on_host:
        return host_reference.packed_attention(q, k, v, starts, form)
    if any(getattr(x, "requires_grad", False) for x in (q, k, v)) and _gradients_enabled():
        added_gradients.require_parts(form, added_gradients.default_tile(form))
        result: Tensor = _function().apply(q, k, v, *starts, form, heads, check)
        return result
    found: Tensor = _kernel(form, heads)(*(_by_heads(in_rows(x)) for x in (q, k, v)), *starts, check=check)[0]
    return _by_heads(found)


def _require_starts(name: str, starts: Tensor, rows: int) -> None:
    """Raise UsageError unless starts are those of sequences in an array with this number of rows."""
    remedy = "begin with 0, and add up the lengths of the sequences"
    require_rising(name, starts, rows, remedy)
    if int(starts[0]):
        raise UsageError(f"{name}[0] = {int(starts[0])}: the first sequence begins at row 0; {remedy}")


def _problem(
    given: tuple[Tensor, Tensor, Tensor],
    starts: tuple[Tensor, Tensor],
    causal: bool,
    window: int | None,
    scale: float | None,
) -> tuple[AttentionForm, int]:
    """What is to be computed, and the heads of k and v. Raises UsageError for arrays that do not fit each other."""
    from lego_mlir.tracing.dtypes import bf16, f16

    names = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")
    facts = []
    for name, array in zip(names, (*given, *starts), strict=True):
        library, rank = library_of(array), 1 if name.startswith("cu") else 3
        if library is None or len(library.facts(array).shape) != rank:
            form = "[rows, heads, features]" if rank == 3 else "[sequences + 1]"
            raise UsageError(
                f"attention_varlen: {name} is an array of {form}, got {getattr(array, 'shape', type(array).__name__)}"
            )
        facts.append(library.facts(array))
    of_q, of_k, of_v, *of_starts = facts
    types: dict[str, DType] = {"float16": f16, "bfloat16": bf16}
    heads, shared = of_q.shape[1], of_k.shape[1]
    fits = of_k.shape == of_v.shape and of_q.shape[2] == of_k.shape[2] and shared and not heads % shared
    kinds = {fact.dtype for fact in (of_q, of_k, of_v)}
    if not fits or len(kinds) > 1 or not kinds <= types.keys():
        shown = ", ".join(f"{n} {list(f.shape)} {f.dtype}" for n, f in zip("qkv", facts, strict=False))
        raise UsageError(
            f"attention_varlen of {shown}: k and v have one shape, the features of q, and a divisor of its heads; all "
            "are float16 or bfloat16"
        )
    if {f.dtype for f in of_starts} != {"int32"} or len({f.shape for f in of_starts}) > 1 or of_starts[0].shape[0] < 2:
        shown = " and ".join(f"{list(f.shape)} {f.dtype}" for f in of_starts)
        raise UsageError(
            f"attention_varlen: cu_seqlens are two arrays of one length from 2 on, of int32, got {shown}; the first "
            "element is 0 and the last the number of rows"
        )
    return AttentionForm(of_q.shape[2], types[of_q.dtype], causal, window, heads // shared, scale), shared


@lru_cache(_KEPT)
def _kernel(form: AttentionForm, heads: int) -> Kernel:
    return packed_attention.build(form, heads)


@lru_cache(_KEPT)
def _gradients(form: AttentionForm, heads: int) -> AddedGradients:
    return packed_gradients.build(form, heads)


def _by_heads(x: Tensor) -> Tensor:
    """[rows, heads, features] as the kernels index it, [heads, rows, features], or back: a view."""
    return x.swapaxes(0, 1)


def _gradients_enabled() -> bool:
    import torch

    return torch.is_grad_enabled()


def _differentiated(saved: tuple[Tensor, ...], do: Tensor, kernels: AddedGradients, check: bool) -> list[Tensor]:
    """The gradients of q, k and v."""
    q, k, v, starts_q, starts_k, o, lse = saved
    q, k, v, o, do = map(_by_heads, (q, k, v, o, do))
    delta, sums = kernels.prepare(o, do, check=check)
    sums, dk, dv = kernels.main(q, k, v, do, lse, delta, starts_q, starts_k, sums, check=check)
    return [_by_heads(x) for x in (kernels.round(sums, check=check), dk, dv)]


@cache
def _function() -> Foreign:
    """The differentiable function of PyTorch."""
    import torch

    class PackedAttention(torch.autograd.Function):
        """Saves the result and its log-sum-exps, from which the gradients compute the weights again."""

        @staticmethod
        def forward(context: Foreign, *given: Foreign) -> Tensor:
            *arrays, form, heads, check = given
            q, k, v, *starts = held = [in_rows(x.detach()) for x in arrays]
            o, lse = _kernel(form, heads)(*map(_by_heads, (q, k, v)), *starts, check=check)
            o = _by_heads(o)
            context.save_for_backward(*held, o, lse)
            context.form, context.heads, context.check = form, heads, check
            return o

        @staticmethod
        def backward(context: Foreign, gradient: Tensor) -> tuple[Tensor | None, ...]:
            kernels = _gradients(context.form, context.heads)
            found = _differentiated(context.saved_tensors, gradient.contiguous(), kernels, context.check)
            return *found, None, None, None, None, None

    return PackedAttention
