"""`lego_mlir.attention(q, k, v)`: fused attention of arrays on a GPU, and its gradients for PyTorch.

    import torch, lego_mlir
    o = lego_mlir.attention(q, k, v, causal=True)          # [batch, heads, positions, features], f16 or bf16

The kernels (`kernels.fused_attention`, `kernels.attention_gradients`) take all lengths, so that a new one compiles
nothing; a form has at most four kernels for results, chosen by lengths (`attention_forms.fastest`). After some calls
of one size another process compiles the kernel of results for exactly that size (`exact_kernels`). They are compiled
at their first use, into the cache on disk, from where other processes take them, or come from a folder of packed
kernels (`lego-mlir pack attention`): by `wgmma` with tensor copies on sm_90, by `mma.sync` on other GPUs. Keys and
values may have fewer heads than queries, which then share them. Queries, keys and values of float8_e4m3fn come with a
scale for each head. With `check=True` the interpreter runs them, on the
host.

Gradients of heads of 64 and 128 features are computed in one pass on sm_90, which adds those of queries in any order
(`kernels.added_gradients`). With `deterministic=True` each sum has one order (`kernels.attention_gradients`).
"""

from __future__ import annotations

import sys
from dataclasses import astuple, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Operand, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.kernels import attention_forms
from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes
from lego_mlir.runtime import attention_plans, host_reference
from lego_mlir.runtime.arrays import ArrayFacts, key_of, library_of
from lego_mlir.runtime.attention_kernels import (
    TABLE,
    AttentionKernel,
    ExactAttention,
    added_gradients,
    calls_of,
    compile_exact,
    has_exact,
    is_compiled,
    ordered_gradients,
)
from lego_mlir.runtime.attention_plans import (
    BoundAttention,
    BoundRules,
    GradientCalls,
    HeadAxes,
    bound_launch,
    dense_like,
    readable,
    records,
)
from lego_mlir.runtime.binding import DenseShape
from lego_mlir.runtime.driver import MULTIPROCESSORS, driver
from lego_mlir.runtime.exact_kernels import ExactKernel, ExactProblem
from lego_mlir.runtime.pair_rule_calls import KeptTable, key_of_rule, rules_of, with_tables
from lego_mlir.runtime.products.operands import in_rows
from lego_mlir.tracing.trace.dtypes import bf16, f8e4m3fn, f16

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lego_mlir.kernels.pair_rules import PairRules
    from lego_mlir.tracing.trace.dtypes import DType

