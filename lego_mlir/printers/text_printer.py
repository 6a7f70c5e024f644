"""Index expressions as text: the common base of the Triton and C printers.

Three rules make the text correct. Precedence: the languages disagree about `&`, `<<` and comparisons, so such an
operation is always parenthesized as an operand. Width: every partial sum and product is computed in a type in which it
provably fits, and operands are widened before an operation, never its result after it has overflowed. Division: the
hardware truncates, the algebra floors; the plain operator is printed only if neither operand can be negative.

A printer is a subclass that defines the target-specific spellings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import sympy
from sympy.logic.boolalg import Boolean

from lego_mlir.aliases import Cond, Expr, IndexLike, Symbol
from lego_mlir.errors import PrintError, brief
from lego_mlir.expr import nodes
from lego_mlir.expr.budgets import require_characters, within_recursion_limit
from lego_mlir.expr.context import PlainRanges
from lego_mlir.expr.index import as_condition, as_expr
from lego_mlir.expr.intervals import Bounds, bounds, value_beyond
from lego_mlir.expr.prefix import COMPARED, PrefixPrinter
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.target_functions import FUNCTIONS

ATOM: Final = 4
PRODUCT: Final = 3
SUM: Final = 2
LOOSE: Final = 1
"""Binding strength of a text: an operand of a looser operation needs no parentheses."""

Width = Literal["i32", "u32", "i64"]
Interval = tuple[int | None, int | None]

HOLDS: Final[dict[Width, tuple[int, int]]] = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Text:
    """A printed expression, its binding strength, and the type that the target computes it in."""

    text: str
    level: int
    width: Width

    def at(self, level: int) -> str:
        """The text as an operand of at least this binding strength, parenthesized if needed."""
        return self.text if self.level >= level else f"({self.text})"


class TextPrinter:
    """Prints integer expressions and conditions over symbols with known ranges.

    `names` overrides the text of symbols or whole subexpressions. `helpers` collects the functions that the printed
    text calls. Raises PrintError for an unsupported node, and for a value that no type holds.

    A symbol is declared elsewhere and may be as narrow as int32 whatever its range: if the range needs more, it is cast
    before use. `declared` holds the symbols known to have the type of their range.
    """

    target: ClassVar[str]
    reserved: ClassVar[frozenset[str]] = frozenset()
    """Words of the target's language that cannot name a variable or a table."""
    widths: ClassVar[tuple[Width, ...]] = ("i32", "i64")

    def __init__(
        self, ranges: Mapping[IndexLike, Range] | None = None, names: Mapping[IndexLike, str] | None = None
    ) -> None:
        self.ranges = PlainRanges(ranges or {})
        self.names: dict[Any, str] = {as_expr(e): text for e, text in (names or {}).items()}
        self.helpers: dict[str, None] = {}
        self.declared: set[Any] = set()
        self._bound: dict[Any, Width] = {}
        self._bounds: dict[Any, Bounds] = {}
        self.checks_names = True  # False where the caller has checked all names of the text
        self._called: dict[str, Any] = {}  # the meaning of each name in the printed texts: a symbol or table contents
        self._printed: dict[Any, Text] | None = None  # memo of parts, while a text is being printed
        self.beginning = PrefixPrinter(COMPARED).text

    # -- entry points

    def expression(self, expr: IndexLike) -> str:
        """The text of an integer expression, given as SymPy, `Index` or int."""
        return self.print(as_expr(expr)).text

    def condition(self, condition: Cond) -> str:
        """The text of a condition."""
        return self.print_condition(as_condition(condition)).text

    def width_of(self, expr: IndexLike) -> Width:
        """The type that the printed text of an expression has."""
        return self.print(as_expr(expr)).width

    @within_recursion_limit("printed")
    def named(self, exprs: Sequence[IndexLike], prefix: str = "t") -> tuple[list[tuple[str, Expr]], list[Expr]]:
        """Name shared subexpressions: (name, subexpression) in dependency order."""
        given = [as_expr(e) for e in exprs]
        taken = {str(s) for s in self.declared.union(*(e.free_symbols for e in given))} | set(self.names.values())
        taken |= {table.name for table in nodes.tables_of(*given)}
        names = (n for k in range(10**6) if (n := f"{prefix}{k}") not in taken)
        bindings = []
        for shared in shared_subexpressions(given):
            if shared not in self.names:
                name = next(names)
                bindings.append((name, shared))
        return bindings, given

    def bind(self, name: str, expr: IndexLike, width: Width) -> None:
        """From now on, print an expression as a variable of this name and type."""
        self.names[as_expr(expr)] = name
        self._bound[as_expr(expr)] = width

    # -- ranges and types

    def bounds(self, expr: Expr) -> Bounds:
        """The bounds of an expression, memoized."""
        found = self._bounds.get(expr)
        if found is None:
            found = self._bounds[expr] = bounds(expr, self.ranges)
        return found

    def interval(self, expr: Expr) -> Interval:
        found = self.bounds(expr)
        if isinstance(expr, nodes.FloorMod) and (found.hi is None or found.hi > HOLDS["i32"][1]):
            divisor = self.bounds(expr.args[1]).hi
            if divisor is not None and self.positive(expr.args[1]):
                return 0, divisor - 1  # interval arithmetic misses this if the divisor's sign needs a proof
        return found.lo, found.hi

    def not_negative(self, expr: Expr) -> bool:
        """Whether a value is proved non-negative, by its bounds or by the prover."""
        return self._at_least(0, expr)

    def positive(self, expr: Expr) -> bool:
        return self._at_least(1, expr)

    def _at_least(self, least: int, expr: Expr) -> bool:
        low = self.bounds(expr).lo
        return (low is not None and low >= least) or bool(prove(nodes.Le(least, expr), self.ranges))

    def fit(self, intervals: Iterable[Interval], what: Expr | int | str) -> Width:
        """The narrowest type of the target that holds every value of the intervals; 64 bits if unknown."""
        intervals = list(intervals)
        for width in self.widths:
            low, high = HOLDS[width]
            if all(lo is not None and hi is not None and low <= lo and hi <= high for lo, hi in intervals):
                return width
        low, high = HOLDS["i64"]
        for lo, hi in intervals:
            if (lo is not None and lo > high) or (hi is not None and hi < low):
                shown = self.short(what)
                raise PrintError(f"{self.target}: {shown} lies in [{lo}, {hi}], which no integer type holds")
            if (hi is not None and hi > high) or (lo is not None and lo < low):
                self._refuse_a_value_outside(what)
        return "i64"

    def short(self, expr: Expr | int | str) -> str:
        """An expression abbreviated for a message."""
        return brief(self.beginning(expr) if isinstance(expr, sympy.Basic) else expr)

    def _refuse_a_value_outside(self, what: Expr | int | str) -> None:
        """Reject an expression that exceeds 64 bits for some values in the ranges.

        Bounds beyond 64 bits alone are not an error: they may be wider than the values, and a size's declared maximum
        is often larger than any actual size.
        """
        if isinstance(what, sympy.Expr):
            value = value_beyond(what, self.ranges, *HOLDS["i64"])
            if value is not None:
                shown = f"{self.short(what)} is {value} for values in its ranges"
                raise PrintError(f"{self.target}: {shown}, which no integer type holds")

    def as_width(self, text: Text, width: Width) -> Text:
        """The same value, cast to this type if needed."""
        return text if text.width == width else self.cast(text, width)

    def widened(self, operands: Sequence[Text], width: Width) -> list[Text]:
        """Operands of a chain computed from left to right: widening the first one widens the chain.

        An unsigned operand would make a chain of ints unsigned, although partial results may be negative.
        """
        first, *rest = operands
        if width == "i32":
            rest = [self.cast(t, width) if t.width == "u32" else t for t in rest]
        return [self.as_width(first, width), *rest]

    # -- nodes

    def operand(self, expr: Expr, whole: Expr) -> Text:
        """The text of an operand of `whole`, an expression or a condition."""
        is_condition = isinstance(expr, Boolean) and not expr.is_Symbol  # SymPy's symbols could be either
        return self.print_condition(expr) if is_condition else self.print(expr)

    def print(self, expr: Expr) -> Text:
        """The text of a SymPy integer expression in the nodes of `expr.nodes`."""
        return self._once(expr, self._print)

    def _once(self, expr: Expr, show: Callable[[Expr], Text]) -> Text:
        """The text of a part, memoized while the whole is printed."""
        if self._printed is None:
            return self._whole(expr, show)
        found = self._printed.get(expr)
        if found is None:
            found = self._printed[expr] = show(expr)
            require_characters(self.target, found.text)
        return found

    @within_recursion_limit("printed")
    def _whole(self, expr: Expr, show: Callable[[Expr], Text]) -> Text:
        self._printed = {}
        try:
            return self._once(expr, show)
        finally:
            self._printed = None

    def _print(self, expr: Expr) -> Text:
        if expr in self.names:
            return self.name(self.names[expr], expr)
        if expr.is_Integer:
            return self.constant(int(expr))
        if expr.is_Symbol:
            self.require_name(str(expr), "a variable", expr)
            return self.name(str(expr), expr)
        if expr.is_Add:
            return self.print_sum(expr)
        if expr.is_Mul:
            return self.print_product(expr)
        if expr.is_Pow:
            return self.print_factors(expr, [expr.base] * int(expr.exp))
        method = _METHODS.get(type(expr), "print_call")
        if method == "print_call" and type(expr).__name__ not in FUNCTIONS[self.target]:
            raise PrintError(f"{self.target}: no form for {type(expr).__name__} in {self.short(expr)}")
        result: Text = getattr(self, method)(expr)
        return result

    def require_name(self, name: str, what: str, meaning: Any) -> None:
        """Reject a name that is reserved in the target's language, or that would have two meanings in the text."""
        if not self.checks_names:
            return
        if name in self.reserved:
            raise PrintError(f"{self.target}: {what} cannot be named '{name}', a reserved word; rename it")
        if self._called.setdefault(name, meaning) != meaning:
            raise PrintError(
                f"{self.target}: two different objects are named '{name}': tables, sizes and indices need distinct "
                f"names; rename one (a table as in lego.gallery.table(.., name='{name}_2'))"
            )

    def require_table(self, table: nodes.Table) -> None:
        """Reject a table whose name is not unique."""
        self.require_name(table.name, "a table", ("table", table.entries, table.length, table.bound))

    def name(self, text: str, expr: Expr) -> Text:
        """The text of a symbol or of a named expression."""
        if expr.is_Symbol and not self.is_declared(expr):
            return Text(text, ATOM, "i32")
        return Text(text, ATOM, self._bound.get(expr) or self.type_of(expr))

    def is_declared(self, symbol: Symbol) -> bool:
        """Whether a symbol is known to be declared with the type that its range needs."""
        return symbol in self.declared

    def type_of(self, symbol: IndexLike) -> Width:
        """The type that a variable with the range of this symbol needs."""
        return self.fit([self.interval(as_expr(symbol))], symbol)

    def constant(self, value: int) -> Text:
        width = self.fit([(value, value)], value)
        return Text(str(value), ATOM if value >= 0 else SUM, width)

    def ordered(self, terms: Sequence[Expr]) -> list[Expr]:
        """The terms of a sum: added ones, then subtracted ones, constants last."""
        return sorted(terms, key=lambda t: (is_subtracted(t), t.is_Integer, self.beginning(t)))

    def print_sum(self, expr: Expr) -> Text:
        return self.print_terms(expr, self.ordered(expr.args))

    def print_terms(self, expr: Expr, terms: Sequence[Expr]) -> Text:
        """A sum in the given order of its terms. Every partial sum must fit the type of the computation."""
        lo, hi = 0, 0
        prefixes: list[Interval] = []
        for term in terms:
            low, high = self.interval(term)
            lo = None if lo is None or low is None else lo + low  # type: ignore[assignment]
            hi = None if hi is None or high is None else hi + high  # type: ignore[assignment]
            prefixes.append(self.partial_sum(terms[: len(prefixes) + 1], (lo, hi)))
        magnitudes = [-t if is_subtracted(t) else t for t in terms]
        width = self.fit([*prefixes, *map(self.interval, magnitudes)], expr)
        parts = self.widened([self.operand(t, expr) for t in magnitudes], width)
        text = parts[0].at(SUM) if not is_subtracted(terms[0]) else f"-{parts[0].at(ATOM)}"
        for term, part in zip(terms[1:], parts[1:], strict=True):
            text += f" - {part.at(PRODUCT)}" if is_subtracted(term) else f" + {part.at(PRODUCT)}"
        return Text(text, SUM, width)

    def partial_sum(self, terms: Sequence[Expr], added: Interval) -> Interval:
        """The interval of the first terms of a sum; `added` is the sum of their intervals."""
        return added

    def print_product(self, expr: Expr) -> Text:
        if expr.args[0].is_Integer and int(expr.args[0]) < 0:
            return self.print_terms(expr, [expr])
        factors: list[Any] = []
        for factor in sorted(expr.args, key=lambda f: (f.is_Integer, self.beginning(f))):
            factors.extend([factor.base] * int(factor.exp) if factor.is_Pow else [factor])
        return self.print_factors(expr, factors)

    def print_factors(self, expr: Expr, factors: Sequence[Expr]) -> Text:
        """A product in the given order; every partial product must fit."""
        prefixes: list[Interval] = [self.interval(expr)]
        running = factors[0]
        for factor in factors[1:-1]:
            running = running * factor
            prefixes.append(self.interval(running))
        width = self.fit([*prefixes, *map(self.interval, factors)], expr)
        parts = self.widened([self.operand(f, expr) for f in factors], width)
        return Text(" * ".join([parts[0].at(PRODUCT), *(p.at(ATOM) for p in parts[1:])]), PRODUCT, width)

    def print_quotient(self, expr: Expr) -> Text:
        raise NotImplementedError  # target-specific

    def print_remainder(self, expr: Expr) -> Text:
        raise NotImplementedError  # target-specific

    def operands(self, expr: Expr, args: Sequence[Expr]) -> tuple[Width, list[Text]]:
        """The type that holds the result and every operand, and the operands in it."""
        width = self.fit([self.interval(expr), *map(self.interval, args)], expr)
        return width, [self.as_width(self.operand(a, expr), width) for a in args]

    def print_bits(self, expr: Expr) -> Text:
        width, (a, b) = self.operands(expr, expr.args)
        return Text(f"{a.at(ATOM)} {expr.symbol} {b.at(ATOM)}", LOOSE, width)

    def print_shift(self, expr: Expr) -> Text:
        """A shift by less than the bit width of the type."""
        width = self.fit([self.interval(expr), self.interval(expr.args[0])], expr)
        self.shifted_by(expr, 64 if width == "i64" else 32)
        a, b = self.as_width(self.operand(expr.args[0], expr), width), self.operand(expr.args[1], expr)
        return Text(f"{a.at(ATOM)} {expr.symbol} {b.at(ATOM)}", LOOSE, width)

    def shifted_by(self, expr: Expr, bits: int) -> int:
        """The largest shift amount, below `bits`. Raises PrintError if the amount may lie outside 0..bits - 1."""
        amount = self.bounds(expr.args[1])
        if amount.lo is None or amount.lo < 0 or amount.hi is None or amount.hi >= bits:
            raise PrintError(
                f"{self.target}: the shift {self.short(expr)} is by {self.short(expr.args[1])}, not shown to lie in "
                f"0..{bits - 1}; give its range"
            )
        return amount.hi

    def called(self, expr: Expr, width: Width, *arguments: Text, suffix: str = "") -> Text:
        """The call of a node's function; one with a definition is added to the helpers."""
        function = FUNCTIONS[self.target][type(expr).__name__]
        if function.definition:
            self.helpers[function.name] = None
        return Text(f"{function.name}{suffix}({', '.join(a.text for a in arguments)})", ATOM, width)

    def print_call(self, expr: Expr) -> Text:
        """A function of integers of one type."""
        width, arguments = self.operands(expr, expr.args)
        return self.called(expr, width, *arguments)

    def print_extreme(self, expr: Expr) -> Text:
        return self.print_call(expr)

    def print_select(self, expr: Expr) -> Text:
        raise NotImplementedError  # target-specific

    def print_table(self, expr: Expr) -> Text:
        raise NotImplementedError  # target-specific

    def cast(self, text: Text, width: Width) -> Text:
        raise NotImplementedError  # target-specific

    # -- conditions

    def print_condition(self, condition: Cond) -> Text:
        """The text of a SymPy Boolean in the nodes of `expr.nodes`."""
        return self._once(condition, self._print_condition)

    def _print_condition(self, condition: Cond) -> Text:
        if condition in (sympy.true, sympy.false):
            return self.truth(bool(condition))
        if isinstance(condition, nodes._Comparison):
            return self.print_comparison(condition, condition.symbol, *condition.args)
        if isinstance(condition, sympy.Not) and isinstance(condition.args[0], nodes._Comparison):
            inner = condition.args[0]
            opposite, swapped = _OPPOSITE[inner.symbol]
            return self.print_comparison(inner, opposite, *(reversed(inner.args) if swapped else inner.args))
        for kind in (sympy.And, sympy.Or, sympy.Not):
            if isinstance(condition, kind):
                return self.print_logic(condition)
        shown = self.short(condition)
        raise PrintError(f"{self.target}: no form for {type(condition).__name__} in the condition {shown}")

    def print_comparison(self, whole: Expr, symbol: str, a: Expr, b: Expr) -> Text:
        width = self.fit([self.interval(a), self.interval(b)], a)
        left, right = (self.as_width(self.operand(e, whole), width) for e in (a, b))
        return Text(f"{left.at(SUM)} {symbol} {right.at(SUM)}", LOOSE, "i32")

    def print_logic(self, condition: Cond) -> Text:
        raise NotImplementedError  # target-specific

    def truth(self, value: bool) -> Text:
        raise NotImplementedError  # target-specific


