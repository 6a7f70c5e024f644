"""Divergence: the values that are the same in all threads of a block, of a role's group, or in all lanes of a warp.

A value is uniform if it is computed from uniform values by statements that all threads reach together: a size, a block
id, a round of a loop with uniform bounds, an element of memory at a uniform index. A register is uniform if all that is
written to it is. Everything else diverges: thread ids, results of atomic updates, shuffles and votes.

In the lanes of a warp, the result of a vote is the same too, as is what a shuffle takes from one lane for all.

A shared element at a uniform index is the same for all threads that read it between the same two barriers, because a
write in between is a race, which another claim excludes. A global tensor that the kernel writes diverges: other blocks
may change it.

Words about tiles, such as `lego.copy_async`, are executed by all threads of a group together: `refuse_differing` checks
that their indices are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import TraceError, brief
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.trace.marks import WarpRole
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    Atomic,
    Compose,
    Compute,
    Constant,
    Contract,
    Convert,
    For,
    FromCondition,
    FromIndex,
    FunctionCall,
    If,
    KernelTrace,
    Lane,
    Load,
    MlirOperation,
    Piece,
    Read,
    Register,
    Statement,
    TileLoad,
    ToIndex,
    Value,
    While,
    Write,
    operands_of,
)

FROM_LANE: Final = "#gpu<shuffle_mode idx>"
_NO_ROLE: Final = WarpRole(0, 0, 1, None, 0)
"""Statements outside of roles, which all threads of the block run."""


@dataclass(frozen=True, slots=True)
class CommonIndex:
    """An index that has to be the same for all threads that run a word: where, which word, and the role around it."""

    source: Source
    word: str
    index: Expr
    role: WarpRole | None


def refuse_differing(trace: KernelTrace, indices: Sequence[CommonIndex]) -> None:
    """Raise TraceError for an index that may differ between the threads that run a word together."""
    if not indices:
        return
    divergence = Divergence(trace, "group", asked=[common.index for common in indices])
    for common in indices:
        if divergence.differs_in(common.index, common.role):
            who = "of the block" if common.role is None else "of the role"
            raise TraceError(
                f"{common.source}: {common.word} at the index {brief(str(common.index))}, which differs between the "
                f"threads {who}; they run it together, for one tile: use an index that is the same for all of them, or "
                "load what each thread needs by itself"
            )


class Divergence:
    """The symbols, values and registers of a kernel that may differ between threads of a block, a warp, or a group.

    `agreed` proves that threads agree on a condition although its symbols differ: `warp == 3`, in a warp. In the scope
    "group", statements of a role are about the threads of one of its groups, which has a number of its role. Only
    what conditions, bounds of loops and the expressions `asked` about depend on is followed.
    """

    def __init__(
        self,
        trace: KernelTrace,
        scope: str = "block",
        agreed: Callable[[Divergence, Cond], bool] | None = None,
        asked: Iterable[Expr] = (),
    ) -> None:
        self.scope, self._agreed = scope, agreed
        self._threads = [s for s, (kind, _) in trace.ids.items() if kind == "thread_id"]
        self._ranges, self._role = trace.ranges, None if scope != "group" else _NO_ROLE
        self._in_group: dict[tuple[Expr, WarpRole | None], bool] = {}
        self.symbols: set[Symbol] = set(self._threads)
        self.values: set[int] = set()
        self.registers: set[int] = set()
        self._constants = {s.result.number: s.number for s in trace.statements() if isinstance(s, Constant)}
        self._written = {a.buffer.name for s, a in trace.accesses() if not isinstance(s, Load)}
        self._needed = _needed(trace, asked)
        size = -1
        while size != (size := len(self.symbols) + len(self.values) + len(self.registers)):
            self._body(trace.body, diverged=False)

    def differs(self, expr: Expr) -> bool:
        """Whether an expression may differ between the threads of a block."""
        found = expr.free_symbols & self.symbols
        return bool(found) and (self._role is None or self.differs_in(expr, self._role))

    def differs_in(self, expr: Expr, role: WarpRole | None) -> bool:
        """Whether an expression may differ between the threads of a group of a role, or of the block without one."""
        found = expr.free_symbols & self.symbols
        if role is None or not role.end or found - set(self._threads) or len(self._threads) != 1:
            return bool(found)
        if not found:
            return False
        if (expr, role) not in self._in_group:
            group, rest = (sympy.Symbol(name, integer=True) for name in ("group", "thread of the group"))
            known = {**self._ranges, group: Range(0, role.groups), rest: Range(0, role.warps * WARP)}
            thread = (role.first + role.warps * group) * WARP + rest
            simple = simplify(sympy.sympify(expr).xreplace({self._threads[0]: thread}), known).expr
            self._in_group[expr, role] = rest in simple.free_symbols
        return self._in_group[expr, role]

    def is_same(self, value: int) -> bool:
        """Whether a value is followed, and the same for all threads whenever it is computed."""
        return value in self._needed and value not in self.values

    def register(self, register: Register) -> Symbol:
        """The symbol that represents a loop's register, among those that diverge if it does."""
        symbol = sympy.Symbol(f"register {register.number}", integer=True)
        if register.number in self.registers:
            self.symbols.add(symbol)
        return symbol

    def _body(self, body: Iterable[Statement], diverged: bool) -> None:
        for statement in body:
            self._statement(statement, diverged)

    def _statement(self, statement: Statement, diverged: bool) -> None:
        match statement:
            case For(symbol=symbol, lo=lo, hi=hi, step=step, body=body):
                differs = any(self.differs(sympy.sympify(end)) for end in (lo, hi, step))
                if differs or diverged:
                    self.symbols.add(symbol)
                self._body(body, diverged or differs)
            case While(condition=condition, body=body):
                self.register(condition)
                self._body(body, diverged or condition.number in self.registers)
            case If(mark=WarpRole() as role, then=then) if self.scope == "group":
                self._role = role
                self._body(then, diverged)
                self._role = _NO_ROLE
            case If(condition=condition, then=then, otherwise=otherwise):
                inside = diverged or self._may_part(condition)
                self._body(then, inside)
                self._body(otherwise, inside)
            case Write(register=register, value=value):
                if diverged or value.number in self.values:
                    self.registers.add(register.number)
            case ToIndex(symbol=symbol, operand=operand):
                if operand.number in self.values:
                    self.symbols.add(symbol)
            case FunctionCall(function=function, results=results):
                self._body(function.body, diverged)
                self._mark(results)
            case MlirOperation(results=results):
                if self.scope == "block" or not self._is_same_in_warp(statement):
                    self._mark(results)
            case _:
                result = getattr(statement, "result", None)
                if result is not None and result.number in self._needed and self._result_differs(statement):
                    self.values.add(result.number)

    def _may_part(self, condition: Cond) -> bool:
        """Whether threads may take different sides of a branch."""
        return self.differs(condition) and not (self._agreed is not None and self._agreed(self, condition))

    def _mark(self, results: Iterable[Value | Symbol]) -> None:
        for result in results:
            if isinstance(result, Value):
                self.values.add(result.number)
            else:
                self.symbols.add(result)

    def _is_same_in_warp(self, operation: MlirOperation) -> bool:
        """Whether all lanes of a warp get one value."""
        if operation.name == "gpu.shuffle":
            _, lane, width = operation.operands
            whole = self._constants.get(width.number) == WARP
            return dict(operation.attributes)["mode"] == FROM_LANE and whole and lane.number not in self.values
        return operation.name == "nvvm.vote.sync" and self._constants.get(operation.operands[0].number) == -1

    def _result_differs(self, statement: Statement) -> bool:
        match statement:
            case Constant():
                return False
            case FromIndex(expr=expr) | FromCondition(condition=expr):
                return self.differs(expr)
            case Read(register=register):
                return register.number in self.registers
            case Load(access=access, other=other):
                shared_or_read_only = access.buffer.space == "workgroup" or access.buffer.name not in self._written
                address = self.differs(sympy.sympify(access.position)) or self.differs(access.mask)
                return address or not shared_or_read_only or (other is not None and other.number in self.values)
            case Compute(operands=operands) | Compose(operands=operands):
                return any(o.number in self.values for o in operands)
            case Convert(operand=operand) | Lane(operand=operand) | Piece(operand=operand):
                return operand.number in self.values
            case Atomic() | TileLoad() | Contract():
                return True
            case _:
                return True


