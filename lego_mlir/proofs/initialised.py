"""The claims that every element of a shared tile is written before it is read.

The kernel is followed once, with the elements that are surely written so far. A write counts if its conditions are
proved; a read may touch every element that its index can name. Of a loop the first rounds are followed, then a later
round k after the rounds before it, whose writes are those of round k - 1: for a ring of tiles

    round k - 1 copies tile k % 2; round k waits, and reads tile k % 2         `k % 2` is a parameter of both

A copy writes its elements at the wait that surely completes it. After a loop that may have no round, both cases are
followed. The elements of a tile are enumerated, as are the parameters and the digits of its accesses; other variables
leave a write uncounted and let a read touch the whole tile.

Tiles whose stages are guarded by rings of barriers are left to `rings.stage_fills`. That a write by another thread is
visible is the claim that the tile has no race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import sympy

from lego_mlir.aliases import Array, Cond, Expr, IntArray, Symbol
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Lt, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.collisions import grid
from lego_mlir.proofs.footprints import Commit, Copies, Footprint, Fork, Node, Rounds, Stretch, Sync, Wait, waits_in
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.races import OF_PEERS
from lego_mlir.tracing.trace.trace import Buffer

MOST_POINTS: Final = 1 << 18
"""Values of the digits of one access that are enumerated."""
MOST_VALUES: Final = 16
"""Values of one parameter."""
MOST_CASES: Final = 64
"""Values of the parameters of a read and of the writes before it."""
MOST_GUESSES: Final = 4
"""Values of a parameter that are tried as its only one."""
MOST_DEPTH: Final = 4
"""Rounds that are followed one by one."""
MOST_SPLITS: Final = 3
"""Loops that may have no round, after which both cases are followed."""
Values = Mapping[Symbol, Expr]


@dataclass(frozen=True, slots=True)
class TileClaim:
    """A claim about the reads of one tile."""

    buffer: Buffer
    verdict: Verdict

    @property
    def text(self) -> str:
        return f"every read of {self.buffer.name} comes after a write of that element"


@dataclass(frozen=True, slots=True)
class Touched:
    """The elements of one access: an index over digits and parameters, under conditions on digits."""

    buffer: Buffer
    index: tuple[Expr, ...]
    conditions: tuple[Cond, ...]
    parameters: frozenset[Symbol]


@dataclass(slots=True)
class WrittenSoFar:
    """What is surely written, and copies in flight with the least number of commits since their issue.

    `moving` are writes whose elements depend on parameters.
    """

    written: dict[str, Array]
    moving: list[Touched] = field(default_factory=list)
    flights: dict[int, tuple[Touched, int]] = field(default_factory=dict)

    def copy(self) -> WrittenSoFar:
        written = {name: elements.copy() for name, elements in self.written.items()}
        return WrittenSoFar(written, [*self.moving], dict(self.flights))

    def both(self, other: WrittenSoFar) -> None:
        """Keep what is also surely written in another."""
        self.written = {name: elements & other.written[name] for name, elements in self.written.items()}
        self.moving = [write for write in self.moving if write in other.moving]
        self.flights = {
            n: (copy, min(commits, other.flights[n][1]))
            for n, (copy, commits) in self.flights.items()
            if n in other.flights
        }


def tile_claims(model: KernelModel) -> Iterator[TileClaim]:
    """A claim for each shared tile that is read."""
    tiles = {a.buffer.name: a.buffer for a in model.accesses if a.kind != "write" and a.buffer.space == "workgroup"}
    guarded, unfilled = (model.rings.guarded, model.rings.unfilled) if model.rings is not None else (frozenset(), {})
    for name in sorted(guarded & set(tiles)):
        reason, tile = unfilled.get(name), tiles.pop(name)
        yield TileClaim(tile, Unknown(reason) if reason else Proved("the copies of the stage that it waited for"))
    walk = _Walk(model)
    walk.follow(model.nodes, WrittenSoFar({tile.name: np.zeros(walk.shape(tile), bool) for tile in tiles.values()}), {})
    peers = model.trace.tiles_of_peers()
    for name, tile in tiles.items():
        reason = OF_PEERS if name in peers else walk.missing.get(name)
        yield TileClaim(tile, Unknown(reason) if reason else Proved("the elements written before each read"))


@dataclass(slots=True)
class _Walk:
    """Follows a kernel; `missing` is the first read of each tile that is not proved to be initialised.

    `given` are conditions that hold at the present statement; reads are not checked while it is `silent`.
    """

    model: KernelModel
    missing: dict[str, str] = field(default_factory=dict)
    given: tuple[Cond, ...] = ()
    silent: bool = False
    _splits: int = 0
    _issued: int = 0
    _touched: dict[Any, Any] = field(default_factory=dict)
    _proofs: dict[Cond, bool] = field(default_factory=dict)
    _ranges: dict[Symbol, Range] = field(default_factory=dict)
    _meaning: dict[Symbol, Expr] = field(default_factory=dict)
    _same_for_all: frozenset[Symbol] | None = None

    def shape(self, tile: Buffer) -> tuple[int, ...]:
        if self.model.by_position(tile.name):
            return (int(tile.size),)
        return tuple(int(n) for n in tile.layout.dims())

    def follow(self, nodes: Sequence[Node], state: WrittenSoFar, rounds: Values) -> None:
        """Follow nodes in order, adding to what is written; `rounds` are those of the loops around them."""
        for number, node in enumerate(nodes):
            match node:
                case Stretch(accesses=accesses):
                    self._stretch(accesses, state, rounds)
                case Copies(accesses=accesses):
                    self._issue(accesses, state, rounds)
                case Commit():
                    state.flights = {n: (copy, commits + 1) for n, (copy, commits) in state.flights.items()}
                case Wait(pending=pending):
                    self._land(state, pending)
                case Rounds():
                    if self._rounds(node, state, rounds, nodes[number + 1 :]):
                        return
                case Fork():
                    self._fork(node, state, rounds)
                case Sync():
                    pass

    def _fork(self, node: Fork, state: WrittenSoFar, rounds: Values) -> None:
        condition = self.model.digits.simple(node.condition.xreplace(rounds))
        before, other = self.given, state.copy()
        taken, avoided = self._always(condition), self._always(sympy.Not(condition))
        if not avoided:
            self.given = (*before, *self._uniform(condition))
            self.follow(node.then, state, rounds)
        if not taken:
            self.given = (*before, *self._uniform(sympy.Not(condition)))
            self.follow(node.otherwise, other, rounds)
        self.given = before
        if avoided:
            state.written, state.moving, state.flights = other.written, other.moving, other.flights
        elif not taken:
            state.both(other)

    # ---- loops

    def _rounds(self, loop: Rounds, state: WrittenSoFar, rounds: Values, rest: Sequence[Node]) -> bool:
        """Follow a loop; whether what comes after it was followed as well, once for each case."""
        if loop.round is None:
            self.follow(loop.body, state.copy(), rounds)
            state.flights.clear()
            return False
        before = self.given
        first = started = state.copy()
        self._round(loop, first, rounds, sympy.Integer(0), ())
        depth = min(MOST_DEPTH, max((wait.pending + 1 for wait in waits_in(loop.body)), default=1))
        for number in range(1, depth):
            started = state.copy()
            self._reached(loop, started, rounds, [as_expr(n) for n in range(number + 1)], ())
        later, k = WrittenSoFar({name: elements.copy() for name, elements in started.written.items()}), loop.round
        self._reached(loop, later, rounds, [k - back for back in range(depth, -1, -1)], (Le(depth, k),))
        return self._after(loop, first, state, rounds, rest, before)

    def _reached(
        self, loop: Rounds, state: WrittenSoFar, rounds: Values, numbers: Sequence[Expr], known: tuple[Cond, ...]
    ) -> None:
        """Follow rounds up to the last of these, whose reads are checked. It is there: those before it may ask so."""
        *before, last = numbers
        there = (*known, self._at(loop, rounds, last))
        silent, self.silent = self.silent, True
        for number in before:
            self._round(loop, state, rounds, number, there)
        self.silent = silent
        self._round(loop, state, rounds, last, there)

    def _at(self, loop: Rounds, rounds: Values, number: Expr) -> Cond:
        assert loop.round is not None
        return self.model.digits.simple(loop.holds.xreplace({**rounds, loop.round: number}))

    def _round(self, loop: Rounds, state: WrittenSoFar, rounds: Values, number: Expr, known: tuple[Cond, ...]) -> None:
        assert loop.round is not None
        before = self.given
        self.given = (*before, *self._uniform(*known, self._at(loop, rounds, number)))
        self.follow(loop.body, state, {**rounds, loop.round: number})
        self.given = before

    def _after(
        self,
        loop: Rounds,
        first: WrittenSoFar,
        state: WrittenSoFar,
        rounds: Values,
        rest: Sequence[Node],
        before: tuple[Cond, ...],
    ) -> bool:
        """What is written after the loop: by its first and its last round, or by what is before it."""
        assert loop.count is not None
        has_copies = any(True for _ in waits_in(loop.body))
        count = loop.count.xreplace(dict(rounds))
        runs = self.model.digits.simple(Lt(0, count))
        if not (has_copies and self._uniform(runs)) or self.silent or self._splits == MOST_SPLITS:
            if loop.runs:
                state.written, state.moving, state.flights = first.written, first.moving, {}
            else:
                state.flights.clear()
            return False
        ran = WrittenSoFar({name: elements.copy() for name, elements in first.written.items()})
        self.silent = True
        self._round(loop, ran, rounds, count - 1, (runs,))
        self.silent = False
        self._splits += 1
        cases = [(runs, ran), *([] if loop.runs else [(sympy.Not(runs), state.copy())])]
        for holds, case in cases:
            self.given = (*before, holds)
            self.follow(rest, case, rounds)
        self._splits -= 1
        self.given = before
        state.written, state.moving, state.flights = ran.written, ran.moving, ran.flights
        for _, case in cases[1:]:
            state.both(case)
        return True

    def _uniform(self, *conditions: Cond) -> tuple[Cond, ...]:
        """Those that hold for all threads of the block if they hold for one."""
        return tuple(c for c in conditions if self._is_uniform(c))

    def _is_uniform(self, expr: Expr) -> bool:
        if self._same_for_all is None:
            rounds = [r for a in self.model.accesses for r in a.rounds]
            common = [*self.model.blocks, *rounds, *self.model.common_data]
            self._same_for_all = frozenset(self.model.over_digits(common))
        return all(isinstance(s, Size) or s in self._same_for_all for s in expr.free_symbols)

    # ---- copies

    def _issue(self, copies: Sequence[Footprint], state: WrittenSoFar, rounds: Values) -> None:
        for copy in copies:
            if copy.buffer.name in state.written:
                written = self._surely(copy, rounds)
                if written is not None:
                    self._issued += 1
                    state.flights[self._issued] = (written, 0)

    def _land(self, state: WrittenSoFar, pending: int) -> None:
        for number, (copy, commits) in list(state.flights.items()):
            if commits > pending:
                self._wrote(copy, state)
                del state.flights[number]

    def _wrote(self, write: Touched, state: WrittenSoFar) -> None:
        if write.parameters:
            state.moving.append(write)
            return
        marked = self._marked(write, {})
        if marked is not None:
            state.written[write.buffer.name] |= marked

    # ---- reads and writes

    def _stretch(self, accesses: Sequence[Footprint], state: WrittenSoFar, rounds: Values) -> None:
        here = [a for a in accesses if a.buffer.name in state.written]
        for access in here:
            if access.kind == "write" or access.buffer.name in self.missing or self.silent:
                continue
            earlier = WrittenSoFar({access.buffer.name: state.written[access.buffer.name].copy()}, [*state.moving])
            for before in here:
                of_this = before.buffer.name == access.buffer.name and before.kind == "write"
                later = set(before.own) & set(access.own)  # of the loop around both, the write of a later round
                if of_this and before.order[1] < access.order[0] and not later:
                    self._write(before, earlier, rounds)
            missing = self._unwritten(access, earlier, rounds)
            if missing is not None:
                name = access.buffer.name
                self.missing[name] = (
                    f"the {access} may read {name}{missing} before a write; fill the tile first, or read only under "
                    "the conditions of its writes"
                )
        for access in here:
            if access.kind == "write":
                self._write(access, state, rounds)

    def _write(self, access: Footprint, state: WrittenSoFar, rounds: Values) -> None:
        written = self._surely(access, rounds)
        if written is not None:
            self._wrote(written, state)

    def _unwritten(self, access: Footprint, earlier: WrittenSoFar, rounds: Values) -> list[int] | None:
        """An element that a read may touch before a write; None if there is none."""
        read = self._touches(access, rounds)
        writes = [write for write in earlier.moving if write.buffer.name == access.buffer.name]
        parameters = sorted({s for touched in (read, *writes) for s in touched.parameters}, key=str)
        cases = grid(parameters, self._ranges, MOST_CASES) if parameters else {}
        if cases is None:
            cases, writes, read = {}, [], self._touches(access, rounds, whole=True)
        count = len(next(iter(cases.values()))) if cases else 1
        for number in range(count):
            values = {symbol: as_expr(int(column[number])) for symbol, column in cases.items()}
            found = self._marked(read, values)
            left = np.ones(self.shape(access.buffer), bool) if found is None else found.copy()
            left &= ~earlier.written[access.buffer.name]
            for write in writes:
                marked = self._marked(write, values) if left.any() else None
                left &= True if marked is None else ~marked
            if left.any():
                return [int(i) for i in np.argwhere(left)[0]]
        return None

    def _mine(self, access: Footprint) -> set[Symbol]:
        return self.model.over_digits([*access.own, *self.model.threads])

    def _conditions(self, access: Footprint, rounds: Values, mine: set[Symbol]) -> list[Cond]:
        """The conditions of an access that are not proved."""
        limits = [limit for limit in self.model.digits.limits if limit.free_symbols & mine]
        conditions = [self.model.digits.simple(c.xreplace(dict(rounds))) for c in access.conditions]
        return [c for c in (*conditions, *limits) if not self._always(c)]

    def _index(self, access: Footprint, rounds: Values) -> tuple[Expr, ...]:
        index = access.index
        if self.model.by_position(access.buffer.name):
            assert access.position is not None
            index = (access.position,)
        return tuple(self.model.digits.simple(i.xreplace(dict(rounds))) for i in index)

    def _touches(self, access: Footprint, rounds: Values, whole: bool = False) -> Touched:
        """What a read may touch; `whole`: for all values of the parameters."""
        mine, index = self._mine(access), self._index(access, rounds)
        opened = index if whole else tuple(self._opened(i, mine) for i in index)
        inside = {s for i in opened for s in i.free_symbols}
        conditions = tuple(c for c in self._conditions(access, rounds, mine) if c.free_symbols <= inside)
        return Touched(access.buffer, opened, conditions, self._parameters(opened))

    def _surely(self, access: Footprint, rounds: Values) -> Touched | None:
        """What a write surely touches; None if that is not known."""
        key = (access, tuple(rounds.items()), self.given)
        if key not in self._touched:
            self._touched[key] = self._written(access, rounds)
        found: Touched | None = self._touched[key]
        return found

    def _written(self, access: Footprint, rounds: Values) -> Touched | None:
        mine = self._mine(access)
        index = tuple(self._opened(i, mine) for i in self._index(access, rounds))
        conditions = self._conditions(access, rounds, mine)
        parameters = self._parameters(index)
        inside = {s for i in index for s in i.free_symbols}
        symbols = inside | {s for c in conditions for s in c.free_symbols}
        if symbols - mine - (parameters & inside) or {s for c in conditions for s in c.free_symbols} - mine:
            return None  # it depends on the block, or the round
        if not all(self._runs(symbol) for symbol in mine - symbols):
            return None
        return Touched(access.buffer, index, tuple(conditions), parameters)

    def _parameters(self, index: Sequence[Expr]) -> frozenset[Symbol]:
        return frozenset(s for i in index for s in i.free_symbols if s in self._ranges)

    def _opened(self, expr: Expr, mine: set[Symbol]) -> Expr:
        """An expression with parameters for what does not depend on the thread and has few values."""
        if not expr.free_symbols - mine:
            return expr
        if self._is_uniform(expr):
            within = None
            if isinstance(expr, FloorMod) and expr.args[1].is_Integer:
                within = Range(0, expr.args[1])
            elif expr.is_Symbol:
                within = self.model.digits.ranges.get(expr)
            if within is not None and _few(within):
                return self._parameter(expr, within)
        if not expr.args:
            return expr
        return expr.func(*(self._opened(arg, mine) for arg in expr.args))

    def _parameter(self, expr: Expr, within: Range) -> Expr:
        """A parameter: an int or another one, if it is proved to be equal where `given` holds."""
        symbol = sympy.Symbol(f"parameter {expr}", integer=True)
        if symbol not in self._meaning:
            self._meaning[symbol], self._ranges[symbol] = expr, within
        if expr.is_Symbol or not self.given:
            return symbol
        for number in range(int(within.lo), min(int(within.hi), MOST_GUESSES)):
            if self._always(Eq(expr, number)):
                return as_expr(number)
        for other, known in self._meaning.items():
            if other is symbol:
                break
            if self._ranges[other] == within and not known.is_Symbol and self._always(Eq(expr, known)):
                return other
        return symbol

    def _always(self, condition: Cond) -> bool:
        """Whether a condition is proved for all threads, blocks and rounds, where `given` holds."""
        claim = sympy.Or(condition, *map(sympy.Not, self.given))
        if claim not in self._proofs:
            self._proofs[claim] = isinstance(prove(claim, self.model.both), Proved)
        return self._proofs[claim]

    def _marked(self, touched: Touched, values: Values) -> Array | None:
        """The elements, for these values of the parameters; None if they cannot be enumerated."""
        key = (touched, tuple(values.items()))
        if key not in self._touched:
            self._touched[key] = self._enumerated(touched, values)
        found: Array | None = self._touched[key]
        return found

    def _enumerated(self, touched: Touched, values: Values) -> Array | None:
        index = [i.xreplace(dict(values)) for i in touched.index]
        symbols = {s for e in (*index, *touched.conditions) for s in e.free_symbols}
        points = grid(sorted(symbols, key=str), self.model.digits.ranges, MOST_POINTS)
        if points is None:
            return None
        count = len(next(iter(points.values()))) if points else 1
        kept = np.ones(count, bool)
        for condition in touched.conditions:
            kept &= np.broadcast_to(np.asarray(evaluate(condition, points)), (count,)).astype(bool)
        return self._at_points(touched.buffer, index, points, kept)

    def _at_points(
        self, tile: Buffer, index: Sequence[Expr], points: dict[Symbol, IntArray], kept: Array
    ) -> Array | None:
        shape = self.shape(tile)
        try:
            at = [np.broadcast_to(np.asarray(evaluate(i, points), np.int64), kept.shape)[kept] for i in index]
        except (ZeroDivisionError, ValueError):
            return None
        if any(len(i) and (i.min() < 0 or i.max() >= n) for i, n in zip(at, shape, strict=True)):
            return None
        marked = np.zeros(shape, bool)
        marked[tuple(at)] = True
        return marked

    def _runs(self, symbol: Symbol) -> bool:
        """Whether a variable has a value at all: a loop inside runs at least once."""
        known = self.model.digits.ranges.get(symbol)
        return known is not None and isinstance(prove(Lt(as_expr(known.lo), as_expr(known.hi)), {}), Proved)


def _few(within: Range) -> bool:
    lo, hi = as_expr(within.lo), as_expr(within.hi)
    return bool(lo.is_Integer and hi.is_Integer and hi - lo <= MOST_VALUES)
