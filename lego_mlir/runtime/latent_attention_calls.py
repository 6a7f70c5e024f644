"""`lego_mlir.attention_latent(q, cache, table, lengths)`: decoding with multi-head latent attention.

    o = lego_mlir.attention_latent(q, cache, table, lengths)      q: [sequences, heads, 576], o: [sequences, heads, 512]

The lengths stay on the device, and the grids of a call depend on the shapes alone, so that a graph of CUDA is replayed
while sequences grow. A call launches the two kernels of `kernels.latent_attention`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from lego_mlir.aliases import Given, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.kernels.attention_forms import (
    LATENT,
    LATENT_SCALE,
    RECORD,
    SCALED,
    TOKENS,
    WIDTH,
    LatentForm,
    parts_of_rows,
)
from lego_mlir.runtime import binding, host_reference
from lego_mlir.runtime.arrays import key_of, library_of, numpy_dtype
from lego_mlir.runtime.attention_calls import is_computed_by_its_library
from lego_mlir.runtime.attention_plans import records
from lego_mlir.runtime.calls import BuiltCalls
from lego_mlir.runtime.paged_attention_calls import PROCESSORS, TYPES, facts_of, new_zeros, require_few
from lego_mlir.runtime.plans import Plan
from lego_mlir.runtime.products.problem import place_of
from lego_mlir.runtime.products.steps import ProductStep, StepsPlan
from lego_mlir.tracing.trace.dtypes import f8e4m3fn

_KEPT: Final = 256
SCRATCH: Final = ("partial", "sums", "spans")
"""The last arguments of the kernel that attends."""
NAMES: Final = ("q", "cache", "table", "lengths")
_plans: Final[dict[Hashable, tuple[LatentForm, Plan]]] = {}


def attention_latent(
    q: Tensor, cache: Tensor, table: Tensor, lengths: Tensor, *, scale: float | None = None, check: bool = False
) -> Tensor:
    """Attention of the last queries of B sequences, [B, heads, 576] or [B, queries, heads, 576], to latents.

    The cache is [pages, 64, 576] in f16 or bf16 as q: the keys of all heads, whose first 512 features are the values.
    Of uint8 [pages, 64, 656] each token is 512 latents of e4m3, 4 scales of f32 for 128 of them each, and 64 rotary
    features of bf16; q is bf16 then. Token p of sequence b is in page `table[b, p // 64]`; `lengths[b]` tokens count,
    the queries' own among them. Both are int32, table [B, n] of pages that exist, unused ones too, lengths [B] of at
    most 64 n; a GPU does not check them, but `check` does. The result, [.., heads, 512], is 0 for a query without
    tokens. `scale` is 1 / sqrt(192) if left out, by the features of a head before its absorption. The cache is
    contiguous. There are no gradients. Raises UsageError for other shapes, types and strides.
    """
    given = q, cache, table, lengths
    key = key_of(given), scale, check
    kept = _plans.get(key)
    if kept is not None and not records(given):
        return _launched(*kept, given)
    form = _form(given, scale)
    if 0 in q.shape or 0 in cache.shape or 0 in table.shape:
        return new_zeros(q, (*q.shape[:-1], LATENT))
    if not check and is_computed_by_its_library("attention_latent", dict(zip(NAMES, given, strict=True))):
        return host_reference.latent_attention(q, _parts(cache, form), table, lengths, form)
    require_few("attention_latent", table, len(cache), TOKENS)
    if check:
        return _checked(form, _views(form, given)).reshape(*q.shape[:-1], LATENT)
    if len(_plans) >= _KEPT:
        _plans.clear()
    kept = _plans[key] = form, _bound(form, _views(form, given), q.shape)
    return _launched(*kept, given)


def _launched(form: LatentForm, plan: Plan, given: Sequence[Tensor]) -> Tensor:
    """The result of bound launches for arrays like these."""
    found: Tensor = plan(_views(form, given), None)
    return found


def _views(form: LatentForm, given: Sequence[Tensor]) -> list[Tensor]:
    """The arrays of a call as the kernel takes them."""
    q, cache, table, lengths = given
    return [q.reshape(len(q), form.rows, WIDTH), *_parts(cache, form), table, lengths]


def _form(given: Sequence[Tensor], scale: float | None) -> LatentForm:
    """What is to be computed. Raises UsageError for arrays that do not fit each other."""
    facts = facts_of("attention_latent", dict(zip(NAMES, given, strict=True)))
    of_q, of_cache, of_table, of_lengths = (fact.shape for fact in facts)
    types = [fact.dtype for fact in facts]
    narrow = types[1] == "uint8"
    fits = len(of_q) in (3, 4) and of_q[-1] == WIDTH and of_cache[1:] == (TOKENS, RECORD if narrow else WIDTH)
    fits = fits and len(of_table) == 2 and of_lengths == of_q[:1] == of_table[:1] and types[2:] == ["int32"] * 2
    if not fits or types[0] not in TYPES or (types[0] != "bfloat16" if narrow else types[1] != types[0]):
        shown = ", ".join(f"{list(f.shape)} {f.dtype}" for f in facts)
        raise UsageError(
            f"attention_latent of {shown}: q is [B, heads, {WIDTH}] or [B, queries, heads, {WIDTH}], float16 or "
            f"bfloat16; the cache [pages, {TOKENS}, {WIDTH}] of the same type, or for bfloat16 "
            f"[pages, {TOKENS}, {RECORD}] of uint8; table is [B, n] and lengths [B] of int32"
        )
    if facts[1].strides != (TOKENS * of_cache[2], of_cache[2], 1) and 0 not in of_cache:
        raise UsageError(
            f"attention_latent: the cache has strides of {list(facts[1].strides)} elements, and is not copied in each "
            "call; store it contiguously"
        )
    queries, scale = of_q[1] if len(of_q) == 4 else 1, LATENT_SCALE if scale is None else scale
    return LatentForm(max(of_q[-2], 1), max(queries, 1), TYPES[types[0]], scale, f8e4m3fn if narrow else None)


def _parts(cache: Tensor, form: LatentForm) -> list[Tensor]:
    """The cache as the kernel reads it: records as views of latents, scales and rotary parts."""
    if form.cache is None:
        return [cache]
    ends = LATENT, LATENT + 4 * (LATENT // SCALED), RECORD
    parts = zip((0, *ends), ends, ("float8_e4m3fn", "float32", "bfloat16"), strict=False)
    return [_viewed(cache[..., begin:end], dtype) for begin, end, dtype in parts]


def _viewed(array: Tensor, dtype: str) -> Tensor:
    if type(array).__module__.partition(".")[0] == "torch":
        import torch

        return array.view(getattr(torch, dtype))
    return array.view(numpy_dtype(dtype))


@lru_cache(_KEPT)
def _calls_of(form: LatentForm) -> tuple[BuiltCalls, BuiltCalls]:
    from lego_mlir.kernels import latent_attention

    def calls(name: str, number: int) -> BuiltCalls:
        return BuiltCalls((name, form), lambda: latent_attention.build(form)[number])

    return calls("latent_attention", 0), calls("latent_parts", 1)


def _checked(form: LatentForm, views: Sequence[Tensor]) -> Tensor:
    """The result by the interpreter, which finds races."""
    import numpy

    batch, (parts, _) = len(views[0]), parts_of_rows(form, len(views[0]), PROCESSORS)
    o = new_zeros(views[0], (batch, form.rows, LATENT))
    rows = (parts, -(-form.rows // TOKENS), TOKENS)
    partial, sums = (numpy.zeros(shape, numpy.float32) for shape in ((*rows, LATENT), rows))
    spans = numpy.zeros((batch, 2), numpy.int32)
    attends, combines = _calls_of(form)
    attends.call([*views, o, partial, sums, spans], {}, None, check=True)
    combines.call([partial, sums, spans, o], {"G": 2}, None, check=True)
    return o


def _bound(form: LatentForm, views: Sequence[Given], shape: Sequence[int]) -> Plan:
    """The launches for arrays like these on their device."""
    library = library_of(views[0])
    assert library is not None
    facts = [library.facts(x) for x in views]
    device, batch = facts[0].device, facts[0].shape[0]
    _, multiprocessors = place_of(device)
    parts, groups = parts_of_rows(form, batch, multiprocessors)
    backends = [calls.backend(device) for calls in _calls_of(form)]
    entry = backends[0].entry
    whole = replace(entry, arguments=tuple(x for x in entry.arguments if x.name not in SCRATCH))
    bound = binding.bind(whole, [*facts, None], {"U": parts})
    sizes = {size.name: n for size, n in zip(whole.sizes, bound.sizes, strict=True)} | {"G": groups}
    steps = [ProductStep(b, tuple(x.name for x in b.entry.arguments), sizes) for b in backends]
    bound = binding.with_results_of(bound, binding.DenseShape.rows(*shape[:-1], LATENT))
    return StepsPlan(whole, bound, views, library, steps)
