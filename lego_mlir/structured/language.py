"""LL as text: declarations and assignments, parsed by recursive descent.

>>> program = parse('''
...     A = Matrix(4, 4);      L = LowerTriangular(4);
...     S = Symmetric(L, 4);   U = UpperTriangular(4);
...     A = L*U + S;
... ''')
>>> print(program)
A = L * U + S
>>> parse("A = Matrix(2, 2); A = A * B;")
Traceback (most recent call last):
    ...
lego_mlir.structured.syntax.LLError: line 1, column 27: B is not declared; write B = Matrix(m, n); or another type first
  A = Matrix(2, 2); A = A * B;
                            ^

Grammar, with `'` binding tightest, then `-` before an operand, then `*` and `\\`, then `+` and `-`:

    program     ::= { statement }                     statement ::= NAME "=" (structure | expression) ";"
    structure   ::= TYPE "(" [argument {"," argument}] ")"
    argument    ::= INTEGER | NAME | structure | "[" structure {"," structure} "]" | NAME "=" NAME
    expression  ::= term { ("+" | "-") term }         term ::= signed { ("*" | "\\") signed }
    signed      ::= "-" signed | postfix              postfix ::= atom { "'" }
    atom        ::= NUMBER | NAME | FUNCTION "(" expression ")" | "(" expression ")"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import LegoError, did_you_mean
from lego_mlir.structured import structures as st
from lego_mlir.structured.storage import as_storage
from lego_mlir.structured.syntax import (
    FUNCTIONS,
    MOST_OPERATIONS,
    Binary,
    Call,
    Expression,
    LLError,
    Name,
    Negated,
    Number,
    Operand,
    Position,
    Program,
    Statement,
    Transpose,
    fail,
)

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|#[^\n]*|%[^\n]*)|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-+*\\'=;,()\[\]])",
    re.ASCII,
)

MOST_DIGITS: Final = 40
"""Digits of a size that is read; its value is checked by the structure."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its position; the last token marks the end of the text."""

    kind: str
    text: str
    position: Position


def _scalar() -> st.Structure:
    return st.Structure("Scalar()", 1, 1, st.general(1, 1).sinfo, st.general(1, 1).ainfo)


def _vector(n: int) -> st.Structure:
    return st.Structure(f"Vector({n})", n, 1, st.general(n, 1).sinfo, st.general(n, 1).ainfo)


# What a type takes: a size, a word such as L, a structure, or a row of blocks.
TypeArgument = int | str | st.Structure | list[st.Structure]
# LL type: (usage, constructor of the structure)
TypeRow = tuple[str, Callable[..., st.Structure]]
TYPES: Final[dict[str, TypeRow]] = {
    "Matrix": ("m, n", st.general),
    "Vector": ("n", _vector),
    "Scalar": ("", _scalar),
    "LowerTriangular": ("n", st.lower),
    "UpperTriangular": ("n", st.upper),
    "UnitLower": ("n", st.unit_lower),
    "UnitUpper": ("n", st.unit_upper),
    "Symmetric": ("L|U, n", lambda half, n: st.symmetric(n, half)),
    "Zero": ("m, n", st.zero),
    "Diagonal": ("n", st.diagonal),
    "Identity": ("n", st.identity),
    "Banded": ("m, n, below, above", st.banded),
    "Tridiagonal": ("n", lambda n: st.banded(n, n, 1, 1)),
    "Pentadiagonal": ("n", lambda n: st.banded(n, n, 2, 2)),
    "SymmetricBanded": ("L|U, n, width", lambda half, n, width: st.symmetric_banded(n, width, half)),
    "Blocked": ("[structure, ...], ...", lambda *rows: st.blocked(rows)),
}


def tokens(text: str) -> list[Token]:
    """The tokens of a text. Raises LLError at a character that starts no token."""
    found: list[Token] = []
    at, line, start = 0, 1, 0
    while at < len(text):
        position = Position(line, at - start + 1, text)
        match = _TOKEN.match(text, at)
        if match is None:
            raise fail(position, f"{text[at]!r} does not start an LL token")
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, match.group(), position))
        for offset, character in enumerate(match.group()):
            if character == "\n":
                line, start = line + 1, at + offset + 1
        at = match.end()
    found.append(Token("end", "end of text", Position(line, at - start + 1, text)))
    return found