def _needed(trace: KernelTrace, asked: Iterable[Expr]) -> set[int]:
    """The numbers of the values that conditions, bounds of loops, shuffles and these expressions are computed from."""
    sources: dict[object, list[object]] = {}  # symbols, numbers of values and registers: what each is computed from
    pending: list[object] = [symbol for expr in asked for symbol in expr.free_symbols]
    for statement in trace.statements():
        match statement:
            case For(lo=lo, hi=hi, step=step):
                pending += (symbol for end in (lo, hi, step) for symbol in sympy.sympify(end).free_symbols)
            case If(condition=condition):
                pending += condition.free_symbols
            case While(condition=register):
                pending.append(register)
            case Write(register=register, value=value):
                sources.setdefault(register, []).append(value.number)
            case ToIndex(symbol=symbol, operand=operand):
                sources[symbol] = [operand.number]
            case MlirOperation(name="gpu.shuffle"):
                pending += (operand.number for operand in operands_of(statement))
            case _:
                result = getattr(statement, "result", None)
                if result is not None:
                    sources[result.number] = [*_indices_of(statement), *(v.number for v in operands_of(statement))]
    needed = set()
    while pending:
        source = pending.pop()
        if source not in needed:
            needed.add(source)
            pending += sources.get(source, ())
    return {source for source in needed if isinstance(source, int)}


def _indices_of(statement: Statement) -> Iterable[object]:
    """The symbols and registers that a statement computes its result from."""
    match statement:
        case FromIndex(expr=expr) | FromCondition(condition=expr):
            return expr.free_symbols
        case Read(register=register):
            return (register,)
        case Load(access=access):
            return sympy.sympify(access.position).free_symbols | access.mask.free_symbols
        case _:
            return ()
