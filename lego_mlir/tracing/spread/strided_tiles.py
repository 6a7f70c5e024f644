"""The accesses of a tile in strided memory, planned once for all registers.

In memory with a stride for each dimension the position of a register is that of the thread's first element plus a
constant of the register: position(at + thread + c) = position(at + thread) + stride . c. So what depends on the thread
is derived and proved once:

    contiguous   registers whose constants have the offsets 0, 1, 2, .. from each other, along any axis or across axes
    aligned      the first position is a multiple of the width, and so is every other register's offset
    inside       for each axis and each constant along it: proved, or a condition of the mask

The element at an index may be masked in each axis. Elements under one access must have one mask: the width divides the
first index and the size of an axis along which the access extends, or the whole tile is proved to be inside there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import sympy

from lego_mlir.aliases import Cond, Expr
from lego_mlir.expr.cost import operations
from lego_mlir.expr.index import Index, as_condition, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import Derivation, simplify
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.boxed import whole_bits
from lego_mlir.f2.dims import split
from lego_mlir.f2.matrix import Echelon, bits_of
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.layout.base import Layout
from lego_mlir.layout.contiguity import aligned
from lego_mlir.layout.named_maps import position_formula
from lego_mlir.layout.tiled import Tiled
from lego_mlir.tracing.spread.coordinates import ThreadElements
from lego_mlir.tracing.trace.trace import TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.tensor import View

_AXES: Final = [sympy.Symbol(f"axis{k}", integer=True) for k in range(8)]


@lru_cache(maxsize=256)
def strides(layout: Layout) -> tuple[Expr, ...] | None:
    """The stride of each dimension, if the position is linear in the index and every index names an element."""
    dims = [as_expr(n) for n in layout.dims()]
    axes = _AXES[: len(dims)]
    if len(axes) < len(dims) or isinstance(layout, Tiled) or not layout._regular():
        return None
    if as_condition(layout.mask(*map(Index, axes))) != True:  # noqa: E712  SymPy's true is not Python's
        return None
    ranges = {axis: Range(0, int(n) if n.is_Integer else n) for axis, n in zip(axes, dims, strict=True)}
    position = sympy.expand(simplify(position_formula(layout, axes), ranges).expr)
    found = tuple(position.coeff(axis) for axis in axes)
    rest = sympy.expand(position - sum(s * axis for s, axis in zip(found, axes, strict=True)))
    return None if any(part.free_symbols & set(axes) for part in (*found, rest)) else found


class StridedTile:
    """A tile of a view whose layout has these strides."""

    def __init__(
        self, tracer: Tracer, view: View, at: Sequence[Index], elements: ThreadElements, steps: Sequence[Expr]
    ) -> None:
        self.tracer, self.view, self.elements, self.steps = tracer, view, elements, steps
        self.at = tuple(map(tracer.index, at))
        self.outer = len(self.at) - len(elements.layout.outs)

    def accesses(self, registers: Sequence[int]) -> Iterator[tuple[list[int], TensorAccess]]:
        """The registers in groups, each with the access of its elements, in order."""
        by_offset = {self.elements.offset(register): register for register in registers}
        support = self.elements.support
        for shared in dict.fromkeys(offset & support for offset in by_offset):
            constants = {o & ~support: r for o, r in by_offset.items() if o & support == shared}
            start = _Start(self, self.elements.base(shared), constants)
            run = start.run()
            for constant in constants:
                if not constant & sum(run):
                    offsets = [constant | selected(i, run) for i in range(1 << len(run))]
                    yield [constants[offset] for offset in offsets], start.access(offsets)

    def coordinates(self, constant: int) -> list[int]:
        """The constant of a register along each dimension of the view."""
        return [0] * self.outer + list(split(constant, self.elements.layout.outs))

    def offset(self, constant: int) -> Expr:
        """The distance in memory of an element from the thread's first."""
        return sum((s * c for s, c in zip(self.steps, self.coordinates(constant), strict=True)), sympy.Integer(0))


