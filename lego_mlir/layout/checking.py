"""Check that a pair of functions is a bijection and its inverse: by enumeration where possible, by proof otherwise.

Concrete sizes are enumerated (`enumeration`). For symbolic sizes there is one proof for all of them (`proving`); small
instances are enumerated first, because a counter-example is more useful than a failed proof.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import Array, Expr, IndexLike, Symbol
from lego_mlir.errors import ExpressionError, LayoutError
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import key_of
from lego_mlir.layout.canonical import is_static, product, unflatten
from lego_mlir.layout.enumeration import Blocks, enumerate_elements, out_of_range
from lego_mlir.layout.enumeration_limit import BLOCK, ENUMERATED
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.proving import proof_index, proved
from lego_mlir.layout.python_ints import (
    INT_ONLY_ENUMERATED,
    check_with_ints,
    check_wrapped,
    find_wrapped,
    overflow_watch,
)
from lego_mlir.layout.values import ARRAY_LIMIT, show, subexpressions

if TYPE_CHECKING:
    from lego_mlir.layout.wrapping import Watch

SMALL_INSTANCES = 24
"""Concrete instances of a symbolic layout that are searched for a counter-example."""
REMEMBERED = 512
"""Verdicts kept for permutations that are constructed again."""

_verdicts: OrderedDict[Hashable, Verdict] = OrderedDict()


def verdict_of(perm: GenP) -> Verdict:
    """The verdict on a permutation, cached by its sizes, its functions and the values in their closures.

    Only this package's functions are cached. Other functions may depend on more than their closures, such as a module
    variable that changes later; each such object is checked once.
    """
    try:
        key = (key_of(perm.dims()), _closure_key(perm.f), _closure_key(perm.f_inv))
    except TypeError:
        return check_permutation(perm)
    known = _verdicts.pop(key, None)
    _verdicts[key] = known = check_permutation(perm) if known is None else known
    while len(_verdicts) > REMEMBERED:
        _verdicts.popitem(last=False)
    return known


def _closure_key(value: object) -> Hashable:
    """A key that identifies a value in a function's closure. Raises TypeError for one that cannot be compared."""
    match value:
        case bool() | int() | None:
            return type(value), value
        case Index():
            return Index, value.expr
        case tuple():
            return tuple, tuple(map(_closure_key, value))
        case FunctionType() if value.__module__.startswith("lego_mlir."):
            made_with = tuple(_closure_key(cell.cell_contents) for cell in value.__closure__ or ())
            return value.__module__, value.__code__, value.__defaults__, made_with
        case RegP():
            return RegP, value
    raise TypeError(f"{type(value).__name__} compares by its contents, which may change")


def check_permutation(perm: GenP) -> Verdict:
    """Whether `perm.f` is a bijection of its tile onto 0..N-1 with inverse `perm.f_inv`."""
    if not is_static(perm.dims()):
        return _check_symbolic(perm)
    dims = tuple(int(n) for n in perm.dims())
    elements = product(dims)
    if elements > ENUMERATED:
        return _check_too_large(perm, elements)
    watch = overflow_watch(perm)
    try:
        _call_arrays(perm, watch, dims, 0, min(dims[0], 2))
        perm.backward(_watched(watch, _arange(min(elements, 2))))
    except LayoutError as error:
        if elements > INT_ONLY_ENUMERATED:
            return Unknown(f"{elements} elements are too many for a function that cannot handle arrays ({error})")
        return check_with_ints(perm, dims)
    verdict = enumerate_elements(dims, _blocks(perm, watch, dims), lambda p: perm.backward(_watched(watch, p)))
    return check_wrapped(perm, dims) if watch is not None and watch.wrapped else verdict


def _watched(watch: Watch | None, array: Array) -> Array:
    return array if watch is None else watch.over(array)


def _arange(*ends: int) -> Array:
    return np.arange(*ends)


def _call_arrays(perm: GenP, watch: Watch | None, dims: tuple[int, ...], start: int, stop: int) -> Array:
    """`f` over rows start..stop of the outermost axis, one array per axis, broadcast against each other."""
    axes = [np.arange(start, stop), *(np.arange(n) for n in dims[1:])]
    index = [a.reshape([-1 if k == axis else 1 for k in range(len(dims))]) for axis, a in enumerate(axes)]
    position = perm.forward(tuple(_watched(watch, a) for a in index))
    return np.broadcast_to(position, [stop - start, *dims[1:]]).reshape(-1)


