"""Layouts of the algebra as stored fields: chains of regular permutations are digits and strides, exactly.

The logical box is a row of digits, one for each axis. Every reordering of the chain cuts them where its own sizes begin
and permutes them, so the row at the end is the order in memory. No element is enumerated.

>>> from lego_mlir import Col, OrderBy, RegP, gallery
>>> tiles = OrderBy(RegP([2, 16, 2, 2, 16], [1, 3, 4, 2, 5])).GroupBy([32, 64])
>>> f = field_of(tiles, "e4m3")
>>> f.bit(17, 33) // 8 == tiles.apply(17, 33), field_of(gallery.morton(8, 8), "f32")
(True, None)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.formats.stored_fields import BITS, PlaceDigit, StoredField
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import is_static
from lego_mlir.layout.chain import GroupBy, OrderBy, as_layout
from lego_mlir.layout.permutations import RegP
from lego_mlir.layout.strided import Strided


@dataclass(frozen=True, slots=True)
class _AxisDigit:
    """A digit of a logical axis; `weight` is the step of the axis from one value to the next."""

    size: int
    axis: int
    weight: int


def field_of(layout: Layout, dtype: str, name: str = "weight") -> StoredField | None:
    """The field of elements at a layout's positions; None unless its chain is regular and its sizes are known."""
    layout, bits = as_layout(layout), BITS[dtype]
    if not is_static(layout.dims()):
        return None
    sizes = [int(n) for n in layout.dims()]
    if isinstance(layout, Strided):
        steps = zip(sizes, layout.strides(), strict=True)
        return StoredField(name, dtype, tuple((PlaceDigit(n, bits * int(s)),) for n, s in steps), 0, "data")
    orders = layout.orders if isinstance(layout, GroupBy) else (layout,) if isinstance(layout, OrderBy) else None
    if orders is None:
        return None
    digits: list[_AxisDigit] | None = [_AxisDigit(n, axis, 1) for axis, n in enumerate(sizes)]
    for order in reversed(orders):
        digits = None if digits is None else _reordered(digits, order)
    if digits is None:
        return None
    found: list[list[tuple[int, PlaceDigit]]] = [[] for _ in sizes]
    stride = bits
    for digit in reversed(digits):
        found[digit.axis].append((digit.weight, PlaceDigit(digit.size, stride)))
        stride *= digit.size
    axes = [tuple(d for _, d in sorted(axis, key=lambda pair: -pair[0])) for axis in found]
    return StoredField(name, dtype, tuple(axes), 0, "data")


def _reordered(digits: Sequence[_AxisDigit], order: OrderBy) -> list[_AxisDigit] | None:
    """The digits after one reordering; None if it cuts a digit where it does not divide, or is not regular."""
    left, found = list(digits), []
    for perm in order.perms:
        if not isinstance(perm, RegP):
            return None
        axes = []
        for n in perm.dims():
            taken = _take(left, int(n))
            if taken is None:
                return None
            axes.append(taken)
        found += [digit for axis in perm.sigma for digit in axes[axis - 1]]
    return found


def _take(digits: list[_AxisDigit], size: int) -> list[_AxisDigit] | None:
    """Remove the outermost digits of this size, cutting the last of them."""
    taken = []
    while size > 1:
        if not digits:
            return None
        first = digits.pop(0)
        if size % first.size == 0:
            taken.append(first)
            size //= first.size
        elif first.size % size == 0:
            rest = first.size // size
            taken.append(_AxisDigit(size, first.axis, first.weight * rest))
            digits.insert(0, _AxisDigit(rest, first.axis, first.weight))
            size = 1
        else:
            return None
    return taken
