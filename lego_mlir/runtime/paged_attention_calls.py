"""`lego_mlir.attention_paged(q, keys, values, table, lengths)`: attention of decoding, to a cache in pages.

    o = lego_mlir.attention_paged(q, keys, values, table, lengths)       q: [sequences, heads, features]
    o = lego_mlir.attention_paged(q, keys, values, table, lengths, scales=(sk, sv))      a cache of float8_e4m3fn

The lengths stay on the device, and a call launches one kernel (`kernels.paged_attention`) whose grid depends on the
shapes alone, so that a graph of CUDA is replayed while sequences grow. Memory for partial results and counters is kept
for each stream, as that of products is; a captured call has its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from lego_mlir.aliases import Given, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.kernels.attention_forms import (
    MOST_PAGES,
    MOST_PAGES_OF_EACH,
    MOST_SEQUENCES,
    PAGED_ROWS,
    PagedForm,
    blocks_of_heads,
)
from lego_mlir.runtime import binding, host_reference
from lego_mlir.runtime.arrays import ArrayFacts, dense_strides, key_of, library_of
from lego_mlir.runtime.attention_calls import is_computed_by_its_library
from lego_mlir.runtime.attention_plans import by_strides, has_strides, records
from lego_mlir.runtime.calls import BuiltCalls
from lego_mlir.runtime.plans import Plan
from lego_mlir.runtime.products.operands import read
from lego_mlir.runtime.products.problem import place_of
from lego_mlir.runtime.products.steps import ProductStep, StepsPlan
from lego_mlir.tracing.trace.dtypes import bf16, f8e4m3fn, f16

_KEPT: Final = 256
SCRATCH: Final = ("partial", "sums", "counters")
"""The kernel's last arguments."""
NAMES: Final = ("q", "keys", "values", "table", "lengths", "the scale of keys", "the scale of values")
F8: Final = "float8_e4m3fn"
TYPES: Final = {"float16": f16, "bfloat16": bf16}
MOST_POSITIONS: Final = 2**31 - 1
"""Of all sequences, whose lengths the kernel adds up."""
PROCESSORS: Final = 4
"""Those for which a checked call divides the keys."""
_plans: Final[dict[Hashable, Plan]] = {}


def attention_paged(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    lengths: Tensor,
    *,
    scale: float | None = None,
    scales: tuple[Tensor, Tensor] | None = None,
    check: bool = False,
) -> Tensor:
    """Attention of the last queries of B sequences, [B, heads, D] or [B, queries, heads, D], to all keys before them.

    Keys and values are [pages, positions, heads / group, D] in f16 or bf16 as q, D is 64, 96, 128, 192 or 256. Position
    p of sequence b is in page `table[b, p // positions]`; `lengths[b]` positions count, the queries' own among them.
    Both are int32, table [B, n] of pages that exist, unused ones too, lengths [B] of at most n * positions; a GPU does
    not check them, but `check` does. The result of a query without keys is 0. `scale` is 1 / sqrt(D) if left out.
    Arrays are read by their strides, so that pages of [heads, positions, D] are passed as `keys.swapaxes(1, 2)`;
    features are contiguous, and strides multiples of 16 bytes. There are no gradients.

    Keys and values of float8_e4m3fn are multiplied by `scales`, two arrays of float32 [heads / group], or [1] for all
    heads; those of keys are positive. Raises UsageError for other shapes, types and strides.
    """
    given = (q, keys, values, table, lengths, *(() if scales is None else scales))
    key = key_of(given), scale, check
    plan = _plans.get(key)
    if plan is not None and not records(given):
        return plan(given, None)
    form = _form(given, scale)
    if 0 in q.shape or 0 in keys.shape or 0 in table.shape:
        return new_zeros(q, q.shape)
    if not check and is_computed_by_its_library("attention_paged", dict(zip(NAMES, given, strict=False))):
        return host_reference.paged_attention(q, keys, values, table, lengths, form, scales)
    _require_strides(keys, values)
    require_few("attention_paged", table, *keys.shape[:2])
    readable = by_strides(q)
    if readable is not q:
        return attention_paged(readable, *given[1:5], scale=scale, scales=scales, check=check)
    if check:
        return _checked(form, given)
    if len(_plans) >= _KEPT:
        _plans.clear()
    plan = _plans[key] = _bound(form, given)
    return plan(given, None)


def _form(given: Sequence[Tensor], scale: float | None) -> PagedForm:
    """What is to be computed. Raises UsageError for arrays that do not fit each other."""
    facts = facts_of("attention_paged", dict(zip(NAMES, given, strict=False)))
    of_q, of_k, of_v, of_table, of_lengths, *of_scales = (fact.shape for fact in facts)
    types = [fact.dtype for fact in facts]
    narrow = types[1] == F8
    fits = (
        len(of_q) in (3, 4)
        and len(of_k) == 4
        and of_k == of_v
        and of_q[-1] == of_k[-1]
        and not of_q[-2] % max(of_k[2], 1)
    )
    fits = fits and len(of_table) == 2 and of_lengths == of_q[:1] == of_table[:1]
    fits = fits and of_scales in ([[(1,)] * 2, [of_k[2:3]] * 2] if narrow else [[]])
    stored = F8 if narrow else types[0]
    if not fits or types[0] not in TYPES or types[1:] != [stored] * 2 + ["int32"] * 2 + ["float32"] * len(of_scales):
        shown = ", ".join(f"{list(f.shape)} {f.dtype}" for f in facts)
        raise UsageError(
            f"attention_paged of {shown}: q is [B, heads, D] or [B, queries, heads, D], keys and values [pages, "
            "positions, heads / group, D], all float16 or bfloat16; table is [B, n] and lengths [B] of int32. Keys and "
            f"values of {F8} have scales=(sk, sv) of float32, both [heads / group] or [1]"
        )
    queries = of_q[1] if len(of_q) == 4 else 1
    group, page = of_q[-2] // max(of_k[2], 1), max(of_k[1], 1)
    return PagedForm(of_q[-1], TYPES[types[0]], group, max(queries, 1), page, scale, f8e4m3fn if narrow else None)