Asked = tuple[bool, "int | None", "float | None", "PairRules | None"]
_KEPT: Final = 256  # forms and sizes whose kernels are kept
TYPES: Final[Mapping[str, DType]] = {"float16": f16, "bfloat16": bf16}
"""Of q, k and v without scales."""
RESULTS: Final = {dtype: name for name, dtype in TYPES.items()}
F8: Final = "float8_e4m3fn"
TENSOR_COPIES: Final = 90  # compute capability
LARGEST: Final = HeadSizes(2**16, 2**12 - 1, 2**20, 2**20)
"""Batches, heads of k and v, queries and keys of the kernels for all lengths."""


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    mask: Callable[..., Operand] | None = None,
    score: Callable[..., Operand] | None = None,
    reads: Mapping[str, Tensor] | None = None,
    scales: tuple[Tensor, Tensor, Tensor] | None = None,
    result: str | None = None,
    deterministic: bool | None = None,
    check: bool = False,
) -> Tensor:
    """softmax(scale q k^T) v: q is [.., heads, M, D], k and v are [.., heads / group, N, D].

    D is 64, 96, 128, 192 or 256; v and the result may have fewer of these features than q and k, as the 128 to 192 of
    latent attention without absorption, and then there are no gradients. [batch, rows, heads, D] and parts of packed
    queries, keys and values are read where they are, as `x.swapaxes(1, 2)`, and the result has the order of q; arrays
    whose features are not contiguous, or whose strides are no multiples of 16 bytes, are copied. With `causal` a query
    attends to keys of no larger position, with a `window` only to that many of them. `scale` is 1 / sqrt(D) if left
    out. The result without keys is 0.

    `mask(batch, head, i, j)` is a condition in the kernel language, whether query i attends to key j, and
    `score(s, batch, head, i, j)` the score, of the scaled product s; both take further parameters by the names of
    arrays in `reads`. Tiles of keys that the mask leaves out are not visited. The score is
    differentiated by s and by the elements that it reads of arrays that require a gradient.

    q, k and v of float8_e4m3fn are multiplied by `scales`, arrays of float32: [heads], or [1] for all heads, for q, and
    [heads / group], or [1], for k and v; those of q and k are positive. D is 64, 128 or 256, weights are rounded to
    float8_e4m3fn too, and the `result` is "bfloat16" unless it is "float16". There are no gradients.

    PyTorch's tensors have gradients, with the same bits in each run if `deterministic`; None follows
    `torch.use_deterministic_algorithms`. Those of arrays that a score reads are sums in f32 in any order. Raises
    UsageError for these if `deterministic`, for other shapes and types, and for second derivatives.
    """
    read = {name: in_rows(x) if library_of(x) is not None else x for name, x in (reads or {}).items()}
    given = (q, k, v, *(() if scales is None else scales), *read.values())
    rules = None if mask is None and score is None else (key_of_rule(mask), key_of_rule(score), tuple(read))
    key = (key_of(given), causal, window, scale, check, rules, result)
    bound = attention_plans.known.get(key)
    if bound is None or not bound.takes(given):
        form, sizes = _problem(q, k, v, (causal, window, scale, rules_of(mask, score, read)), scales, result)
        if (form.narrow or form.values is not None) and records(given):
            raise UsageError(_without_gradients(form, sizes))
        if is_empty(q, k) and not form.narrow:
            return without_keys(q[..., : v.shape[-1]], k, v)
        names = ("q", "k", "v", *(() if scales is None else ("sq", "sk", "sv")), *read)
        if is_empty(q, k) or (not check and _is_of_host(form, dict(zip(names, given, strict=True)))):
            return host_reference.attention(q, k, v, form, reads=read, scales=scales)
        copies = [readable(x) for x in (q, k, v)]
        if any(x is not given for x, given in zip(copies, (q, k, v), strict=True)):  # a plan is of arrays as they are
            return attention(
                *copies, causal=causal, window=window, scale=scale, mask=mask, score=score, reads=read, scales=scales,
                result=result, deterministic=deterministic, check=check,
            )  # fmt: skip
        bound = _bound(with_tables(form), sizes, given, check)
        attention_plans.keep(key, bound)
    return bound(given, deterministic)


def _is_of_host(form: AttentionForm, given: Mapping[str, Tensor]) -> bool:
    """Whether NumPy or the tensors' library computes the result. Raises UsageError for gradients that it has not."""
    found = is_computed_by_its_library("attention", given)
    if found and form.rules.score is not None and records(tuple(given.values())):
        raise UsageError(
            "attention with a score of tensors in the host's memory: NumPy computes the score, and no "
            "gradients; move them to a GPU, or compute the result alone under torch.no_grad()"
        )
    return found