def _blocks(perm: GenP, watch: Watch | None, dims: tuple[int, ...]) -> Blocks:
    """Blocks of consecutive indices with functions that compute their positions."""
    row = product(dims[1:])
    rows = max(1, BLOCK // row)
    for start in range(0, dims[0], rows):
        yield start * row, partial(_call_arrays, perm, watch, dims, start, min(start + rows, dims[0]))


def _check_too_large(perm: GenP, elements: int) -> Verdict:
    """Beyond the exact bound: a proof, or a sample, which can only refute."""
    verdict = proved(perm)
    wrapped = None if isinstance(verdict, Refuted) else find_wrapped(perm, elements)
    if wrapped is not None:
        return wrapped
    if not isinstance(verdict, Unknown):
        return verdict
    tried = "10^6 sampled ones agree"
    if elements > ARRAY_LIMIT:
        tried = "none was sampled, too many for int64 arrays"
    else:
        try:
            sampled = _sample(perm, elements)
        except LayoutError as error:
            sampled, tried = None, f"none was sampled ({error})"
        if sampled is not None:
            return sampled
    return Unknown(f"{elements} elements are beyond the exact check of {ENUMERATED}; {tried}; {verdict.reason}")


def _sample(perm: GenP, elements: int) -> Refuted | None:
    from lego_mlir.layout.wrapping import Watch

    dims = tuple(int(n) for n in perm.dims())
    flat = np.random.default_rng(0).integers(0, elements, 10**6)
    index, watch = unflatten(flat, dims), Watch()
    position = np.asarray(perm.forward(tuple(map(watch.over, index))))
    if watch.wrapped:  # what wrapped around refutes nothing
        raise LayoutError("int64 wraps around")
    outside = (position < 0) | (position >= elements)
    if np.any(outside):
        k = int(np.argmax(outside))
        return out_of_range(tuple(int(i[k]) for i in index), int(position[k]), elements)
    wrong = np.zeros(flat.shape, bool)
    for i, back in zip(index, perm.backward(position), strict=True):
        wrong |= i != back
    if not np.any(wrong):
        return None
    k = int(np.argmax(wrong))
    at = tuple(int(i[k]) for i in index)
    return Refuted(
        {"index": at, "position": int(position[k])},
        f"f_inv does not map position {int(position[k])} back to {show(at)}",
    )


def _check_symbolic(perm: GenP) -> Verdict:
    """Small instances first, each exact; then a proof for all sizes."""
    instances = 0
    for values, verdict in _instances(perm):
        if isinstance(verdict, Refuted):
            where = ", ".join(f"{name} = {value}" for name, value in values.items())
            return Refuted(
                {**{str(s): v for s, v in values.items()}, **verdict.counter_example},
                f"for {where}, {verdict.explanation}",
            )
        instances += isinstance(verdict, Proved)
    verdict = proved(perm)
    if isinstance(verdict, Unknown):
        return Unknown(f"{verdict.reason}; {instances} small instances are bijections")
    return verdict


def _instances(perm: GenP) -> Iterator[tuple[dict[Symbol, int], Verdict]]:
    """Small values of all sizes with the verdict for each; nothing if the functions cannot handle symbols."""
    from lego_mlir.expr.nodes import Size

    index, p = proof_index(perm), index_symbol("p[]")
    try:
        forward, backward = as_expr(perm.forward(index)), [as_expr(i) for i in perm.backward(p)]
    except (LayoutError, ExpressionError):
        return  # the proof reports it
    symbols = set[Symbol]().union(*(as_expr(n).free_symbols for n in perm.dims()))
    symbols |= {s for s in subexpressions([forward, *backward]) if isinstance(s, Size)}
    for values in _small_sizes(sorted(symbols, key=str)):
        try:
            yield values, _check_instance(perm, values, (index, forward), (p, backward))
        except (ZeroDivisionError, ExpressionError) as error:
            yield values, Unknown(str(error))


def _small_sizes(sizes: list[Symbol]) -> Iterator[dict[Symbol, int]]:
    """All combinations of the few smallest values that each size may have."""
    choices = []
    for s in sizes:
        step = getattr(s, "multiple_of", 1)
        low = max(getattr(s, "min", 1), 1)
        first = -(-low // step) * step
        high = getattr(s, "max", None)
        each = max(2, int(SMALL_INSTANCES ** (1 / len(sizes))))
        choices.append([v for v in range(first, first + each * step, step) if high is None or v <= high])
    for values in itertools.product(*choices):
        yield dict(zip(sizes, values, strict=True))


def _check_instance(
    perm: GenP, values: dict[Symbol, int], forward: tuple[tuple[Index, ...], Expr], backward: tuple[Index, list[Expr]]
) -> Verdict:
    """The verdict for these values of the sizes, by enumeration of the expressions, each given with its symbols."""
    from lego_mlir.expr.evaluate import evaluate

    dims = tuple(int(as_expr(n).xreplace({s: as_expr(v) for s, v in values.items()})) for n in perm.dims())
    elements = product(dims)
    if min(dims) < 1:
        return Unknown("an instance without elements")
    if elements > INT_ONLY_ENUMERATED:
        return Unknown("too large an instance")
    index = unflatten(np.arange(elements), dims)
    given: dict[Symbol, IndexLike] = {**values, **{s.expr: i for s, i in zip(forward[0], index, strict=True)}}
    positions = np.broadcast_to(evaluate(forward[1], given), (elements,))

    def inverse(position: Array) -> tuple[Array, ...]:
        at = {**values, backward[0].expr: position}
        return tuple(np.broadcast_to(evaluate(b, at), position.shape) for b in backward[1])

    return enumerate_elements(dims, iter([(0, lambda: positions)]), inverse)
