"""Shipped operations on arrays of the host: by NumPy or PyTorch in f32, rounded once, with one note for each operation.

    lego_mlir.matmul(a, b)          a, b: NumPy arrays, or tensors of PyTorch on the CPU
    ReferenceWarning: matmul: these arrays are in the host's memory, so that NumPy computes the product, ..

The arguments are those of the GPU's kernels, and refused for the same reasons. Gradients flow through attention and
grouped products of PyTorch's tensors, as on a GPU. Empty products, and those of sums without a term, take this path on
a GPU as well.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from lego_mlir.aliases import Array, Foreign, Operand, Tensor
from lego_mlir.choices.scaled_tiles import BLOCK
from lego_mlir.errors import ReferenceWarning, SymbolicBranchError, UsageError
from lego_mlir.kernels.attention_forms import LATENT, SCALED, TOKENS, WIDTH, AttentionForm
from lego_mlir.kernels.pair_rules import PairsOf
from lego_mlir.runtime.arrays import CPU, ArrayFacts, library_of
from lego_mlir.runtime.value_ranges import require_values

if TYPE_CHECKING:
    from types import FrameType

    from lego_mlir.kernels.attention_forms import LatentForm, PagedForm
    from lego_mlir.kernels.fused_epilogues import FusedEpilogue

LIBRARIES: Final = ("numpy", "torch")
"""Whose arrays in the host's memory are computed."""
EMPTY: Final = (*LIBRARIES, "cupy", "jax")
"""Whose products without an element, or of sums without a term, are computed on any device."""
_UNSEEN: Final = -1e30
"""The score of a key that a query does not attend to, whose weight is set to 0."""
_noted: set[str] = set()


