"""Parentheses around a placeholder's text, where the characters around it need them.

A sum needs none between `(` and `,` or after an assignment, but does after `2 *`. The operator may be on another line,
because a line break does not end an expression inside brackets, nor anywhere in C:

>>> lines = ["x = f(2 *", "      HERE, y)", "z = (HERE", "     * 2)", "w = HERE", "for k in range(4):"]
>>> [stands_alone(lines, k, *lines[k].split("HERE"), "triton") for k in (1, 2, 4)]
[False, False, True]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from lego_mlir.templates.render.names import Language
from lego_mlir.templates.render.placeholder_marks import MARK

_STARTS: Final = re.compile(r"(?:^|[(\[{,:;]|\b(?:return|in)|(?<![=<>!+\-*/%&|^])=|//=|[+\-*%&|^]=)\s*$")
_ENDS: Final = re.compile(r"\s*(?:$|[)\]},:;])")
_ARGUMENT: Final = re.compile(r"(?:^|(?<![=<>!])=)\s*$")  # before the value of an assignment or keyword argument
_NEXT_STATEMENT: Final = re.compile(r"\s*(?!(?:in|is|not)\b)[\w@\"'\ue000]")  # of Python: not an operator or bracket
_COMMENT: Final[dict[Language, re.Pattern[str]]] = {
    "triton": re.compile(r"(?:^|\s)#.*$|\\\s*$"),
    "cuda": re.compile(r"//.*$"),
}


def stands_alone(lines: Sequence[str], number: int, before: str, after: str, language: Language) -> bool:
    """Whether an expression between these two parts of a line needs no parentheses, whatever its operator."""
    return _begins(lines, number, before, language) and _ends(lines, number, after, language)


def is_argument(lines: Sequence[str], number: int, before: str, after: str, language: Language) -> bool:
    """Whether it is the whole value of an assignment or keyword argument."""
    return bool(_ARGUMENT.search(before)) and stands_alone(lines, number, before, after, language)


def _begins(lines: Sequence[str], number: int, before: str, language: Language) -> bool:
    """Whether no operator before it, on its line or an earlier one, applies to it."""
    return bool(_STARTS.search(before if before.strip() else _nearest(reversed(lines[:number]), language)))


def _ends(lines: Sequence[str], number: int, after: str, language: Language) -> bool:
    """Whether no operator after it, on its line or a later one, applies to it."""
    rest = _bare(after, language)
    if rest.strip():
        return bool(_ENDS.match(rest))
    following = _nearest(lines[number + 1 :], language)
    return bool(_ENDS.match(following) or (language == "triton" and _NEXT_STATEMENT.match(following)))


def _nearest(lines: Iterable[str], language: Language) -> str:
    """The first line with code, ignoring comments and marks of whole lines."""
    return next((bare for line in lines if (bare := _bare(line, language)).strip()), "")


def _bare(text: str, language: Language) -> str:
    """A text without its comment and without marks other than those of expressions."""
    kept = MARK.sub(lambda mark: mark[0] if mark[1].isdigit() or mark[1] == "always" else "", text)
    return _COMMENT[language].sub("", kept)
