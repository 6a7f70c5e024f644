"""The shared tiles of which a pipeline makes rings: what fills them in a loop, and what uses them there.

    lego.stage(a, (row, k), ta)                       a copy of a whole tile, by the threads or asynchronous
    lego.copy_async(a, ta, at=(row, 64 * k))
    lego.copy_async(a, ta, at=lambda r: ..)           copies of threads, of gathered rows and of parts
    ta[i, j] = f(a[..])                               threads that store elements, of an operand of `lego.mma` alone
    lego.mma(ta, tb, acc)                             a use: a product of the block
    total += ta[i, j];  lego.load(ta, layout)         a use: elements of the tile, in branches and loops too

A loop is staged that fills a tile in its body and uses it there. Tiles that copies fill and whose elements are loaded
are rings if nothing else touches them; others stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeGuard

from lego_mlir.tracing.schedules.scheduled import shared_in, words_in
from lego_mlir.tracing.trace.marks import StagedTile, TileProduct
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    For,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    MlirOperation,
    Statement,
    Store,
    accesses_of,
    statements_in,
)

_GROUPS: Final = ("nvvm.cp.async.commit.group", "nvvm.cp.async.wait.group")


class StagedUses:
    """The staged `loops` of a trace, by the ids of their statements, and the names of their `tiles`."""

    def __init__(self, trace: KernelTrace) -> None:
        self._body = trace.body
        self.operands = {r.buffer.name for _, p in words_in(trace.body, TileProduct) for r in p.tiles}
        self._copied = self._only_copied(trace)
        loops = [s for s in trace.statements() if isinstance(s, For)]
        self.loops = {id(s): s for s in loops if self._is_staged(s)}
        self.tiles = frozenset(n for loop in self.loops.values() for s in loop.body for n in self.written(s))

    def written(self, statement: Statement) -> set[str]:
        """The tiles that a statement fills: of copies alone, or operands of products."""
        inside = tuple(statements_in((statement,)))
        stored = {a.buffer.name for s in inside if isinstance(s, Store) for a in accesses_of(s)} & self.operands
        return stored | (_filled(inside) & (self._copied | self.operands))

    def used(self, statement: Statement) -> set[str]:
        """The tiles that a statement, which fills none, uses."""
        return shared_in(statement) & (self._copied | self.operands)

    def fills(self, body: Sequence[Statement]) -> list[int]:
        """The numbers of the statements of a staged loop that fill tiles."""
        return [n for n, s in enumerate(body) if self.written(s)]

    def uses(self, body: Sequence[Statement]) -> list[int]:
        """The numbers of those that use tiles."""
        return [n for n, s in enumerate(body) if self.used(s) & self.tiles and not self.written(s)]

    def waits_for_none(self, loop: For) -> bool:
        """Whether no copy but those of tiles may be in flight in a staged loop, of its own or from before."""
        in_flight = False
        for top in self._body:
            inside = tuple(statements_in((top,)))
            in_flight |= any(isinstance(s, AsyncCopy) and s.target.buffer.name not in self.tiles for s in inside)
            if any(s is loop for s in inside):
                return not in_flight
            in_flight &= not _waits_for_all(top)
        return not in_flight

    def _is_staged(self, loop: For) -> bool:
        products = {n for s in loop.body if isinstance(s, If) and isinstance(s.mark, TileProduct) for n in self.used(s)}
        return bool(products & {n for s in loop.body for n in self.written(s)}) or bool(
            self._copies(loop) & (self._copied | self.operands)
        )

    def _copies(self, loop: For) -> set[str]:
        """The tiles that a statement of a loop's body copies, and another one of it uses."""
        fills = [s for s in loop.body if _is_copy(s)]
        direct = [s for s in loop.body if not _is_copy(s) and not any(words_in((s,), TileProduct))]
        return _filled(fills) & {n for s in direct for n in shared_in(s)}

    def _only_copied(self, trace: KernelTrace) -> set[str]:
        """The tiles that copies of loops fill, and that nothing but these loops uses, by loading elements."""
        loops = [s for s in trace.statements() if isinstance(s, For) and self._copies(s)]
        stores = {n for loop in loops for s in outside_copies(loop.body) if isinstance(s, Store) for n in shared_in(s)}
        found = {n for loop in loops for n in self._copies(loop)}
        found = set() if stores & self.operands else found
        inside = {id(s) for loop in loops for s in statements_in(loop.body)}
        copies = _in_copies(trace.body) | {id(s) for s in trace.statements() if isinstance(s, AsyncCopy)}
        for s in trace.statements():
            if isinstance(s, For | If) or (id(s) in inside and (id(s) in copies or isinstance(s, Load | MatrixLoad))):
                continue
            found -= shared_in(s)
        return found - self.operands


def outside_copies(body: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a body outside of copies of whole tiles."""
    copies = _in_copies(body)
    return (s for s in statements_in(tuple(body)) if id(s) not in copies)


def _in_copies(body: Iterable[Statement]) -> set[int]:
    """The identities of the statements of which copies of whole tiles consist."""
    return {id(s) for word, _ in words_in(body, StagedTile) for s in statements_in(word.then)}


def _is_copy(statement: Statement) -> bool:
    """Whether a statement is a copy of a whole tile or of a thread."""
    return isinstance(statement, AsyncCopy) or (isinstance(statement, If) and isinstance(statement.mark, StagedTile))


def _filled(statements: Iterable[Statement]) -> set[str]:
    """The tiles that copies of whole tiles or of threads fill."""
    copies = {s.target.buffer.name for s in statements if isinstance(s, AsyncCopy)}
    return copies | {mark.tile.buffer.name for _, mark in words_in(tuple(statements), StagedTile)}


def is_group(statement: Statement) -> TypeGuard[MlirOperation]:
    """Whether a statement ends a group of asynchronous copies, or waits for one."""
    return isinstance(statement, MlirOperation) and statement.name in _GROUPS


def _waits_for_all(statement: Statement) -> bool:
    return is_group(statement) and dict(statement.attributes).get("n") == "0 : i32"