def note(operation: str, library: str) -> None:
    """Warn that no kernel runs, once for each operation in a process."""
    if operation in _noted:
        return
    _noted.add(operation)
    name, remedy = ("PyTorch", "array.cuda()") if library == "torch" else ("NumPy", "cupy.asarray(array)")
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("lego_mlir."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(
        f"{operation}: these arrays are in the host's memory, so that {name} computes the result, as a reference, and "
        f"no kernel runs; move them to a GPU: {remedy}",
        ReferenceWarning,
        stacklevel=depth,
    )


def require_one_place(operation: str, given: Mapping[str, Tensor]) -> None:
    """Raise UsageError for arrays of the host's memory that no library computes, by their names.

    They are of a library that is not among `LIBRARIES`, of several, or some of them are on a GPU.
    """
    facts = {name: library.facts(x) for name, x in given.items() if (library := library_of(x)) is not None}
    first, *others = facts
    of_first = facts[first]

    def other(field: str) -> str | None:
        return next((name for name in others if getattr(facts[name], field) != getattr(of_first, field)), None)

    if (name := other("device")) is not None:
        places = ["the host" if facts[x].device == CPU else f"GPU {facts[x].device[1]}" for x in (first, name)]
        raise UsageError(
            f"{operation}: {first} is in the memory of {places[0]}, and {name} of {places[1]}; move one of them"
        )
    if of_first.device != CPU:
        return
    if (name := other("library")) is not None:
        unlike = first if facts[name].library == "numpy" else name
        raise UsageError(
            f"{operation}: {first} is an array of {of_first.library} and {name} one of {facts[name].library}, in the "
            f"host's memory, where one library computes the result; convert {unlike}, for example with "
            f"numpy.asarray({unlike}), or move all arrays to a GPU"
        )
    raise UsageError(
        f"{operation}: {first} is an array of {of_first.library} in the host's memory, where NumPy and PyTorch compute "
        "with their own arrays alone; convert all, for example with numpy.asarray(array), or move them to a GPU"
    )


def computes(operation: str, *facts: ArrayFacts) -> bool:
    """Whether these arrays are computed here: all of one such library and of the host, which is noted, or empty."""
    library = facts[0].library
    if library in EMPTY and any(0 in f.shape for f in facts):
        return True
    if library not in LIBRARIES or any((f.library, f.device) != (library, CPU) for f in facts):
        return False
    note(operation, library)
    return True


def matrix_product(
    a: Tensor, b: Tensor, result: str, epilogue: FusedEpilogue | None = None, given: Sequence[Tensor] = ()
) -> Tensor:
    """a @ b with leading dimensions, and for matrices what is fused; `given` are the arrays of the epilogue."""
    module = _module(a)
    wide = "int32" if _name(a) == "int8" else "float32"
    product = module.matmul(_as(a, wide), _as(b, wide))
    if epilogue is None or 0 in product.shape:  # the largest of no values leaves amax as it is
        return _as(product, result)
    found = _as_numpy(_as(product, "float32"))
    fused = epilogue.build(*found.shape)
    names = list(fused.operands)
    parts = [x.reshape(-1) if x.ndim == 0 else x for x in (_as_numpy(_as(x, "float32")) for x in given)]
    found = fused.reference(found, *parts).astype("float32")
    for name, part, x in zip(names, parts, given, strict=True):
        if name == "amax":
            x[...] = _as(_like(part.reshape(tuple(x.shape)), x), _name(x))
    return _as(_saturated(_like(found, product), result), result)


def _saturated(product: Tensor, result: str) -> Tensor:
    """Values within a type of 8 bits; other types as they are."""
    if not result.startswith("float8"):
        return product
    import ml_dtypes

    largest = float(ml_dtypes.finfo(result).max)
    return product.clip(-largest, largest)


def attention(
    q: Tensor, k: Tensor, v: Tensor, form: AttentionForm, shift: int = 0, reads: Mapping[str, Tensor] | None = None,
    scales: Sequence[Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """softmax(factor q k^T) v for [.., heads, M, D] and [.., heads / group, N, D]; 0 for a query without keys.

    Query i has the position i + `shift` among the keys. Rules of the user are computed by NumPy, of `reads`.
    """
    import numpy

    module, dtype = _module(q), _name(q)
    if scales is not None:
        q, k, v = (_as(x, "float32") * s[:, None, None] for x, s in zip((q, k, v), scales, strict=True))
        dtype = form.stored.numpy_name
    (*lead, heads, m, d), n = q.shape, k.shape[-2]
    if 0 in (m, n, heads, *lead):
        return _as(zeros_of(_as(q, "float32")[..., : v.shape[-1]]), dtype)
    grouped = _as(q, "float32").reshape(*lead, heads // form.group, form.group, m, d)
    keys, values = (_as(x, "float32")[..., None, :, :] for x in (k, v))
    row, column = numpy.arange(m)[:, None] + shift, numpy.arange(n)[None, :]
    scores, pairs = module.matmul(grouped, keys.swapaxes(-1, -2)) * form.factor, None
    if form.pairs is not None:
        of_rule = _array_of_rules()
        batch = numpy.arange(math.prod(lead)).reshape(*lead, *[1] * 4).view(of_rule)
        head = numpy.arange(heads).reshape(heads // form.group, form.group, 1, 1).view(of_rule)
        row, column = row.view(of_rule), column.view(of_rule)
        read = {name: _Clamped(_as_numpy(x).view(of_rule)) for name, x in (reads or {}).items()}
        pairs = PairsOf(form.pairs, batch, head, read)
        if form.pairs.score is not None:
            found = pairs.scored(_as_numpy(scores).view(of_rule), row, column)
            scores = _like(numpy.asarray(found, "float32"), q)
    seen = numpy.asarray(form.allowed(row, column, n, pairs))
    seen = _like(numpy.broadcast_to(seen, numpy.broadcast_shapes(seen.shape, (m, n))).copy(), q)
    return _as(_averages(scores, seen, values).reshape(*q.shape[:-1], v.shape[-1]), dtype)


def _averages(scores: Tensor, seen: Tensor, values: Tensor) -> Tensor:
    """Averages of values, weighted by a softmax of the scores that are seen; 0 where none is."""
    module = _module(scores)
    scores = module.where(seen, scores, _UNSEEN)
    most = module.amax(scores, -1)[..., None].clip(_UNSEEN)  # a rule may give -inf for each key
    weights = module.exp(scores - most) * seen
    total = weights.sum(-1)[..., None]
    found: Tensor = module.matmul(weights / module.where(total == 0, 1.0, total), values)
    return found


def packed_attention(
    q: Tensor, k: Tensor, v: Tensor, starts: tuple[Tensor, Tensor], form: AttentionForm
) -> Tensor:  # fmt: skip
    """`attention` within each sequence of [rows, heads, D]; rows after the last sequence are 0."""
    module, (of_q, keys_at) = _module(q), ([int(n) for n in each] for each in starts)
    parts = []
    for first, end, first_key, end_key in zip(of_q, of_q[1:], keys_at, keys_at[1:], strict=False):
        rows, keys = slice(first, end), slice(first_key, end_key)
        one, of_k, of_v = (x.swapaxes(0, 1) for x in (q[rows], k[keys], v[keys]))
        shift = (end_key - first_key) - (end - first)
        parts.append(attention(one, of_k, of_v, form, shift).swapaxes(0, 1))
    return module.concatenate([*parts, zeros_of(q[of_q[-1] :])])


def paged_attention(
    q: Tensor, keys: Tensor, values: Tensor, table: Tensor, lengths: Tensor, form: PagedForm,
    scales: Sequence[Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """`attention` of the last queries of each sequence to the keys in its pages: `lego_mlir.attention_paged`."""
    require_values("table", _as_numpy(table), (0, len(keys)))
    require_values("lengths", _as_numpy(lengths), (0, table.shape[1] * form.page + 1))
    module, found = _module(q), []
    if scales is not None:
        keys, values = (_as(x, "float32") * s[:, None] for x, s in zip((keys, values), scales, strict=True))
    causal = AttentionForm(form.features, form.dtype, True, None, form.group, form.scale)
    for b, length in enumerate(int(n) for n in lengths):
        rows = q[b].reshape(form.queries, -1, form.features).swapaxes(0, 1)
        k, v = (x[table[b]].reshape(-1, *x.shape[2:])[:length].swapaxes(0, 1) for x in (keys, values))
        found.append(attention(rows, k, v, causal, length - form.queries).swapaxes(0, 1).reshape(q[b].shape))
    return module.stack(found)


def latent_attention(q: Tensor, parts: Sequence[Tensor], table: Tensor, lengths: Tensor, form: LatentForm) -> Tensor:
    """`lego_mlir.attention_latent`, of a cache or the parts of its records: tokens are the keys and values."""
    import numpy

    cache = parts[0]
    if len(parts) > 1:
        latents, scales, rotary = (_as_numpy(_as(x, "float32")) for x in parts)
        cache = _like(numpy.concatenate([latents * numpy.repeat(scales, SCALED, -1), rotary], -1), q)
    require_values("table", _as_numpy(table), (0, len(cache)))
    require_values("lengths", _as_numpy(lengths), (0, table.shape[1] * TOKENS + 1))
    module, found = _module(q), []
    position = numpy.arange(form.rows)[:, None] // form.heads - form.queries
    for b, length in enumerate(int(n) for n in lengths):
        if not length:
            found.append(zeros_of(_as(q[b][..., :LATENT], "float32")))
            continue
        tokens = _as(cache[table[b]], "float32").reshape(-1, WIDTH)[:length]
        scores = module.matmul(_as(q[b], "float32").reshape(-1, WIDTH), tokens.swapaxes(0, 1)) * form.scale
        seen = _like(numpy.arange(length) <= position + length, q)
        found.append(_averages(scores, seen, tokens[:, :LATENT]).reshape(*q[b].shape[:-1], LATENT))
    return _as(module.stack(found), _name(q))


def grouped_product(a: Tensor, b: Tensor, ends: Tensor, result: str) -> Tensor:
    """The products of groups in the three forms of `lego_mlir.grouped_matmul`; what is in no group is 0."""
    module, stops = _module(a), [int(n) for n in ends]
    begins = [0, *stops][: len(stops)]
    ranges = [slice(begin, end) for begin, end in zip(begins, stops, strict=True)]
    x, y = _as(a, "float32"), _as(b, "float32")
    if len(a.shape) == 3:
        return grouped_product(b.swapaxes(0, 1), a.swapaxes(1, 2), ends, result).swapaxes(0, 1)
    if not stops:  # no matrices, or rows of no group
        found = module.matmul(x, y)[None][:0] if len(a.shape) == len(b.shape) else module.matmul(x, y.sum(0))
        return _as(found, result)
    if len(a.shape) == len(b.shape):
        return _as(module.stack([module.matmul(x[:, each], y[each]) for each in ranges]), result)
    parts = [module.matmul(x[each], y[g]) for g, each in enumerate(ranges)]
    rest = zeros_of(module.matmul(x[stops[-1] :], y[0]))
    return _as(module.concatenate([*parts, rest]), result)


def scaled_product(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, result: str) -> Tensor:
    """a @ b, each times its scales of 128 elements of a row of a, and of 128 x 128 of b."""
    module, (m, k), n = _module(a), a.shape, b.shape[1]
    columns = module.kron(_as(scale_b, "float32"), module.ones((BLOCK, BLOCK)))[:, :n]
    rows = _as(a, "float32").reshape(m, k // BLOCK, BLOCK) * scale_a[..., None]
    return _as(module.matmul(rows.reshape(m, k), _as(b, "float32") * columns), result)


def grouped_scaled_product(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, ends: Tensor, result: str
) -> Tensor:  # fmt: skip
    """`scaled_product` of each group of rows; what is in no group is 0."""
    stops = [int(n) for n in ends]
    groups = [slice(begin, end) for begin, end in zip([0, *stops], stops, strict=False)]
    parts = [scaled_product(a[i], b[g], scale_a[i], scale_b[g], result) for g, i in enumerate(groups)]
    rest = slice(stops[-1], None)
    parts.append(zeros_of(scaled_product(a[rest], b[0], scale_a[rest], scale_b[0], result)))
    return _module(a).concatenate(parts)


def zeros_of(x: Tensor) -> Tensor:
    """Zeros in place of an array's elements, whatever these are; PyTorch's have gradients of 0."""
    module = _module(x)
    return module.where(module.zeros_like(x, dtype=bool), x, module.zeros_like(x))


@cache
def _array_of_rules() -> type[Array]:
    """The class of arrays that rules compute with: of all pairs at once, so that Python branches on none of them."""
    import numpy

    class OfAllPairs(numpy.ndarray):
        def __bool__(self) -> NoReturn:
            raise _one_for_all("the truth of a condition, which `if`, `and`, `or`, `not`, min() and max() need")

        def __int__(self) -> NoReturn:
            raise _one_for_all("a plain number, which int(), float(), range() and math need")

        __float__ = __index__ = __int__

    return OfAllPairs


def _one_for_all(wanted: str) -> SymbolicBranchError:
    """What is said where a rule asks for one value of all pairs, with the line of the rule."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("lego_mlir", "numpy"):
        frame = frame.f_back
    at = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}: "
    return SymbolicBranchError(
        f"{at}mask and score are computed for many pairs at once, without {wanted}; use "
        "lego.where(condition, a, b), &, |, ~, lego.minimum and lego.maximum, and lego's functions in place of math's"
    )


class _Clamped:
    """An array that a rule reads as in a kernel: indices outside of it are clamped."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Operand) -> Array:
        import numpy

        given = zip(index if isinstance(index, tuple) else (index,), self.array.shape, strict=True)
        found: Array = self.array[tuple(numpy.clip(n, 0, size - 1) for n, size in given)]
        return found


def _module(array: Tensor) -> Foreign:
    """The functions of an array's library, which is imported already."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules["jax.numpy" if name in ("jax", "jaxlib") else name]


def _name(array: Tensor) -> str:
    return str(array.dtype).rpartition(".")[2]


def _as(array: Tensor, name: str) -> Tensor:
    """The array in a type by its name."""
    module = _module(array)
    if module.__name__ == "torch":
        return array.to(getattr(module, name))
    import ml_dtypes

    return array.astype(getattr(ml_dtypes, name, name))


def _as_numpy(array: Tensor) -> Array:
    module = _module(array)
    found: Array = array.detach().cpu().numpy() if module.__name__ == "torch" else array
    return module.asnumpy(array) if module.__name__ == "cupy" else found.copy()


def _like(array: Array, other: Tensor) -> Tensor:
    """An array of NumPy as one of the library and on the device of another."""
    module = _module(other)
    return module.from_numpy(array).to(other.device) if module.__name__ == "torch" else module.asarray(array)