def is_subtracted(term: Expr) -> bool:
    """Whether a term of a sum is printed with a minus sign."""
    if term.is_Integer:
        return int(term) < 0
    return bool(term.is_Mul and term.args[0].is_Integer and int(term.args[0]) < 0)


def power_of_two(expr: Expr) -> int | None:
    """The exponent of a constant power of two, else None."""
    if expr.is_Integer and int(expr) > 0 and int(expr) & (int(expr) - 1) == 0:
        return int(expr).bit_length() - 1
    return None


def shared_subexpressions(exprs: Sequence[Expr]) -> list[Expr]:
    """Subexpressions that occur more than once and are not free to compute, in dependency order.

    A subtracted term is printed without its minus sign: a name for the negative product would never be used, so its
    factors are named.
    """
    uses: dict[Any, int] = {}
    order: list[Any] = []

    def visit(expr: Expr) -> None:
        if expr.is_Atom or (expr.is_Mul and len(expr.args) == 2 and expr.args[0] is sympy.S.NegativeOne):
            for argument in expr.args:
                visit(argument)
            return
        uses[expr] = uses.get(expr, 0) + 1
        if uses[expr] > 1 and not is_subtracted(expr):
            return
        for argument in _operands(expr):
            visit(argument)
        if not is_subtracted(expr):
            order.append(expr)

    for expr in exprs:
        visit(expr)
    return [e for e in order if uses[e] > 1 and not isinstance(e, Boolean)]


def _operands(expr: Expr) -> Sequence[Expr]:
    if isinstance(expr, nodes.Table):
        return (expr.index,)
    if expr.is_Pow:
        return (expr.base,) * min(2, int(expr.exp))  # printed once per unit of the exponent
    return expr.args


_OPPOSITE: Final = {"<": ("<=", True), "<=": ("<", True), "==": ("!=", False), "!=": ("==", False)}

_METHODS: Final[dict[type[Any], str]] = {
    nodes.FloorDiv: "print_quotient",
    nodes.FloorMod: "print_remainder",
    nodes.BitXor: "print_bits",
    nodes.BitAnd: "print_bits",
    nodes.BitOr: "print_bits",
    nodes.ShiftLeft: "print_shift",
    nodes.ShiftRight: "print_shift",
    nodes.Smaller: "print_extreme",
    nodes.Larger: "print_extreme",
    nodes.Select: "print_select",
    nodes.Table: "print_table",
}