def _bound(form: AttentionForm, sizes: HeadSizes, given: Sequence[Tensor], check: bool) -> BoundAttention:
    """The launches for arrays like these."""
    q, k, *_ = used = [x.detach() if hasattr(x, "detach") else x for x in given]
    library, shapes, axes = library_of(q), (dense_like(q), dense_like(k)), HeadAxes()
    assert library is not None
    rows = (sizes.batch, sizes.heads * form.group, sizes.queries)
    kernel, exact = _kernel(form, sizes, multiprocessors_of(q, check)), None
    capability = None if check else capability_of(q)
    if capability is not None and has_exact(kernel):
        kernel, exact = _exact((replace(kernel, sizes=sizes), str(capability)), kernel)
    own = HeadAxes(unknown=frozenset() if kernel.sizes is None else _strides_of_one(form, sizes))
    rules = _bound_rules(kernel, sizes, used, check)
    table = [] if rules.table is None else [rules.table(used)]
    results = {"o": dense_like(q, form.values), "lse": DenseShape.rows(*rows)}
    plan = bound_launch(calls_of(kernel), own, [*used, *table], ("q", "k", "v"), results, check)
    rules = replace(rules, learned=_learned(form, given))
    differentiated = replace(form, pairs=replace(form.rules, learned=tuple(rules.learned))) if rules.learned else form
    return BoundAttention(
        plan, library.pointer, axes, partial(_gradients, differentiated, _adds(form, q, check)), shapes, rows,
        check, any(getattr(x, "requires_grad", False) for x in given), _without_gradients(form, sizes), exact, rules,
    )  # fmt: skip


