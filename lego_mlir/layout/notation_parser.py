"""Reads the text of a layout, `#lego.layout<...>`, by recursive descent: one method per production of the grammar.

    attribute   = [ "[" size declarations "]" ":" ] layout
    layout      = ( chain | permutation | "Padded" "(" layout "," list ")" | "Strided" "(" list "," list ")" )
                  { "tile_by" "(" lists ")" }
    chain       = { "OrderBy" "(" permutations ")" | "TileOrderBy" "(" permutations ")" }
                  [ "GroupBy" "(" lists ")" | "TileBy" "(" lists ")" ]
    permutation = "Row" "(" sizes ")" | "Col" "(" sizes ")" | "RegP" "(" list "," list ")"
                | "GenP" "(" list "," "@" name ")" | "gallery." name "(" arguments ")"
    size        = an affine expression: + - * floordiv ceildiv mod

A layout's Python repr is read as well, with its dots and `//`, where its sizes are ints. Text from elsewhere may be
malformed in any way: each error is a LayoutError with the column, and depth and length are limited.

>>> parse_layout("#lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) GroupBy([2, 2, 3, 3])>").apply(1, 0, 1, 2)
15
>>> parse_layout("Row(6, 6) tile_by([2, 2] [3, 3])")
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: layout text, column 26: expected ',' or ')', got '[': 'Row(6, 6) tile_by([2, 2] [3, 3])'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from lego_mlir.errors import ExpressionError, LayoutError, brief, did_you_mean
from lego_mlir.expr.index import Index, cdiv
from lego_mlir.expr.sizes import size
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.chain import Chain, OrderBy, TileBy, TileOrderBy
from lego_mlir.layout.chain import GroupBy as View
from lego_mlir.layout.notation import GALLERY, KEYWORDS
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import Col, GenP, RegP, Row
from lego_mlir.layout.strided import Strided

T = TypeVar("T")
Definitions: TypeAlias = Mapping[str, GenP | Callable[[list[Size]], GenP]]
"""The meaning of a symbol: a permutation, or the function that makes one for the sizes of a use."""
_TOKEN: Final = re.compile(
    r'\s*(?:(?P<int>\d+)|(?P<word>(?:gallery|grids)\.\w+|[A-Za-z_]\w*)|(?P<symbol>@[\w.$-]+|@"[^"\\]*")'
    r"""|(?P<text>"[^"\\]*"|'[^'\\]*')"""
    r"|(?P<mark>//|[][(),:=<>+*%.-]))"
)
_WRAPPED: Final = re.compile(r"\s*#lego\.layout\s*<(.*)>\s*", re.DOTALL)
DEEPEST: Final = 64
"""Levels of parentheses that are read; building a layout recurses once a level."""
MOST_DIGITS: Final = 19
"""Digits of a number: sizes are 64-bit integers."""
_DIVISIONS: Final = {"floordiv": "//", "//": "//", "mod": "%", "%": "%", "ceildiv": "ceildiv"}
_FACTS: Final = ("min", "max", "multiple_of")


def parse_layout(text: str, symbols: Definitions | None = None) -> Layout:
    """The layout of a text such as `#lego.layout<Row(M, 64)>` or `Row(8, 8)`, or of a layout's repr.

    `symbols` gives the permutation of each `@name`, or a function that makes it for given sizes. The layout is checked
    as its constructors check it. Raises LayoutError, with the column and the remedy, for any other text.
    """
    if not isinstance(text, str):
        raise LayoutError(f"parse_layout takes a text such as '#lego.layout<Row(8, 8)>', got {text!r}")
    wrapped = _WRAPPED.fullmatch(text)
    body = wrapped.group(1) if wrapped else text
    return _Parser(body, symbols or {}).parse()


