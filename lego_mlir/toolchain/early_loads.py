r"""Loads of a block of LLVM IR above its stores to other tensors.

The machine code's scheduler does not know which tensors are apart, so a load after a store waits until the store has
been issued, and with it all that the stored value waits for. A load moves with what its address needs in front of the
first of the stores above it that touch other tensors; barriers, fences, atomic updates and calls that may touch memory
stay in their places. Each access has the scopes of `tensor_scopes`, shared memory its address space.

>>> print(moved('''define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
...   store i32 1, ptr addrspace(1) %x, align 4, !alias.scope !2, !noalias !3
...   %p = getelementptr i8, ptr addrspace(1) %y, i64 4
...   %a = load i32, ptr addrspace(1) %p, align 4, !alias.scope !3, !noalias !2
...   store i32 %a, ptr addrspace(1) %y, align 4, !alias.scope !3, !noalias !2
...   ret void
... }
... !0 = !{!"x", !4}
... !1 = !{!"y", !4}
... !2 = !{!0}
... !3 = !{!1}
... !4 = !{!"k"}'''))
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
v.0:
  %p = getelementptr i8, ptr addrspace(1) %y, i64 4
  %a = load i32, ptr addrspace(1) %p, align 4, !alias.scope !3, !noalias !2
  store i32 1, ptr addrspace(1) %x, align 4, !alias.scope !2, !noalias !3
  store i32 %a, ptr addrspace(1) %y, align 4, !alias.scope !3, !noalias !2
  ret void
}
!0 = !{!"x", !4}
!1 = !{!"y", !4}
!2 = !{!0}
!3 = !{!1}
!4 = !{!"k"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WORDS: Final = 32
"""Most registers of 32 bits that are loaded above one store: they hold values until these are used."""
_LINE: Final = re.compile(r"  (?:(?P<result>%\S+) = )?(?P<rest>(?:tail |notail |musttail )?(?P<name>[a-z]\w*).*)")
_NAME: Final = re.compile(r'%(?:[-\w.$]+|"[^"]*")')
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
_GLOBAL: Final = "1"
_SHARED: Final = ("3", "7")  # of the block, and of the cluster, which has the block's own
_WORD_BITS: Final = 32


@dataclass(slots=True)
class _Instruction:
    """A line; `kind` is "load", "store", "pure" or "stays".

    Of an access `scopes` are those of its tensor, `apart` those of the others, and `space` is the number of its space
    of addresses, empty where it is not known.
    """

    text: str
    result: str | None
    needs: frozenset[str]
    kind: str
    space: str = ""
    scopes: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    words: int = 0  # of a load its registers, of a store those that are loaded above it


def moved(text: str) -> str:
    """The module, with loads moved; the same text where nothing moves."""
    if "!noalias" not in text:
        return text
    made = _moved(text)
    return text if made == text else named(made)


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


def _moved(text: str) -> str:
    reader = _Reader(text)
    made: list[str] = []
    block: list[_Instruction] = []
    for line in text.split("\n"):
        instruction = reader.instruction(line)
        if instruction is not None:
            block.append(instruction)
            continue
        made += _ordered(block)
        block = []
        made.append(line)
    return "\n".join([*made, *_ordered(block)])


class _Reader:
    """Reads instructions of a module, with its metadata and attributes."""

    def __init__(self, text: str) -> None:
        self.nodes = {number: frozenset(listed.split(", ")) for number, listed in _NODE.findall(text)}
        harmless = set(_HARMLESS.findall(text))
        self.pure = {name for name, group in _DECLARED.findall(text) if group in harmless}

    def instruction(self, line: str) -> _Instruction | None:
        """The instruction of a line; None for a line that is none, or a part of one."""
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        name, rest, result = match["name"], match["rest"], match["result"]
        needs = frozenset(_NAME.findall(rest))
        if name not in ("load", "store"):
            called = _CALLED.search(rest) if "call " in rest else None
            stays = name in _STAYS or ("call " in rest and (called is None or called[1] not in self.pure))
            return _Instruction(line, result, needs, "stays" if stays else "pure")
        if rest.startswith((f"{name} atomic", f"{name} volatile")):
            return _Instruction(line, result, needs, "stays")
        known = {kind: self.nodes.get(number, frozenset()) for kind, number in _SCOPES.findall(rest)}
        scopes, apart = (known.get(kind, frozenset()) for kind in ("alias.scope", "noalias"))
        spaces = ["", *_SPACE.findall(rest)]  # of a stored pointer too, which comes before the address
        space = spaces[-1] or (_GLOBAL if scopes else "")
        return _Instruction(line, result, needs, name, space, scopes, apart, _words(rest) if name == "load" else 0)


def _words(load: str) -> int:
    """The registers of 32 bits that a load fills."""
    match = _LOADED.match(load)
    if match is None:
        return WORDS + 1
    bits = int(match["bits"] or 0) or _TYPES[match["type"]]
    return -(-bits * int(match["count"] or 1) // _WORD_BITS)


def _ordered(block: Sequence[_Instruction]) -> Iterator[str]:
    made: list[_Instruction] = []
    stores = 0  # since the last instruction that stays
    for instruction in block:
        made.append(instruction)
        stores = 0 if instruction.kind == "stays" else stores + (instruction.kind == "store")
        if instruction.kind == "load" and stores:
            _raise_last(made)
    return (instruction.text for instruction in made)


def _raise_last(made: list[_Instruction]) -> None:
    """Move the last instruction, a load, and what it needs, above the stores that it may pass."""
    group, needs, place, taken = [len(made) - 1], set(made[-1].needs), None, 1
    passed: list[_Instruction] = []
    for number in range(len(made) - 2, -1, -1):
        other = made[number]
        if other.kind == "stays":
            break
        if other.kind == "store":
            loads = [made[k] for k in group if made[k].kind == "load"]
            if other.words + sum(load.words for load in loads) > WORDS or not all(_apart(x, other) for x in loads):
                break
            place, taken = number, len(group)
            passed.append(other)
        elif other.result in needs:
            group.append(number)
            needs |= other.needs
    if place is None:
        return
    rising = sorted(group[:taken])
    for store in passed:
        store.words += sum(made[k].words for k in rising if made[k].kind == "load")
    above = [made[k] for k in rising]
    rest = [made[k] for k in range(place, len(made)) if k not in set(rising)]
    made[place:] = above + rest


def _apart(load: _Instruction, store: _Instruction) -> bool:
    """Whether a load reads nothing that a store writes: of another space of addresses, or of tensors that are apart."""
    if load.space != store.space:
        return _GLOBAL in (load.space, store.space) and {load.space, store.space} <= {_GLOBAL, *_SHARED}
    return any(x.scopes and x.scopes <= y.apart for x, y in ((load, store), (store, load)))
