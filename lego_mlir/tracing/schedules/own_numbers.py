"""A second program of the same statements: its values, registers and index symbols get numbers of their own.

`roles` writes the copies of a kernel beside its products, and `ahead` steps before them. Statements that both need are
in both programs, so those of the copies are renamed:

    v7 = load rows[v3]                   v31 = load rows[v3]               v3 is defined outside, and shared
    r2 = v7 + 1                  -->     r9 = v31 + 1
    copy a[(v7, k)] -> ta                copy a[(v31, k + 2)] -> ta        where `own_expr` says what k is
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import fields, replace
from typing import Any

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import refused
from lego_mlir.tracing.trace.symbols import expressions
from lego_mlir.tracing.trace.trace import FunctionCall, Register, Statement, TensorAccess, ToIndex, Value, Write


class OwnNumbers(Replay):
    """A rewriter that writes some statements again, under other numbers."""

    def begin(self) -> None:
        """Start with no statement renamed."""
        self.renamed: MutableMapping[int, Value] = {}
        self.moved: MutableMapping[Register, Register] = {}
        self.replaced: MutableMapping[Symbol, Expr] = {}

    def own_expr(self, expr: Expr | Cond) -> Expr | Cond:
        """An index expression in the second program."""
        expr = sympy.sympify(expr)
        if not expr.free_symbols & self.replaced.keys():
            return expr
        return self.tracer.simplified(expr.xreplace(self.replaced))

    def own_value(self, value: Value, *, new: bool = False) -> Value:
        """A value in the second program; a `new` one is defined there."""
        if new:
            self.renamed[value.number] = self.tracer.value(value.dtype, value.width)
        return self.renamed.get(value.number, value)

    def own_statement(self, statement: Statement) -> Statement:
        """A statement without a body, as the second program has it."""
        changed: dict[str, Any] = {}
        for entry in fields(statement):
            held = getattr(statement, entry.name)
            if isinstance(held, TensorAccess):
                changed[entry.name] = self._access(held)
            elif isinstance(held, Register):
                if isinstance(statement, Write) and held not in self.moved:
                    self.moved[held] = self.tracer.register(held.dtype, held.width)
                changed[entry.name] = self.moved.get(held, held)
            elif isinstance(held, Value):
                changed[entry.name] = self.own_value(held, new=entry.name == "result")
            elif isinstance(held, tuple) and held and all(isinstance(v, Value) for v in held):
                changed[entry.name] = tuple(self.own_value(v, new=entry.name == "results") for v in held)
            elif entry.name in ("expr", "condition") and isinstance(held, sympy.Basic):
                changed[entry.name] = self.own_expr(held)
        if isinstance(statement, FunctionCall):
            self._require_numbers(statement)
            given = statement.arguments
            changed["arguments"] = tuple(self.own_value(v) if isinstance(v, Value) else self.own_expr(v) for v in given)
        if isinstance(statement, ToIndex):
            changed["symbol"] = self._symbol(statement.symbol, changed["operand"])
        return replace(statement, **changed)

    def _require_numbers(self, call: FunctionCall) -> None:
        """A function is one for both programs: it reads no id that they have apart, and its results are data."""
        apart = any(self.own_expr(e) != e for e in expressions(call.function.body))
        if apart or not all(isinstance(v, Value) for v in call.results):
            raise refused(
                call.source,
                "the copies call a function that reads the id of its thread, or returns an index; pass the id, "
                "or leave out inline=False",
            )

    def _symbol(self, symbol: Symbol, operand: Value) -> Symbol:
        fresh = sympy.Symbol(f"v{self.tracer.value(operand.dtype).number}", integer=True)
        self.tracer.define_data(fresh, operand, self.trace.ranges[symbol])
        if symbol in self.trace.data.claimed:
            self.tracer.data.claimed[fresh] = self.trace.data.claimed[symbol]
        self.replaced[symbol] = fresh
        return fresh

    def _access(self, access: TensorAccess) -> TensorAccess:
        index, mask = tuple(self.own_expr(i) for i in access.index), self.own_expr(access.mask)
        if index == access.index and mask == access.mask:
            return access
        # a view's boundary is in the position alone
        return replace(access, index=index, mask=mask, derived=self.tracer.derive(self.own_expr(access.stated)))
