"""Proofs that strides are one-to-one: by the order of the axes, by comparison, or refuted by two indices.

With the axes in some order, each stride exceeds the reach of those before it, the digits of a number with mixed
radices: then no two indices have the same position. For ints that are not of this form the positions are compared; two
axes alone collide where multiples of their strides meet. For symbolic sizes a collision is sought at small values.

>>> judged((2, 3), (4, 1)), judged((2, 3), (3, 2))[1]
(((1, 0), Proved(by='each stride exceeds the reach of the smaller ones')), Proved(by='enumeration of 6 elements'))
>>> judged((2, 3), (2, 1))[1].explanation
'the indices [0, 2] and [1, 0] are both at position 2'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond
from lego_mlir.expr.evaluate import admissible, evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.prove import holds, prove
from lego_mlir.expr.related import with_related
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.canonical import Size, is_static, unflatten
from lego_mlir.layout.enumeration_limit import ENUMERATED
from lego_mlir.layout.values import show

TRIED: Final = 2**12  # choices of small sizes, and elements at each, among which a collision is sought
ORDERS: Final = 24  # orders of the axes that are tried: all of up to four axes

Pair = tuple[tuple[int, ...], tuple[int, ...]]


def condition(dims: Sequence[Size], strides: Sequence[Size]) -> Cond:
    """A condition on sizes and strides under which they are one-to-one: some order of the axes is right."""
    return sympy.Or(*(sympy.And(*_in_order(dims, strides, order)) for order in islice(_orders(len(dims)), ORDERS)))


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """The orders of the axes, smallest stride first; row-major and column-major first."""
    rows = tuple(reversed(range(rank)))
    yield rows
    if rank > 1:
        yield rows[::-1]
    yield from (order for order in permutations(range(rank)) if order not in (rows, rows[::-1]))


def _in_order(dims: Sequence[Size], strides: Sequence[Size], order: Sequence[int]) -> Iterator[Cond]:
    """The conditions under which each stride exceeds the reach of those before it."""
    reach: Any = sympy.Integer(0)
    for axis in order:
        n, stride = as_expr(dims[axis]), as_expr(strides[axis])
        if n != 1:
            yield sympy.Or(Le(n, 1), Lt(reach, stride))
            reach += (n - 1) * stride


def judged(dims: tuple[Size, ...], strides: tuple[Size, ...]) -> tuple[tuple[int, ...] | None, Verdict]:
    """The order of the axes, smallest stride first, if one is proved; and the verdict."""
    if is_static((*dims, *strides)):
        return _judged_ints([int(n) for n in dims], [int(s) for s in strides])
    for order in islice(_orders(len(dims)), ORDERS):
        conditions = list(_in_order(dims, strides, order))
        if all(holds(condition, {}) for condition in conditions):  # a refuted order tells no counter-example
            verdicts = (prove(condition, {}) for condition in conditions)
            proofs = [verdict.by for verdict in verdicts if isinstance(verdict, Proved)]
            by = ", ".join(dict.fromkeys(proofs)) or "arithmetic"
            return order, Proved(f"each stride exceeds the reach of the smaller ones, by {by}")
    return None, _sought(dims, strides)


def _judged_ints(dims: list[int], strides: list[int]) -> tuple[tuple[int, ...] | None, Verdict]:
    order = tuple(sorted((axis for axis, n in enumerate(dims) if n > 1), key=lambda axis: strides[axis]))
    if all(condition == True for condition in _in_order(dims, strides, order)):  # noqa: E712  SymPy's true
        return order, Proved("each stride exceeds the reach of the smaller ones")
    pair = _collision(dims, strides)
    if pair is not None:
        return None, Refuted({}, _text(pair, strides))
    if math.prod(dims) > ENUMERATED:
        return None, Unknown(f"not proved one-to-one, and more than {ENUMERATED} elements to compare")
    return None, Proved(f"enumeration of {math.prod(dims)} elements")


def _text(pair: Pair, strides: Sequence[int]) -> str:
    position = sum(i * s for i, s in zip(pair[0], strides, strict=True))
    return f"the indices {show(pair[0])} and {show(pair[1])} are both at position {position}"


def _collision(dims: Sequence[int], strides: Sequence[int]) -> Pair | None:
    """Two indices with the same position: along two axes, or, for few elements, any."""
    rank = len(dims)
    for a in range(rank):
        for b in range(a + 1, rank):
            common = math.gcd(strides[a], strides[b])
            i, j = strides[b] // common, strides[a] // common
            if i < dims[a] and j < dims[b]:
                return _unit(rank, b, j), _unit(rank, a, i)
    if rank < 3 or math.prod(dims) > ENUMERATED:
        return None
    import numpy as np

    index = np.indices(dims, sparse=True)
    flat = np.broadcast_to(sum(i * s for i, s in zip(index, strides, strict=True)), dims).reshape(-1)
    order = np.argsort(flat, kind="stable")
    same = np.flatnonzero(flat[order][1:] == flat[order][:-1])
    if not same.size:
        return None
    one, other = (unflatten(int(order[same[0] + k]), dims) for k in (0, 1))
    return tuple(map(int, one)), tuple(map(int, other))


def _unit(rank: int, axis: int, value: int) -> tuple[int, ...]:
    return tuple(value if k == axis else 0 for k in range(rank))


def _sought(dims: Sequence[Size], strides: Sequence[Size]) -> Verdict:
    """Refuted by small sizes at which two indices collide, else Unknown."""
    symbols = [s for n in (*dims, *strides) for s in sorted(as_expr(n).free_symbols, key=str)]
    sizes = with_related(dict.fromkeys(symbols))
    few = [range(s.least, s.least + 4 * s.multiple_of, s.multiple_of) for s in sizes]
    for values in islice(product(*few), TRIED):
        chosen: dict[Any, int] = dict(zip(sizes, values, strict=True))
        if not admissible(chosen, {}):
            continue
        extents, steps = ([int(evaluate(as_expr(n), chosen)) for n in ns] for ns in (dims, strides))
        if min((*extents, *steps)) < 1 or math.prod(extents) > TRIED:
            continue
        pair = _collision(extents, steps)
        if pair is not None:
            shown = ", ".join(f"{s} = {value}" for s, value in chosen.items())
            return Refuted({str(s): v for s, v in chosen.items()}, f"for {shown}, {_text(pair, steps)}")
    return Unknown("the strides are not proved to be one-to-one")
