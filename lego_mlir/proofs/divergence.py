"""Which values of a kernel are the same in all threads of a block, or in all lanes of a warp.

A value is uniform if it is computed from uniform values by statements that all threads reach together: a size, a block
id, a round of a loop with uniform bounds, an element of memory at a uniform index. A register is uniform if all that is
written to it is. Everything else diverges: thread ids, results of atomic updates, shuffles and votes.

In the lanes of a warp, the result of a vote is the same too, as is what a shuffle takes from one lane for all.

A shared element at a uniform index is the same for all threads that read it between the same two barriers, because a
write in between is a race, which another claim excludes. A global tensor that the kernel writes diverges: other blocks
may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.trace import (
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
)

FROM_LANE: Final = "#gpu<shuffle_mode idx>"


class Divergence:
    """The symbols, values and registers of a kernel that may differ between the threads of a block or a warp.

    `agreed` proves that threads agree on a condition although its symbols differ: `warp == 3`, in a warp.
    """

    def __init__(
        self, trace: KernelTrace, scope: str = "block", agreed: Callable[[Divergence, Cond], bool] | None = None
    ) -> None:
        self.scope, self._agreed = scope, agreed
        self.symbols: set[Symbol] = {s for s, (kind, _) in trace.ids.items() if kind == "thread_id"}
        self.values: set[int] = set()
        self.registers: set[int] = set()
        self._constants = {s.result.number: s.number for s in trace.statements() if isinstance(s, Constant)}
        self._written = {a.buffer.name for s, a in trace.accesses() if not isinstance(s, Load)}
        size = -1
        while size != (size := len(self.symbols) + len(self.values) + len(self.registers)):
            self._body(trace.body, diverged=False)

    def differs(self, expr: Expr) -> bool:
        """Whether an expression may differ between the threads of a block."""
        return bool(expr.free_symbols & self.symbols)

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
                if result is not None and self._result_differs(statement):
                    self.values.add(result.number)

    def _may_part(self, condition: Cond) -> bool:
        """Whether threads may take different sides of a branch."""
        return self.differs(condition) and not (self._agreed is not None and self._agreed(self, condition))

    def _mark(self, results: Iterable[Any]) -> None:
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
        return operation.name == "nvvm.vote.sync"

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