class Parser:
    """The parser of one text; `operands` may hold declarations made elsewhere."""

    def __init__(self, text: str, operands: Mapping[str, Operand], types: Mapping[str, TypeRow]) -> None:
        self.tokens = tokens(text)
        self.at = 0
        self.types = types
        self.operands: dict[str, Operand] = dict(operands)
        self.operations = 0  # of the statement that is being read
        self.statements: list[Statement] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self, text: str) -> bool:
        if self.token.kind != "end" and self.token.text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.token
        if not self.take(text):
            raise fail(token.position, f"expected {text!r}, found {token.text!r}")
        return token

    def word(self, kind: str) -> Token:
        token = self.token
        if token.kind != kind:
            raise fail(token.position, f"expected a {kind}, found {token.text!r}")
        self.at += 1
        return token

    def program(self) -> Program:
        while self.token.kind != "end":
            self.statement()
        if not self.statements:
            raise fail(self.token.position, "the program has no assignment; add a statement such as A = L*U + S;")
        return Program(tuple(self.operands.values()), tuple(self.statements))

    def count_operation(self, position: Position) -> None:
        """Bound the operations of a statement: an expression is as deep, and passes recurse once a level."""
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise fail(
                position,
                f"a statement of more than {MOST_OPERATIONS} operations, parentheses and nested structures; "
                "assign parts of it to operands",
            )

    def statement(self) -> None:
        self.operations = 0
        target = self.word("name")
        self.expect("=")
        if self.token.text in self.types and self.tokens[self.at + 1].text == "(":
            self.declaration(target)
        else:
            if target.text not in self.operands:
                raise self.undeclared(target)
            value = self.expression()
            self.statements.append(Statement(self.operands[target.text], value, target.position))
        if self.token.kind != "end":
            self.expect(";")

    def undeclared(self, token: Token) -> LLError:
        following = self.tokens[self.tokens.index(token) + 1].text
        known = (*self.types, *FUNCTIONS) if following == "(" else self.operands
        meant = did_you_mean(token.text, known)
        if following == "(":
            kinds = ", ".join((*FUNCTIONS, *self.types))
            return fail(token.position, f"{token.text} is neither a function nor a type; available: {kinds}{meant}")
        return fail(
            token.position,
            f"{token.text} is not declared; write {token.text} = Matrix(m, n); or another type first{meant}",
        )

    def declaration(self, target: Token) -> None:
        if target.text in self.operands:
            raise fail(target.position, f"{target.text} is already declared; declare each name once")
        structure, options = self.structure()
        try:
            storage = as_storage(options.pop("storage", "full"))
        except LegoError as error:
            raise fail(target.position, str(error)) from error
        if options:
            meant = did_you_mean(next(iter(options)), ["storage"])
            raise fail(
                target.position, f"{target.text}: unknown option {', '.join(options)}; available: storage{meant}"
            )
        self.operands[target.text] = Operand(target.text, structure, storage)

    def structure(self) -> tuple[st.Structure, dict[str, str]]:
        head = self.word("name")
        self.count_operation(head.position)
        if head.text not in self.types:
            meant = did_you_mean(head.text, self.types)
            raise fail(head.position, f"unknown type {head.text}; available: {', '.join(self.types)}{meant}")
        usage, make = self.types[head.text]
        self.expect("(")
        arguments: list[TypeArgument] = []
        options: dict[str, str] = {}
        while not self.take(")"):
            if arguments or options:
                self.expect(",")
            if self.token.kind == "name" and self.tokens[self.at + 1].text == "=":
                key = self.word("name").text
                self.expect("=")
                options[key] = self.word("name").text
            else:
                arguments.append(self.argument())
        try:
            return make(*arguments), options
        except TypeError as error:
            raise fail(head.position, f"{head.text}({usage}) does not take {len(arguments)} arguments") from error
        except LegoError as error:
            raise fail(head.position, str(error)) from error

    def argument(self) -> TypeArgument:
        if self.take("["):
            row = [self.structure()[0]]
            while self.take(","):
                row.append(self.structure()[0])
            self.expect("]")
            return row
        if self.token.kind == "number":
            number = self.word("number")
            if not number.text.isdigit():
                raise fail(number.position, f"sizes must be integers, got {number.text}")
            if len(number.text) > MOST_DIGITS:
                raise fail(number.position, f"a size of {len(number.text)} digits; sizes have at most {MOST_DIGITS}")
            return int(number.text)
        if self.token.kind == "name" and self.tokens[self.at + 1].text == "(":
            return self.structure()[0]
        return self.word("name").text

    def expression(self) -> Expression:
        left = self.term()
        while self.token.text in ("+", "-") and self.token.kind == "sign":
            operator = self.word("sign")
            self.count_operation(operator.position)
            left = Binary(operator.text, left, self.term(), operator.position)
        return left

    def term(self) -> Expression:
        left = self.signed()
        while self.token.text in ("*", "\\"):
            operator = self.word("sign")
            self.count_operation(operator.position)
            left = Binary(operator.text, left, self.signed(), operator.position)
        return left

    def signed(self) -> Expression:
        position = self.token.position
        if self.take("-"):
            self.count_operation(position)
            return Negated(self.signed(), position)
        inner = self.atom()
        while self.token.text == "'":
            self.count_operation(self.token.position)
            inner = Transpose(inner, self.word("sign").position)
        return inner

    def atom(self) -> Expression:
        token = self.token
        if self.take("("):
            self.count_operation(token.position)
            inner = self.expression()
            self.expect(")")
            return inner
        if token.kind == "number":
            self.at += 1
            return Number(float(token.text), token.position)
        name = self.word("name")
        if name.text in FUNCTIONS and self.token.text == "(":
            self.expect("(")
            self.count_operation(name.position)
            inner = self.expression()
            self.expect(")")
            return Call(name.text, inner, name.position)
        if name.text not in self.operands:
            raise self.undeclared(name)
        return Name(self.operands[name.text], name.position)


def parse(
    text: str, operands: Mapping[str, Operand] | None = None, types: Mapping[str, TypeRow] | None = None
) -> Program:
    """Parse a program. `types` adds user-defined structures, as rows like those of `TYPES`.

    Raises LLError with line and column at the first mistake.
    """
    return Parser(text, operands or {}, {**TYPES, **(types or {})}).program()
