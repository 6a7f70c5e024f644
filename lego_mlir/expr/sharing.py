"""Common subexpression elimination: expressions as straight-line code.

SymPy's sums and products have any number of operands, while code computes them two at a time, and two sums may share a
part: i + j and n - i - j - 1 both contain i + j. So the pair of terms (or factors) that occurs in the most sums is
extracted as a separate value, repeatedly, until no pair occurs in two. Operation counts are taken from this form, and
printing it yields code of that count.

>>> import sympy
>>> i, j, n = sympy.symbols("i j n", integer=True)
>>> code = straight_line([i + j + 1, n - i - j])
>>> for name, value in code.assignments:
...     print(name, "=", value)
s0 = i + j
>>> code.results
(s0 + 1, n - s0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.nodes import Table

Signed = dict[Any, int]  # the terms of a sum: 1 added, -1 subtracted
MOST_PAIRS = 4000  # beyond this many pairs, sharing parts of sums is not tried


@dataclass(frozen=True, slots=True)
class StraightLine:
    """Assignments in order, each to a fresh symbol that later ones may use, and the results in terms of them."""

    assignments: tuple[tuple[Any, Any], ...]
    results: tuple[Any, ...]


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The computed operands of a node: the base of a power, the index of a table, else all arguments."""
    if isinstance(expr, Table):
        return (expr.index,)
    if expr.is_Pow:
        return (expr.base,)
    return expr.args


def signed(term: Expr) -> tuple[Expr, int]:
    """A term of a sum as its magnitude and its sign."""
    if term.is_Integer and int(term) < 0:
        return -term, -1
    if term.is_Mul and term.args[0].is_Integer and int(term.args[0]) < 0:
        rest = term.args[1:]
        factor = -term.args[0]
        if factor is not sympy.S.One:
            rest = (factor, *rest)
        return (rest[0] if len(rest) == 1 else product(rest)), -1
    return term, 1


def product(factors: Iterable[Expr]) -> Expr:
    """A product that SymPy does not distribute over a sum."""
    factors = tuple(factors)
    if len(factors) == 2 and factors[0].is_Integer and factors[1].is_Add:
        return sympy.Mul(*factors, evaluate=False)
    return sympy.Mul(*factors)


class Sharing:
    """The distinct operations of some expressions, with sums and products split into shared pairs.

    `sums` and `products` map each distinct sum or product to its operands, `parts` and `factors` each shared pair, a
    fresh symbol, to its two operands; `others` are all other operations.
    """

    def __init__(self, exprs: Iterable[Expr]) -> None:
        self.sums: dict[Any, Signed] = {}
        self.products: dict[Any, Counter[Any]] = {}
        self.others: dict[Any, None] = {}
        self.parts: dict[Any, Signed] = {}
        self.factors: dict[Any, tuple[Any, Any]] = {}
        self._seen: dict[Any, int] = {}  # every value's place in order of first appearance
        stack = list(exprs)
        while stack:
            expr = stack.pop()
            if expr not in self._seen:
                self._seen[expr] = len(self._seen)
                if not expr.is_Atom:
                    stack.extend(self._enter(expr))
        self._share_sums()
        self._share_products()

    def _enter(self, expr: Expr) -> Iterable[Expr]:
        if expr.is_Add:
            terms = self.sums[expr] = {}
            for term in expr.args:
                value, sign = signed(term)
                terms[value] = sign
            if all(sign < 0 for sign in terms.values()):
                _begin_with_a_number(expr, terms)
            return terms
        if expr.is_Mul:
            if expr.args[0] is sympy.S.NegativeOne:  # a negation outside a sum
                value, sign = signed(expr)
                self.sums[expr] = {value: sign}
                return (value,)
            self.products[expr] = Counter(expr.args)
            return expr.args
        self.others[expr] = None
        return operands(expr)

    def _fresh(self) -> Symbol:
        part = sympy.Dummy(integer=True)
        self._seen[part] = len(self._seen)
        return part

    def _signed_pairs(self, terms: Signed) -> Iterator[tuple[Expr, Expr, int]]:
        for a, b in combinations(sorted(terms, key=self._seen.__getitem__), 2):
            yield a, b, terms[a] * terms[b]

    def _share_sums(self) -> None:
        sums = [terms for terms in self.sums.values() if len(terms) > 1]
        if sum(len(terms) ** 2 for terms in sums) > MOST_PAIRS:
            return
        while True:
            pairs = Counter(pair for terms in sums for pair in self._signed_pairs(terms))
            if not pairs:
                return
            (a, b, sign), count = pairs.most_common(1)[0]
            if count < 2:
                return
            part = self._fresh()
            self.parts[part] = {a: 1, b: sign}
            for terms in sums:
                if a in terms and b in terms and terms[a] * terms[b] == sign:
                    outer = terms.pop(a)
                    del terms[b]
                    terms[part] = outer

    def _share_products(self) -> None:
        products = list(self.products.values())
        if sum(len(factors) ** 2 for factors in products) > MOST_PAIRS:
            return
        while True:
            pairs = Counter(
                pair for factors in products for pair in combinations(sorted(factors, key=self._seen.__getitem__), 2)
            )
            if not pairs:
                return
            (a, b), count = pairs.most_common(1)[0]
            if count < 2:
                return
            part = self._fresh()
            self.factors[part] = (a, b)
            for factors in products:
                if a in factors and b in factors:
                    for factor in (a, b):
                        factors[factor] -= 1
                        if not factors[factor]:
                            del factors[factor]
                    factors[part] += 1


