"""Names in a rendered text: reserved words of the target language, and names of temporaries.

`assign` names common subexpressions. Such a name must be unique in the final text, so it is a mark until the second
pass.

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
    """Reject a name that is not a valid identifier of the target language."""
    possible = name.isidentifier() and (language == "triton" or name.isascii())
    if possible and name not in TAKEN[language]:
        return
    why = f"which {SPOKEN[language]} reserves" if possible else "which is not an identifier"
    raise TemplateError(f"{what} is called {name!r}, {why}; rename it")


def temporary(name: str) -> str:
    """The mark of a variable that gets this name, or a similar one."""
    return f"\ue003{name}\ue004"


def words_of(text: str) -> set[str]:
    """The words in a text, and the marks of temporaries."""
    return {*_WORD.findall(_TEMPORARY.sub(" ", text)), *(mark[0] for mark in _TEMPORARY.finditer(text))}


def chosen(text: str) -> dict[str, str]:
    """Mark -> unique name: the one requested, with `_` appended if it is taken."""
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
    """The text with the marks replaced by these names; a mark without one becomes the requested name."""
    return _TEMPORARY.sub(lambda mark: names.get(mark[1], mark[1]), text)
