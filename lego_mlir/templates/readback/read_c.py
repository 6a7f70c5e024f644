"""Parse and evaluate C index expressions on arrays of values.

The counterpart of `read_triton` for C: the usual arithmetic conversions between `int`, `unsigned` and `long long`,
division that truncates, and an error for every overflow, of `unsigned` too, because printed text never relies on
wrapping.

>>> import numpy as np
>>> evaluate("(int)((unsigned)i / 7u) + (i & 3)", {"i": np.array([15, 16])}).tolist()
[5, 2]
>>> evaluate("i < 4 ? i : (long long)i * 70000", {"i": np.array([3, 70000])}).tolist()
[3, 4900000000]
>>> evaluate("i * 70000", {"i": np.array([70000])})
Traceback (most recent call last):
    ...
lego_mlir.errors.TemplateError: an int overflows in 'i * 70000': 4900000000
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import TemplateError
from lego_mlir.templates.readback.common_rules import FUNCTIONS_READ, called, column, entries, truncated, value_of

LIMITS: Final = {"int": (-(2**31), 2**31 - 1), "unsigned": (0, 2**32 - 1), "long long": (-(2**63), 2**63 - 1)}
RANKS: Final = ("int", "unsigned", "long long")
_TOKEN: Final = re.compile(r"\s*(?:(\d+)(u|LL)?|([A-Za-z_]\w*)|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|^!?:()\[\],]))")
# Binary operators by precedence, loosest first (C standard).
_LEVELS: Final = tuple(
    row.split(",") for row in ["||", "&&", "|", "^", "&", "==,!=", "<,<=,>,>=", "<<,>>", "+,-", "*,/,%"]
)


@dataclass(frozen=True, slots=True)
class TypedValue:
    """Exact values and their C type."""

    values: Any
    type: str


def evaluate(
    text: str, values: Mapping[str, Array | TypedValue], tables: Mapping[str, Sequence[int]] | None = None
) -> Array:
    """The values of a C expression. A name is an int if its values fit, otherwise unsigned or long long."""
    return typed(text, values, tables).values


def typed(
    text: str, values: Mapping[str, Array | TypedValue], tables: Mapping[str, Sequence[int]] | None = None
) -> TypedValue:
    """The values of a C expression and its type. A name given as a `TypedValue` has that type."""
    reader = _Reader(text, values, tables or {})
    result = reader.ternary()
    if reader.peek() is not None:
        raise TemplateError(f"cannot read {text!r} beyond {reader.peek()!r}")
    return result


class _Reader:
    """A recursive-descent parser and evaluator of one expression."""

    def __init__(
        self, text: str, values: Mapping[str, Array | TypedValue], tables: Mapping[str, Sequence[int]]
    ) -> None:
        self.text, self.values, self.tables = text, values, tables
        self.tokens = self._tokens(text.strip())
        self.place = 0

    def _tokens(self, text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise TemplateError(f"cannot read {text!r} at {text[at:]!r}")
            number, suffix, name, operator = match.groups()
            tokens.append((number, suffix or "0") if number else (name, "name") if name else (operator, "op"))
            at = match.end()
        return tokens

    def peek(self, ahead: int = 0) -> str | None:
        place = self.place + ahead
        return self.tokens[place][0] if place < len(self.tokens) else None

    def take(self, expected: str | None = None) -> tuple[str, str]:
        if self.place >= len(self.tokens) or (expected is not None and self.peek() != expected):
            raise TemplateError(f"cannot read {self.text!r}: {expected or 'an operand'} is missing")
        self.place += 1
        return self.tokens[self.place - 1]

    def ternary(self) -> TypedValue:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take("?")
        a = self.ternary()
        self.take(":")
        b = self.ternary()
        return TypedValue(np.where(condition.values != 0, a.values, b.values), _common(a, b))

    def binary(self, level: int) -> TypedValue:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.take()[0]
            left = self._apply(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> TypedValue:
        if self.peek() == "-":
            self.take()
            inner = self.unary()
            return self._checked(-inner.values, inner.type)
        if self.peek() == "!":
            self.take()
            return TypedValue((self.unary().values == 0).astype(np.int64), "int")
        if self.peek() == "(" and self.peek(1) in ("int", "unsigned", "long"):
            self.take("(")
            kind = self._type()
            self.take(")")
            return self._checked(self.unary().values, kind)
        return self.postfix()

    def _type(self) -> str:
        name = self.take()[0]
        if name == "long":
            self.take("long")
            return "long long"
        return name

    def postfix(self) -> TypedValue:
        token, kind = self.take()
        if token == "(":
            inner = self.ternary()
            self.take(")")
            return inner
        if kind in ("0", "u", "LL"):
            value = np.array([int(token)], dtype=np.int64)
            return self._checked(value, {"u": "unsigned", "LL": "long long"}.get(kind) or _smallest(value, False))
        if kind != "name":
            raise TemplateError(f"cannot read {self.text!r} at {token!r}")
        if self.peek() == "[":
            return self._element(token)
        if self.peek() in ("(", "<") and token in FUNCTIONS_READ["cuda"]:
            return self._call(token)
        given = value_of(token, self.values)
        if isinstance(given, TypedValue):
            return given
        array = column(given)
        return TypedValue(array, _smallest(array, True))

    def _element(self, name: str) -> TypedValue:
        if name not in self.tables:
            raise TemplateError(f"the text indexes {name}, which is not a table; there are: {', '.join(self.tables)}")
        self.take("[")
        index = self.ternary().values
        self.take("]")
        found, table = entries(name, index, self.tables, repr(self.text))
        return TypedValue(found, _smallest(table, True))

    def _call(self, name: str) -> TypedValue:
        kind = None
        if self.peek() == "<":
            self.take("<")
            kind = self._type()
            self.take(">")
        self.take("(")
        arguments = [self.ternary()]
        while self.peek() == ",":
            self.take(",")
            arguments.append(self.ternary())
        self.take(")")
        return self._checked(
            called("cuda", name, [a.values for a in arguments], repr(self.text)), kind or _common(*arguments)
        )

    def _apply(self, operator: str, a: TypedValue, b: TypedValue) -> TypedValue:
        if operator in _TRUTHS:
            return TypedValue(_TRUTHS[operator](a.values, b.values).astype(np.int64), "int")
        if operator in ("/", "%"):
            quotient, remainder = truncated(a.values, b.values, repr(self.text))
            return TypedValue(quotient if operator == "/" else remainder, self._converted(a, b))
        kind = a.type if operator in ("<<", ">>") else self._converted(a, b)
        return self._checked(_NUMBERS[operator](a.values, b.values), kind)

    def _converted(self, a: TypedValue, b: TypedValue) -> str:
        """The common type; converting a negative int to unsigned is an error."""
        kind = _common(a, b)
        self._checked(a.values, kind)
        self._checked(b.values, kind)
        return kind

    def _checked(self, values: Array, kind: str) -> TypedValue:
        low, high = LIMITS[kind]
        if values.size and kind != "long long" and (values.min() < low or values.max() > high):
            worst = values.min() if values.min() < low else values.max()
            raise TemplateError(f"an {kind} overflows in {self.text!r}: {int(worst)}")
        return TypedValue(values, kind)


def _common(*operands: TypedValue) -> str:
    return max((o.type for o in operands), key=RANKS.index)


def _smallest(values: Array, unsigned: bool) -> str:
    for kind in RANKS:
        low, high = LIMITS[kind]
        if (kind != "unsigned" or unsigned) and (not values.size or (values.min() >= low and values.max() <= high)):
            return kind
    raise TemplateError(f"no C integer type holds {values.min()}..{values.max()}")


_TRUTHS: Final[dict[str, Callable[..., Any]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&&": np.logical_and,
    "||": np.logical_or,
}
_NUMBERS: Final[dict[str, Callable[..., Any]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}