def facts_of(called: str, given: Mapping[str, Tensor]) -> list[ArrayFacts]:
    """Arrays by their names. Raises UsageError for those of several libraries, and where gradients are recorded."""
    facts: list[ArrayFacts] = []
    for name, array in given.items():
        library = library_of(array)
        if library is None or library.results is None or library.name == "jax":
            raise UsageError(f"{called}: {name} is an array of NumPy, PyTorch or CuPy, got {type(array).__name__}")
        facts.append(library.facts(array))
        if facts[-1].library != facts[0].library:
            raise UsageError(
                f"{called}: q is an array of {facts[0].library}, and {name} of {facts[-1].library}; convert one of them"
            )
    if records([*given.values()]):
        raise UsageError(
            f"{called}: there are no gradients; call it under torch.no_grad(), or pass tensor.detach() for tensors "
            "that require one"
        )
    return facts


def _require_strides(keys: Tensor, values: Tensor) -> None:
    """Raise UsageError for pages that the kernel cannot read where they are: a cache is not copied in each call."""
    for name, array in (("keys", keys), ("values", values)):
        facts = read(name, array, "attention_paged").facts
        if not has_strides(facts):
            raise UsageError(
                f"attention_paged: {name} have strides of {list(facts.strides)} elements; features are contiguous, and "
                "other strides multiples of 16 bytes: store the cache so, or pass a contiguous copy"
            )


def require_few(called: str, table: Tensor, pages: int, page: int) -> None:
    """Raise UsageError for more sequences or pages than a kernel takes, or positions than an i32 counts."""
    sequences, of_each = table.shape
    for found, most, what, remedy in (
        (sequences, MOST_SEQUENCES, "sequences", "divide them among several calls"),
        (of_each, MOST_PAGES_OF_EACH, "pages of a sequence", "pass fewer columns of the table, or larger pages"),
        (pages, MOST_PAGES, "pages of a cache", "make pages larger, or divide the cache and its sequences"),
    ):
        if found > most:
            raise UsageError(f"{called}: a call takes at most {most} {what}, got {found}; {remedy}")
    if (positions := sequences * of_each * page) > MOST_POSITIONS:
        raise UsageError(
            f"{called}: a table of {sequences} x {of_each} pages of {page} has {positions} positions, and a call takes "
            f"at most {MOST_POSITIONS}; divide the sequences among several calls"
        )


def _views(given: Sequence[Tensor]) -> list[Tensor]:
    """The arrays as the kernel indexes them: heads before rows."""
    q, keys, values, *rest = given
    return [(q if len(q.shape) == 4 else q[:, None]).swapaxes(1, 2), keys.swapaxes(1, 2), values.swapaxes(1, 2), *rest]


@lru_cache(_KEPT)
def _calls_of(form: PagedForm) -> BuiltCalls:
    from lego_mlir.kernels import paged_attention

    return BuiltCalls(("paged_attention", form), lambda: paged_attention.build(form))


def _checked(form: PagedForm, given: Sequence[Tensor]) -> Tensor:
    """The result by the interpreter, which finds races."""
    import numpy

    views = _views(given)
    (batch, heads, queries, features), shared = views[0].shape, views[1].shape[1]
    tiles, blocks = -(-queries * form.group // PAGED_ROWS), blocks_of_heads(form, batch, shared, PROCESSORS)
    o = new_zeros(given[0], (batch, queries, heads, features))
    rows = (blocks, shared * tiles, form.rows)
    scratch = [numpy.zeros(shape, numpy.float32) for shape in ((*rows, features), rows)]
    counters = numpy.zeros((batch, shared * tiles), numpy.int32)
    _calls_of(form).call([*views, o.swapaxes(1, 2), *scratch, counters], {}, None, check=True)
    return o.reshape(given[0].shape)


def new_zeros(q: Tensor, shape: Sequence[int]) -> Tensor:
    """An array of the library and the type of q, in this shape."""
    library = library_of(q)
    assert library is not None and library.results is not None
    facts = library.facts(q)
    found = library.results(facts.dtype, shape, dense_strides(shape), facts.device)()
    found[...] = 0
    return found


def _bound(form: PagedForm, given: Sequence[Given]) -> Plan:
    """The launch for arrays like these on their device."""
    views, library = _views(given), library_of(given[0])
    assert library is not None
    facts = [library.facts(x) for x in views]
    (batch, heads, queries, features), device = facts[0].shape, facts[0].device
    _, multiprocessors = place_of(device)
    backend = _calls_of(form).backend(device)
    entry = backend.entry
    blocks = blocks_of_heads(form, batch, facts[1].shape[1], multiprocessors)
    own = {"U": blocks, "o_batch": queries * heads * features, "o_head": features, "o_row": heads * features}
    whole = replace(entry, arguments=tuple(x for x in entry.arguments if x.name not in SCRATCH))
    own = {size.name: own[size.name] for size in entry.sizes if size.name in own}
    bound = binding.bind(whole, [*facts, None], own)
    sizes = {size.name: n for size, n in zip(whole.sizes, bound.sizes, strict=True)}
    step = ProductStep(backend, tuple(x.name for x in entry.arguments), sizes)
    bound = binding.with_results_of(bound, binding.DenseShape.rows(*given[0].shape))
    return StepsPlan(whole, bound, given, library, [step])
