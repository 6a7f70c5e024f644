"""CuTe's text for layouts: `((2,2),8):((1,4),16)`, `Sw<3,4,3> o _0 o (8,64):(64,1)`.

Static ints may be written `_8`, as CuTe prints them.

>>> parse("(_4,(_2,3)):(_1,(4,8))")
((4, (2, 3)), (1, (4, 8)), None)
>>> parse("Sw<3,4,3> o _0 o 8:1")
(8, 1, Sw<3,4,3>)
"""

from __future__ import annotations

import re

from lego_mlir.cute.layout import DEEPEST, CuteSwizzle, IntTuple
from lego_mlir.errors import LayoutError

_SWIZZLE = re.compile(
    r"(?:Sw|Swizzle|S)<\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*>\s*o\s*(?:_?0\s*o\s*)?(.*)", re.DOTALL
)
_TOKEN = re.compile(r"\s*(?:_?(\d+)|([(),]))")
LONGEST = 4_000
"""Characters of a text that are read, fewer than the digits of an int that Python converts."""


def parse(text: str) -> tuple[IntTuple, IntTuple | None, CuteSwizzle | None]:
    """Shape, stride (None if the text has none) and swizzle. Raises LayoutError, quoting the rest, for other text."""
    if len(text) > LONGEST:
        raise LayoutError(f"CuteLayout: a text of {len(text)} characters; {LONGEST} are read")
    swizzled = _SWIZZLE.fullmatch(text.strip())
    swizzle = CuteSwizzle(*map(int, swizzled.groups()[:3])) if swizzled else None
    shape, colon, stride = (swizzled[4] if swizzled else text).partition(":")
    return _tuple(shape), _tuple(stride) if colon else None, swizzle


def _tuple(text: str) -> IntTuple:
    """A nested tuple of ints."""
    open_tuples: list[list[IntTuple]] = [[]]
    at, expects_value = 0, True
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            raise _unreadable(text, at)
        at, (number, mark) = token.end(), token.groups()
        if (number is not None or mark == "(") != expects_value:
            raise _unreadable(text, token.start())
        if number is not None:
            open_tuples[-1].append(int(number))
        elif mark == "(":
            if len(open_tuples) > DEEPEST:
                raise LayoutError(f"CuteLayout: a text of more than {DEEPEST} levels of parentheses")
            open_tuples.append([])
        elif mark == ")" and len(open_tuples) > 1:
            closed = tuple(open_tuples.pop())
            open_tuples[-1].append(closed)
        elif mark == ")" or len(open_tuples) == 1:
            raise _unreadable(text, token.start())
        expects_value = mark in ("(", ",")
    if len(open_tuples) != 1 or len(open_tuples[0]) != 1 or expects_value:
        raise _unreadable(text, len(text))
    return open_tuples[0][0]


def _unreadable(text: str, at: int) -> LayoutError:
    return LayoutError(
        f"CuteLayout: cannot read {text.strip()!r} at {text[at:].strip()!r}; a layout is written ((2,2),4):((1,8),2)"
    )
