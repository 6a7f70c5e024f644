"""The claims that every element of a result is written, and that none is written twice.

The writes of a kernel are a map from blocks, threads and rounds to elements. It takes one value twice unless solving
`index = index'` gives equal blocks, threads and rounds; of two statements, equal blocks and threads, since a thread may
replace what an earlier statement of it wrote. It reaches an element (i, j) if the digits that the index needs
can be computed from it:

    y[32*by + ty, 32*bx + tx]        by = i // 32, ty = i % 32, bx = j // 32, tx = j % 32

The claim is then that these digits are in their ranges and meet the conditions of the write, for every element; a mask
becomes `i < M` and holds. With several writes it is enough that one of them reaches an element. Where an index is no
sum of digits, such as a block on a curve, its values are enumerated: they fill a box, or are sums over bits, as
`(t & 92) >> 2` of t < 128, whose values 0 .. 7 and 16 .. 23 are t2 + 2 t3 + 4 t4 + 16 t6.

A launch has every block, thread and round, so that the inverse may choose them. It may not choose data: an element
loaded from memory, the old value of an atomic update, a register or a shuffled value is what it is in a run, and an
index with such a value has no inverse. A condition on data has to hold for all its values.

Claims are made for tensors that are stored to, and neither read nor updated atomically.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import brief
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, as_condition, as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Le, Lt, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.collisions import grid
from lego_mlir.proofs.footprints import Footprint, own_layout
from lego_mlir.proofs.images import MapValue, with_variables
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.tracing.trace.trace import Buffer

MOST_TOGETHER: Final = 8
"""Writes that are tried together, where none of them reaches every element alone."""


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """A claim about the writes of one tensor; `by_data` if the contents of memory decide what is written."""

    buffer: Buffer
    once: bool
    verdict: Verdict
    by_data: bool = False

    @property
    def text(self) -> str:
        return (
            f"no element of {self.buffer.name} is written twice"
            if self.once
            else (f"every element of {self.buffer.name} is written")
        )


def results(model: KernelModel) -> list[Buffer]:
    """The tensors that the kernel stores to, and neither reads nor updates atomically."""
    others = {a.buffer.name for a in model.accesses if a.kind != "write"}
    written = {a.buffer.name: a.buffer for a in model.accesses if a.kind == "write" and a.buffer.space == "global"}
    return [buffer for name, buffer in written.items() if name not in others]


def write_claims(model: KernelModel) -> Iterator[WriteClaim]:
    """Two claims for each result."""
    for buffer in results(model):
        writes = [a for a in model.accesses if a.buffer.name == buffer.name]
        index = any(map(model.data_in_index, writes))
        condition = any(c.free_symbols & model.data for write in writes for c in write.conditions)
        yield WriteClaim(buffer, False, covered(model, writes), index or condition)
        yield WriteClaim(buffer, True, written_once(model, writes), index)


def written_once(model: KernelModel, writes: Sequence[Footprint]) -> Verdict:
    """Whether no element is written by two threads or blocks, or by one statement in two rounds."""
    methods: dict[str, None] = {}
    for k, one in enumerate(writes):
        if one.repeated:
            return Unknown(f"the {one} may be repeated")
        for other in writes[k:]:
            verdict = model.proved_once(one, other)
            if not isinstance(verdict, Proved):
                which = "in two rounds or threads" if one is other else f"and the {other} differ"
                return Unknown(f"not proved that the elements of the {one} {which} are different ones")
            methods[verdict.by] = None
    return Proved(", ".join(methods))


def covered(model: KernelModel, writes: Sequence[Footprint]) -> Verdict:
    """Whether each element is written for all sizes."""
    buffer = writes[0].buffer
    if model.by_position(buffer.name):
        return Unknown("an index is not proved to be inside")
    layout = own_layout(buffer.layout)
    element = [sympy.Symbol(f"element {axis}", integer=True) for axis in range(len(layout.dims()))]
    ranges = {e: Range(0, as_expr(n)) for e, n in zip(element, layout.dims(), strict=True)}
    named = as_condition(layout.mask(*map(Index, element)))
    given = [sympy.Not(named), *(sympy.Not(c) for c in model.required)]
    left: list[list[Cond]] = []
    by_data: dict[str, None] = {}
    for write in writes:
        data = model.data_in_index(write)
        if data:
            by_data[f"the {write} is at {brief(str(min(data, key=str)))}, which is data"] = None
            continue
        inverse = _Inverse(model, write, element)
        met = inverse.conditions()
        if met is None:
            continue
        ranges |= inverse.numbers | {s: model.digits.ranges[s] for s in met.free_symbols if s in model.digits.ranges}
        given = list(dict.fromkeys([*given, *map(sympy.Not, inverse.facts())]))
        methods, unproved = _each_proved(met, given, ranges)
        if not unproved:
            return Proved(f"its block, thread and round follow from it, by {', '.join(methods) or 'arithmetic'}")
        left.append(unproved)
    if 1 < len(left) <= MOST_TOGETHER:
        reached = [sympy.And(*_independent(parts, given, ranges)) for parts in left]
        verdict = prove(sympy.Or(*reached, *given), ranges)
        if isinstance(verdict, Proved):
            return Proved(f"one of {len(left)} writes reaches it, by {verdict.by}")
    if by_data:
        return Unknown(f"{next(iter(by_data))}: not every element has to be among its values")
    lines = ", ".join(sorted({str(write.source.line) for write in writes}, key=int))
    return Unknown(f"not proved that the writes in line {lines} reach every element")


def _each_proved(met: Cond, given: Sequence[Cond], ranges: dict[Symbol, Range]) -> tuple[dict[str, None], list[Cond]]:
    """The methods that prove parts of a condition, and the parts that are not proved alone."""
    methods: dict[str, None] = {}
    unproved: list[Cond] = []
    for part in met.args if isinstance(met, sympy.And) else (met,):
        verdict = prove(sympy.Or(part, *given), ranges)
        if isinstance(verdict, Proved):
            methods[verdict.by] = None
        else:
            unproved.append(part)
    return methods, unproved


def _independent(parts: Sequence[Cond], given: Sequence[Cond], ranges: dict[Symbol, Range]) -> list[Cond]:
    """The parts of a condition without those that follow from the parts before them."""
    kept: list[Cond] = []
    for part in parts:
        if not isinstance(prove(sympy.Or(part, *map(sympy.Not, kept), *given), ranges), Proved):
            kept.append(part)
    return kept


@dataclass(slots=True)
class _Inverse:
    """The digits of a write, computed from the element that it should reach.

    `chosen` are those that it may choose: digits of threads, blocks and rounds, and values of bijections of these.
    """

    model: KernelModel
    write: Footprint
    element: Sequence[Symbol]
    values: dict[Symbol, Expr] = field(default_factory=dict)
    opaque: dict[Expr, Symbol] = field(default_factory=dict)
    extents: dict[Symbol, int] = field(default_factory=dict)
    ranges: dict[Symbol, Range] = field(default_factory=dict)
    numbers: dict[Symbol, Range] = field(default_factory=dict)
    chosen: set[Symbol] = field(default_factory=set)

    def facts(self) -> list[Cond]:
        """What holds of digits that this write cannot choose."""
        return [limit for limit in self.model.digits.limits if not limit.free_symbols & self.chosen]

    def conditions(self) -> Cond | None:
        """A condition on the element under which this write reaches it; None if the digits cannot be computed."""
        found = self.model.element(self.write)
        n = len(found.index)
        parts, images = with_variables([*found.index, *found.conditions], self.model.maps)
        of_images = dict(r for image in images for r in image.ranges())
        self.ranges = {**self.model.digits.ranges, **of_images}
        self.chosen = self.model.over_digits(self.model.launched(self.write)) | of_images.keys()
        index = [self._transparent(i) for i in parts[:n]]
        limits = [limit for limit in self.model.digits.limits if limit.free_symbols <= self.chosen]
        conditions = [*parts[n:], *limits]
        enumerated = self._enumerate(conditions)
        if enumerated is None and (bits := self._sums_of_bits()) is not None:
            index, conditions = ([e.xreplace(bits) for e in exprs] for exprs in (index, conditions))
            enumerated = set()
        if enumerated is None or any(i.free_symbols & enumerated for i in index):
            return None
        self.chosen -= enumerated  # an element determines the values of their operations only
        conditions = [c for c in conditions if not (c.free_symbols and c.free_symbols <= enumerated)]
        for part in conditions:
            self._fix(part)
        for i, e in zip(index, self.element, strict=True):
            if not self._solve(i, e):
                return None
        for number, image in enumerate(reversed(images)):
            if not self._at(image, sympy.Symbol(f"number {number}", integer=True)):
                return None
        rounds = [self.model.digits.simple(s) for s in (*self.write.rounds, *self.write.own)]  # there has to be one
        self._choose_the_rest([*index, *conditions, *rounds])
        claims = [c.xreplace(self.values) for c in conditions]
        claims += [Eq(i.xreplace(self.values), e) for i, e in zip(index, self.element, strict=True)]
        claims += [
            Eq(image.at.xreplace(self.values), p) for image, p in zip(reversed(images), self.numbers, strict=True)
        ]
        claims += [limit for symbol, value in self.values.items() for limit in self._limits(symbol, value)]
        return sympy.And(*claims)

    def _at(self, image: MapValue, number: Symbol) -> bool:
        """Compute the digits of a number in range: that at which a map has the values that are known by now."""
        self._choose_the_rest(image.values)
        self.numbers[number] = Range(0, image.map.size)
        return self._solve(image.at, number)

    def _transparent(self, index: Expr) -> Expr:
        """An index with a digit in place of each operation that is no sum or product."""
        total = sympy.Integer(0)
        for term in sympy.Add.make_args(sympy.expand(index)):
            factors = []
            for factor in sympy.Mul.make_args(term):
                plain = factor.is_Atom or all(isinstance(s, Size) for s in factor.free_symbols)
                if not plain and factor not in self.opaque:
                    self.opaque[factor] = sympy.Symbol(f"value {len(self.opaque)}", integer=True)
                factors.append(factor if plain else self.opaque[factor])
            total += sympy.Mul(*factors)
        return total

    def _enumerate(self, conditions: Sequence[Cond]) -> set[Symbol] | None:
        """The digits of opaque operations, if their values fill a box under the conditions on these digits alone."""
        symbols = {s for e in self.opaque for s in e.free_symbols}
        if not symbols:
            return symbols
        values = grid(sorted(symbols, key=str), self.model.digits.ranges)
        if values is None:
            return None
        count = len(next(iter(values.values())))
        kept = np.ones(count, bool)
        for condition in conditions:
            if condition.free_symbols and condition.free_symbols <= symbols:
                kept &= np.broadcast_to(np.asarray(evaluate(condition, values)), (count,)).astype(bool)
        try:
            columns = [np.broadcast_to(np.asarray(evaluate(e, values), np.int64), (count,))[kept] for e in self.opaque]
        except (ZeroDivisionError, ValueError):
            return None
        points = np.unique(np.stack(columns, axis=1), axis=0)
        if not len(points) or points.min() < 0:
            return None
        extents = points.max(axis=0) + 1
        if int(np.prod(extents)) != len(points):
            return None
        self.extents = {s: int(n) for s, n in zip(self.opaque.values(), extents, strict=True)}
        return symbols

    def _sums_of_bits(self) -> dict[Symbol, Expr] | None:
        """The opaque operations, and the digits in them, as sums of bits that may be chosen; None if that is not so."""
        symbols = sorted({s for e in self.opaque for s in e.free_symbols}, key=str)
        values = grid(symbols, self.model.digits.ranges)
        sizes = [int(as_expr(self.model.digits.ranges[s].hi)) for s in symbols] if values is not None else []
        if (
            values is None
            or not self.chosen.issuperset(symbols)
            or any(n & (n - 1) for n in sizes)
            or len(values[symbols[0]]) < int(np.prod(sizes))
        ):
            return None
        bits = [(s, 1 << k) for s, n in zip(symbols, sizes, strict=True) for k in range(n.bit_length() - 1)]
        named = [sympy.Symbol(f"bit {weight} of {s}", integer=True) for s, weight in bits]
        found: dict[Symbol, Expr] = {s: sympy.Integer(0) for s in symbols}
        for (s, weight), bit in zip(bits, named, strict=True):
            found[s] += weight * bit
        for operation, symbol in self.opaque.items():
            first = int(operation.xreplace(dict.fromkeys(symbols, 0)))
            steps = [int(operation.xreplace({t: w * (t == s) for t in symbols})) - first for s, w in bits]
            sums = first + sum(c * ((values[s] & w) != 0) for c, (s, w) in zip(steps, bits, strict=True))
            if (np.asarray(evaluate(operation, values), np.int64) != sums).any():
                return None
            found[symbol] = sympy.Add(first, *(c * bit for c, bit in zip(steps, named, strict=True)))
        self.ranges |= {bit: Range(0, 2) for bit in named}
        self.chosen = self.chosen - set(symbols) | set(named)
        return found

    def _fix(self, condition: Cond) -> None:
        """The value that a condition such as `lane == 0` gives a digit."""
        if not isinstance(condition, Eq):
            return
        for symbol, value in (condition.args, condition.args[::-1]):
            if symbol in self.chosen and value.is_Integer and symbol not in self.values:
                self.values[symbol] = value

    def _solve(self, index: Expr, element: Expr) -> bool:
        """Compute the digits of a sum from its value, the largest stride first; whether the index is such a sum."""
        known = sympy.expand(index.xreplace(self.values))
        digits: list[tuple[Expr, Symbol, bool]] = []
        rest = element
        for term in sympy.Add.make_args(known):
            symbols = [s for s in term.free_symbols if not isinstance(s, Size)]
            if not symbols:
                rest -= term
                continue
            stride = term / symbols[0]
            if len(symbols) > 1 or stride.has(symbols[0]) or symbols[0] not in self.chosen | self.extents.keys():
                return False
            falling = stride.could_extract_minus_sign()
            if falling:  # a digit that counts down: its last value less the digit
                rest -= stride * (self._extent(symbols[0]) - 1)
            digits.append((-stride if falling else stride, symbols[0], falling))
        digits.sort(key=lambda d: (-len(d[0].free_symbols), -int(d[0].as_coeff_Mul()[0])))
        for stride, symbol, falling in digits:
            value = rest if stride == 1 else FloorDiv(rest, stride)
            rest = sympy.Integer(0) if stride == 1 else FloorMod(rest, stride)
            self.values[symbol] = self._extent(symbol) - 1 - value if falling else value
        return True

    def _extent(self, symbol: Symbol) -> Expr:
        if symbol in self.extents:
            return sympy.Integer(self.extents[symbol])
        known = self.ranges.get(symbol)
        return sympy.Integer(0) if known is None else as_expr(known.hi)

    def _limits(self, symbol: Symbol, value: Expr) -> Iterator[Cond]:
        """The range of a digit."""
        known = self.ranges.get(symbol)
        lo = sympy.Integer(0) if known is None else as_expr(known.lo)
        yield Le(lo, value)
        yield Lt(value, self._extent(symbol))

    def _choose_the_rest(self, exprs: Sequence[Any]) -> None:
        """Digits that no index determines take their least value."""
        for expr in exprs:
            for symbol in expr.free_symbols - self.values.keys():
                known = self.ranges.get(symbol)
                if known is not None and symbol in self.chosen:
                    self.values[symbol] = as_expr(known.lo)
