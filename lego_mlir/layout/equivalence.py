"""Equivalence of two layouts, element by element, and the strides of a layout.

Both verdicts are three-valued. Concrete layouts of up to 2**24 elements are compared element by element, others by
proof of their index expressions.

>>> from lego_mlir import Col, RegP, Row, TileBy
>>> TileBy([2, 2], [3, 3]).equivalent(Row(6, 6).tile_by([2, 2], [3, 3]))
Proved(by='enumeration of 36 elements')
>>> Row(2, 3).equivalent(RegP([2, 3], [2, 1])).explanation
'[0, 1] is at position 1 of Row(2, 3) and at position 2 of Col(2, 3)'
>>> Row(4, 6).tile_by([2, 3], [2, 2]).strides(), Col(4, 6).strides(), Row(4, 6).reshape(8, 3).strides()
((12, 2, 6, 1), (1, 4), (3, 1))
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lego_mlir.aliases import Array, Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size, is_static, unflatten
from lego_mlir.layout.chain import as_layout, same_number
from lego_mlir.layout.enumeration_limit import BLOCK, ENUMERATED
from lego_mlir.layout.values import show


def equivalent(a: Layout, b: Layout) -> Verdict:
    """Whether two layouts have the same logical sizes and put every element at the same position.

    With partial tiles both must have the same elements as well. Levels do not matter: `GroupBy([2, 2], [3, 3])`
    and `GroupBy([2, 2, 3, 3])` have the same sizes.
    """
    b = as_layout(b)
    if a == b:
        return Proved("the same layout")
    mine, others = a.dims(), b.dims()
    if len(mine) != len(others):
        return Refuted({}, f"the logical sizes differ: {show(mine)} and {show(others)}")
    for verdict in (same_number(n, m) for n, m in zip(mine, others, strict=True)):
        if isinstance(verdict, Refuted):
            return Refuted(verdict.counter_example, f"the logical sizes differ: {show(mine)} and {show(others)}")
        if isinstance(verdict, Unknown):
            return verdict
    for layout in (a, b):
        layout.require()
    elements = _box(a)
    if elements is not None and elements <= ENUMERATED:
        try:
            return _compare_all(a, b, elements)
        except LayoutError:
            pass  # a function that cannot handle arrays, and possibly no symbols either
    return _compare_by_proof(a, b)


def _box(layout: Layout) -> int | None:
    """The number of indices of a concrete box; None for a symbolic one."""
    if not is_static(layout.dims()):
        return None
    elements = 1
    for n in layout.dims():
        elements *= int(n)
    return elements


def _blocks(layout: Layout, elements: int) -> Iterator[tuple[Array, ...]]:
    for start in range(0, elements, BLOCK):
        yield unflatten(np.arange(start, min(start + BLOCK, elements)), layout.dims())


def _compare_all(a: Layout, b: Layout, elements: int) -> Verdict:
    for index in _blocks(a, elements):
        shape = index[0].shape
        here, there = (np.broadcast_to(layout.mask(*index), shape) for layout in (a, b))
        for layout, inside in ((a, here), (b, there)):
            only = inside & ~(there if layout is a else here)
            if only.any():
                at = tuple(int(i[int(only.argmax())]) for i in index)
                return Refuted({"index": at}, f"{show(at)} is an element of {layout!r} only")
        first, second = (np.broadcast_to(layout.apply(*index), shape) for layout in (a, b))
        wrong = (first != second) & here
        if wrong.any():
            k = int(wrong.argmax())
            at, positions = tuple(int(i[k]) for i in index), (int(first[k]), int(second[k]))
            return Refuted(
                {"index": at, "positions": positions},
                f"{show(at)} is at position {positions[0]} of {a!r} and at position {positions[1]} of {b!r}",
            )
    return Proved(f"enumeration of {elements} elements")


def _compare_by_proof(a: Layout, b: Layout) -> Verdict:
    from lego_mlir.expr.nodes import Eq
    from lego_mlir.expr.prove import prove

    index = tuple(index_symbol(f"i{axis}") for axis in range(len(a.dims())))
    ranges = a.ranges(*index)
    masks = [layout.mask(*index) for layout in (a, b)]
    if not all(mask is True for mask in masks) and as_expr_of(masks[0]) != as_expr_of(masks[1]):
        return Unknown("the conditions of partial tiles differ as expressions")
    positions = [as_expr(layout.apply(*index)) for layout in (a, b)]
    if positions[0] == positions[1]:
        return Proved("the same index expression")
    return prove(Eq(*positions), ranges)


def as_expr_of(mask: Cond) -> Cond:
    """A mask as an expression that compares by structure."""
    return getattr(mask, "expr", mask)


def strides(layout: Layout) -> tuple[Size, ...] | None:
    """The stride of each axis in elements; None unless constant strides are proved.

    An axis of one element has the stride 0. Positions are `apply(0, .., 0)` plus the strides times the index.
    """
    dims = layout.dims()
    origin = [0] * len(dims)
    try:
        start = layout.apply(*origin)
        found = tuple(
            0 if isinstance(n, int) and n == 1 else _step(layout, origin, axis, start) for axis, n in enumerate(dims)
        )
        return found if isinstance(_is_affine(layout, start, found), Proved) else None
    except LayoutError:  # such as a function that handles no symbols, or an index past the end of a partial tile
        if isinstance(layout.check(), Refuted):
            raise
        return None


def _step(layout: Layout, origin: list[int], axis: int, start: IndexLike) -> Size:
    unit = [*origin]
    unit[axis] = 1
    step = layout.apply(*unit) - start
    if isinstance(step, Index):
        from lego_mlir.expr.simplify import simplify

        step = Index(simplify(step.expr, {}).expr)
        return int(step.expr) if step.expr.is_Integer else step
    return step


def _is_affine(layout: Layout, start: IndexLike, steps: tuple[Size, ...]) -> Verdict:
    elements = _box(layout)
    if elements is not None and elements <= ENUMERATED:
        for index in _blocks(layout, elements):
            inside = np.broadcast_to(layout.mask(*index), index[0].shape)
            expected = start + sum(i * step for i, step in zip(index, steps, strict=True))
            if bool(((layout.apply(*index) != expected) & inside).any()):
                return Refuted({}, "the distance changes")
        return Proved(f"enumeration of {elements} elements")
    from lego_mlir.expr.nodes import Eq
    from lego_mlir.expr.prove import prove

    symbols = tuple(index_symbol(f"i{axis}") for axis in range(len(steps)))
    expected = as_expr(start) + sum(as_expr(s) * as_expr(step) for s, step in zip(symbols, steps, strict=True))
    return prove(Eq(as_expr(layout.apply(*symbols)), expected), layout.ranges(*symbols))
