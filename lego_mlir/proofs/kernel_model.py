"""A kernel ready for proofs: its accesses over digits, and the questions that pairs of them raise.

The accesses of one buffer are compared by logical index if each is proved inside the sizes of the layout, by physical
position otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.context import PlainRanges
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import COMPARISONS, FloorDiv, Le, Lt, Size, tables_of
from lego_mlir.expr.prove import prove
from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.hardware.limits import LARGEST_GRID, WARP
from lego_mlir.proofs.footprints import Footprint, Node, Reader, flat, own_layout, with_copies
from lego_mlir.proofs.images import Maps, MapValue, with_variables
from lego_mlir.proofs.mixed_radix import Digits, primed
from lego_mlir.proofs.overlap import Loaded, Question, answered
from lego_mlir.proofs.phases import Pair
from lego_mlir.proofs.rings.claims import RingProof, ring_proof
from lego_mlir.tracing.checks.claims import DataMeaning
from lego_mlir.tracing.trace.divergence import Divergence
from lego_mlir.tracing.trace.trace import Buffer, KernelTrace, Value


@dataclass(frozen=True, slots=True)
class TouchedElement:
    """The element of an access, and when it happens, over digits."""

    index: tuple[Expr, ...]
    conditions: tuple[Cond, ...]


class KernelModel:
    """The accesses of a traced kernel over digits, and proofs about pairs of them.

    `maps` are the maps of layouts that have names in the trace. `rings` is the proof of its rings of barriers, where
    another model of the kernel has it too.
    """

    def __init__(
        self, trace: KernelTrace, maps: Maps | None = None, rings: Callable[[], RingProof | None] | None = None
    ) -> None:
        self.trace = trace
        self._rings = rings or (lambda: ring_proof(trace))
        self.maps: Maps = maps or {}
        meaning = DataMeaning(trace)
        indices = self._indices(meaning)
        known = {symbol: value.xreplace(indices) for symbol, value in meaning.meaning.items()}
        self.reader = Reader(trace, known, {**trace.ranges, **meaning.ranges})
        self.data = frozenset(meaning.ranges)
        self._leaves = meaning.values
        self.declared = frozenset(s for s, value in meaning.values.items() if trace.data.declared(value) is not None)
        self.nodes: tuple[Node, ...] = self.reader.read()
        self.accesses = list(flat(self.nodes))
        self.digits = Digits(self.reader.ranges)
        self._elements: dict[Footprint, TouchedElement] = {}
        self._answers: dict[Any, Verdict] = {}
        self._inside: dict[Any, bool] = {}
        ids = [*self.threads, *self.blocks]
        conditions = [c for a in self.accesses for c in a.conditions]
        units = {sync.unit for sync in (*self.reader.syncs, *self.reader.exchanges) if sync.unit}
        units |= {WARP} if any(a.by_warp for a in self.accesses) else set()
        warps = [self.unit_of_thread(unit) for unit in sorted(units)]
        loaded = [i for found in self.reader.distinct.values() for i in found.index]
        exprs = [*(i for a in self.accesses for i in a.index), *loaded, *warps, *ids, *map(_sides, conditions)]
        flattened = [e for group in exprs for e in (group if isinstance(group, list) else [group])]
        self.digits.of(list(dict.fromkeys(flattened)))
        self.distinct = {
            symbol: found.over(self.digits.simple)
            for symbol, value in meaning.values.items()
            if (found := self.reader.distinct.get(value.number)) is not None
        }
        self.required = tuple(requirement.condition for requirement in trace.requirements)
        self._outside = frozenset(a.buffer.name for a in self.accesses if not self.inside(a))
        if self._outside:
            self.nodes = with_copies(self.nodes, self._outside)
            self.accesses = list(flat(self.nodes))
            self.digits.of([a.position for a in self.accesses if a.buffer.name in self._outside])

    def _indices(self, meaning: DataMeaning) -> dict[Symbol, Expr]:
        """Claimed values that are conversions of an index and hold it: the index, which no memory decides."""
        data, found = self.trace.data, dict[Symbol, Expr]()
        factors = [n for size in self.trace.grid[:1] for n in sympy.Mul.make_args(as_expr(size))]
        positive = all(isinstance(prove(Le(0, n), self.trace.ranges), Proved) for n in factors)
        launched = [Le(n, LARGEST_GRID[0]) for n in factors] if data.claimed and positive else []
        for symbol in data.claimed:
            value = data.symbols[symbol]
            index = data.converted_from(value)
            if index is None:
                continue
            lo, hi = value.dtype.span
            (at, *facts), images = with_variables([index.xreplace(meaning.meaning), *launched], self.maps)
            of_images = {s: r for image in images for s, r in image.ranges()}
            ranges = PlainRanges({**self.trace.ranges, **meaning.ranges, **of_images})
            fits = sympy.Or(sympy.And(Le(lo, at), Le(at, hi)), *map(sympy.Not, facts))
            if isinstance(prove(fits, ranges), Proved):
                found[meaning.meaning[symbol]] = index.xreplace(meaning.meaning)
        return found

    # ---- ids

    def _ids(self, kind: str) -> list[Symbol]:
        return [symbol for symbol, (of, _) in self.trace.ids.items() if of == kind]

    @cached_property
    def rings(self) -> RingProof | None:
        """What is proved of the kernel's rings of barriers; None if it has none."""
        return self._rings()

    @cached_property
    def threads(self) -> list[Symbol]:
        return self._ids("thread_id")

    @cached_property
    def blocks(self) -> list[Symbol]:
        return self._ids("block_id")

    @cached_property
    def warp(self) -> Expr:
        """The number of the warp of a thread."""
        return self.unit_of_thread(WARP)

    @cached_property
    def common_data(self) -> frozenset[Symbol]:
        """Data that all threads of a block have in common and keep: it is read once, outside of loops and branches."""
        divergence = Divergence(self.trace)
        made = {result.number for s in self.trace.body if isinstance(result := getattr(s, "result", None), Value)}
        return frozenset(
            s for s, value in self._leaves.items() if value.number in made and divergence.is_same(value.number)
        )

    def unit_of_thread(self, unit: int) -> Expr:
        """The number of a thread among units of so many."""
        by_axis = dict(zip((axis for axis in "xyz"), map(as_expr, self.trace.block), strict=False))
        axes = [(symbol, by_axis[axis]) for symbol, (kind, axis) in self.trace.ids.items() if kind == "thread_id"]
        linear = reduce(lambda inner, pair: pair[0] + pair[1] * inner, reversed(axes), sympy.Integer(0))
        return FloorDiv(linear, unit)

    # ---- elements

    def element(self, access: Footprint) -> TouchedElement:
        """The element that an access touches, over digits."""
        found = self._elements.get(access)
        if found is None:
            index: tuple[Expr, ...] = access.index
            if access.buffer.name in self._outside:
                index = (access.position,)
            conditions = tuple(map(self.digits.simple, access.conditions))
            found = TouchedElement(tuple(map(self.digits.simple, index)), conditions)
            self._elements[access] = found
        return found

    def _anonymous(self, access: Footprint, kept: Sequence[Symbol] = ()) -> TouchedElement:
        """The element with a common name for variables of the thread that have equal ranges, to compare accesses."""
        found = self.element(access)
        names = self._common_names(symbol for symbol in access.own if symbol not in kept)
        return TouchedElement(
            tuple(i.xreplace(names) for i in found.index), tuple(c.xreplace(names) for c in found.conditions)
        )

    def _common_names(self, own: Iterable[Symbol]) -> dict[Symbol, Symbol]:
        """Names for variables that are not split into digits: the number among the thread's, and the range."""
        return {
            symbol: sympy.Symbol(f"own {number} in {self.digits.ranges[symbol]}", integer=True)
            for number, symbol in enumerate(own)
            if symbol not in self.digits.value
        }

    def inside(self, access: Footprint) -> bool:
        """Whether the logical index is proved to name an element."""
        names = self._common_names(access.own)
        index, conditions = ([e.xreplace(names) for e in exprs] for exprs in (access.index, access.conditions))
        key = access.buffer.name, *index, *conditions
        if key not in self._inside:
            self._inside[key] = self._proved_inside(access)
        return self._inside[key]

    def _proved_inside(self, access: Footprint) -> bool:
        dims = own_layout(access.buffer.layout).dims()
        claim = sympy.And(*(sympy.And(Le(0, i), Lt(i, as_expr(n))) for i, n in zip(access.index, dims, strict=True)))
        claim = self.digits.simple(claim)
        limits = self.digits.limits
        given = [self.digits.simple(c) for c in (*access.conditions, *self.required)]
        return self._is_proved(claim, limits) or self._is_proved(claim, [*given, *limits])

    def _is_proved(self, claim: Cond, given: Sequence[Cond]) -> bool:
        """Whether a claim over digits is proved under conditions, with variables for the values of maps."""
        (implied,), images = with_variables([sympy.Or(claim, *map(sympy.Not, given))], self.maps)
        ranges = self.digits.ranges
        if images:
            ranges = PlainRanges({**ranges, **dict(r for image in images for r in image.ranges())})
        return isinstance(prove(implied, ranges), Proved)

    def over_digits(self, symbols: Iterable[Symbol]) -> set[Symbol]:
        """The digits of symbols."""
        return {digit for symbol in symbols for digit in self.digits.simple(symbol).free_symbols}

    def launched(self, access: Footprint) -> list[Symbol]:
        """The variables of an access that have all their values in a launch: ids, rounds, elements and copies."""
        return [*self.threads, *self.blocks, *access.rounds, *access.own]

    def data_in_index(self, access: Footprint) -> set[Symbol]:
        """The values in the index of an access that the contents of memory or an argument decide."""
        launched = set(self.launched(access))
        return {s for i in access.index for s in i.free_symbols if not isinstance(s, Size) and s not in launched}

    def by_data(self, pair: Pair) -> bool:
        """Whether the index of one of two accesses depends on data."""
        return any(self.data_in_index(access) for access in (pair.one, pair.other))

    def by_undeclared_data(self, pair: Pair) -> bool:
        """Whether the index of one of two accesses depends on data of no declared range."""
        data = {s for access in (pair.one, pair.other) for s in self.data_in_index(access)}
        if data <= self.declared:
            return False
        read = {a.buffer.name for a in self.accesses if a.kind != "write"}
        inputs = (p for p in self.trace.parameters if p.dtype.family == "int")
        return any(p.name in read and p.values is None if isinstance(p, Buffer) else True for p in inputs)

    # ---- pairs

    def proved_apart(self, pair: Pair, across: bool = False) -> Verdict:
        """Whether a pair touches one element only in one thread; `across`: in one block."""
        key = (
            self._anonymous(pair.one, pair.one.own if pair.once else ()),
            self._anonymous(pair.other, pair.one.own if pair.once else ()),
            pair.common,
            pair.step,
            pair.given,
            pair.given_other,
            self._unit(pair),
            across,
            pair.ahead,
            pair.in_flight,
            pair.once,
        )
        if key not in self._answers:
            self._answers[key] = answered(self.question(pair, across))
        return self._answers[key]

    def proved_once(self, one: Footprint, other: Footprint) -> Verdict:
        """Whether no two threads touch one element by these accesses, nor one thread twice by one statement."""
        a, b = self.element(one), self.element(other)
        who = tuple(map(self.digits.simple, (*self.blocks, *self.threads)))
        if one is other:
            who += tuple(map(self.digits.simple, (*one.rounds, *one.own)))
        prime = self._primed((*b.index, *b.conditions, *who, *self.digits.limits), set(), None)
        equations = tuple(sympy.expand(x - y.xreplace(prime)) for x, y in zip(a.index, b.index, strict=True))
        limits = self.digits.limits
        mirrored = [c.xreplace(prime) for c in (*b.conditions, *limits)]
        goals = tuple(sympy.expand(w - w.xreplace(prime)) for w in who)
        if one is not other and one.source == other.source:
            goals = (sympy.Integer(1),)
        conditions = (*a.conditions, *limits, *mirrored, *self.required)
        return answered(self._asked(equations, conditions, goals, prime))

    def _asked(
        self, equations: Sequence[Expr], conditions: Sequence[Cond], goals: Sequence[Expr], prime: dict[Symbol, Symbol]
    ) -> Question:
        """A question with variables for the values of maps."""
        loaded, ranges, images = self._loaded(prime), self.both, list[MapValue]()
        if self.maps:
            parts, images = with_variables([*equations, *conditions, *goals], self.maps)
            rest = iter(parts)
            equations, conditions, goals = ([next(rest) for _ in of] for of in (equations, conditions, goals))
            ranges = PlainRanges({**ranges, **dict(r for image in images for r in image.ranges())})
        expanded = tuple(map(sympy.expand, equations))
        return Question(expanded, tuple(conditions), tuple(goals), ranges, loaded, tuple(images))

    def maps_defined(self) -> bool:
        """Whether every access is proved to use maps at numbers for which they are defined."""
        return all(map(self._defined, self.accesses))

    def _defined(self, access: Footprint) -> bool:
        nodes = [node for node in tables_of(*access.index, *access.conditions) if node.name in self.maps]
        named = {node.name for node in nodes}
        plain = [c for c in (*access.conditions, *self.required) if not named & {n.name for n in tables_of(c)}]
        given = [*map(self.digits.simple, plain), *self.digits.limits]
        claims = (
            sympy.And(Le(0, at), Lt(at, node.length)) for node in nodes for at in (self.digits.simple(node.index),)
        )
        return all(self._is_proved(claim, given) for claim in claims)

    def by_position(self, buffer: str) -> bool:
        """Whether the accesses of a buffer are compared by physical position."""
        return buffer in self._outside

    def _unit(self, pair: Pair) -> int:
        """The number of threads of a unit whose threads do not meet in a pair."""
        by_warp = pair.one.by_warp and pair.other.by_warp and pair.one.writes and pair.other.writes
        return max(pair.unit, WARP if by_warp else 1)

    def _who(self, pair: Pair) -> list[Expr]:
        """What is equal for threads of one unit."""
        unit = self._unit(pair)
        return self.threads if unit == 1 else [self.unit_of_thread(unit)]

    def question(self, pair: Pair, across: bool) -> Question:
        """Whether a pair touches one element only in one thread, as equations."""
        one, other = self.element(pair.one), self.element(pair.other)
        who = self.blocks if across else self._who(pair)
        goals = tuple(map(self.digits.simple, (*who, *pair.one.own) if pair.once else who))
        common = self.over_digits([*pair.common] if across else [*self.blocks, *pair.common])
        if pair.step is not None:
            common -= self.over_digits([pair.step])
        first = [*one.conditions, *map(self.digits.simple, pair.given)]
        second = [*other.conditions, *map(self.digits.simple, pair.given_other)]
        prime = self._primed((*other.index, *second, *goals, *self.digits.limits), common, pair.step)
        equations = [a - b.xreplace(prime) for a, b in zip(one.index, other.index, strict=True)]
        if pair.step is not None:
            round_ = self.digits.simple(pair.step)
            equations.append(round_ + pair.ahead - round_.xreplace(prime))
        limits = self.digits.limits
        mirrored = [c.xreplace(prime) for c in (*second, *limits)]
        conditions = (*first, *limits, *mirrored, *self.required)
        return self._asked(equations, conditions, self._met(pair, goals, prime), prime)

    def _met(self, pair: Pair, goals: Sequence[Expr], prime: dict[Symbol, Symbol]) -> tuple[Expr, ...]:
        """What is 0 where a pair may touch one element: nothing, of an element that is being copied."""
        if pair.in_flight and (not pair.once or pair.one.repeated):
            return (sympy.Integer(1),)
        return tuple(sympy.expand(g - g.xreplace(prime)) for g in goals)

    def _loaded(self, prime: dict[Symbol, Symbol]) -> dict[Symbol, Loaded]:
        """The values of tensors without repetition, of both accesses."""
        mirrored = {primed(s): found.over(lambda i: i.xreplace(prime)) for s, found in self.distinct.items()}
        return {**self.distinct, **mirrored}

    @cached_property
    def both(self) -> PlainRanges:
        """The ranges of the digits of both accesses."""
        return self.digits.with_primes()

    def _primed(self, exprs: Sequence[Expr], common: set[Symbol], step: Symbol | None) -> dict[Symbol, Symbol]:
        """A symbol for each one that the second access has for itself."""
        indices = [i for found in self.distinct.values() for i in found.index]
        symbols = {s for e in (*exprs, *indices) for s in e.free_symbols}
        if step is not None:
            symbols |= self.over_digits([step])
        return {s: primed(s) for s in symbols if not isinstance(s, Size) and s not in common}


def _sides(condition: Cond) -> list[Expr]:
    """The two sides of each comparison of a condition."""
    if isinstance(condition, COMPARISONS):
        return list(condition.args)
    return [side for part in condition.args for side in _sides(part)]