def _bound_rules(kernel: AttentionKernel, sizes: HeadSizes, used: Sequence[Tensor], check: bool) -> BoundRules:
    """What the user's rules add to the launches."""
    rules, tile = kernel.form.pairs, kernel.tile
    if rules is None:
        return BoundRules()
    names = tuple(x.name for x in rules.reads)
    if not rules.listed:
        return BoundRules(names)
    from lego_mlir.kernels.added_gradients import default_tile

    assert rules.mask is not None and tile is not None
    read = [len(used) - len(names) + names.index(name) for name in rules.mask.names]
    heads = sizes.heads * kernel.form.group

    def dims(rows: int, count: int, visited: int, length: int) -> DenseShape:
        of_batch, of_head = rules.by
        blocks, tiles = -(-rows // count), -(-length // visited)
        return DenseShape.rows(sizes.batch if of_batch else 1, heads if of_head else 1, blocks, 2, tiles + 1)

    calls = calls_of(AttentionKernel(TABLE, kernel.form, tile))
    made = {"tiles": dims(sizes.queries, tile.rows, tile.keys, sizes.keys)}
    plan = bound_launch(calls, HeadAxes(), [*used[:2], *(used[n] for n in read)], ("q", "k"), made, check)
    visiting = default_tile(kernel.form)
    of_keys = dims(sizes.keys, visiting.keys, visiting.queries, sizes.queries)
    return BoundRules(names, rules.mask.names, KeptTable(plan, read), of_keys)


def _exact(wanted: ExactAttention, general: AttentionKernel) -> tuple[AttentionKernel, ExactKernel | None]:
    """The exact kernel if it is on disk, otherwise the general one and the counter of its calls."""
    if is_compiled(wanted):
        return wanted[0], None
    found = ExactKernel(ExactProblem(compile_exact, wanted), lambda: attention_plans.drop(found))
    return general, found


def _without_gradients(form: AttentionForm, sizes: HeadSizes) -> str:
    """Why no kernel computes gradients for these sizes; nothing where one does."""
    if form.values is not None:
        return (
            f"attention of {form.features} features with values of {form.values}: its gradients are not computed; pad "
            "the values with zeros and slice the result, or compute the result alone under torch.no_grad()"
        )
    if form.narrow:
        return (
            f"attention of {F8}: there are no gradients; compute the result alone under torch.no_grad(), or pass q, k "
            "and v in bfloat16"
        )
    if not _is_large(sizes):
        return ""
    names = ("batches", "heads of k and v", "queries", "keys")
    most, shown = astuple(LARGEST), ", ".join(f"{n} {name}" for name, n in zip(names, astuple(sizes), strict=True))
    return (
        f"attention of {shown}: gradients are computed for at most {most[0]} batches, {most[1]} heads of k and v, and "
        f"{most[2]} queries and keys; compute the result alone under torch.no_grad(), or divide the batch"
    )


def _learned(form: AttentionForm, given: Sequence[Tensor]) -> dict[str, DenseShape]:
    """The arrays that the score reads and that require a gradient, by the forms of these."""
    score, reads = form.rules.score, form.rules.reads
    if score is None or not reads:
        return {}
    named = zip((x.name for x in reads), given[-len(reads) :], strict=True)
    return {
        name: DenseShape.rows(*array.shape)
        for name, array in named
        if name in score.names and getattr(array, "requires_grad", False)
    }


def _strides_of_one(form: AttentionForm, sizes: HeadSizes) -> frozenset[str]:
    """The strides of the result that a kernel for these sizes lacks: those of axes of one element."""
    dims = (sizes.batch, sizes.heads * form.group, sizes.queries)
    return frozenset(f"o_{axis}" for axis, n in zip(attention_forms.AXES, dims, strict=False) if n == 1)


def is_computed_by_its_library(operation: str, given: Mapping[str, Tensor]) -> bool:
    """Whether arrays are of the host, and NumPy or PyTorch computes the operation, with a note at the first.

    Raises UsageError for arrays, by their names, that neither one library nor one GPU can compute with.
    """
    if host_reference.computes(operation, *(library.facts(x) for x in given.values() if (library := library_of(x)))):
        return True
    host_reference.require_one_place(operation, given)
    return False


def is_empty(q: Tensor, k: Tensor) -> bool:
    """Whether there are no queries, or no keys."""
    return 0 in q.shape or 0 in k.shape


def without_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The result where there are no queries or no keys: zeros of the shape of q, whose gradients are zeros."""
    if type(q).__module__.partition(".")[0] != "torch":
        if (jax := sys.modules.get("jax")) is not None and isinstance(q, jax.Array):  # which cannot be filled
            return jax.numpy.zeros_like(q)
        found = q.copy()
        found[...] = 0
        return found
    import torch

    never = torch.zeros((), dtype=torch.bool, device=q.device)
    return torch.where(never, q, 0) + 0 * (k.sum() + v.sum())


def _problem(
    q: Tensor, k: Tensor, v: Tensor, asked: Asked, scales: Sequence[Tensor] | None, result: str | None
) -> tuple[AttentionForm, HeadSizes]:
    """What is to be computed. Raises UsageError for arrays that do not fit each other."""
    facts = []
    for name, given in (("q", q), ("k", k), ("v", v)):
        library = library_of(given)
        if library is None or len(library.facts(given).shape) < 3:
            raise UsageError(
                f"attention: {name} is an array of [.., heads, positions, features], got "
                f"{getattr(given, 'shape', type(given).__name__)}"
            )
        facts.append(library.facts(given))
    narrow = {f.dtype for f in facts} == {F8}
    stored = next((dtype for dtype, name in RESULTS.items() if name == (result or RESULTS[bf16])), None)
    if (scales is None) == narrow or (result is not None and not narrow) or stored is None:
        types, given = ", ".join(f.dtype for f in facts), "no scales" if scales is None else "scales"
        raise UsageError(
            f"attention of {types}: q, k and v of {F8} have scales=(sq, sk, sv) and a result of bfloat16 or float16, "
            f"and others have neither; got {given} and result={result!r}"
        )
    form, shared = form_of(
        "attention", facts, -3, "the batch and features of q", asked, {F8: f8e4m3fn} if narrow else TYPES,
        stored if narrow else None,
    )  # fmt: skip
    if scales is not None:
        _require_scales(scales, shared * form.group, shared)
    of_q, of_k = facts[0].shape, facts[1].shape
    form.require_keys(of_q[-2], of_k[-2])
    batch = 1
    for n in of_k[:-3]:
        batch *= n
    return form, HeadSizes(batch, shared, of_q[-2], of_k[-2])


def _require_scales(scales: Sequence[Tensor], heads: int, shared: int) -> None:
    """Raise UsageError unless these are the scales of all heads of q, and of k and v."""
    found = [None if (library := library_of(x)) is None else library.facts(x) for x in scales]
    shapes = [None if f is None or f.dtype != "float32" else f.shape for f in found]
    of_k = shapes[1:]
    if len(shapes) != 3 or shapes[0] not in ((1,), (heads,)) or of_k not in ([(1,)] * 2, [(shared,)] * 2):
        shown = ", ".join("no array" if f is None else f"{list(f.shape)} {f.dtype}" for f in found)
        raise UsageError(
            f"attention: scales=(sq, sk, sv) are arrays of float32, sq [{heads}] or [1], sk and sv both [{shared}] or "
            f"[1], got {shown}"
        )


def form_of(
    name: str, facts: Sequence[ArrayFacts], axis: int, common: str, asked: Asked,
    types: Mapping[str, DType] = TYPES, result: DType | None = None,
) -> tuple[AttentionForm, int]:  # fmt: skip
    """The form of q, k and v, whose heads are along an axis, and the heads of k and v.

    `asked` are causal, window, scale and the user's rules. Raises UsageError for arrays that do not fit each other;
    `common` is what k and v have of q.
    """
    of_q, of_k, of_v = (fact.shape for fact in facts)
    heads, shared = of_q[axis], of_k[axis]
    fits = (
        of_k[:-1] == of_v[:-1] and of_q[:-3] == of_k[:-3] and of_q[-1] == of_k[-1] and not heads % (shared or heads + 1)
    )
    names = {fact.dtype for fact in facts}
    if not fits or len(names) > 1 or not names <= types.keys():
        shown = ", ".join(f"{n} {list(f.shape)} {f.dtype}" for n, f in zip("qkv", facts, strict=True))
        raise UsageError(
            f"{name} of {shown}: k and v have one shape, but for features, {common}, and a divisor of its heads; all "
            f"are {' or '.join(types)}"
        )
    causal, window, scale, rules = asked
    group = heads // shared if shared else 1
    values = None if of_v[-1] == of_q[-1] else of_v[-1]
    return AttentionForm(of_q[-1], types[facts[0].dtype], causal, window, group, scale, rules, values, result), shared


def multiprocessors_of(q: Tensor, check: bool) -> int | None:
    """The multiprocessors of the GPU that holds an array; None without the copy unit that choices by size assume."""
    capability = None if check else capability_of(q)
    if capability is None or capability < TENSOR_COPIES:
        return None
    library = library_of(q)
    assert library is not None
    return driver().attribute(library.facts(q).device[1], MULTIPROCESSORS)


def capability_of(q: Tensor) -> int | None:
    """The compute capability of the GPU that holds an array, None for the host's."""
    library = library_of(q)
    kind, device = ("", 0) if library is None else library.facts(q).device[:2]
    if kind != "cuda":
        return None
    return int(driver().capability(device))


def _is_large(sizes: HeadSizes) -> bool:
    """Whether sizes are beyond the limits of the kernels for all lengths."""
    return any(n > most for n, most in zip(astuple(sizes), astuple(LARGEST), strict=True))


@lru_cache(_KEPT)
def _kernel(form: AttentionForm, sizes: HeadSizes, multiprocessors: int | None = None) -> AttentionKernel:
    """The kernel for these lengths: one for all of them, unless they are beyond its limits."""
    held = sizes if _is_large(sizes) else None
    if multiprocessors is None:
        return AttentionKernel("attention", form, attention_forms.default_tile(form), held)
    tile, blocks = attention_forms.fastest(form, sizes, multiprocessors)
    return AttentionKernel("attention", form, tile, held, blocks)


def _gradients(form: AttentionForm, adds: bool, deterministic: bool) -> GradientCalls:
    return added_gradients(form) if adds and not deterministic else ordered_gradients(form)


def _adds(form: AttentionForm, q: Tensor, check: bool) -> bool:
    """Whether the kernel that adds gradients takes this problem: it is made for the copy unit of sm_90."""
    if check or form.features not in attention_forms.ADDED_HEADS:
        return form.features in attention_forms.ADDED_HEADS
    return (capability_of(q) or 0) >= TENSOR_COPIES
