"""Writes a polynomial as the cheapest expression found: factored, or in the form of the input.

Rewriting works on expanded polynomials; code is cheaper factored: `(by*32 + ty)*N + tx` takes four operations, its
expansion five. Three sources of forms are compared by operation count: factoring out one common factor after another
(Horner's scheme, choosing the factor that saves most); the products and shifts of the original expression, which
expansion destroyed; and such products as part of a larger sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from functools import reduce
from math import gcd
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Cond, Expr
from lego_mlir.expr.budgets import Budget
from lego_mlir.expr.cost import CostModel, operations, quick_operations
from lego_mlir.expr.nodes import COMPARISONS, BitAnd, Eq, FloorDiv, Le, Lt, Ne, NodeType, ShiftLeft, ShiftRight, Table
from lego_mlir.expr.poly import PRODUCT, ZERO, Argument, Atom, Monomial, Poly, Truth, number
from lego_mlir.expr.sharing import operands
from lego_mlir.expr.terms import Factor, outer

if TYPE_CHECKING:
    from lego_mlir.expr.context import Context

Outer = dict[tuple[Factor, ...], int]
WIDE = 8  # sums of more terms than this try only the most frequent factors
FEW = 3  # how many factors a wide sum tries
STEPS = 50_000  # divisions tried to find common integer divisors of a sum's coefficients


class Writer:
    """Cheapest forms under one cost model; `learn` adds the forms of an expression as it was written.

    `whole_numbers` allows factoring an integer out of some terms of a sum instead of only out of all of them:
    j + 64*(n*x + y) is cheapest alone, 64*n*x + (64*y + j) where other expressions need 64*n and 64*y + j.
    """

    def __init__(self, context: Context, model: CostModel) -> None:
        self.terms = context.terms
        self.rewriter = context.rewriter
        self.model = model
        self.whole_numbers = True
        self._written: dict[Any, Any] = {}
        self._learnt: dict[Poly, list[Any]] = {}
        self._parts: dict[
            Monomial, dict[Poly, None]
        ] = {}  # candidate parts of larger sums, keyed by one of their terms
        self._plans: dict[frozenset[Any], tuple[int, Any]] = {}
        self._busy: set[Poly] = set()
        self.divided = False  # an integer could have been factored out of some terms of a sum
        self._counted, self._costs = context.counts_under(model)
        self._seen: set[Any] = set()

    def without_whole_numbers(self) -> Writer:
        """A writer of the same forms that factors no integer out of only some terms of a sum."""
        found = copy(self)
        found.whole_numbers = False
        found._written, found._plans, found._busy = {}, {}, set()
        return found

    # ---- forms of the input

    def learn(self, expr: Expr) -> None:
        """Record the sums, products, shifts and masks of an expression under the polynomials that they equal."""
        stack = [expr]
        while stack:
            e = stack.pop()
            if e in self._seen or e.is_Atom:
                continue
            self._seen.add(e)
            stack.extend(operands(e))
            written_as = e.is_Pow or isinstance(e, (ShiftLeft, ShiftRight, BitAnd))
            if written_as or e.is_Add or (e.is_Mul and any(a.is_Add for a in e.args)):
                value = self._value(e)
                if not e.is_Add:
                    self._learnt.setdefault(value, []).append(e)
                if len(value.terms) > 1:
                    least = min(value.terms, key=lambda m: [a.order for a in m])
                    self._parts.setdefault(least, {})[value] = None

    def _value(self, expr: Expr) -> Poly:
        return self.rewriter.sum(self.terms.read(expr)).result

    def _as_learnt(self, expr: Expr) -> Expr:
        """A learnt node over the cheapest forms of its operands."""
        return over(expr, self._operand)

    def _operand(self, expr: Expr) -> Expr:
        return expr if expr.is_Integer else self.cheapest(self._value(expr))

    # ---- writing

    def cheapest(self, poly: Poly) -> Expr:
        """The cheapest known expression of a polynomial."""
        known = self._written.get(poly)
        if known is None:
            if poly in self._busy:
                return self._factored(poly)
            self._busy.add(poly)
            forms = list(dict.fromkeys(self._candidates(poly)))
            known = forms[0] if len(forms) == 1 else min(forms, key=self.cost)
            self._busy.discard(poly)
            self._written[poly] = known
        return known

    def cost(self, expr: Expr) -> tuple[int, int]:
        """Key for comparing forms of one value; shared parts of sums are not considered."""
        known = self._costs.get(expr)
        if known is None:
            known = quick_operations(expr, self.model), operations(expr, model=self.model, counted=self._counted)
            self._costs[expr] = known
        return known

    def _candidates(self, poly: Poly) -> Iterator[Expr]:
        """Forms of a polynomial. Ties go to the first, whose parts other expressions are most likely to share."""
        for monomial in poly.terms:
            for part in self._parts.get(monomial, ()):
                times = _multiple(poly, part)
                if times and len(part.terms) < len(poly.terms):
                    rest = poly - part.scaled(times)
                    yield _sum([_product([sympy.Integer(times), self.cheapest(part)]), self.cheapest(rest)])
        for form in self._learnt.get(poly, ()):
            yield self._as_learnt(form)
        yield self._factored(poly)

    def _factored(self, poly: Poly) -> Expr:
        terms = outer(poly)
        factor = self._plan(terms)[1]
        if factor is None:
            return _sum([_product([sympy.Integer(c), *map(self.factor, m)]) for m, c in terms.items()])
        inside, rest = _taken(terms, factor)
        node = sympy.Integer(factor) if isinstance(factor, int) else self.factor(factor)
        product = _product([node, self.cheapest(self._inner(inside))])
        return _sum([product, self.cheapest(self._inner(rest))]) if rest else product

    def _inner(self, terms: Outer) -> Poly:
        """The polynomial of outer terms."""
        total = ZERO
        for m, c in terms.items():
            product = number(c)
            for f in m:
                value = Poly({(f,): 1}) if isinstance(f, Atom) else self.terms.symbol(f[0])
                product = product * (value if isinstance(f, Atom) else self.terms.node(FloorDiv, value, number(f[1])))
            total = total + product
        return total

    def factor(self, factor: Factor) -> Expr:
        """The node of an operation over the cheapest forms of its operands."""
        if isinstance(factor, tuple):
            return FloorDiv(*factor)
        known = self._written.get(factor)
        if known is None:
            known = self._written[factor] = self._new_factor(factor)
        return known

    def _new_factor(self, atom: Atom) -> Expr:
        if atom.op is PRODUCT:
            return self.cheapest(atom.args[0])
        if atom.op is Table:
            name, index, length, bound, entries = atom.args
            return Table(name, self.cheapest(index), self.terms.write(length), self.terms.write(bound), entries)
        return atom.op(*(self._argument(a) for a in atom.args))

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, Poly):
            return self.cheapest(argument)
        return self.condition(argument) if isinstance(argument, (Atom, bool)) else argument

    def condition(self, truth: Truth) -> Cond:
        """The cheapest form of a condition: a comparison as given, or with its terms moved between the two sides."""
        if isinstance(truth, bool):
            return sympy.true if truth else sympy.false
        known = self._written.get(truth)
        if known is None:
            if truth.op in COMPARISONS:
                known = min(self._comparisons(truth.op, *truth.args), key=self.cost)
            else:
                known = truth.op(*map(self.condition, truth.args))
            self._written[truth] = known
        return known

    def _comparisons(self, op: NodeType, left: Poly, right: Poly) -> Iterator[Cond]:
        yield op(self.cheapest(left), self.cheapest(right))
        difference = right - left
        content = gcd(*(v for m, v in difference.terms.items() if m))
        if content > 1:
            difference, op = _over(content, difference, op)
        gained = Poly({m: v for m, v in difference.terms.items() if v > 0})
        lost = gained - difference
        constant = difference.terms.get((), 0)
        if op in (Le, Lt) and abs(constant) == 1:  # a <= b - 1 is a < b, and a < b + 1 is a <= b
            if op is Le and constant == -1:
                op, lost = Lt, lost.plus(-1)
            elif op is Lt and constant == 1:
                op, gained = Le, gained.plus(-1)
        yield op(self.cheapest(lost), self.cheapest(gained))

    # ---- factoring

    def _plan(self, terms: Outer) -> tuple[int, Factor | int | None]:
        """(operations, factor or None): what to factor out first, None for the plain sum."""
        key = frozenset(terms.items())
        known = self._plans.get(key)
        if known is None:
            known = (_plain_cost(terms), None)
            if len(terms) > 1:
                factors, divided = _common_factors(terms, self.whole_numbers)
                self.divided |= divided
                for factor in factors:
                    inside, rest = _taken(terms, factor)
                    cost = self._plan(inside)[0] + 1 + (1 + self._plan(rest)[0] if rest else 0)
                    if cost < known[0]:
                        known = (cost, factor)
            self._plans[key] = known
        return known


def _plain_cost(terms: Outer) -> int:
    cost = max(0, len(terms) - 1) + (bool(terms) and all(c < 0 for c in terms.values()))
    return cost + sum(max(0, len(m) - 1 + (abs(c) != 1)) for m, c in terms.items() if m)


def _common_factors(terms: Outer, whole_numbers: bool) -> tuple[list[Factor | int], bool]:
    """Factors of at least two terms, and whether some are integers that do not divide all terms.

    Operations and symbols come first, then integers, the most frequent first. Of two factors that save the same, a size
    is preferred: it keeps sums such as by*32 + ty intact for sharing.
    """
    counts: Counter[Any] = Counter()
    values = {abs(c) for m, c in terms.items() if m and abs(c) > 1}
    if not Budget(STEPS).spend(len(values) * len(terms)):
        values = set()
    for m, c in terms.items():
        counts.update(set(m))
        counts.update(v for v in values if c % v == 0)
    common = [(f, count < len(terms) and isinstance(f, int)) for f, count in counts.most_common() if count > 1]
    found = [f for f, divides_some in common if whole_numbers or not divides_some]
    found.sort(key=lambda f: isinstance(f, int))
    return found[:FEW] if len(terms) > WIDE else found, any(divides_some for _, divides_some in common)


def _taken(terms: Outer, factor: Factor | int) -> tuple[Outer, Outer]:
    """(inside, rest) with terms == factor*inside + rest."""
    inside: Outer = {}
    rest: Outer = {}
    for m, c in terms.items():
        if isinstance(factor, int):
            if c % factor == 0:
                inside[m] = c // factor
            else:
                rest[m] = c
        elif factor in m:
            place = m.index(factor)
            inside[m[:place] + m[place + 1 :]] = c
        else:
            rest[m] = c
    return inside, rest


def _multiple(whole: Poly, part: Poly) -> int:
    """The integer t for which t*part cancels the terms of the whole that it shares, or 0."""
    (first, c), *others = part.terms.items()
    total = whole.terms.get(first, 0)
    if not total or total % c:
        return 0
    times = total // c
    return times if all(whole.terms.get(m) == v * times for m, v in others) else 0


def _over(content: int, difference: Poly, op: NodeType) -> tuple[Poly, NodeType]:
    """The comparison `0 op difference` divided by the content of its non-constant terms: 8*i + 3 >= 0 is i + 0 >= 0."""
    constant = difference.terms.get((), 0)
    if op in (Eq, Ne) and constant % content:
        return difference, op
    atoms = Poly({m: v // content for m, v in difference.terms.items() if m})
    if op is Lt:
        return atoms + number(-(-constant // content)), op
    return atoms + number(constant // content), op


def over(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The operation with `change` applied to each operand; the same object where nothing changes.

    A copy would be expensive: SymPy compares equal expressions part by part, and shared parts once per use.
    """
    given = operands(expr)
    changed = list(map(change, given))
    if all(new is old for new, old in zip(changed, given, strict=True)):
        return expr
    if expr.is_Pow:
        return sympy.Pow(*changed, expr.exp)
    if isinstance(expr, Table):
        return Table(expr.args[0], *changed, *expr.args[2:])
    return _product(changed) if expr.is_Mul else expr.func(*changed)


def _sum(parts: list[Expr]) -> Expr:
    return sympy.Add(*parts)


def _product(factors: list[Expr]) -> Expr:
    """A product that SymPy does not distribute over a sum."""
    value = reduce(lambda x, y: x * y, (int(f) for f in factors if f.is_Integer), 1)
    others = [f for f in factors if not f.is_Integer]
    if len(others) == 1 and others[0].is_Add and value not in (0, 1):
        return sympy.Mul(sympy.Integer(value), others[0], evaluate=False)
    return sympy.Mul(sympy.Integer(value), *others)
