"""Polynomials over opaque atoms: the form in which rules match.

Matching `d*q + r` on trees, up to the ring laws of + and *, is hopeless. So an index expression is read into a
polynomial with integer coefficients over atoms. An atom is a symbol, or any other operation (a division, a bit
operation, a selection, a table) with polynomials as operands. Expressions that are equal by the ring laws alone are
then equal as Python objects, and "the part of the sum that the divisor divides" is a loop over terms.

A symbol that is known to be a multiple of m (a size, a loop variable with a step) is read as m times an atom, so that
an exact quotient such as K//32 is linear. `write` converts it back.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorDiv, Size
>>> K = Size("K", multiple_of=32)
>>> terms = Terms({})
>>> terms.write(terms.read(32 * FloorDiv(K, 32))), terms.write(terms.read(FloorDiv(K, 16)))
(K, K // 16)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod
from typing import Any

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import ExpressionError
from lego_mlir.expr import nodes
from lego_mlir.expr.nodes import (
    COMPARISONS,
    BitAnd,
    BitOr,
    BitXor,
    FloorDiv,
    FloorMod,
    Larger,
    NodeType,
    Select,
    ShiftLeft,
    ShiftRight,
    Size,
    Smaller,
    Table,
)
from lego_mlir.expr.poly import ONE, PRODUCT, SYMBOL, ZERO, Argument, Atom, Poly, Truth, number, rank
from lego_mlir.expr.ranges import Range

MOST_TERMS = 64  # a product that expands to more terms than this is kept whole


class Terms:
    """All polynomials over one set of ranges: reads SymPy, interns atoms, writes SymPy.

    With `expand` products of sums are expanded, without it each such sum is an atom: (i + j)*(i + j + 1) // 2 is
    cheaper unexpanded, i*(4*N + 8) // N is not. Both are tried.
    """

    def __init__(self, ranges: Mapping[sympy.Symbol, Range], expand: bool = True) -> None:
        self.ranges = ranges
        self.expand = expand
        self.expanded = False  # whether a product of sums has been expanded
        self._atoms: dict[tuple[Any, ...], Atom] = {}
        self._read: dict[Any, Any] = {}
        self._written: dict[Any, Any] = {}
        self._readers: dict[Any, Callable[[Any], Any]] = {
            sympy.Add: self._read_sum,
            sympy.Mul: self._read_product,
            sympy.Pow: self._read_power,
            Table: lambda e: self.node(
                Table, e.args[0], self.read(e.index), self.read(e.length), self.read(e.bound), e.args[4]
            ),
            Select: lambda e: self.node(
                Select, self.read_condition(e.args[0]), self.read(e.args[1]), self.read(e.args[2])
            ),
        }

    # ---- reading

    def read(self, expr: Expr) -> Poly:
        """The polynomial of an integer expression in this package's nodes."""
        known = self._read.get(expr)
        if known is None:
            known = self._read[expr] = self._read_new(expr)
        return known

    def _read_new(self, expr: Expr) -> Poly:
        if expr.is_Integer:
            return number(int(expr))
        if expr.is_Symbol:
            return self.symbol(expr)
        reader = self._readers.get(type(expr))
        if reader is not None:
            return reader(expr)
        if isinstance(expr, nodes.INTEGER_NODES):
            return self.node(type(expr), *map(self.read, expr.args))
        canonical = nodes.canonical(expr)
        if canonical == expr:
            raise ExpressionError(f"{type(expr).__name__} has no integer meaning in the index expression {expr}")
        return self.read(canonical)

    def _read_sum(self, expr: Expr) -> Poly:
        result = ZERO
        for a in expr.args:
            result = result + self.read(a)
        return result

    def _read_product(self, expr: Expr) -> Poly:
        if any(a.is_Rational and not a.is_Integer for a in expr.args):
            raise ExpressionError(f"{expr} is not an integer expression; write integer division as //")
        return self.product(list(map(self.read, expr.args)))

    def _read_power(self, expr: Expr) -> Poly:
        base, exponent = expr.args
        if not (exponent.is_Integer and int(exponent) > 0):
            raise ExpressionError(f"{expr}: the exponent must be an int > 0")
        return self.product([self.read(base)] * int(exponent))

    def product(self, factors: list[Poly]) -> Poly:
        """The product. Unless it is to be expanded, and its expansion is small, each of its sums becomes one atom."""
        sums = [len(f.terms) for f in factors if len(f.terms) > 1]
        if len(sums) > 1 and (not self.expand or prod(sums) > MOST_TERMS):
            factors = [f if len(f.terms) <= 1 else self._intern(PRODUCT, (f,)) for f in factors]
        elif len(sums) > 1:
            self.expanded = True
        result = ONE
        for f in factors:
            result = result * f
        return result

    def read_condition(self, expr: Cond) -> Truth:
        """A Boolean of comparisons as an atom, or its value."""
        if expr in (True, False) or expr is sympy.true or expr is sympy.false:
            return bool(expr)
        known = self._read.get(expr)
        if known is None:
            if isinstance(expr, COMPARISONS):
                known = self.truth(type(expr), *map(self.read, expr.args))
            elif isinstance(expr, (sympy.And, sympy.Or, sympy.Not)):
                arguments = sorted(expr.args, key=sympy.default_sort_key)
                known = self.truth(type(expr), *map(self.read_condition, arguments))
            else:
                canonical = nodes.canonical(expr)
                if canonical == expr:
                    raise ExpressionError(f"{expr} is not a condition over integers")
                known = self.read_condition(canonical)
            self._read[expr] = known
        return known

    # ---- making

    def symbol(self, symbol: Symbol) -> Poly:
        """A symbol as offset + scale * atom, by its size's divisor or its range's step; its ends are read first."""
        scale, offset = 1, 0
        if isinstance(symbol, Size) and symbol.equals is not None:
            return self.read(symbol.equals)
        if isinstance(symbol, Size):
            scale = symbol.multiple_of
            if symbol.below is not None:
                self.read(symbol.below)
        elif symbol in self.ranges:
            known = self.ranges[symbol]
            lo, hi = self.read(known.lo), self.read(known.hi)
            if (hi - lo).constant is not None and 0 < (hi - lo).constant <= known.step:
                return lo  # a range of one value
            if known.step > 1 and lo.constant is not None:
                scale, offset = known.step, lo.constant % known.step
        atom = self._atoms.get((SYMBOL, symbol))
        if atom is None:
            atom = self._atoms[SYMBOL, symbol] = Atom(SYMBOL, (symbol,), len(self._atoms), scale, offset)
        return Poly({(atom,): scale}).plus(offset)

    def _intern(self, op: NodeType, args: tuple[Argument, ...]) -> Poly:
        atom = self._atoms.get((op, args))
        if atom is None:
            atom = self._atoms[op, args] = Atom(op, args, len(self._atoms))
        return Poly({(atom,): 1})

    def node(self, op: NodeType, *args: Argument) -> Poly:
        """An operation on polynomials: folded on constants and on exact quotients, else an atom."""
        if op is FloorDiv or op is FloorMod:
            folded = _fold_division(op, *args)
            return self._intern(op, args) if folded is None else folded
        if op is Select:
            condition, a, b = args
            if isinstance(condition, bool):
                return a if condition else b
            return a if a == b else self._intern(op, args)
        if op is Table:
            constant = args[1].constant
            return self._intern(op, args) if constant is None else self._element(args, constant)
        if op.operation.commutes and rank(args[1]) < rank(args[0]):
            args = (args[1], args[0])
        constants = [a.constant for a in args]
        if None not in constants:
            return number(int(op.fold(*map(sympy.Integer, constants))))
        power = _as_power_of_two(op, args, constants)
        if power is not None:
            return power(self)
        zeros = op in (BitXor, BitOr, BitAnd) and not all(args)
        if zeros:
            return ZERO if op is BitAnd else args[0] + args[1]
        if op in (ShiftLeft, ShiftRight) and (not args[0] or not args[1]):
            return args[0]
        if op in (BitXor, BitOr, BitAnd, Smaller, Larger) and args[0] == args[1]:
            return ZERO if op is BitXor else args[0]
        return self._intern(op, args)

    def _element(self, args: tuple[Argument, ...], index: int) -> Poly:
        name, _, _, _, entries = args
        if not len(entries):
            return self._intern(Table, args)
        if not 0 <= index < len(entries):
            raise ExpressionError(f"{name}[{index}] is outside the table's {len(entries)} entries")
        return number(int(entries[index]))

    def truth(self, op: NodeType, *args: Argument) -> Truth:
        """A comparison of polynomials, or And, Or, Not of truths, folded where the operands determine it."""
        if op in COMPARISONS:
            difference = (args[1] - args[0]).constant
            if difference is not None:
                return bool(op.holds(0, difference))
        elif op is sympy.Not:
            (a,) = args
            if isinstance(a, bool):
                return not a
            if a.op is sympy.Not:
                return a.args[0]
        else:
            absorbing = op is sympy.Or
            if absorbing in args:
                return absorbing
            kept = tuple(dict.fromkeys(a for a in args if not isinstance(a, bool)))
            if not kept:
                return not absorbing
            if len(kept) == 1:
                return kept[0]
            args = kept
        return self._intern(op, args).atom or False

    # ---- writing

    def write(self, poly: Poly) -> Expr:
        """The SymPy expression of a polynomial, expanded."""
        known = self._written.get(poly)
        if known is None:
            total = [
                sympy.Mul(c, *map(self.write_factor, m)) if m else sympy.Integer(c) for m, c in outer(poly).items()
            ]
            known = self._written[poly] = sympy.Add(*total)
        return known

    def write_condition(self, truth: Truth) -> Cond:
        """The SymPy Boolean of a condition."""
        if isinstance(truth, bool):
            return sympy.true if truth else sympy.false
        return rebuild(truth, self.write)

    def write_factor(self, factor: Factor) -> Expr:
        """The SymPy node of one factor of an outer term."""
        if isinstance(factor, tuple):
            symbol, divisor = factor
            return FloorDiv(symbol, divisor)
        known = self._written.get(factor)
        if known is None:
            known = self._written[factor] = rebuild(factor, self.write)
        return known


