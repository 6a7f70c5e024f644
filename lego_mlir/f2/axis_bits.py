"""Bits of an axis: the bit of a register, lane or warp that is each bit of the index.

Algorithms along an axis, such as scans and sorts, exchange elements whose indices differ in one bit. Where every bit of
the axis belongs to one bit of a place that changes nothing else, the other element is in another register, in the lane
at a distance, or in another warp:

>>> from lego_mlir import f2
>>> layout = f2.Blocked((1, 2), (4, 8), (2, 1), order=(1, 0)).layout((8, 32))
>>> [f"{bit.place} {bit.mask}" for bit in axis_bits(layout, 1).each]
['register 1', 'lane 1', 'lane 2', 'lane 4', 'register 2']

Other layouts, with bits of the axis that several places share, are converted to `blocked_along` first.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir.f2.dims import offsets
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.limits import WARP

_PLACES = ("register", "lane", "warp")


@dataclass(frozen=True, slots=True)
class AxisBit:
    """The bit `mask` of a place is the bit `level` of the index along the axis, and of no other coordinate."""

    place: str
    mask: int
    level: int


@dataclass(frozen=True, slots=True)
class AxisBits:
    """The bits of an axis from the lowest level on, and the first bit of the axis in a flat element."""

    each: tuple[AxisBit, ...]
    start: int

    def along(self, element: int) -> int:
        """The index along the axis."""
        return element >> self.start & ((1 << len(self.each)) - 1)

    def off(self, element: int) -> int:
        """The other coordinates."""
        return element & ~(((1 << len(self.each)) - 1) << self.start)


def axis_bits(layout: LinearLayout, axis: int) -> AxisBits | None:
    """The bits of an axis; None where one is shared by several places, or moves along another axis too."""
    start, count = offsets(layout.outs)[axis], layout.outs[axis][1]
    found = AxisBits(tuple(AxisBit("register", 0, level) for level in range(count)), start)
    bits: dict[int, AxisBit] = {}
    for place in _PLACES:
        for number, column in enumerate(layout.columns_of(place)):
            along = found.along(column)
            if not along:
                continue
            level = along.bit_length() - 1
            if along & (along - 1) or found.off(column) or level in bits:
                return None
            bits[level] = AxisBit(place, 1 << number, level)
    return AxisBits(tuple(bits[level] for level in range(count)), start)


def blocked_along(layout: LinearLayout, axis: int) -> LinearLayout:
    """A layout of the same sizes for as many threads, without shared bits: warps off the axis, lanes on it."""
    start, count = offsets(layout.outs)[axis], layout.outs[axis][1]
    total = sum(bits for _, bits in layout.outs)
    along = [1 << start + k for k in range(count)]
    off = [1 << k for k in range(total) if not start <= k < start + count]
    places: dict[str, list[int]] = {}
    for place, order in (("warp", (off, along)), ("lane", (along, off))):
        wanted = len(layout.columns_of(place))
        taken: list[int] = []
        for source in order:
            taken = [source.pop() for _ in range(min(wanted - len(taken), len(source)))][::-1] + taken
        places[place] = taken + [0] * (wanted - len(taken))
    places["register"] = along + off
    assert len(places["lane"]) == WARP.bit_length() - 1
    ins = tuple((place, len(places[place])) for place in _PLACES)
    return LinearLayout.of(ins, layout.outs, [column for place in _PLACES for column in places[place]])


def resized(layout: LinearLayout, axis: int, size: int) -> LinearLayout:
    """The layout with another size of an axis: what is further is in registers, places beyond the end hold copies."""
    old = 1 << layout.outs[axis][1]
    if size == old:
        return layout
    bases = {
        name: [tuple(v % size if k == axis else v for k, v in enumerate(basis)) for basis in found]
        for name, found in layout.bases.items()
    }
    further = [1 << k for k in range(old.bit_length() - 1, size.bit_length() - 1)]
    units = [tuple(v if k == axis else 0 for k in range(len(layout.outs))) for v in further]
    bases["register"] = [*bases["register"], *units]
    sizes = {name: size if k == axis else n for k, (name, n) in enumerate(layout.out_sizes.items())}
    return LinearLayout(bases, sizes)
