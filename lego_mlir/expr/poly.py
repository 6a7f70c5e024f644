"""Immutable polynomials with integer coefficients over atoms.

An atom is a symbol or any operation other than + and *; `expr.terms` interns them. A monomial is a tuple of atoms and a
polynomial a dictionary from monomial to coefficient, so ring arithmetic is loops over dictionaries and creates no SymPy
object.

>>> x, y = (Atom(SYMBOL, (name,), order) for order, name in enumerate("xy"))
>>> p = Poly({(x,): 1}) + Poly({(y,): 1})
>>> p * p
1*x*x + 2*x*y + 1*y*y
>>> (p * p).divided(p)
(1*x + 1*y, 0)
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import sympy

from lego_mlir.expr.nodes import NodeType

SYMBOL = sympy.Symbol  # the `op` of an atom that is a symbol
PRODUCT = sympy.Mul  # the `op` of an atom that holds an unexpanded sum, a factor of a product left unexpanded


class Atom:
    """A symbol or an operation on polynomials, interned by its `Terms`, so equality is identity."""

    __slots__ = ("args", "offset", "op", "order", "rank", "scale")

    def __init__(self, op: NodeType, args: tuple[Argument, ...], order: int, scale: int = 1, offset: int = 0) -> None:
        self.op = op
        self.args = args  # a symbol's own argument is the SymPy symbol, which equals offset + scale * this atom
        self.order = order
        self.scale = scale
        self.offset = offset
        self.rank = _rank_of(op, args)

    def __repr__(self) -> str:
        if self.op is SYMBOL:
            return f"{self.args[0]}" if self.scale == 1 else f"({self.args[0]}/{self.scale})"
        return f"{self.op.__name__}{self.args}"


Argument: TypeAlias = Any
"""An argument of an atom: a `Poly`, an `Atom`, a bool, or constant data such as a table's entries."""
Monomial = tuple[Atom, ...]  # sorted by creation, a power as repetition; () is the constant
Truth = Atom | bool  # a comparison or a logical operation, or its value


class Poly:
    """A polynomial with integer coefficients: monomial -> nonzero coefficient. Immutable."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Poly) and self.terms == other.terms)

    def __repr__(self) -> str:
        return " + ".join(f"{c}*{'*'.join(map(repr, m))}" if m else str(c) for m, c in self.terms.items()) or "0"

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def constant(self) -> int | None:
        """The value of a polynomial without atoms, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def atom(self) -> Atom | None:
        """The atom of a polynomial that is one atom, else None."""
        if len(self.terms) == 1:
            ((monomial, coefficient),) = self.terms.items()
            if coefficient == 1 and len(monomial) == 1:
                return monomial[0]
        return None

    def atoms(self) -> Iterator[Atom]:
        """Every atom once, in order of first appearance."""
        return iter(dict.fromkeys(a for m in self.terms for a in m))

    def __add__(self, other: Poly) -> Poly:
        result = dict(self.terms)
        for m, c in other.terms.items():
            total = result.get(m, 0) + c
            if total:
                result[m] = total
            else:
                del result[m]
        return Poly(result)

    def __sub__(self, other: Poly) -> Poly:
        return self + other.scaled(-1)

    def __neg__(self) -> Poly:
        return self.scaled(-1)

    def scaled(self, factor: int) -> Poly:
        return Poly({m: c * factor for m, c in self.terms.items()}) if factor else ZERO

    def plus(self, value: int) -> Poly:
        return self + Poly({(): value}) if value else self

    def __mul__(self, other: Poly) -> Poly:
        a, b = (self.terms, other.terms) if len(self.terms) <= len(other.terms) else (other.terms, self.terms)
        if len(a) == 1 and () in a:
            return Poly({m: c * a[()] for m, c in b.items()})
        result: dict[Monomial, int] = {}
        for m, c in a.items():
            for n, d in b.items():
                key = m + n
                if m and n:
                    key = tuple(sorted(key, key=_order))
                total = result.get(key, 0) + c * d
                if total:
                    result[key] = total
                else:
                    result.pop(key, None)
        return Poly(result)

    def divided(self, divisor: Poly) -> tuple[Poly, Poly]:
        """(q, r) with self == divisor*q + r, where q takes every term that the divisor's leading term divides."""
        lead, c = max(divisor.terms.items(), key=lambda t: (len(t[0]), [a.order for a in t[0]]))
        quotient, rest = ZERO, self
        for _ in range(len(self.terms) + 8):
            hits = {}
            for m, k in rest.terms.items():
                cofactor = without(m, lead)
                if cofactor is not None and k % c == 0:
                    hits[cofactor] = k // c
            if not hits:
                break
            part = Poly(hits)
            quotient, rest = quotient + part, rest - part * divisor
            if len(divisor.terms) == 1:
                break
        return quotient, rest

    def split(self, atom: Atom) -> tuple[Poly, Poly] | None:
        """(a, b) with self == a*atom + b and neither holding the atom, or None where its degree is above one."""
        a: dict[Monomial, int] = {}
        b: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            rest = without(m, (atom,))
            if rest is None:
                b[m] = c
            elif atom in rest:
                return None
            else:
                a[rest] = c
        return Poly(a), Poly(b)

    def substituted(self, atom: Atom, value: Poly) -> Poly:
        """The polynomial with an atom replaced by a value."""
        result = ZERO
        for m, c in self.terms.items():
            power = m.count(atom)
            term = Poly({tuple(a for a in m if a is not atom): c})
            for _ in range(power):
                term = term * value
            result = result + term
        return result


