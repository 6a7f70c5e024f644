"""The value of an index, or of a condition, in each block of a cluster, and whether the blocks are proved to agree.

    bx // 2 * 64      in the blocks 2 c and 2 c + 1 of a cluster: c * 64, c * 64      one value
    table[bx // 2]    an element of global memory                                     one value
    table[bx]         each block loads for itself: a symbol for each of them          not proved equal

A block's number is `blocks` times that of its cluster, and its rank; a loop over tiles begins at the block's number,
and its turns are the same in all of them. What a kernel writes may differ between threads already, and words about
tiles refuse it.
"""

from __future__ import annotations

from functools import cached_property

import sympy
from sympy.logic.boolalg import Boolean

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.schedules.scheduled import refused
from lego_mlir.tracing.trace.trace import (
    Compute,
    Constant,
    Convert,
    For,
    FromCondition,
    FromIndex,
    KernelTrace,
    Load,
    Statement,
    ToIndex,
    Value,
    operands_of,
)
from lego_mlir.tracing.trace.tracer import Tracer


class ClusterValues:
    """Values in the blocks of a cluster of `blocks`, by rank; `block` is the symbol of a block's number.

    Raises ScheduleError for a loop over tiles that takes different numbers of turns in the blocks of a cluster.
    """

    def __init__(self, trace: KernelTrace, tracer: Tracer, block: Symbol, blocks: int) -> None:
        self.trace, self.tracer, self.block, self.blocks = trace, tracer, block, blocks

    def of(self, index: Expr | Cond) -> list[Expr | Cond]:
        """An index or a condition in each block."""
        return [self._through(index).xreplace(numbers) for numbers in self._numbers]

    def classes(self, place: tuple[Expr, ...]) -> list[list[int]]:
        """The ranks of the blocks, by the place that its indices are proved to be."""
        found: list[tuple[tuple[Expr, ...], list[int]]] = []
        by_rank = zip(*(map(self.tracer.simplified, self.of(i)) for i in place), strict=True)
        for rank, at in enumerate(by_rank):
            same = next((ranks for first, ranks in found if all(map(self._is_same, at, first))), None)
            if same is None:
                found.append((at, [rank]))
            else:
                same.append(rank)
        return [ranks for _, ranks in found]

    def agree(self, index: Expr | Cond) -> bool:
        """Whether an index or a condition is proved to be the same in all blocks."""
        first, *others = self.of(index)
        return all(self._is_same(first, other) for other in others)

    def is_over_tiles(self, loop: For) -> bool:
        """Whether a loop begins at the block's number: all blocks of a cluster take equal numbers of turns."""
        return loop.symbol in self._numbers[0]

    def _is_same(self, one: Expr | Cond, other: Expr | Cond) -> bool:
        if one == other:
            return True
        if not isinstance(one, Boolean) or one.is_integer:  # SymPy's symbols of integers are Booleans too
            return isinstance(self.tracer.prove(Eq(one, other)), Proved)
        if any(isinstance(s, sympy.Symbol) and not s.is_integer for s in (one, other)):
            return False  # what a comparison of data found
        ways = (sympy.Or(sympy.Not(a), b) for a, b in ((one, other), (other, one)))
        return all(isinstance(self.tracer.prove(way), Proved) for way in ways)

    def _through(self, index: Expr | Cond) -> Expr | Cond:
        """An index in which data that is computed from an index is that index again."""
        expr = sympy.sympify(index)
        while known := {s: self._indices[s] for s in expr.free_symbols if s in self._indices}:
            expr = expr.xreplace(known)
        return expr

    @cached_property
    def _indices(self) -> dict[Symbol, Expr]:
        """The values of the symbols of data that is an index."""
        given = {s.result.number: s.expr for s in self.trace.statements() if isinstance(s, FromIndex)}
        found = (s for s in self.trace.statements() if isinstance(s, ToIndex))
        return {s.symbol: given[s.operand.number] for s in found if s.operand.number in given}

    @cached_property
    def _numbers(self) -> list[dict[Symbol, Expr]]:
        """For each block of a cluster, its number by that of the cluster, and the tiles of loops over them."""
        found, cluster, turns = [], sympy.Symbol(f"{self.block}cluster", integer=True), self._turns()
        count = self.tracer.simplified(FloorDiv(as_expr(self.trace.grid[0]), self.blocks))
        self.tracer.ranges[cluster] = Range(0, count)
        for rank in range(self.blocks):
            own = {self.block: self.blocks * cluster + rank}
            found.append({**own, **{tile: number.xreplace(own) for tile, number in turns.items()}})
        self._tell_data_apart(found)
        return found

    def _tell_data_apart(self, numbers: list[dict[Symbol, Expr]]) -> None:
        """Give each block symbols of its own for data, but for what all compute alike."""
        for symbol, operand in ((s.symbol, s.operand) for s in self.trace.statements() if isinstance(s, ToIndex)):
            if symbol in self._indices or self._is_common(operand, numbers):
                continue
            for rank, own in enumerate(numbers):
                own[symbol] = sympy.Symbol(f"{symbol}of{rank}", integer=True)
                if symbol in self.tracer.ranges:
                    self.tracer.ranges[own[symbol]] = self.tracer.ranges[symbol]

    def _is_common(self, value: Value, numbers: list[dict[Symbol, Expr]]) -> bool:
        """Whether all blocks compute a value from the same elements and numbers."""
        match self._defined.get(value.number):
            case Constant():
                return True
            case Load(access=access, other=other):
                filled = other is None or self._is_common(other, numbers)
                own = access.buffer.space == "workgroup"
                return not own and filled and self._is_one((*access.index, access.mask), numbers)
            case FromIndex(expr=expr) | FromCondition(condition=expr):
                return self._is_one((expr,), numbers)
            case Compute() | Convert() as computed:
                return all(self._is_common(operand, numbers) for operand in operands_of(computed))
        return False

    def _is_one(self, given: tuple[Expr | Cond, ...], numbers: list[dict[Symbol, Expr]]) -> bool:
        """Whether indices and conditions are the same expressions in all blocks."""
        first, *others = (tuple(self._through(i).xreplace(own) for i in given) for own in numbers)
        return all(other == first for other in others)

    @cached_property
    def _defined(self) -> dict[int, Statement]:
        """The statements by the numbers of their results."""
        found = ((getattr(s, "result", None), s) for s in self.trace.statements())
        return {result.number: s for result, s in found if isinstance(result, Value)}

    def _turns(self) -> dict[Symbol, Expr]:
        """The variables of loops that begin at the block's number, as that number and the loop's turn."""
        found: dict[Symbol, Expr] = {}
        loops = (s for s in self.trace.statements() if isinstance(s, For) and s.lo == self.block)
        for loop in loops:
            tiles, step = as_expr(loop.hi), as_expr(loop.step)
            if not all(isinstance(self.tracer.prove(Eq(FloorMod(n, self.blocks), 0)), Proved) for n in (tiles, step)):
                raise refused(
                    loop.source,
                    f"the blocks of a cluster of {self.blocks} need equal numbers of tiles: {loop.hi} by steps of "
                    f"{loop.step}; use numbers that {self.blocks} divides",
                )
            turn = sympy.Symbol(f"{loop.symbol}turn", integer=True)
            self.tracer.ranges[turn] = Range(0, self.tracer.simplified(FloorDiv(tiles + step - 1, step)))
            found[loop.symbol] = loop.lo + step * turn
        return found
