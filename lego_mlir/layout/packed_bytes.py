"""The bytes of a matrix whose elements are narrower than a byte: a layout of bits, as one of bytes.

Elements of 4 or 6 bits lie in memory without gaps: element p begins at bit `bits * p`, that is in byte `bits * p // 8`,
after `bits * p % 8` bits of it, low bits first. Elements that fill whole bytes are a *unit*: at least 2 of 4 bits in a
byte, 4 of 6 bits in 3 bytes. Where every unit is some neighbours along one axis of the matrix, all in the same order,
the bytes are a matrix too, in which that axis counts bytes. In that order the first element may be the high one of its
byte, or eight of them be those of a word in the order of AWQ, 0 2 4 6 1 3 5 7. `PackedBytes` is their layout,
a bijection as any other, so that bounds, masks, alignment and races of packed elements are claims about bytes.

>>> from lego_mlir.layout import Col, Row
>>> w = PackedBytes(Row(3, 8), 4)
>>> w.dims(), w.apply(1, 3), w.inv(7)
((3, 4), 7, (1, 3))
>>> PackedBytes(Row(3, 8), 6).dims(), PackedBytes(Col(8, 3), 4).dims()
((3, 6), (4, 3))
>>> from lego_mlir import OrderBy, RegP
>>> awq = PackedBytes(OrderBy(RegP([3, 2, 4, 2], [1, 2, 4, 3])).GroupBy([3, 16]), 4)
>>> awq.unit, awq.slots, awq.dims()
(8, (0, 4, 1, 5, 2, 6, 3, 7), (3, 8))
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
NIBBLE: Final = 4


class PackedBytes(Layout):
    """The bytes of the elements that `inner` places, of `bits` bits each; the axis of a unit is the last possible one.

    `unit` elements fill `unit_bytes` bytes; number k along the axis is in slot `slots[k]` of them. Raises LayoutError
    where no axis is proved to have such units.
    """

    __slots__ = ("_packed", "axis", "bits", "inner", "slots")
    inner: Layout
    bits: int
    axis: int
    slots: tuple[int, ...]
    _packed: Verdict

    def __init__(self, inner: Layout, bits: int) -> None:
        inner, least = as_layout(inner), BYTE // gcd(BYTE, bits)
        self._set(inner=inner, bits=bits)
        for unit in dict.fromkeys((least, *((2, 4, 8) if bits == NIBBLE else ()))):
            for axis in reversed(range(len(inner.dims()))):
                slots = _slots(inner, axis, unit)
                self._set(axis=axis, slots=slots, _packed=_filled(inner, axis, slots))
                if isinstance(self._packed, Proved):
                    return
        raise LayoutError(
            f"{inner!r} of {bits} bits: {least} elements fill {least * bits // BYTE} bytes, and along no axis are "
            f"0 .. {least - 1}, {least} .. of it proved to be neighbours in memory from a multiple of {least} on; let "
            f"the size of the contiguous axis be one, as of lego.size('N', multiple_of={least})"
        )

    @property
    def unit(self) -> int:
        """The elements of a unit."""
        return len(self.slots)

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
        whole = BYTE // self.bits if BYTE % self.bits == 0 else 0
        return elements // whole if whole else elements // self.unit * self.unit_bytes

    def numel(self) -> Size:
        return self._bytes(self.inner.numel())

    def physical_size(self) -> Size:
        return self._bytes(self.inner.physical_size())

    def _first(self, index: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        """The index of the first element of a byte's unit."""
        return tuple(i // self.unit_bytes * self.unit if axis == self.axis else i for axis, i in enumerate(index))

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        first = self.inner._apply(self._first(index)) // self.unit * self.unit_bytes
        return first + index[self.axis] % self.unit_bytes

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        first = self.inner._inv(self._element(position))
        inside = position % self.unit_bytes
        return tuple(
            i // self.unit * self.unit_bytes + inside if axis == self.axis else i for axis, i in enumerate(first)
        )

    def _element(self, position: IndexLike) -> IndexLike:
        """The position of the first element of a byte's unit."""
        return position // self.unit_bytes * self.unit + self.slots[0]

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


def _slots(inner: Layout, axis: int, unit: int) -> tuple[int, ...]:
    """The order of the first unit in memory; that of the index where it is not known."""
    first = [as_expr(inner._apply(tuple(k if a == axis else 0 for a in range(len(inner.dims()))))) for k in range(unit)]
    slots = tuple(int(p) for p in first if p.is_Integer)
    return slots if sorted(slots) == list(range(unit)) else tuple(range(unit))


def _filled(inner: Layout, axis: int, slots: tuple[int, ...]) -> Verdict:
    """Whether elements k*unit .. k*unit + unit-1 along an axis fill bytes, in the order of `slots`, under one mask."""
    unit = len(slots)
    if unit == 1:
        return Proved("elements of whole bytes")
    names = [inner.fresh_symbol(f"i{k}") for k in range(len(inner.dims()))]
    ranges = {as_expr(i): Range(0, end_of(n)) for i, n in zip(names, inner.dims(), strict=True)}
    ranges[as_expr(names[axis])] = Range(0, as_expr(inner.dims()[axis] // unit))

    def element(offset: int) -> tuple[IndexLike, ...]:
        return tuple(i * unit + offset if k == axis else i for k, i in enumerate(names))

    claims: list[Cond] = [aligned(as_expr(n), unit) for n in (inner.dims()[axis], inner.physical_size())]
    claims.append(aligned(as_expr(inner._apply(element(0))) - slots[0], unit))
    masked = inner.mask(*names) is not True
    first = as_expr(inner._apply(element(0)))
    for offset in range(1, unit):
        there = as_expr(inner._apply(element(offset)))
        claims.append(contiguous(first, there, sympy.Integer(slots[offset] - slots[0])))
        if masked:
            whole, each = (as_condition(inner._mask(element(k))) for k in (0, offset))
            claims += [sympy.Or(sympy.Not(whole), each), sympy.Or(sympy.Not(each), whole)]
    return all_of([prove(claim, ranges) for claim in claims])