def _order(atom: Atom) -> int:
    return atom.order


Rank = tuple[int, str, bytes, int, int, bytes]  # depth, operation, digest of the top atom; terms, a coefficient, digest


def rank(poly: Poly) -> Rank:
    """A sort key that depends only on the polynomial itself: its deepest atom, then its terms. Constants sort last.

    Creation order would depend on which expressions had been read before.
    """
    if poly.constant is not None:
        return sys.maxsize, "", b"", 0, poly.constant, b"%d" % poly.constant
    depth, operation, top, *_ = max(a.rank for a in poly.atoms())
    terms = sorted(b"".join(sorted(a.rank[-1] for a in m)) + b" %d;" % c for m, c in poly.terms.items())
    return depth, operation, top, len(terms), max(poly.terms.values()), _digest(terms)


def _rank_of(op: NodeType, args: tuple[Argument, ...]) -> Rank:
    """The rank of an atom, computed from the ranks of its parts, so shared parts are visited once."""
    if op is SYMBOL:
        (symbol,) = args
        depth, operation, parts = 0, str(symbol), [f"{symbol} {getattr(symbol, 'facts', '')}".encode()]
    else:
        ranks = [rank(a) if isinstance(a, Poly) else a.rank for a in args if isinstance(a, (Poly, Atom))]
        depth, operation = 1 + max((r[0] for r in ranks if r[0] < sys.maxsize), default=0), op.__name__
        others = [str(a) for a in args if not isinstance(a, (Poly, Atom, tuple))]  # a table by its name
        parts = [operation.encode(), *(r[-1] for r in ranks), *(text.encode() for text in others)]
    found = _digest(parts)
    return depth, operation, found, 1, 1, found


def _digest(parts: Iterable[bytes]) -> bytes:
    return hashlib.blake2b(b"|".join(parts), digest_size=12).digest()


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """The monomial divided by another, or None where it does not divide."""
    if not factor:
        return monomial
    rest = list(monomial)
    for atom in factor:
        try:
            rest.remove(atom)
        except ValueError:
            return None
    return tuple(rest)


Comparison: TypeAlias = tuple[NodeType, Poly, Poly]
ZERO = Poly({})
ONE = Poly({(): 1})


def number(value: int) -> Poly:
    """The constant polynomial of an int."""
    return Poly({(): value}) if value else ZERO
