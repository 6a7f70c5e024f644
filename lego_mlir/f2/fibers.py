"""Fibers of a reduction along an axis: the places that combine in registers, then lanes, then warps.

A place, that is register, lane and warp, holds an element; P is its part off the axis, A its part along it. Lanes l and
l ^ d hold parts of one sum if P(d) is 0, or the P of some register. The elements that a thread has combined so far are
a coset of a linear space along the axis, F: the other lane's coset is equal, which makes it a copy that must not count
twice, or disjoint, which is one shuffle and makes F larger.

>>> from lego_mlir.f2.linear import LinearLayout
>>> L = LinearLayout({"register": [(0, 1)], "lane": [(0, 2), (1, 0)], "warp": [(0, 4)]}, {"dim0": 2, "dim1": 8})
>>> fibers = Fibers(L, 1)
>>> fibers.in_registers([(1,), (2,)], lambda a, b: (a[0] + b[0],))
{0: (3,)}
>>> list(fibers.across("lane")), fibers.missing
([(1, 0)], 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from lego_mlir.f2 import shape_ops
from lego_mlir.f2.boxed import shape_of_box
from lego_mlir.f2.dims import offsets, split
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import Echelon, complement, independent, solve
from lego_mlir.f2.matrix import combine as combined

Values: TypeAlias = tuple[Any, ...]
"""One element, or an element with its index."""
Combine: TypeAlias = Callable[[Values, Values], Values]
FEWEST_STEPS: Final = 3
"""Exchanges between lanes from which on one reduction of the whole warp takes fewer instructions."""


class Fibers:
    """The places of a layout whose elements differ along an axis only, and what a thread has combined of them."""

    def __init__(self, layout: LinearLayout, axis: int) -> None:
        self.layout, self.axis = layout, axis
        self.bits = layout.outs[axis][1]
        self._start = offsets(layout.outs)[axis]
        self._combined: list[int] = []  # independent vectors along the axis: F
        self._registers = layout.columns_of("register")

    def _along(self, flat: int) -> int:
        return flat >> self._start & ((1 << self.bits) - 1)

    def _off(self, flat: int) -> int:
        return flat & ~(((1 << self.bits) - 1) << self._start)

    @property
    def missing(self) -> int:
        """The number of bits of the axis that are not combined yet."""
        return self.bits - len(self._combined)

    @property
    def is_of_warp(self) -> bool:
        """Whether all lanes of a warp hold elements of the same fibers."""
        return not any(map(self._off, self.layout.columns_of("lane")))

    def in_registers(self, values: Sequence[Values], combine: Combine) -> dict[int, Values]:
        """The values of a thread combined, by the part of their elements off the axis."""
        groups: dict[int, dict[int, Values]] = {}
        for register, value in enumerate(values):
            if value[0] is None:
                continue  # outside of the box
            element = combined(self._registers, register)
            groups.setdefault(self._off(element), {}).setdefault(self._along(element), value)
        for element in groups[0]:
            self._join(element)
        return {p: pairwise(list(group.values()), combine) for p, group in groups.items()}

    def count_in_registers(self) -> int:
        """The number of parts off the axis that a thread has, its registers taken as combined; all are made.

        As `len(in_registers(..))`, by the rank of the registers.
        """
        off = Echelon()
        for column in self._registers:
            found = off.add(self._off(column))
            if found:
                self._join(self._along(combined(self._registers, found)))
        return 1 << off.rank

    def across(self, place: str) -> Iterator[tuple[int, int]]:
        """Distances between lanes whose cosets are disjoint, each with the register part that is exchanged there."""
        columns = (*self._registers, *self.layout.columns_of(place))
        echelon = Echelon(map(self._off, self._registers))
        for column in columns[len(self._registers) :]:
            found = echelon.add(self._off(column))
            if found and self._join(self._along(combined(columns, found))):
                registers = found & ((1 << len(self._registers)) - 1)
                yield found >> len(self._registers), self._off(combined(self._registers, registers))

    def _join(self, vector: int) -> bool:
        """Add a vector to F; whether it was not in it."""
        new = bool(independent([vector], self._combined))
        if new:
            self._combined.append(vector)
        return new

    def of_result(self) -> list[int]:
        """For each register of the result the part of its element off the axis."""
        columns = [self._off(column) for column in self._registers if self._off(column)]
        return [combined(columns, register) for register in range(1 << len(columns))]

    @property
    def parts(self) -> list[int]:
        """The numbers of the cosets that have elements: those of warps outside of a box have none."""
        others, size = complement(self._combined, self.bits), shape_of_box(self.layout)[self.axis]
        return [p for p in range(1 << len(others)) if combined(others, p) & -(size & -size) < size]

    def partial(self, result: LinearLayout) -> LinearLayout:
        """The layout of the partial results: that of the result, with the number of the coset as a new last axis."""
        basis = (*self._combined, *complement(self._combined, self.bits))

        def place(column: int) -> tuple[int, ...]:
            (found,) = solve(basis, [self._along(column)])
            assert found is not None
            rest = [c for k, c in enumerate(split(column, self.layout.outs)) if k != self.axis]
            return (*rest, found >> len(self._combined))

        bases = {
            name: [place(column) for column in self.layout.columns_of(name) if name != "register" or self._off(column)]
            for name in ("register", "lane", "warp")
        }
        names = shape_ops.standard_dims(len(result.outs) + 1)
        return LinearLayout(bases, dict(zip(names, (*result.out_sizes.values(), 1 << self.missing), strict=True)))


def gathered_parts(partial: LinearLayout, result: LinearLayout) -> LinearLayout:
    """The layout of the partial results in which a thread holds all parts of its elements, in the low registers."""
    *outs, (_, bits) = partial.outs
    places = {name: [(*basis, 0) for basis in images] for name, images in result.bases.items()}
    ones = [(*[0] * len(outs), 1 << k) for k in range(bits)]
    places["register"] = ones + places["register"]
    return LinearLayout(places, partial.out_sizes)


def pairwise(values: Sequence[Values], combine: Combine) -> Values:
    """Values combined as a balanced tree: short chains, and errors of float sums that grow with the logarithm."""
    while len(values) > 1:
        pairs = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = [*pairs, *values[2 * len(pairs) :]]
    return values[0]
