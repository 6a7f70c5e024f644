"""Names in a rendered text: those that the language has no room for, and those that are chosen here.

The statements of `assign` name what their values share. Such a name must be no other in the text, which is known only
when the text is whole; until then it stands there as a mark.

>>> text = f"{temporary('t_0')} = tl.program_id(0)\\nt_1 = {temporary('t_1')} + {temporary('t_0')}"
>>> print(named(text, chosen(text)))
t_0 = tl.program_id(0)
t_1 = t_1_ + t_0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from lego_mlir.errors import TemplateError
from lego_mlir.printers import cuda, triton

Language = Literal["triton", "cuda"]

SPOKEN: Final[dict[Language, str]] = {"triton": "Python", "cuda": "C++"}
CUDA_BUILTINS: Final = frozenset(
    ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "min", "max", "NULL", "LEGO_DEVICE")
)
TAKEN: Final[dict[Language, frozenset[str]]] = {
    "triton": triton.RESERVED | triton.HELPERS.keys(),
    "cuda": cuda.KEYWORDS | cuda.HELPERS.keys() | CUDA_BUILTINS,
}
_WORD: Final = re.compile(r"[^\W\d]\w*")
_TEMPORARY: Final = re.compile("\ue003(\\w+)\ue004")


def require_identifier(what: str, name: str, language: Language) -> None:
    """Refuse a name that no variable, function or class can have in the text."""
    possible = name.isidentifier() and (language == "triton" or name.isascii())
    if possible and name not in TAKEN[language]:
        return
    why = f"which {SPOKEN[language]} keeps for itself" if possible else "which is no identifier"
    raise TemplateError(f"{what} is called {name!r}, {why}; rename it")


def temporary(name: str) -> str:
    """The mark of a variable that is to have this name, or one like it."""
    return f"\ue003{name}\ue004"


def words_of(text: str) -> set[str]:
    """The words in a text, and the marks of temporaries."""
    return {*_WORD.findall(_TEMPORARY.sub(" ", text)), *(mark[0] for mark in _TEMPORARY.finditer(text))}


def chosen(text: str) -> dict[str, str]:
    """For each mark in a whole text a name that nothing else in it has: the one asked for, or that with `_` behind."""
    names: dict[str, str] = {}
    taken = set(_WORD.findall(_TEMPORARY.sub(" ", text)))
    for wanted in dict.fromkeys(_TEMPORARY.findall(text)):
        name = wanted
        while name in taken:
            name += "_"
        names[wanted] = name
        taken.add(name)
    return names


def named(text: str, names: Mapping[str, str]) -> str:
    """The text with these names in place of the marks; a mark without one says what it is to be called."""
    return _TEMPORARY.sub(lambda mark: names.get(mark[1], mark[1]), text)