class _Start:
    """The first element of a thread, and the registers at constant distances from it."""

    def __init__(self, tile: StridedTile, base: Sequence[Index], constants: Mapping[int, int]) -> None:
        self.tile, self.tracer, self.constants = tile, tile.tracer, constants
        inner = [a + as_expr(b) for a, b in zip(tile.at[tile.outer :], base, strict=True)]
        self.index = tuple(map(tile.tracer.index, (*tile.at[: tile.outer], *inner)))
        self.dims = [as_expr(n) for n in tile.view.layout.dims()]
        self.derivation = self.tracer.derive(self._position())
        self.tracer.require_divisors(self.derivation.raw)
        places = [tile.coordinates(constant) for constant in constants]
        self.most = [max(place[axis] for place in places) for axis in range(len(self.dims))]
        self._conditions: dict[tuple[int, int], Cond] = {}

    def _position(self) -> Expr:
        """The position of the first element; beyond the ends of the memory its strides go on."""
        beyond = [i.is_Integer and (Le(0, i) & Lt(i, n)) == False for i, n in zip(self.index, self.dims, strict=True)]  # noqa: E712
        inside = [sympy.Integer(0) if outside else i for i, outside in zip(self.index, beyond, strict=True)]
        position = position_formula(self.tile.view.layout, inside)
        return sum(
            (s * i for s, i, outside in zip(self.tile.steps, self.index, beyond, strict=True) if outside), position
        )

    def access(self, constants: Sequence[int]) -> TensorAccess:
        """The access of the elements at these constants."""
        tile, width = self.tile, len(constants)
        place = tile.coordinates(constants[0])
        mask = sympy.And(*(self._condition(axis, c) for axis, c in enumerate(place)))
        index = tuple(i + c for i, c in zip(self.index, place, strict=True))
        view = tile.view
        position, axis = moved(self.derivation, tile.offset(constants[0])), tile.elements.axis_of(constants)
        return TensorAccess(view.buffer, view.layout, index, mask, position, width, self.tracer.here(), axis=axis)

    def run(self) -> list[int]:
        """The bits of consecutive elements in memory that registers hold and that one access may take: 1, 2, 4, .."""
        first = next(iter(self.constants))
        held = Echelon(constant ^ first for constant in self.constants)
        layout, support = self.tile.elements.layout, self.tile.elements.support
        free = whole_bits(layout) & ~support
        bits = [1 << k for k in range(layout.out_bits) if free >> k & 1 and 1 << k in held]
        by_distance = {self.tile.offset(bit): bit for bit in bits}
        run: list[int] = []
        while 2 << len(run) <= WIDEST_ACCESS // self.tile.view.dtype.bytes and 1 << len(run) in by_distance:
            run.append(by_distance[sympy.Integer(1 << len(run))])
        while run and not (self._is_aligned(run) and self._has_one_mask(run)):
            run.pop()
        return run

    def _is_aligned(self, run: Sequence[int]) -> bool:
        """Whether the first element, and the others at a distance from it, are at multiples of the width."""
        width, used = 1 << len(run), 0
        for constant in self.constants:
            used |= constant
        distances = {self.tile.offset(1 << bit) for bit in bits_of(used & ~sum(run))}
        return all(self._proved(aligned(d, width)) for d in (self.derivation.expr, *distances))

    def _has_one_mask(self, run: Sequence[int]) -> bool:
        """Whether the elements of an access are inside together, for each axis along which it extends."""
        extents = self.tile.coordinates(sum(run))
        return all(
            self._all_inside(axis) or (extent & (extent + 1) == 0 and self._divides(axis, extent + 1))
            for axis, extent in enumerate(extents)
            if extent
        )

    def _divides(self, axis: int, width: int) -> bool:
        first, end = (Eq(FloorMod(value, width), 0) for value in (self.index[axis], self.dims[axis]))
        return self._proved(first) and self._proved(end)

    def _all_inside(self, axis: int) -> bool:
        return self._condition(axis, 0) == True and self._condition(axis, self.most[axis]) == True  # noqa: E712

    def _condition(self, axis: int, constant: int) -> Cond:
        """The condition under which the index is inside an axis, without what is proved."""
        if (axis, constant) not in self._conditions:
            here, size = self.index[axis] + constant, self.dims[axis]
            claims = [Le(0, here), Lt(here, size)]
            if constant and self._condition(axis, 0) == True:  # noqa: E712  and then every constant is above 0
                claims = claims[1:]
            open_claims = [self.tracer.simplified(claim) for claim in claims if not self._proved(claim)]
            self._conditions[axis, constant] = sympy.And(*open_claims)
        return self._conditions[axis, constant]

    def _proved(self, claim: Cond) -> bool:
        return isinstance(self.tracer.prove(claim), Proved)


def moved(first: Derivation, offset: Expr) -> Derivation:
    """The derivation of a position at a distance from one that is derived."""
    if offset == 0:
        return first
    position = first.expr + offset
    count = operations(position, shared=True)
    return replace(first, raw=position, expr=position, before=count, after=count)


def selected(number: int, bits: Sequence[int]) -> int:
    """The sum of the bits that a number chooses."""
    return sum(bit for k, bit in enumerate(bits) if number >> k & 1)
