"""The bytes of a matrix whose elements are narrower than a byte: a layout of bits, as one of bytes.

Elements of 4 or 6 bits lie in memory without gaps: element p begins at bit `bits * p`, that is in byte `bits * p // 8`,
after `bits * p % 8` bits of it, low bits first. The least number of elements that fill whole bytes is a *unit*: 2 of 4
bits in a byte, 4 of 6 bits in 3 bytes. Where the elements of every unit are neighbours along one axis of the matrix,
the bytes are a matrix too, in which that axis counts bytes. `PackedBytes` is its layout, a bijection as any other, so
that bounds, masks, alignment and races of packed elements are claims about bytes.

>>> from lego_mlir.layout import Col, Row
>>> w = PackedBytes(Row(3, 8), 4)
>>> w.dims(), w.apply(1, 3), w.inv(7)
((3, 4), 7, (1, 3))
>>> PackedBytes(Row(3, 8), 6).dims(), PackedBytes(Col(8, 3), 4).dims()
((3, 6), (4, 3))
"""

from __future__ import annotations

from collections.abc import Hashable
from math import gcd
from typing import Final

import sympy

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_condition, as_expr
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.layout.base import Layout, all_of
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.chain import as_layout
from lego_mlir.layout.contiguity import aligned, contiguous
from lego_mlir.layout.values import end_of

BYTE: Final = 8


class PackedBytes(Layout):
    """The bytes of the elements that `inner` places, of `bits` bits each; the axis of a unit is the last possible one.

    Raises LayoutError where no axis is proved to have the elements of every unit next to each other.
    """

    __slots__ = ("_packed", "axis", "bits", "inner")
    inner: Layout
    bits: int
    axis: int
    _packed: Verdict

    def __init__(self, inner: Layout, bits: int) -> None:
        inner = as_layout(inner)
        self._set(inner=inner, bits=bits)
        for axis in reversed(range(len(inner.dims()))):
            self._set(axis=axis, _packed=_neighbours(inner, axis, self.unit))
            if isinstance(self._packed, Proved):
                return
        raise LayoutError(
            f"{inner!r} of {bits} bits: {self.unit} elements fill {self.unit_bytes} bytes, and along no axis are "
            f"0 .. {self.unit - 1}, {self.unit} .. of it proved to be neighbours in memory from a multiple of "
            f"{self.unit} on; let the size of the contiguous axis be one, as of lego.size('N', multiple_of={self.unit})"
        )

    @property
    def unit(self) -> int:
        """The elements of a unit."""
        return BYTE // gcd(BYTE, self.bits)

    @property
    def unit_bytes(self) -> int:
        """The bytes of a unit."""
        return self.unit * self.bits // BYTE

    def _arguments(self) -> tuple[object, ...]:
        return self.inner, self.bits

    def dims(self) -> tuple[Size, ...]:
        return tuple(self._bytes(n) if axis == self.axis else n for axis, n in enumerate(self.inner.dims()))

    def _bytes(self, elements: Size) -> Size:
        """The bytes of a multiple of `unit` elements."""
        return elements // self.unit * self.unit_bytes

    def numel(self) -> Size:
        return self._bytes(self.inner.numel())

    def physical_size(self) -> Size:
        return self._bytes(self.inner.physical_size())

    def _first(self, index: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        """The index of the first element of a byte's unit."""
        return tuple(i // self.unit_bytes * self.unit if axis == self.axis else i for axis, i in enumerate(index))

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        return self._bytes(self.inner._apply(self._first(index))) + index[self.axis] % self.unit_bytes

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        first = self.inner._inv(self._element(position))
        inside = position % self.unit_bytes
        return tuple(self._bytes(i) + inside if axis == self.axis else i for axis, i in enumerate(first))

    def _element(self, position: IndexLike) -> IndexLike:
        """The position of the first element of a byte's unit."""
        return position // self.unit_bytes * self.unit

    def _mask(self, index: tuple[IndexLike, ...]) -> Cond:
        return self.inner._mask(self._first(index))

    def _holds(self, position: IndexLike) -> Cond:
        return self.inner._holds(self._element(position))

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        return self.inner._past_the_end(tuple(map(int, self._first(index))))

    def _regular(self) -> bool:
        return self.inner._regular()

    def check(self) -> Verdict:
        return all_of([self._packed, self.inner.check()])

    def _key(self) -> tuple[Hashable, ...]:
        return ("PackedBytes", self.inner, self.bits)

    def __repr__(self) -> str:
        return f"PackedBytes({self.inner!r}, {self.bits})"


def _neighbours(inner: Layout, axis: int, unit: int) -> Verdict:
    """Whether elements k*unit .. k*unit + unit-1 along an axis are neighbours, aligned, under one mask."""
    if unit == 1:
        return Proved("elements of whole bytes")
    names = [inner.fresh_symbol(f"i{k}") for k in range(len(inner.dims()))]
    within = inner.fresh_symbol("within")
    ranges = {as_expr(i): Range(0, end_of(n)) for i, n in zip(names, inner.dims(), strict=True)}
    ranges[as_expr(names[axis])] = Range(0, as_expr(inner.dims()[axis] // unit))
    ranges[as_expr(within)] = Range(0, unit)

    def element(offset: IndexLike) -> tuple[IndexLike, ...]:
        return tuple(i * unit + offset if k == axis else i for k, i in enumerate(names))

    first, there = (as_expr(inner._apply(element(offset))) for offset in (0, within))
    claims: list[Cond] = [aligned(as_expr(n), unit) for n in (inner.dims()[axis], inner.physical_size())]
    claims += [aligned(first, unit), contiguous(first, there, as_expr(within))]
    if inner.mask(*names) is not True:
        whole, each = (as_condition(inner._mask(element(offset))) for offset in (0, within))
        claims += [sympy.Or(sympy.Not(whole), each), sympy.Or(sympy.Not(each), whole)]
    return all_of([prove(claim, ranges) for claim in claims])
