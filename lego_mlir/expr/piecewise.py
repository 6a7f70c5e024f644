"""Rewriting an expression piece by piece: each part is rewritten only where that is cheaper.

Rewriting a whole expression may save in one place and cost in another: the divisions of a Z-curve's tile numbers
vanish, while its masks and shifts, split bit by bit, share less. Here each part is compared separately, innermost
first: as written, over the chosen forms of its operands, against its rewritten form. The terms of a sum that are
cheaper rewritten are rewritten together, because like terms, or a quotient and its remainder, may combine.

>>> import sympy
>>> from lego_mlir.expr.context import context_of
>>> from lego_mlir.expr.cost import OPERATIONS
>>> from lego_mlir.expr.factor import Writer
>>> from lego_mlir.expr.nodes import BitOr, FloorDiv, ShiftLeft
>>> from lego_mlir.expr.ranges import Range
>>> i, j = sympy.symbols("i j", integer=True)
>>> context = context_of({i: Range(0, 8), j: Range(0, 8)})
>>> pieces = Pieces(context, Writer(context, OPERATIONS))
>>> word = i + 8*j
>>> spread = BitOr(word, ShiftLeft(word, 3)) + FloorDiv(j, 8)
>>> pieces.whole(spread).expr, pieces.form(spread).expr, pieces.form(spread).rewritten
(i + 64*j + 8*(i | j), (i + 8*j) | ((i + 8*j) << 3), (j // 8,))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.factor import Writer, over

if TYPE_CHECKING:
    from lego_mlir.expr.context import Context
    from lego_mlir.expr.rewrite import Trace


@dataclass(frozen=True)
class Form:
    """A form of an expression, and the parts of the expression that were rewritten to obtain it."""

    expr: Any
    rewritten: tuple[Any, ...]
    writer: Writer

    @cached_property
    def cost(self) -> tuple[int, int]:
        """Its cost, which only some forms need."""
        return self.writer.cost(self.expr)


class Pieces:
    """The forms of expressions and of their parts, produced by one writer."""

    def __init__(self, context: Context, writer: Writer) -> None:
        self.context = context
        self.writer = writer
        self._wholes: dict[Any, Form] = {}
        self._forms: dict[Any, Form] = {}

    def whole(self, expr: Expr) -> Form:
        """The cheapest form obtained by rewriting the whole expression."""
        known = self._wholes.get(expr)
        if known is None:
            trace = rewriting(self.context, expr)
            found = self.writer.condition(trace.result) if is_condition(expr) else self.writer.cheapest(trace.result)
            changed = () if trace.result == trace.subject else (expr,)
            known = self._wholes[expr] = Form(found, changed, self.writer)
        return known

    def form(self, expr: Expr) -> Form:
        """The cheaper of `whole` and the expression as written over such forms of its operands.

        Ties go to the latter, which shares more with the parts around it.
        """
        known = self._forms.get(expr)
        if known is None:
            known = self.whole(expr)
            if not known.expr.is_Atom:
                known = min(self._sum(expr) if expr.is_Add else self._node(expr), known, key=lambda form: form.cost)
            self._forms[expr] = known
        return known

    def _node(self, expr: Expr) -> Form:
        """An operation as written; rewritten as a whole where an operand's form turns it into a division by zero."""
        forms: list[Form] = []

        def operand(part: Expr) -> Expr:
            forms.append(self.form(part))
            return forms[-1].expr

        try:
            return self._composed(over(expr, operand), forms)
        except ExpressionError:
            return self.whole(expr)

    def _sum(self, expr: Expr) -> Form:
        """A sum: the terms that are cheaper as written, and the others rewritten together."""
        unchanged = list(map(self._cheaper_as_written, expr.args))
        if not any(unchanged):
            return self.whole(expr)
        rest = [term for term, alone in zip(expr.args, unchanged, strict=True) if not alone]
        separate = [term for term, alone in zip(expr.args, unchanged, strict=True) if alone]
        forms = [self.whole(sympy.Add(*rest)), *map(self.form, separate)]
        return self._composed(sympy.Add(*(form.expr for form in forms)), forms)

    def _cheaper_as_written(self, expr: Expr) -> bool:
        whole, form = self.whole(expr), self.form(expr)
        return form is not whole and (bool(whole.rewritten) or form.cost < whole.cost)

    def _composed(self, expr: Expr, forms: Iterable[Form]) -> Form:
        rewritten = dict.fromkeys(part for form in forms for part in form.rewritten)
        return Form(expr, tuple(rewritten), self.writer)


def is_condition(expr: Expr) -> bool:
    """Whether an expression is a Boolean rather than an integer."""
    return isinstance(expr, sympy.logic.boolalg.Boolean) and not expr.is_Symbol


def rewriting(context: Context, expr: Expr) -> Trace:
    """The trace of rewriting an expression or condition."""
    if is_condition(expr):
        return context.rewriter.condition(context.terms.read_condition(expr))
    return context.rewriter.sum(context.terms.read(expr))
