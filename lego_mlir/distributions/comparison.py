"""Comparison of two distributions; a refutation names one element and the two places that disagree.

>>> from lego_mlir import Col, Row
>>> from lego_mlir.distributions import PlacedLayout
>>> a, b = (PlacedLayout(layout, {"rank": 2, "offset": 3}) for layout in (Row(2, 3), Col(2, 3)))
>>> a.equivalent(b).explanation
'[0, 1] is at rank=0 offset=1 of the first and at rank=0 offset=2 of the second'
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.distributions.base import Distribution, _shown
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import all_of
from lego_mlir.layout.canonical import Size, is_static, product, unflatten
from lego_mlir.layout.chain import same_number
from lego_mlir.layout.enumeration_limit import ENUMERATED
from lego_mlir.layout.values import show


def equivalent(a: Distribution, b: Distribution) -> Verdict:
    """Whether both have the same shape and axes, and the same places for each element, whichever copy is where.

    Concrete ones are compared place by place up to 2**24; others by proof, copy by copy.
    """
    if a == b:
        return Proved("the same distribution")
    if list(a.axes) != list(b.axes) or len(a.shape) != len(b.shape):
        return Refuted({}, f"the first has the axes {list(a.axes)}, the second {list(b.axes)}")
    pairs = [*zip(a.shape, b.shape, strict=True), *zip(a.axes.values(), b.axes.values(), strict=True)]
    sizes = all_of([same_number(n, m) for n, m in pairs])
    if isinstance(sizes, Refuted):
        return Refuted({}, f"the sizes differ: {show(a.shape)} at {a.axes} and {show(b.shape)} at {b.axes}")
    kinds = [{c.combined for c in d.copies} - {None} for d in (a, b)]
    if kinds[0] != kinds[1]:
        return Refuted({}, "one holds parts of a sum where the other holds elements")
    static = is_static([*a.shape, *a.axes.values(), *(c.size for d in (a, b) for c in d.copies)])
    if static and product([*a.axes.values()]) <= ENUMERATED:
        return _enumerated(a, b)
    return _proved(a, b)


def _enumerated(a: Distribution, b: Distribution) -> Verdict:
    places = int(product([*a.axes.values()]))
    at = unflatten(np.arange(places), [*a.axes.values()])
    numbers = [_numbers(d, at, places) for d in (a, b)]
    wrong = numbers[0] != numbers[1]
    if not wrong.any():
        return Proved(f"enumeration of {places} places")
    held = np.where(numbers[0] >= 0, numbers[0], numbers[1])
    element = int(held[wrong].min())
    index = tuple(int(i) for i in unflatten(element, a.shape))
    first, second = (d.apply(*index) for d in (a, b))
    here = next((p for p in first if p not in second), first[0])
    there = next((p for p in second if p not in first), second[0])
    return Refuted(
        {"index": index, "places": (here, there)},
        f"{show(index)} is at {_shown(here)} of the first and at {_shown(there)} of the second",
    )


def _numbers(d: Distribution, at: Sequence[IndexLike], places: int) -> IndexLike:
    """The row-major number of the element at each place, -1 for none."""
    held = np.broadcast_to(d._holds(tuple(at)), (places,))
    chosen = tuple(np.broadcast_to(x, (places,))[held] for x in at)
    number = np.full(places, -1)
    flat: IndexLike = 0
    for i, n in zip(d._element(chosen)[0], d.shape, strict=True):
        flat = flat * n + i
    number[held] = flat
    return number


def _proved(a: Distribution, b: Distribution) -> Verdict:
    from lego_mlir.expr.nodes import Eq
    from lego_mlir.expr.prove import prove

    if len(a.copies) != len(b.copies):
        return Unknown("copies of symbolic distributions are compared one by one, and their numbers differ")
    sizes: list[Size] = [*a.shape, *(c.size for c in a.copies)]
    names = [index_symbol(f"i[{k}]") for k in range(len(sizes))]
    ranges: dict[Expr, Range] = {i.expr: Range(0, as_expr(n)) for i, n in zip(names, sizes, strict=True)}
    index, copy = tuple(names[: len(a.shape)]), tuple(names[len(a.shape) :])
    for here, there in zip(a._place(index, copy), b._place(index, copy), strict=True):
        verdict = prove(Eq(as_expr(here), as_expr(there)), ranges)
        if isinstance(verdict, Refuted):
            return Refuted(verdict.counter_example, f"the places differ for {dict(verdict.counter_example)}")
        if isinstance(verdict, Unknown):
            return verdict
    return Proved("equal places by proof")
