"""The claims that every element of a shared tile is written before it is read.

The kernel is followed once, with the set of elements that are surely written so far. A write counts if its conditions
are proved; a read may touch every element that its index can name. Of a loop the first round is followed, then the
others together: what the first has written is there. The elements of a tile are enumerated, as are the digits of its
accesses; other variables, such as the round of a loop of unknown length, leave a write uncounted and let a read touch
the whole tile. A sure write is one of every block and round, by some of the threads.

That a write by another thread is visible is the claim that the tile has no race.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array, Cond, Expr, IntArray, Symbol
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.prove import prove
from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.collisions import grid
from lego_mlir.proofs.footprints import Commit, Copies, Footprint, Fork, Node, Rounds, Stretch, Sync, Wait
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.tracing.trace import Buffer

MOST_POINTS: Final = 1 << 18
"""Values of the digits of one access that are enumerated."""
Values = dict[Symbol, Expr]
Written = dict[str, Array]


@dataclass(frozen=True, slots=True)
class TileClaim:
    """A claim about the reads of one tile."""

    buffer: Buffer
    verdict: Verdict

    @property
    def text(self) -> str:
        return f"every read of {self.buffer.name} comes after a write of that element"


def tile_claims(model: KernelModel) -> Iterator[TileClaim]:
    """A claim for each shared tile that is read."""
    tiles = {a.buffer.name: a.buffer for a in model.accesses if a.kind != "write" and a.buffer.space == "workgroup"}
    walk = _Walk(model)
    written = {tile.name: np.zeros(walk.shape(tile), bool) for tile in tiles.values()}
    walk.follow(model.nodes, written, {})
    for name, tile in tiles.items():
        reason = walk.missing.get(name)
        yield TileClaim(tile, Unknown(reason) if reason else Proved("the elements written before each read"))


@dataclass(slots=True)
class _Walk:
    """Follows a kernel; `missing` is the first read of each tile that is not proved to be initialised."""

    model: KernelModel
    missing: dict[str, str] = field(default_factory=dict)
    _touched: dict[Any, Array] = field(default_factory=dict)
    _proofs: dict[Cond, bool] = field(default_factory=dict)

    def shape(self, tile: Buffer) -> tuple[int, ...]:
        if self.model.by_position(tile.name):
            return (int(tile.size),)
        return tuple(int(n) for n in tile.layout.dims())

    def follow(self, nodes: Sequence[Node], written: Written, values: Values) -> None:
        """Follow nodes in order, adding to the sets of elements that are written."""
        for node in nodes:
            match node:
                case Stretch(accesses=accesses):
                    self._stretch(accesses, written, values)
                case Rounds():
                    self._rounds(node, written, values)
                case Fork(then=then, otherwise=otherwise):
                    sides = [_copy(written), _copy(written)]
                    self.follow(then, sides[0], values)
                    self.follow(otherwise, sides[1], values)
                    written.update({name: sides[0][name] & sides[1][name] for name in written})
                case Sync() | Copies() | Commit() | Wait():
                    pass

    def _rounds(self, loop: Rounds, written: Written, values: Values) -> None:
        inside = _copy(written)
        if loop.round is None:
            self.follow(loop.body, inside, values)
            return
        digits = self.model.over_digits([loop.round])
        self.follow(loop.body, inside, values | {digit: as_expr(0) for digit in digits})
        after = _copy(inside)
        self.follow(loop.body, inside, values)
        if loop.runs:
            written.update(after)

    def _stretch(self, accesses: Sequence[Footprint], written: Written, values: Values) -> None:
        here = [a for a in accesses if a.buffer.name in written]
        for access in here:
            if access.kind == "write" or access.buffer.name in self.missing:
                continue
            available = written[access.buffer.name].copy()
            for before in here:
                of_this = before.buffer.name == access.buffer.name and before.kind == "write"
                later = set(before.own) & set(access.own)  # of the loop around both, the write of a later round
                if of_this and before.order[1] < access.order[0] and not later:
                    available |= self._elements(before, values, surely=True)
            missing = self._elements(access, values, surely=False) & ~available
            if missing.any():
                index = [int(i) for i in np.argwhere(missing)[0]]
                self.missing[access.buffer.name] = f"the {access} may read {access.buffer.name}{index} before a write"
        for access in here:
            if access.kind == "write":
                written[access.buffer.name] |= self._elements(access, values, surely=True)

    def _elements(self, access: Footprint, values: Values, surely: bool) -> Array:
        """The elements that an access touches: surely, or possibly."""
        key = (access, tuple(values.items()), surely)
        if key not in self._touched:
            found = self._enumerated(access, values, surely)
            if found is None:
                found = np.full(self.shape(access.buffer), not surely)
            self._touched[key] = found
        return self._touched[key]

    def _enumerated(self, access: Footprint, values: Values, surely: bool) -> Array | None:
        element = self.model.element(access)
        index = [i.xreplace(values) for i in element.index]
        mine = self.model.over_digits([*access.own, *self.model.threads])
        limits = [limit for limit in self.model.digits.limits if limit.free_symbols & mine]
        conditions = [c.xreplace(values) for c in (*element.conditions, *limits)]
        conditions = [c for c in conditions if not self._always(c)]
        symbols = {s for i in index for s in i.free_symbols}
        if surely:
            symbols |= {s for c in conditions for s in c.free_symbols}
            if symbols - mine:
                return None  # it depends on the block, or the round
            if not all(self._runs(symbol) for symbol in mine - symbols):
                return None
        points = grid(sorted(symbols, key=str), self.model.digits.ranges, MOST_POINTS)
        if points is None:
            return None
        count = len(next(iter(points.values()))) if points else 1
        kept = np.ones(count, bool)
        for condition in conditions:
            if condition.free_symbols <= points.keys():
                kept &= np.broadcast_to(np.asarray(evaluate(condition, points)), (count,)).astype(bool)
        return self._marked(access.buffer, index, points, kept)

    def _always(self, condition: Cond) -> bool:
        """Whether a condition is proved for all threads, blocks and rounds."""
        if condition not in self._proofs:
            self._proofs[condition] = isinstance(prove(condition, self.model.both), Proved)
        return self._proofs[condition]

    def _marked(self, tile: Buffer, index: Sequence[Expr], points: dict[Symbol, IntArray], kept: Array) -> Array | None:
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


def _copy(written: Written) -> Written:
    return {name: elements.copy() for name, elements in written.items()}
