r"""Arithmetic of a block of LLVM IR that frees registers as early as its operands are there.

An operation on a tile is written for all of its elements before the next one, so that a chain of operations holds a
value of each element. The scheduler of ptxas finds a better order within straight code, but an exact division, a
reciprocal or a root has a branch for subnormal numbers there, which nothing crosses. So in a block with several of
them, instructions that leave no more registers in use than before follow their operands at once, and conversions from
halves stand in front of their first use:

>>> print(ordered('''define void @k(float %a, float %b, ptr %p) {
...   %1 = fdiv float %a, %b
...   %2 = fdiv float %b, %a
...   %3 = fmul float %1, %1
...   %4 = fmul float %2, %2
...   store float %3, ptr %p, align 4
...   store float %4, ptr %p, align 4
...   ret void
... }'''))
define void @k(float %a, float %b, ptr %p) {
v.0:
  %v.1 = fdiv float %a, %b
  %v.3 = fmul float %v.1, %v.1
  %v.2 = fdiv float %b, %a
  %v.4 = fmul float %v.2, %v.2
  store float %v.3, ptr %p, align 4
  store float %v.4, ptr %p, align 4
  ret void
}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from lego_mlir.toolchain.block_text import NAMES, BlockReader, LlvmInstruction, rewritten

FEWEST: Final = 2
"""Branches of a block in machine code from which its order counts."""
FEW: Final = 8
"""Uses of a value that are still to come, up to which these are looked at: what many use is held anyway."""
_BRANCHES: Final = re.compile(r"= fdiv (?:float|double)|@llvm\.(?:sqrt|nvvm\.sqrt\.rn|nvvm\.rcp\.rn|nvvm\.div\.rn)\b")
_TYPE: Final = re.compile(r"(?:<(\d+) x )?\b(half|bfloat|float|double|ptr|i(\d+))\b")
_BITS: Final = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_WIDENED: Final = ("fpext", "extractelement")
_CONDITIONS: Final = ("icmp", "fcmp")


def ordered(text: str) -> str:
    """The module, with arithmetic in another order; the same text where nothing moves."""
    if len(_BRANCHES.findall(text)) < FEWEST:
        return text
    reader = BlockReader(text)
    functions = re.split(r"^(?=define )", text, flags=re.MULTILINE)
    return "".join(rewritten(part, partial(_ordered, Counter(NAMES.findall(part))), reader) for part in functions)


def _ordered(uses: Counter[str], block: Sequence[LlvmInstruction]) -> Sequence[LlvmInstruction]:
    if sum(bool(_BRANCHES.search(one.text)) for one in block) < FEWEST:
        return block
    return list(_BlockOrder(uses, block).all())


class _BlockOrder:
    """Instructions of a block by number; `left` are the mentions of a result that are still to come."""

    def __init__(self, uses: Counter[str], block: Sequence[LlvmInstruction]) -> None:
        self.block = block
        numbers = {one.result: number for number, one in enumerate(block) if one.result is not None}
        self.needs = [sorted(numbers[n] for n in one.needs if n in numbers and one.name != "phi") for one in block]
        self.users: list[list[int]] = [[] for _ in block]
        for number, needs in enumerate(self.needs):
            for needed in needs:
                self.users[needed].append(number)
        self.bits = [_bits(one) for one in block]
        self.left = [0 if one.result is None else uses[one.result] - 1 for one in block]
        self.done = [False] * len(block)

    def all(self) -> Iterator[LlvmInstruction]:
        """The block in its new order."""
        first = sum(one.name == "phi" for one in self.block)
        for number in range(first):
            yield from self._with_operands(number)
        for number in range(first, len(self.block)):
            if self.done[number] or (self._is_widened(number) and self.users[number]):
                continue
            if number == len(self.block) - 1:
                for other in range(number):
                    yield from self._with_operands(other)
            yield from self._with_operands(number)
            yield from self._followed(number)

    def _followed(self, number: int) -> Iterator[LlvmInstruction]:
        """What can follow an instruction without more registers, then what can follow that."""
        pending = [number]
        while pending:
            last = pending.pop()
            near = {user for made in (last, *self.needs[last]) if self.left[made] <= FEW for user in self.users[made]}
            for user in sorted(near):
                if self._is_eager(user):
                    yield from self._with_operands(user)
                    pending.append(user)

    def _with_operands(self, number: int) -> Iterator[LlvmInstruction]:
        if self.done[number]:
            return
        self.done[number] = True
        for needed in self.needs[number]:
            yield from self._with_operands(needed)
        one = self.block[number]
        mentions = Counter(NAMES.findall(one.text))
        for needed in self.needs[number]:
            self.left[needed] -= mentions[self.block[needed].result or ""]
        yield one

    def _is_eager(self, number: int) -> bool:
        one = self.block[number]
        if self.done[number] or one.kind != "pure" or self._is_widened(number) or not self.bits[number]:
            return False
        if not all(self._is_at_hand(needed) for needed in self.needs[number]):
            return False
        mentions = Counter(NAMES.findall(one.text))
        freed = (
            self.bits[needed] for needed in self.needs[number]
            if self.done[needed] and self.left[needed] == mentions[self.block[needed].result or ""]
        )  # fmt: skip
        return self.bits[number] <= sum(freed)

    def _is_at_hand(self, number: int) -> bool:
        return self.done[number] or (self._is_widened(number) and all(map(self._is_at_hand, self.needs[number])))

    def _is_widened(self, number: int) -> bool:
        return self.block[number].name in _WIDENED


def _bits(one: LlvmInstruction) -> int:
    """The bits of the registers that hold a result; conditions have registers of their own."""
    rest = one.text.partition(" = ")[2]
    found = _TYPE.search(rest.rpartition(" to ")[2] if " to " in rest else rest)
    if one.result is None or one.name in _CONDITIONS or found is None:
        return 0
    return int(found[1] or 1) * (int(found[3]) if found[3] else _BITS[found[2]])
