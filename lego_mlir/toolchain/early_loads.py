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

from collections.abc import Sequence
from typing import Final

from lego_mlir.toolchain.block_text import GLOBAL, SHARED, LlvmInstruction, rewritten

WORDS: Final = 32
"""Most registers of 32 bits that are loaded above one store: they hold values until these are used."""


def moved(text: str) -> str:
    """The module, with loads moved; the same text where nothing moves."""
    return rewritten(text, _ordered) if "!noalias" in text else text


def _ordered(block: Sequence[LlvmInstruction]) -> list[LlvmInstruction]:
    made: list[LlvmInstruction] = []
    stores = 0  # since the last instruction that stays
    for instruction in block:
        made.append(instruction)
        stores = 0 if instruction.kind == "stays" else stores + (instruction.kind == "store")
        if instruction.kind == "load" and stores:
            _raise_last(made)
    return made


def _raise_last(made: list[LlvmInstruction]) -> None:
    """Move the last instruction, a load, and what it needs, above the stores that it may pass."""
    group, needs, place, taken = [len(made) - 1], set(made[-1].needs), None, 1
    passed: list[LlvmInstruction] = []
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


def _apart(load: LlvmInstruction, store: LlvmInstruction) -> bool:
    """Whether a load reads nothing that a store writes: of another space of addresses, or of tensors that are apart."""
    if load.space != store.space:
        return GLOBAL in (load.space, store.space) and {load.space, store.space} <= {GLOBAL, *SHARED}
    return any(x.scopes and x.scopes <= y.apart for x, y in ((load, store), (store, load)))
