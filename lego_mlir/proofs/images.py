"""Indices that pass through the maps of layouts: `b[curve.inv(p)]`. Their bijectivity is enough.

A map of a layout is a bijection, so for two of its values u, v at p and u', v' at p'

    p = p'    implies  u = u' and v = v'
    u = u' and v = v'  implies  p = p'

Each value is a variable of its range in the equations of a proof, and the formula of the map is not needed. For the
elements that are written: every (u, v) is the value at some p.

Outside 0 .. size - 1 a map has no value that proofs know. So each access is proved to have p inside, by conditions in
which no map occurs; otherwise formulas are used. They are as well if the kernel has other statements without them,
where a branch depends on the range of a map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import LegoError
from lego_mlir.expr.nodes import tables_of
from lego_mlir.expr.ranges import Range
from lego_mlir.layout.base import Layout
from lego_mlir.layout.naming import NamedMap, NamedMaps
from lego_mlir.layout.permutations import GenP
from lego_mlir.proofs.mixed_radix import is_primed, primed
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.trace.trace import KernelTrace, accesses_of

Maps: TypeAlias = Mapping[str, tuple[NamedMap, int]]
"""The map and the axis of its value that each name of a node has."""


@dataclass(frozen=True, slots=True)
class MapValue:
    """The value of a map at a number, a variable for each axis, or what has been derived of it."""

    map: NamedMap
    at: Expr
    values: tuple[Expr, ...]

    def xreplace(self, values: Mapping[Symbol, Expr]) -> MapValue:
        """The image with variables replaced."""
        return replace(self, at=self.at.xreplace(values), values=tuple(v.xreplace(values) for v in self.values))

    def ranges(self) -> Iterator[tuple[Symbol, Range]]:
        """The range of each variable."""
        for value, n in zip(self.values, self.map.extents, strict=True):
            yield value, Range(0, n)


def named_trace(kernel: Kernel) -> tuple[KernelTrace, Maps] | None:
    """The kernel with names for the maps that it calls; None if it calls none, or has other statements without them."""
    plain = kernel.trace()
    if not plain.maps:
        return None
    names = NamedMaps()
    try:
        trace = kernel.trace_with_names(names)
    except LegoError:  # for example of a vector that is not proved to be aligned
        return None
    if not names.maps or _shape(trace) != _shape(plain):
        return None
    return trace, names.maps


def _shape(trace: KernelTrace) -> list[object]:
    """What both traces have in common: the kinds of statements, and which accesses are never made."""
    return [
        (type(statement), statement.source, [access.mask == False for access in accesses_of(statement)])  # noqa: E712
        for statement in trace.statements()
    ]


def by_formulas_first(trace: KernelTrace) -> bool:
    """Whether all maps that a kernel calls are arithmetic on axes, which proofs split into digits."""
    return not any(map(_is_general, trace.maps))


def _is_general(layout: Layout) -> bool:
    parts = [layout]
    while parts:
        part = parts.pop()
        if isinstance(part, GenP):
            return True
        for slot in (name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())):
            held = getattr(part, slot, None)
            parts += [p for p in (held if isinstance(held, tuple) else (held,)) if isinstance(p, Layout)]
    return False


def with_variables(exprs: Sequence[Expr], maps: Maps) -> tuple[list[Expr], list[MapValue]]:
    """Expressions with variables for the values of maps, and these; the inner values of nested maps first."""
    found: dict[tuple[NamedMap, Expr], MapValue] = {}
    exprs = list(exprs)
    while True:
        nodes = [node for node in tables_of(*exprs) if node.name in maps]
        inner = [node for node in nodes if not any(n.name in maps for n in tables_of(node.index))]
        if not inner:
            return exprs, list(found.values())
        values = {}
        for node in inner:
            of, axis = maps[node.name]
            image = found.setdefault((of, node.index), _value(of, node.index))
            values[node] = image.values[axis]
        exprs = [e.xreplace(values) for e in exprs]


def _value(of: NamedMap, at: Expr) -> MapValue:
    second = any(map(is_primed, at.free_symbols))
    names = (sympy.Symbol(f"{of.node(axis)}[{at}]".replace(" '", ""), integer=True) for axis in range(len(of.extents)))
    return MapValue(of, at, tuple(primed(name) if second else name for name in names))


def followed(images: Iterable[MapValue]) -> Iterator[Expr]:
    """Sums that are 0: of equal numbers the values are equal, of equal values the numbers."""
    for a, b in combinations(images, 2):
        if a.map != b.map:
            continue
        apart = sympy.expand(a.at - b.at)
        values = [d for x, y in zip(a.values, b.values, strict=True) if (d := sympy.expand(x - y)) != 0]
        if apart == 0:
            yield from values
        elif not values:
            yield apart
