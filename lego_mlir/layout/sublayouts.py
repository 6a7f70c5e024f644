"""A slice as a layout: a slice whose elements fill consecutive positions is itself a bijection.

A row of a row-major matrix is one, a column is not; a row of an exclusive-or swizzle is a permutation of its row.

>>> from lego_mlir import Row, gallery
>>> Row(4, 6)[2, :].as_layout(), Row(4, 6)[2, :].offset
(Row(6), 12)
>>> [gallery.xor_swizzle(4, 4)[1, :].as_layout().apply(j) for j in range(4)]
[1, 0, 3, 2]
>>> Row(4, 6)[:, 2].as_layout()
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: Row(4, 6)[:, 2] is not a layout: its 4 elements lie between the positions 2 and 20
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Array, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.canonical import Size, is_static, product
from lego_mlir.layout.chain import same_number
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.values import show

if TYPE_CHECKING:
    from lego_mlir.layout.slices import Slice


def sublayout(part: Slice) -> tuple[RegP | GenP, IndexLike]:
    """A slice as a permutation of its positions, and the first of them.

    Raises LayoutError unless they are proved to be consecutive.
    """
    if not is_static(part.shape) or not is_static(part.layout.dims()):
        return _by_strides(part)
    import numpy as np

    if part.mask is not True:
        raise LayoutError(f"{part.text} is not known to be a layout: not every index of it may name an element")
    positions = part.positions()
    first, last, elements = int(positions.min()), int(positions.max()), product(part.shape)
    if last - first + 1 != elements:
        raise LayoutError(
            f"{part.text} is not a layout: its {elements} elements lie between the positions {first} and {last}"
        )
    steps = [int(np.diff(positions, axis=axis).flat[0]) if n > 1 else 0 for axis, n in enumerate(part.shape)]
    grid: Array = np.indices(positions.shape)
    if (first + sum(i * s for i, s in zip(grid, steps, strict=True)) == positions).all():
        regular = _regular(part.shape, steps)
        if regular is not None:
            return regular, first
    return _general(part, first), first


def _regular(shape: Sequence[Size], steps: Sequence[Size]) -> RegP | None:
    """The `RegP` with these strides, if there is one. Axes of one element go outermost."""
    order: list[int] = []
    reach: Size = 1
    ones = [axis for axis, n in enumerate(shape) if isinstance(n, int) and n == 1]
    left = [axis for axis in range(len(shape)) if axis not in ones]
    while left:
        axis = next((a for a in left if _same(steps[a], reach)), None)
        if axis is None:
            return None
        left.remove(axis)
        order.insert(0, axis)
        reach = reach * shape[axis]
    return RegP(shape, [axis + 1 for axis in (*ones, *order)])


def _same(a: Size, b: Size) -> bool:
    return isinstance(same_number(a, b), Proved)


def _general(part: Slice, first: int) -> GenP:
    whole = part.layout

    def f(*at: IndexLike) -> IndexLike:
        return whole.apply(*part.at(*at)) - first

    def f_inv(p: IndexLike) -> tuple[IndexLike, ...]:
        index = whole.inv(p + first)
        return tuple((index[axis] - c.start) // c.step for axis, c in zip(part.axes, part.colons, strict=True))

    return GenP(part.shape, f, f_inv, text=f"{part.text}.as_layout()", identity=("slice", whole, part.text))


def _by_strides(part: Slice) -> tuple[RegP, IndexLike]:
    """A slice of symbolic sizes, from the strides of its layout."""
    if not all(colon.inside for colon in part.colons):
        raise LayoutError(f"{part.text} is not known to be a layout: it may reach past the end of its axis")
    strides = part.layout.strides()
    if strides is None:
        raise LayoutError(f"{part.text} is not known to be a layout: {part.layout!r} has no strides")
    steps = [strides[axis] * colon.step for axis, colon in zip(part.axes, part.colons, strict=True)]
    regular = _regular(part.shape, steps)
    if regular is None:
        raise LayoutError(
            f"{part.text} is not known to be a layout: the strides {show(steps)} of the sizes {show(part.shape)} leave "
            "gaps"
        )
    return regular, part.layout.apply(*part.at(*[0] * len(part.colons)))
