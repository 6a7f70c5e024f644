"""`lego_mlir.attention_varlen(q, k, v, starts)`: attention of packed sequences of different lengths, with gradients.

    starts = torch.tensor([0, 70, 75, 205], dtype=torch.int32, device="cuda")       three sequences
    o = lego_mlir.attention_varlen(q, k, v, starts, causal=True)                    q: [205, heads, features]

The lengths stay on the device, and one compiled kernel takes all of them (`kernels.packed_attention`,
`kernels.packed_gradients`). Gradients are added in any order: two runs may differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import Tensor
from lego_mlir.errors import UsageError
from lego_mlir.kernels.attention_forms import ADDED_HEADS, AttentionForm
from lego_mlir.runtime import attention_plans, host_reference
from lego_mlir.runtime.arrays import key_of, library_of
from lego_mlir.runtime.attention_calls import form_of, is_computed_by_its_library, is_empty, without_keys
from lego_mlir.runtime.attention_kernels import PACKED, AttentionKernel, added_gradients, calls_of
from lego_mlir.runtime.attention_plans import BoundAttention, HeadAxes, bound_launch, by_strides, dense_like
from lego_mlir.runtime.binding import DenseShape
from lego_mlir.runtime.products.groups import require_rising


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
    """Attention within each of B sequences: q is [T, heads, D], k and v are [S, heads / group, D].

    D is 64, 96, 128, 192 or 256. Sequence b is the rows `cu_seqlens[b]` to `cu_seqlens[b + 1] - 1`; both are [B + 1],
    int32, the second the first if left out. With `causal`, query i attends to keys up to i + keys - queries of the
    sequence, with a `window` only to that many of them. `scale` is 1 / sqrt(D) if left out. The result of a query
    without keys is 0. Arrays are read by their strides, as parts of packed queries, keys and values are; those whose
    features are not contiguous, or whose strides are no multiples of 16 bytes, are copied. PyTorch's tensors have
    gradients, for D of 64 and 128. Raises UsageError for other shapes and types.
    """
    starts = (cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k)
    key = (key_of((q, k, v, *starts)), causal, window, scale, check)
    bound = attention_plans.known.get(key)
    if bound is not None and not check and bound.takes((q, k, v)):
        return bound((q, k, v, *starts))
    form, heads = _problem((q, k, v), starts, causal, window, scale)
    named = {"q": q, "k": k, "v": v, "cu_seqlens_q": starts[0], "cu_seqlens_k": starts[1]}
    on_host = not is_empty(q, k) and not check and is_computed_by_its_library("attention_varlen", named)
    if check or on_host:
        for name, ends, rows in (("q", starts[0], q.shape[0]), ("k", starts[1], k.shape[0])):
            _require_starts(f"attention_varlen: cu_seqlens_{name}", ends, rows)
    if is_empty(q, k):
        return without_keys(q, k, v)
    if on_host:
        return host_reference.packed_attention(q, k, v, starts, form)
    if attention_plans.records((q, k, v)):
        _require_added(form)
    copies = [by_strides(x) for x in (q, k, v)]
    if any(x is not given for x, given in zip(copies, (q, k, v), strict=True)):  # a plan is of arrays as they are
        q, k, v = copies
        return attention_varlen(q, k, v, starts[0], starts[1], causal=causal, window=window, scale=scale, check=check)
    bound = _bound(form, heads, (q, k, v), starts, check)
    if not bound.learns or form.features in ADDED_HEADS:  # others are refused at each call with gradients
        attention_plans.keep(key, bound)
    return bound((q, k, v, *starts))


def _require_added(form: AttentionForm) -> None:
    """Raise UsageError for heads whose gradients no kernel of packed sequences computes."""
    if form.features not in ADDED_HEADS:
        from lego_mlir.kernels.added_gradients import default_tile, require_parts

        require_parts(form, default_tile(form))


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
    of_starts = facts[3:]
    found = form_of("attention_varlen", facts[:3], -2, "the features of q", (causal, window, scale, None))
    if found[0].values is not None:
        raise UsageError(
            f"attention_varlen: v has the {found[0].features} features of q and k, got {found[0].values}; pad it with "
            "zeros, and slice the result"
        )
    if {f.dtype for f in of_starts} != {"int32"} or len({f.shape for f in of_starts}) > 1 or of_starts[0].shape[0] < 2:
        shown = " and ".join(f"{list(f.shape)} {f.dtype}" for f in of_starts)
        raise UsageError(
            f"attention_varlen: cu_seqlens are two arrays of one length from 2 on, of int32, got {shown}; the first "
            "element is 0 and the last the number of rows"
        )
    return found


def _bound(
    form: AttentionForm, heads: int, given: Sequence[Tensor], starts: Sequence[Tensor], check: bool
) -> BoundAttention:
    """The launches for arrays like these."""
    used = [x.detach() if hasattr(x, "detach") else x for x in given]
    library, shapes = library_of(used[0]), (dense_like(used[0]), dense_like(used[1]))
    assert library is not None
    heads_of = {"o": heads * form.group, "dq": heads * form.group, "dk": heads, "dv": heads}
    one = frozenset(f"{name}_head" for name, n in heads_of.items() if n == 1)
    axes = HeadAxes(packed=True, unknown=one, copied=library.name == "jax")
    rows = (heads * form.group, used[0].shape[0])
    results = {"o": shapes[0], "lse": DenseShape.rows(*rows)}
    calls = calls_of(AttentionKernel(PACKED, form, heads=heads))
    plan = bound_launch(calls, axes, [*used, *starts], ("q", "k", "v"), results, check)
    learns = any(getattr(x, "requires_grad", False) for x in given)
    return BoundAttention(
        plan, library.pointer, axes, lambda deterministic: added_gradients(form, heads), shapes, rows, check, learns
    )  # fmt: skip
