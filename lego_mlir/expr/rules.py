"""The simplification rules, as data: what is matched, what replaces it, and the condition that must be proved first.

The first five are table 1 of the LEGO paper. A rule is a pattern and a result over metavariables, which range over all
integers, and a condition on them. A matcher proposes bindings of the metavariables and is not trusted: the rewriter
instantiates the pattern, which must equal the expression, and the condition, which must be proved. A test proves with
Z3 that the condition implies pattern == result for all integers, and that the rule without its condition is refuted.

>>> print(RULES[0])
(d*q + r) // d --> q  [table 1]  when 0 <= r and r < d
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.expr.facts import Facts
from lego_mlir.expr.nodes import (
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    FloorDiv,
    FloorMod,
    ISqrt,
    Larger,
    Le,
    Lt,
    Ne,
    NodeType,
    Select,
    ShiftLeft,
    Smaller,
)
from lego_mlir.expr.poly import ZERO, Atom, Monomial, Poly, number, without
from lego_mlir.expr.samples import POINTS
from lego_mlir.expr.terms import Terms

Binding = dict[Any, Poly]
Matcher = Callable[[Facts, Atom], Iterator[Binding]]
Template = Callable[[Terms, Binding], Poly]


@dataclass(frozen=True)
class Rule:
    """`pattern` may be replaced by `result` where every comparison of `when` holds; `match` proposes bindings."""

    name: str
    pattern: Any
    result: Any
    when: tuple[Any, ...]
    match: Matcher
    source: str = ""

    def __str__(self) -> str:
        source = f"  [{self.source}]" if self.source else ""
        when = f"  when {' and '.join(map(str, self.when))}" if self.when else ""
        return f"{self.pattern} --> {self.result}{source}{when}"

    @cached_property
    def build_pattern(self) -> Template:
        return template(self.pattern)

    @cached_property
    def build_result(self) -> Template:
        return template(self.result)

    @cached_property
    def conditions(self) -> tuple[tuple[NodeType, Template, Template], ...]:
        return tuple((type(c), template(c.args[0]), template(c.args[1])) for c in self.when)


def template(expr: Expr) -> Template:
    """A pattern as a function from a binding to a polynomial, so that no SymPy object is made while rewriting."""
    if expr.is_Integer:
        constant = number(int(expr))
        return lambda terms, binding: constant
    if expr.is_Symbol:
        return lambda terms, binding: binding[expr]
    if expr.is_Pow:
        base, exponent = template(expr.base), int(expr.exp)
        return lambda terms, binding: terms.product([base(terms, binding)] * exponent)
    if isinstance(expr, Select):
        kind = type(expr.args[0])
        a, b, c, d = map(template, (*expr.args[0].args, *expr.args[1:]))
        return lambda terms, x: terms.node(
            Select, terms.truth(kind, a(terms, x), b(terms, x)), c(terms, x), d(terms, x)
        )
    parts = tuple(map(template, expr.args))
    if expr.is_Add:
        return lambda terms, binding: sum((p(terms, binding) for p in parts), ZERO)
    if expr.is_Mul:
        return lambda terms, binding: terms.product([p(terms, binding) for p in parts])
    node = type(expr)
    return lambda terms, binding: terms.node(node, *(p(terms, binding) for p in parts))


a, b, c, d, g, k, q, r, s, x, y = sympy.symbols("a b c d g k q r s x y", integer=True)


# ---- matchers: each proposes bindings for an atom, most promising first


def divisible_part(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """d*q + r over d, where q collects the terms of the sum that d divides."""
    n, divisor = atom.args
    quotient, rest = n.divided(divisor)
    if quotient:
        yield {d: divisor, q: quotient, r: rest}
    constant = divisor.constant
    if constant is not None:  # 12*i + j over 8: 8*i + (4*i + j), in case the rest is small
        reduced = Poly({m: v for m, v in ((m, v % constant) for m, v in n.terms.items()) if v})
        if reduced != rest and reduced != n:
            yield {d: divisor, q: Poly({m: v // constant for m, v in (n - reduced).terms.items()}), r: reduced}


def simpler_divisible_part(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """As divisible_part, where the rest is no harder to divide: fewer terms, and non-negative if the sum is."""
    for binding in divisible_part(facts, atom):
        n, rest = atom.args[0], binding[r]
        if len(rest.terms) <= len(n.terms) - len(binding[q].terms) and (
            facts.nonnegative(rest) or not facts.nonnegative(n)
        ):
            yield binding


def residue_of_coefficients(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """c*x + y over a constant d, where c leaves 1 (or 0, or the constant of the sum leaves less) modulo d."""
    n, divisor = atom.args
    yield from simpler_divisible_part(facts, atom)
    constant = divisor.constant
    if constant is None or constant < 2:
        return
    reduced = {m: (v % constant if not m or v % constant == 1 else v) for m, v in n.terms.items()}
    rest = Poly({m: v for m, v in reduced.items() if v})
    if rest != n:
        yield {d: divisor, q: Poly({m: v // constant for m, v in (n - rest).terms.items()}), r: rest}


def constant_quotient(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """x over d, where all samples have the same quotient k."""
    n, divisor = atom.args
    guess = None
    for point in range(POINTS):
        value, by = facts.samples.value(n, point), facts.samples.value(divisor, point)
        if value is not None and by:
            if guess is not None and value // by != guess:
                return
            guess = value // by
    if guess is not None:
        yield {x: n, d: divisor, k: number(guess)}


def subtracted_quotient(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """As constant_quotient, where 64 bits hold -k d, which is added."""
    constant = atom.args[1].constant
    for binding in constant_quotient(facts, atom):
        quotient = binding[k].constant
        if constant is None or quotient is None or -(2**63) <= -quotient * constant < 2**63:
            yield binding


def small_operand(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """The operand and the divisor as they are."""
    yield {x: atom.args[0], a: atom.args[1]}


def nested_quotient(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """A quotient divided again."""
    inner = atom.args[0].atom
    if inner is not None and inner.op is FloorDiv:
        yield {x: inner.args[0], a: inner.args[1], b: atom.args[1]}


def remainder_under_quotient(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """x % m over a, where a divides m."""
    inner = atom.args[0].atom
    if inner is not None and inner.op is FloorMod:
        other, rest = inner.args[1].divided(atom.args[1])
        if other and not rest:
            yield {x: inner.args[0], a: atom.args[1], b: other}


def remainder_under_remainder(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """A remainder in the sum whose divisor, times its factor, is a multiple of d.

    Not where it reduces data of the full 64 bits: `(x % 64 + i) % 8` has no overflow, and `(x + i) % 8` has.
    """
    n, divisor = atom.args
    for inner in n.atoms():
        if inner.op is FloorMod and (parts := n.split(inner)) is not None:
            multiple, rest = (parts[0] * inner.args[1]).divided(divisor)
            if not rest and not facts.leaves_64_bits(parts[0] * inner.args[0] + parts[1], instead_of=n):
                yield {c: parts[0], x: inner.args[0], b: inner.args[1], y: parts[1], d: divisor, k: multiple}


def common_factor(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """g*x + r over g*b, for every common factor g of a term and the divisor, largest first."""
    n, divisor = atom.args
    content = gcd(*divisor.terms.values())
    shared = _common_monomial(list(divisor.terms))
    factors = {(gcd(v, content), _common_monomial([m, shared])) for m, v in n.terms.items() if m}
    for value, monomial in sorted(factors, key=lambda f: (-len(f[1]), -f[0])):
        if value == 1 and not monomial:
            continue
        factor = Poly({monomial: value})
        taken, rest = n.divided(factor)
        yield {g: factor, x: taken, r: rest, b: divisor.divided(factor)[0]}


def _common_monomial(monomials: list[Monomial]) -> Monomial:
    common = []
    rest: list[Monomial | None] = list(monomials)
    for atom in monomials[0]:
        less = [without(m, (atom,)) if m is not None else None for m in rest]
        if None not in less:
            common.append(atom)
            rest = less
    return tuple(common)


def ordered_operands(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """Both orders of a commutative operation's operands."""
    yield {x: atom.args[0], y: atom.args[1]}
    yield {x: atom.args[1], y: atom.args[0]}


