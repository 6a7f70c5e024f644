"""Instructions of a function in the text of LLVM IR, block by block, and names in place of numbers.

>>> reader = BlockReader("")
>>> reader.instruction("  %b = fadd float %a, 1.0").needs
frozenset({'%a'})
>>> reader.instruction("}") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(r"  (?:(?P<result>%\S+) = )?(?P<rest>(?:tail |notail |musttail )?(?P<name>[a-z]\w*).*)")
NAMES: Final = re.compile(r'%(?:[-\w.$]+|"[^"]*")')
_NODE: Final = re.compile(r"^!(\d+) = (?:distinct )?!\{([^}]*)\}$", re.MULTILINE)
_DECLARED: Final = re.compile(r"^declare .*?@([\w.]+)\(.*?\) .*?#(\d+)$", re.MULTILINE)
_HARMLESS: Final = re.compile(r"^attributes #(\d+) = \{(?!.*\bconvergent\b).*\bmemory\(none\).*\}$", re.MULTILINE)
_CALLED: Final = re.compile(r"@([\w.]+)\(")
_SPACE: Final = re.compile(r"\bptr (?:addrspace\((\d+)\) )?[%@]")
_SCOPES: Final = re.compile(r"!(alias\.scope|noalias) !(\d+)")
_LOADED: Final = re.compile(r"load (?:<(?P<count>\d+) x )?(?P<type>half|bfloat|float|double|i(?P<bits>\d+)|ptr)\b")
_TYPES: Final = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_STAYS: Final = frozenset({
    "phi", "fence", "atomicrmw", "cmpxchg", "alloca", "va_arg", "invoke", "callbr",
    "br", "switch", "indirectbr", "ret", "unreachable", "resume",
})  # fmt: skip
_ENTRY: Final = re.compile(r"^define .*\{\n(?=  )", re.MULTILINE)
_LABEL: Final = re.compile(r"^(\d+):", re.MULTILINE)
_NUMBERED: Final = re.compile(r'"[^"]*"|%(\d+)(?![-\w.$])')
GLOBAL: Final = "1"
SHARED: Final = ("3", "7")  # of the block, and of the cluster, which has the block's own
_WORD_BITS: Final = 32
MANY: Final = 1 << 10
"""Registers of what a load of another type fills: more than any reordering may hold."""


@dataclass(slots=True)
class LlvmInstruction:
    """A line; `kind` is "load", "store", "pure" or "stays".

    Of an access `scopes` are those of its tensor, `apart` those of the others, and `space` is the number of its space
    of addresses, empty where it is not known.
    """

    text: str
    name: str
    result: str | None
    needs: frozenset[str]
    kind: str
    space: str = ""
    scopes: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    words: int = 0  # of a load its registers, of a store those that are loaded above it


class BlockReader:
    """Reads instructions of a module, with its metadata and attributes."""

    def __init__(self, text: str) -> None:
        self.nodes = {number: frozenset(listed.split(", ")) for number, listed in _NODE.findall(text)}
        harmless = set(_HARMLESS.findall(text))
        self.pure = {name for name, group in _DECLARED.findall(text) if group in harmless}

    def instruction(self, line: str) -> LlvmInstruction | None:
        """The instruction of a line; None for a line that is none, or a part of one."""
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        name, rest, result = match["name"], match["rest"], match["result"]
        needs = frozenset(NAMES.findall(rest))
        if name not in ("load", "store"):
            called = _CALLED.search(rest) if "call " in rest else None
            stays = name in _STAYS or ("call " in rest and (called is None or called[1] not in self.pure))
            return LlvmInstruction(line, name, result, needs, "stays" if stays else "pure")
        if rest.startswith((f"{name} atomic", f"{name} volatile")):
            return LlvmInstruction(line, name, result, needs, "stays")
        known = {kind: self.nodes.get(number, frozenset()) for kind, number in _SCOPES.findall(rest)}
        scopes, apart = (known.get(kind, frozenset()) for kind in ("alias.scope", "noalias"))
        spaces = ["", *_SPACE.findall(rest)]  # of a stored pointer too, which comes before the address
        space = spaces[-1] or (GLOBAL if scopes else "")
        words = _words(rest) if name == "load" else 0
        return LlvmInstruction(line, name, result, needs, name, space, scopes, apart, words)


def _words(load: str) -> int:
    """The registers of 32 bits that a load fills."""
    match = _LOADED.match(load)
    if match is None:
        return MANY
    bits = int(match["bits"] or 0) or _TYPES[match["type"]]
    return -(-bits * int(match["count"] or 1) // _WORD_BITS)


def rewritten(
    text: str,
    order: Callable[[Sequence[LlvmInstruction]], Iterable[LlvmInstruction]],
    reader: BlockReader | None = None,
) -> str:
    """The text with the instructions of each block in another order; the same where none changes its place.

    A part of a module is read with the `reader` of all of it.
    """
    reader = reader or BlockReader(text)
    made: list[str] = []
    block: list[LlvmInstruction] = []
    for line in text.split("\n"):
        instruction = reader.instruction(line)
        if instruction is not None:
            block.append(instruction)
            continue
        made += (one.text for one in order(block))
        block = []
        made.append(line)
    found = "\n".join([*made, *(one.text for one in order(block))])
    return text if found == text else named(found)


def named(text: str) -> str:
    r"""The module with names in place of numbers, which LLVM wants in order.

    >>> print(named("define void @k(i32 %0) {\n  br label %2\n\n2:  ; preds = %1\n  ret void\n}"))
    define void @k(i32 %v.0) {
    v.1:
      br label %v.2
    <BLANKLINE>
    v.2:  ; preds = %v.1
      ret void
    }
    """
    text = _LABEL.sub(r"v.\1:", _ENTRY.sub(_labelled, text))
    return _NUMBERED.sub(lambda match: f"%v.{match[1]}" if match[1] else match[0], text)


def _labelled(match: re.Match[str]) -> str:
    """The head of a function and the label of its first block, which has the number after the arguments."""
    numbers = [int(number) for number in _NUMBERED.findall(match[0]) if number]
    return f"{match[0]}{max(numbers, default=-1) + 1}:\n"