def _begin_with_a_number(expr: Expr, terms: Signed) -> None:
    """Save a negation: start a sum of subtractions with a negative number, or with a product by one."""
    for term in expr.args:
        if term.is_Integer or (term.is_Mul and term.args[0].is_Integer and term.args[0] is not sympy.S.NegativeOne):
            del terms[signed(term)[0]]
            terms[term] = 1
            return


def straight_line(exprs: Iterable[Expr], prefix: str = "s") -> StraightLine:
    """The expressions as assignments and results; every operation used twice is named."""
    exprs = tuple(exprs)
    return _Lines(Sharing(exprs), exprs, prefix).code


class _Lines:
    """Writes the shared operations as assignments, in dependency order."""

    def __init__(self, sharing: Sharing, exprs: tuple[Expr, ...], prefix: str) -> None:
        self.sharing = sharing
        self.prefix = prefix
        self.taken = {str(s) for e in exprs for s in e.free_symbols}
        self.assignments: list[tuple[Any, Any]] = []
        self.names: dict[Any, Any] = {}
        self.uses: Counter[Any] = Counter()
        for expr in exprs:
            self._count(expr)
        results = tuple(self.value(e) for e in exprs)
        self.code = StraightLine(tuple(self.assignments), results)

    def _operands(self, expr: Expr) -> Iterable[Expr]:
        sharing = self.sharing
        if expr in sharing.sums:
            return sharing.sums[expr]
        if expr in sharing.parts:
            return sharing.parts[expr]
        if expr in sharing.products:
            return sharing.products[expr]
        if expr in sharing.factors:
            return sharing.factors[expr]
        return () if expr.is_Atom else operands(expr)

    def _count(self, expr: Expr) -> None:
        self.uses[expr] += 1
        if self.uses[expr] == 1:
            for operand in self._operands(expr):
                self._count(operand)

    def value(self, expr: Expr) -> Expr:
        """The expression over the names of shared operations."""
        if expr in self.names:
            return self.names[expr]
        built = self._built(expr)
        operation = not expr.is_Atom or expr in self.sharing.parts or expr in self.sharing.factors
        if operation and self.uses[expr] > 1 and not built.is_Atom:
            name = self._fresh()
            self.assignments.append((name, built))
            built = name
        self.names[expr] = built
        return built

    def _fresh(self) -> Symbol:
        number = len(self.assignments)
        while f"{self.prefix}{number}" in self.taken:
            number += 1
        self.taken.add(f"{self.prefix}{number}")
        return sympy.Symbol(f"{self.prefix}{number}", integer=True)

    def _built(self, expr: Expr) -> Expr:
        sharing = self.sharing
        terms = sharing.sums.get(expr) or sharing.parts.get(expr)
        if terms:
            return sympy.Add(*(product((sympy.Integer(sign), self.value(t))) for t, sign in terms.items()))
        factors = sharing.products.get(expr) or sharing.factors.get(expr)
        if factors:
            spread = factors.elements() if isinstance(factors, Counter) else factors
            return product(sorted(map(self.value, spread), key=lambda f: not f.is_Integer))
        if expr.is_Atom:
            return expr
        if isinstance(expr, Table):
            return Table(expr.args[0], self.value(expr.index), *expr.args[2:])
        if expr.is_Pow:
            return sympy.Pow(self.value(expr.base), expr.exp)
        return expr.func(*map(self.value, expr.args))