def constant_root(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """The root's lower bound k; the condition checks that it is the root."""
    root = facts.atom(atom)[0]
    if root is not None:
        yield {x: atom.args[0], k: number(root)}


def choice_by_comparison(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """A selection of one of the two numbers that its condition compares."""
    condition, one, other = atom.args
    if condition.op in (Lt, Le):
        left, right = condition.args
        if (left, right) == (one, other) or (left, right) == (other, one):
            yield {x: left, y: right}


def separate_bits(facts: Facts, atom: Atom) -> Iterator[Binding]:
    """Operands as high * 2**k + low, for every power of two in a coefficient, if one of the four parts is zero."""
    left, right = atom.args
    values = [v for p in (left, right) for m, v in p.terms.items() if m]
    for power in sorted({v & -v for v in values}, reverse=True):
        if power == 1:
            continue
        high, low = _halves(left, power)
        high2, low2 = _halves(right, power)
        if not (high and low and high2 and low2):
            yield {x: high, r: low, y: high2, s: low2, k: number(power.bit_length() - 1)}


def _halves(poly: Poly, power: int) -> tuple[Poly, Poly]:
    constant = poly.terms.get((), 0)
    high = Poly({m: v // power for m, v in poly.terms.items() if m and v % power == 0}).plus(constant // power)
    return high, poly - high.scaled(power)


# ---- the rules

_BITS = (Le(0, r), Lt(r, ShiftLeft(1, k)), Le(0, s), Lt(s, ShiftLeft(1, k)))


def _bits(name: str, node: NodeType) -> Rule:
    high, low = ShiftLeft(x, k), ShiftLeft(y, k)
    return Rule(name, node(high + r, low + s), ShiftLeft(node(x, y), k) + node(r, s), _BITS, separate_bits)


TABLE_1 = "table 1"
RULES: tuple[Rule, ...] = (
    Rule("quotient", FloorDiv(d * q + r, d), q, (Le(0, r), Lt(r, d)), divisible_part, TABLE_1),
    Rule("small quotient", FloorDiv(x, a), sympy.S.Zero, (Le(0, x), Lt(x, a)), small_operand, TABLE_1),
    Rule("small remainder", FloorMod(x, a), x, (Le(0, x), Lt(x, a)), small_operand, TABLE_1),
    Rule("remainder", FloorMod(d * q + r, d), FloorMod(r, d), (Ne(d, 0),), residue_of_coefficients, TABLE_1),
    Rule("constant quotient", FloorDiv(x, d), k, (Le(k * d, x), Lt(x, k * d + d)), constant_quotient),
    Rule("constant quotient's remainder", FloorMod(x, d), x - k * d, (Le(k * d, x), Lt(x, k * d + d)),
         subtracted_quotient),
    Rule("common factor of a quotient", FloorDiv(g * x + r, g * b), FloorDiv(x, b), (Le(0, r), Lt(r, g), Lt(0, b)),
         common_factor),
    Rule("divisible part of a quotient", FloorDiv(d * q + r, d), q + FloorDiv(r, d), (Ne(d, 0),),
         simpler_divisible_part),
    Rule("quotient of a quotient", FloorDiv(FloorDiv(x, a), b), FloorDiv(x, a * b), (Ne(a, 0), Lt(0, b)),
         nested_quotient),
    Rule("quotient of a remainder", FloorDiv(FloorMod(x, a * b), a), FloorMod(FloorDiv(x, a), b), (Ne(a, 0), Lt(0, b)),
         remainder_under_quotient),
    Rule("remainder of a remainder", FloorMod(y + c * FloorMod(x, b), d), FloorMod(y + c * x, d),
         (Eq(c * b, d * k), Ne(b, 0), Ne(d, 0)), remainder_under_remainder),
    Rule("common factor of a remainder", FloorMod(g * x + r, g * b), g * FloorMod(x, b) + r,
         (Le(0, r), Lt(r, g), Lt(0, b)), common_factor),
    Rule("smaller", Smaller(x, y), x, (Le(x, y),), ordered_operands),
    Rule("larger", Larger(x, y), x, (Le(y, x),), ordered_operands),
    Rule("constant root", ISqrt(x), k, (Le(k**2, x), Lt(x, (k + 1) ** 2)), constant_root),
    Rule("choice of the smaller", Select(Lt(x, y), x, y), Smaller(x, y), (), choice_by_comparison),
    Rule("choice of the smaller or equal", Select(Le(x, y), x, y), Smaller(x, y), (), choice_by_comparison),
    Rule("choice of the larger", Select(Lt(x, y), y, x), Larger(x, y), (), choice_by_comparison),
    Rule("choice of the larger or equal", Select(Le(x, y), y, x), Larger(x, y), (), choice_by_comparison),
    _bits("xor of separate bits", BitXor),
    _bits("and of separate bits", BitAnd),
    _bits("or of separate bits", BitOr),
)  # fmt: skip

# Rules on a whole sum, which the rewriter applies where they reduce its cost.
RECOMPOSE = Rule(
    "quotient and remainder", d * FloorDiv(x, d) + FloorMod(x, d), x, (Ne(d, 0),), lambda facts, atom: iter(()), TABLE_1
)
REMAINDER = Rule("remainder's parts", FloorMod(x, d), x - d * FloorDiv(x, d), (Ne(d, 0),), lambda facts, atom: iter(()))
SUM_RULES = (RECOMPOSE, REMAINDER)

BY_NODE: dict[Any, tuple[Rule, ...]] = {
    node: tuple(rule for rule in RULES if type(rule.pattern) is node)
    for node in (FloorDiv, FloorMod, Smaller, Larger, ISqrt, Select, BitXor, BitAnd, BitOr)
}
