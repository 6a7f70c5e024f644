"""Contraction: a product and the sums that take it become fused multiply-adds, `a * b + c` with one rounding.

The rule works on the traced program, so every consumer of a trace computes the same bits; LLVM and ptxas contract
nothing. Of each region, a list of statements:

    sum          `x + y` or `x - y` of floats; not `x + x` and `x - x`, which have one rounding as they are
    product      `a * b`, or its negative, made in the same region
    may fuse     a product whose uses are all sums of its region, at most MOST_USES of them
    order        products with fewer uses first, then in program order; a product is fused if none of its sums has
                 taken another one

A fused product disappears: no product has two values in a kernel, and no instruction is added. One that is also stored,
written to a register, shuffled, converted, compared, multiplied, chosen by `where`, or used in another region, keeps
its rounding, and so do its sums.

    c + a * b    fma(a, b, c)          a * b - c        fma(a, b, -c)
    c - a * b    fma(-a, b, c)         a * b + c * d    fma(a, b, c * d)

`acc *= a; acc += b` in a row is one expression. A vector of products of f32 or f64 of which only elements are used is
that many products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    Compute,
    For,
    If,
    Lane,
    Read,
    Register,
    Statement,
    Value,
    While,
    Write,
    operands_of,
    statements_in,
)

MOST_USES: Final = 4
"""Sums that may take one product: beyond these its two factors occupy registers for longer than the product would."""

NARROWEST_SPLIT: Final = 32
"""Bits of an element from which on a vector has no arithmetic of its own, and is computed element by element."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """What became of a sum with a product: fused, where `reason` is empty, or why it was not."""

    total: Source
    product: Source
    reason: str = ""


def contracted(
    body: Sequence[Statement], value: Callable[[Value], Value], kept: Collection[int] = ()
) -> tuple[tuple[Statement, ...], tuple[Contraction, ...]]:
    """The body with fused products, and what became of each sum that has one.

    `value` makes a new value of the type of another, an element type and a width. Results numbered in `kept` round by
    themselves.
    """
    body = tuple(body)
    body = _forwarded(body, _users(body))
    body = _split(body, _users(body), value, kept)
    found = _Contractions(value, frozenset(kept), _users(body))
    return found.rewritten(body), tuple(found.decided)


Users = dict[int, list[Statement]]


def _users(body: tuple[Statement, ...]) -> Users:
    """The statements that take each value, by its number: one that takes it twice is there twice."""
    found: Users = defaultdict(list)
    for statement in statements_in(body):
        for operand in operands_of(statement):
            found[operand.number].append(statement)
    return found


def _is_sum(statement: Statement) -> bool:
    return (
        isinstance(statement, Compute)
        and statement.operation in ("add", "sub")
        and statement.result.dtype.is_float
        and statement.operands[0].number != statement.operands[1].number
    )


def _is_product(statement: Statement) -> bool:
    return isinstance(statement, Compute) and statement.operation == "mul" and statement.result.dtype.is_float


def _inside(statement: Statement, change: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]) -> Statement:
    """The statement with its regions changed."""
    match statement:
        case For(body=body) | While(body=body):
            return replace(statement, body=change(body))
        case If(then=then, otherwise=otherwise):
            return replace(statement, then=change(then), otherwise=change(otherwise))
        case _:
            return statement


# -- products that pass through a register


def _forwarded(body: tuple[Statement, ...], users: Users) -> tuple[Statement, ...]:
    """The body where a product that is written into a register, read by sums alone and overwritten, goes to the sums.

    All three are in one region, without a nested one between them that uses the register.
    """
    sums = {id(s) for s in body if _is_sum(s)}
    products = {s.result.number for s in body if isinstance(s, Compute) and _is_product(s)}
    pending: dict[Register, tuple[Write, list[Read]]] = {}
    dropped: set[int] = set()
    given: dict[int, Value] = {}
    for statement in body:
        match statement:
            case Write(register=register, value=product):
                if register in pending:
                    written, reads = pending.pop(register)
                    dropped |= {id(written), *map(id, reads)}
                    given |= {read.result.number: written.value for read in reads}
                if product.number in products:
                    pending[register] = statement, []
            case Read(result=result, register=register) if register in pending:
                if all(id(user) in sums for user in users[result.number]):
                    pending[register][1].append(statement)
                else:
                    del pending[register]
            case For() | While() | If():
                for register in _registers_in(statement):
                    pending.pop(register, None)
            case _:
                pass
    return tuple(
        replace(s, operands=tuple(given.get(v.number, v) for v in s.operands))
        if isinstance(s, Compute) and any(v.number in given for v in s.operands)
        else _inside(s, lambda inner: _forwarded(inner, users))
        for s in body
        if id(s) not in dropped
    )


def _registers_in(statement: Statement) -> Iterator[Register]:
    for inner in statements_in((statement,)):
        match inner:
            case Read(register=register) | Write(register=register) | While(condition=register):
                yield register
            case _:
                pass


# -- vectors of products


def _split(
    body: tuple[Statement, ...], users: Users, value: Callable[[Value], Value], kept: Collection[int]
) -> tuple[Statement, ...]:
    """The body with products of elements in place of a vector of products whose elements alone are used."""
    vectors: dict[int, Compute] = {}
    made: list[Statement] = []
    for statement in body:
        match statement:
            case Compute(result=result) if (
                _is_product(statement)
                and result.width is not None
                and result.dtype.bits >= NARROWEST_SPLIT
                and result.number not in kept
                and all(isinstance(user, Lane) for user in users[result.number])
            ):
                vectors[result.number] = statement
            case Lane(result=result, operand=operand, lane=lane, source=source) if operand.number in vectors:
                factors = [value(result), value(result)]
                for factor, whole in zip(factors, vectors[operand.number].operands, strict=True):
                    made.append(Lane(factor, whole, lane, source))
                made.append(Compute(result, "mul", tuple(factors), vectors[operand.number].source))
            case _:
                made.append(_inside(statement, lambda inner: _split(inner, users, value, kept)))
    return tuple(made)


# -- sums


@dataclass(frozen=True, slots=True)
class _Term:
    """A sum and its operand, of a product or of its negative, by number."""

    total: Compute
    operand: int
    negative: bool


@dataclass(frozen=True, slots=True)
class _Product:
    """A product, the sums that take it and the values between; `reason` tells why it cannot be fused."""

    statement: Compute
    terms: tuple[_Term, ...]
    negatives: tuple[Compute, ...]
    reason: str


@dataclass(slots=True)
class _Contractions:
    value: Callable[[Value], Value]
    kept: frozenset[int]
    users: Users
    decided: list[Contraction] = field(default_factory=list)

    def rewritten(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        fused = self.fused(body)
        gone = {id(s) for product, _ in fused.values() for s in (product.statement, *product.negatives)}
        made: list[Statement] = []
        for statement in body:
            if isinstance(statement, Compute) and id(statement) in fused:
                made.extend(self.fma(*fused[id(statement)]))
            elif id(statement) not in gone:
                made.append(_inside(statement, self.rewritten))
        return tuple(made)

    def fused(self, body: tuple[Statement, ...]) -> dict[int, tuple[_Product, _Term]]:
        """The product that each sum of a region takes, by the identity of the sum."""
        here = {id(s) for s in body}
        products = [self.product(s, here) for s in body if isinstance(s, Compute) and _is_product(s)]
        taken: dict[int, tuple[_Product, _Term]] = {}
        open_: list[_Product] = []
        for product in sorted(products, key=lambda p: len(p.terms)):
            if product.reason or any(id(term.total) in taken for term in product.terms):
                open_.append(product)
            else:
                taken |= {id(term.total): (product, term) for term in product.terms}
        self.decided += [Contraction(term.total.source, p.statement.source) for p, term in taken.values()]
        self.decided += [
            Contraction(
                term.total.source, product.statement.source, product.reason or "another sum takes its other product"
            )
            for product in open_
            for term in product.terms
            if id(term.total) not in taken
        ]
        return taken

    def product(self, statement: Compute, here: Collection[int]) -> _Product:
        terms: list[_Term] = []
        negatives: list[Compute] = []
        reasons: list[str] = []
        pending = [(statement, False)]
        while pending:
            made, negative = pending.pop()
            if made.result.number in self.kept:
                reasons.append("lego.rounded")
            for user in self.users[made.result.number]:
                if isinstance(user, Compute) and id(user) in here and user.operation == "neg":
                    negatives.append(user)
                    pending.append((user, not negative))
                elif isinstance(user, Compute) and _is_sum(user):
                    terms.append(_Term(user, made.result.number, negative))
                    reasons += ["the product is made outside"] if id(user) not in here else []
                    reasons += ["lego.rounded"] if user.result.number in self.kept else []
                else:
                    reasons.append("the product is also used otherwise")
        if len(terms) > MOST_USES:
            reasons.append(f"the product is in more than {MOST_USES} sums")
        if len({id(term.total) for term in terms}) < len(terms):
            reasons.append("both terms are of the same product")
        return _Product(statement, tuple(terms), tuple(negatives), reasons[0] if reasons else "")

    def fma(self, product: _Product, term: _Term) -> Iterator[Statement]:
        """The statements in place of a sum."""
        total, (a, b) = term.total, product.statement.operands
        left = total.operands[0].number == term.operand
        other = total.operands[1 if left else 0]
        is_difference = total.operation == "sub"
        if term.negative != (is_difference and not left):
            negative = self.value(a)
            yield Compute(negative, "neg", (a,), total.source)
            a = negative
        if is_difference and left:
            negative = self.value(other)
            yield Compute(negative, "neg", (other,), total.source)
            other = negative
        yield Compute(total.result, "fma", (a, b, other), total.source)