def _as_power_of_two(op: NodeType, args: Sequence[Poly], constants: list[int | None]) -> Callable[[Terms], Poly] | None:
    """A shift by a constant or a mask of low bits as the equivalent product, quotient or remainder."""
    if len(constants) != 2:
        return None
    first, second = constants
    if op in (ShiftLeft, ShiftRight) and second is not None:
        if second < 0:
            raise ExpressionError(f"negative shift by {second}")
        if op is ShiftLeft:
            return lambda terms: args[0].scaled(1 << second)
        return lambda terms: terms.node(FloorDiv, args[0], number(1 << second))
    if op is BitAnd:
        for mask, other in ((first, args[1]), (second, args[0])):
            if mask is not None and mask > 0 and mask & (mask + 1) == 0:
                modulus = number(mask + 1)
                return lambda terms, other=other, modulus=modulus: terms.node(FloorMod, other, modulus)  # type: ignore[misc]
    return None


def _fold_division(op: NodeType, x: Poly, d: Poly) -> Poly | None:
    """x // d or x % d where ring laws suffice: a constant d that divides every non-constant term of x."""
    divisor = d.constant
    if divisor == 0:
        raise ExpressionError(f"division by zero: {op.__name__} by 0")
    if not x:
        return ZERO
    if divisor is None:
        return None
    if any(c % divisor for m, c in x.terms.items() if m):
        return None
    constant = x.terms.get((), 0)
    if op is FloorMod:
        return number(constant % divisor)
    return Poly({m: c // divisor for m, c in x.terms.items() if m}).plus(constant // divisor)


Factor = Atom | tuple[Any, int]  # an operation, or a symbol over a divisor of its scale


def outer(poly: Poly) -> dict[tuple[Factor, ...], int]:
    """A polynomial over the user's symbols: each scaled atom as its symbol, or as an exact quotient of it."""
    result: dict[tuple[Factor, ...], int] = {}
    for monomial, coefficient in poly.terms.items():
        scaled = [a for a in monomial if a.op is SYMBOL]
        factors: list[list[tuple[Factor | None, int]]] = []
        for atom in scaled:
            common = gcd(coefficient, atom.scale)
            divisor = atom.scale // common
            coefficient //= common
            factors.append([((atom.args[0], divisor), 1), (None, -(atom.offset // divisor))])
        partial: dict[tuple[Factor, ...], int] = {tuple(a for a in monomial if a.op is not SYMBOL): coefficient}
        for choices in factors:
            partial = _distributed(partial, choices)
        for m, c in partial.items():
            key = tuple(sorted(m, key=_factor_order))
            total = result.get(key, 0) + c
            if total:
                result[key] = total
            else:
                result.pop(key, None)
    return result


def _distributed(
    partial: dict[tuple[Factor, ...], int], choices: list[tuple[Factor | None, int]]
) -> dict[tuple[Factor, ...], int]:
    result: dict[tuple[Factor, ...], int] = {}
    for m, c in partial.items():
        for factor, weight in choices:
            key = m if factor is None else (*m, factor)
            result[key] = result.get(key, 0) + c * weight
    return {m: c for m, c in result.items() if c}


def _factor_order(factor: Factor) -> tuple[int, str, int]:
    return (0, factor[0].name, factor[1]) if isinstance(factor, tuple) else (1, "", factor.order)


def rebuild(atom: Atom, write: Callable[[Poly], Expr]) -> Expr:
    """The SymPy node of an operation or condition, its polynomials written by `write`."""

    def argument(value: Argument) -> Expr:
        if isinstance(value, Poly):
            return write(value)
        if isinstance(value, Atom):
            return rebuild(value, write)
        return sympy.true if value is True else sympy.false if value is False else value

    if atom.op is SYMBOL:
        return atom.args[0]
    if atom.op is PRODUCT:
        return write(atom.args[0])
    return atom.op(*map(argument, atom.args))