class _Parser:
    """A position in a list of tokens, each with its kind, text and column."""

    def __init__(self, text: str, symbols: Definitions) -> None:
        self.text, self.symbols = text, symbols
        self.sizes: dict[str, Index] = {}
        self.at = self.depth = 0
        self.tokens = self._tokens()

    def _tokens(self) -> list[tuple[str, str, int]]:
        found, at, end = [], 0, len(self.text.rstrip())
        while at < end:
            token = _TOKEN.match(self.text, at)
            if token is None or token.lastgroup is None:
                column = at + len(self.text[at:]) - len(self.text[at:].lstrip())
                raise self._error(f"unexpected {self.text[column : column + 1]!r}", column)
            found.append((token.lastgroup, token[token.lastgroup], token.start(token.lastgroup)))
            at = token.end()
        return [*found, ("end", "", end)]

    def _error(self, reason: str, column: int | None = None) -> LayoutError:
        column = self.tokens[self.at][2] if column is None else column
        return LayoutError(f"layout text, column {column + 1}: {reason}: {brief(repr(self.text))}")

    def _expected(self, what: str) -> LayoutError:
        kind, text, _ = self.tokens[self.at]
        return self._error(f"expected {what}, got {'the end' if kind == 'end' else repr(text)}")

    # -- tokens

    def peek(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        kind, text, _ = self.tokens[self.at]
        return kind in ("word", "mark") and text in texts

    def accept(self, *texts: str) -> str:
        """Consume the next token if it is one of these; empty otherwise."""
        if not self.peek(*texts):
            return ""
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, *texts: str) -> None:
        if not self.accept(*texts):
            raise self._expected(" or ".join(map(repr, texts)))

    def take(self, kind: str, what: str) -> str:
        """Consume a token of this kind."""
        if self.tokens[self.at][0] != kind:
            raise self._expected(what)
        self.at += 1
        return self.tokens[self.at - 1][1]

    def enclosed(self, opening: str, item: Callable[[], T], closing: str) -> list[T]:
        """One or more items, separated by commas, in brackets."""
        self.expect(opening)
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} levels of parentheses")
        found = [item()]
        while not self.accept(closing):
            if not self.accept(","):
                raise self._expected(f"',' or {closing!r}")
            found.append(item())
        self.depth -= 1
        return found

    def made(self, column: int, make: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """What a constructor makes; its refusal gets the column."""
        try:
            return make(*arguments, **options)
        except LayoutError as error:
            raise self._error(str(error), column) from error

    # -- layouts

    def parse(self) -> Layout:
        if self.peek("["):
            self.enclosed("[", self.declaration, "]")
            self.expect(":")
        layout = self.layout()
        if self.tokens[self.at][0] != "end":
            raise self._expected("the end")
        return layout

    def declaration(self) -> None:
        column = self.tokens[self.at][2]
        name = self.take("word", "the name of a size")
        if name in KEYWORDS or name in self.sizes:
            raise self._error(f"{name!r} is {'declared twice' if name in self.sizes else 'a keyword'}", column)
        facts: dict[str, Any] = {}
        while fact := self.accept(*_FACTS):
            if fact in facts:
                raise self._error(f"{name} has two facts {fact}")
            facts[fact] = self.int()
        try:
            self.sizes[name] = size(name, **facts)
        except ExpressionError as error:
            raise self._error(str(error), column) from error

    def layout(self) -> Layout:
        column = self.tokens[self.at][2]
        layout: Layout
        if self.accept("Padded"):
            self.expect("(")
            inner = self.inner()
            self.expect(",")
            layout = self.made(column, Padded, inner, self.bracketed())
            self.expect(")")
        elif self.accept("Strided"):
            self.expect("(")
            sizes = self.bracketed()
            self.expect(",")
            layout = self.made(column, _strided, sizes, self.bracketed())
            self.expect(")")
        elif self.peek("OrderBy", "TileOrderBy", "GroupBy", "TileBy"):
            layout = self.chain()
        else:
            layout = self.permutation()
        return self.tilings(layout)

    def inner(self) -> Layout:
        """A view inside another."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} levels of parentheses")
        found = self.layout()
        self.depth -= 1
        return found

    def tilings(self, layout: Layout) -> Layout:
        for _ in range(DEEPEST):
            self.accept(".")
            column = self.tokens[self.at][2]
            if not self.accept("tile_by"):
                return layout
            layout = self.made(column, layout.tile_by, *self.lists())
        raise self._error(f"more than {DEEPEST} tilings")

    def chain(self) -> Layout:
        orders: tuple[OrderBy, ...] = ()
        column = self.tokens[self.at][2]
        while word := self.accept("OrderBy", "TileOrderBy"):
            make = {"OrderBy": lambda *perms: Chain((OrderBy(*perms),)), "TileOrderBy": TileOrderBy}[word]
            orders += self.made(column, make, *self.enclosed("(", self.permutation, ")")).orders
            self.accept(".")
            column = self.tokens[self.at][2]
        word = self.accept("GroupBy", "TileBy")
        if not word:
            return orders[0] if len(orders) == 1 else self.made(column, View, orders[-1].dims(), orders=orders)
        levels = self.lists()
        if word == "GroupBy":
            return self.made(column, View, *levels, orders=orders)
        tiled = self.made(column, TileBy, *levels)
        return self.made(column, View, *tiled.levels, orders=(*orders, *tiled.orders))

    # -- permutations

    def permutation(self) -> Layout:
        column = self.tokens[self.at][2]
        word = self.take("word", "a permutation or a layout, such as Row(8, 8)")
        if word in ("Row", "Col"):
            return self.made(column, Row if word == "Row" else Col, *self.enclosed("(", self.size, ")"))
        if word == "RegP":
            self.expect("(")
            sizes = self.bracketed()
            self.expect(",")
            sigma = self.ints()
            self.expect(")")
            return self.made(column, RegP, sizes, sigma)
        if word == "GenP":
            return self.general(column)
        if word not in GALLERY:
            known = (
                "Row",
                "Col",
                "RegP",
                "GenP",
                "OrderBy",
                "GroupBy",
                "TileBy",
                "TileOrderBy",
                "Padded",
                "Strided",
                *GALLERY,
            )
            raise self._error(f"unknown layout {word!r}{did_you_mean(word, known)}; known: {', '.join(known)}", column)
        if word == "gallery.table":
            return self.table(column)
        options: dict[str, int] = {}
        arguments = [n for n in self.enclosed("(", lambda: self.argument(options), ")") if n is not None]
        return self.made(column, self._call, word, arguments, options)

    def _call(self, word: str, arguments: list[Size], options: dict[str, int]) -> Layout:
        try:
            return GALLERY[word](*arguments, **options)
        except TypeError as error:  # a wrong number or name of arguments
            raise LayoutError(f"{error}") from None

    def argument(self, options: dict[str, int]) -> Size | None:
        """A size, or an option such as `vec=8`, which is put into `options`."""
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if following[:2] != ("mark", "="):
            if options:
                raise self._error("a size follows an option")
            return self.size()
        name = self.take("word", "an option")
        if name in options:
            raise self._error(f"{name} is given twice")
        self.expect("=")
        options[name] = self.int()
        return None

    def general(self, column: int) -> GenP:
        """A permutation by symbol; its sizes must be those of the definition."""
        self.expect("(")
        sizes = self.bracketed()
        self.expect(",")
        name = self.take("symbol", "a symbol such as @zigzag")[1:].strip('"')
        self.expect(")")
        perm = self.symbols.get(name)
        if callable(perm):
            perm = self.made(column, perm, sizes)
        if perm is None:
            known = ", ".join(f"@{known}" for known in self.symbols) or "none"
            raise self._error(f"@{name} is not defined; known: {known}", column)
        if list(map(str, perm.dims())) != list(map(str, sizes)):
            raise self._error(f"@{name} permutes {list(perm.dims())}, not {sizes}", column)
        return perm

    def table(self, column: int) -> Layout:
        self.expect("(")
        sizes = self.bracketed()
        self.expect(",")
        entries = self.ints()
        name = None
        if self.accept(","):
            self.expect("name")
            self.expect("=")
            name = self.take("text", 'a name such as "order"')[1:-1]
        self.expect(")")
        return self.made(column, GALLERY["gallery.table"], sizes, entries, name)

    # -- sizes

    def lists(self) -> list[list[Size]]:
        return self.enclosed("(", self.bracketed, ")")

    def bracketed(self) -> list[Size]:
        return self.enclosed("[", self.size, "]")

    def ints(self) -> list[int]:
        return self.enclosed("[", self.int, "]")

    def int(self) -> int:
        sign = -1 if self.accept("-") else 1
        digits = self.take("int", "a number")
        if len(digits) > MOST_DIGITS:
            self.at -= 1
            raise self._error(f"a number of {len(digits)} digits; sizes are 64-bit integers")
        return sign * int(digits)

    def size(self) -> Size:
        """A sum of products."""
        total = self.product()
        while sign := self.accept("+", "-"):
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def product(self) -> Size:
        value = self.factor()
        while operator := self.accept("*", *_DIVISIONS):
            column = self.tokens[self.at][2]
            factor = self.factor()
            if operator == "*":
                value = value * factor
                continue
            if isinstance(factor, int) and factor < 1:
                raise self._error(f"division by {factor}", column)
            match _DIVISIONS[operator]:
                case "//":
                    value = value // factor
                case "%":
                    value = value % factor
                case _:
                    value = cdiv(value, factor)
        return value

    def factor(self) -> Size:
        if self.accept("-"):
            return -self.factor()
        if self.peek("("):
            (inside,) = self.enclosed("(", self.size, ")")[:1]
            return inside
        if self.tokens[self.at][0] == "int":
            return self.int()
        column = self.tokens[self.at][2]
        name = self.take("word", "a size")
        if name not in self.sizes:
            known = ", ".join(self.sizes) or "none"
            raise self._error(
                f"the size {name} is not declared in front, as in [{name}]: ..; declared: {known}", column
            )
        return self.sizes[name]


def _strided(sizes: list[Size], strides: list[Size]) -> Strided:
    """A layout of strides. Where no proof is found that they are one-to-one, the author of the text claims it."""
    try:
        return Strided(sizes, strides)
    except LayoutError:
        return Strided(sizes, strides, claim=True)
