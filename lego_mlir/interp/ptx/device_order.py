"""Order between blocks: what fences, atomics and strong accesses say about accesses of other blocks.

As for the fences of C++11: a fence of device scope makes what a warp knows *published*; a strong write or atomic leaves
the published clocks at its word; a strong read or atomic takes them, to be known after the reader's next fence, or at
once if it acquires.

    block 0: y = ..; fence; atom.exch flag      the clock of the write of y goes to the word `flag`
    block 1: ld.volatile flag; fence; .. = y    block 1 has taken it: ordered. Without either fence: a race

Barriers of a block share all this among its warps. By the letter, what was taken without acquiring is known only after
a fence; here it is known after a barrier too, because the CUDA guide's own example of the last block has it so. PTX
ISA, "Memory Consistency Model"; CUDA C++ Programming Guide, "Memory Fence Functions".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import IntArray

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.ptx_machine import PtxMachine
    from lego_mlir.interp.ptx.ptx_program import PtxInstruction

Clocks = dict[int, "IntArray"]
"""For each block, a clock of each of its agents."""
STRONG: Final = frozenset({"volatile", "acquire", "release", "relaxed", "mmio", "acq_rel"})
OTHERS: Final = frozenset({"shared", "shared::cta", "shared::cluster", "local", "cta"})
"""Spaces and scopes within a block."""


def orders_blocks(instruction: PtxInstruction) -> bool:
    """Whether an instruction is a fence, a release or an acquire between blocks."""
    mods = set(instruction.modifiers)
    if instruction.opcode in ("fence", "membar"):
        return not mods & {"proxy", "cta", "mbarrier_init"}
    return bool(mods & {"acq_rel", "acquire", "release"}) and not mods & OTHERS


def is_strong(instruction: PtxInstruction) -> bool:
    """Whether a load or store is a strong access of global memory."""
    mods = set(instruction.modifiers)
    return bool(mods & STRONG) and not mods & OTHERS


def semantics(instruction: PtxInstruction) -> str:
    """acquire, release, acq_rel or relaxed."""
    return next((m for m in ("acq_rel", "acquire", "release") if m in instruction.modifiers), "relaxed")


def _join(into: Clocks, other: Clocks) -> None:
    for block, clocks in other.items():
        into[block] = np.maximum(into[block], clocks) if block in into else clocks


class DeviceOrder:
    """The published clocks at each word of a launch; for each resident warp what it knows, published and took."""

    def __init__(self) -> None:
        self.words: dict[int, Clocks] = {}
        self.begin()

    def begin(self) -> None:
        """Another wave of blocks is resident."""
        self.far: dict[int, Clocks] = {}
        self.published: dict[int, Clocks] = {}
        self.taken: dict[int, Clocks] = {}

    def _now(self, machine: PtxMachine, warp: int) -> Clocks:
        clocks, block = machine.clocks, int(machine.block_numbers[machine.slot_of_warp[warp]])
        found = dict(self.far.get(warp, {}))
        _join(found, {block: clocks.known[warp].copy()})
        clocks.step(np.array([warp]))
        return found

    def fence(self, machine: PtxMachine, warps: Iterable[int]) -> None:
        """A fence of device scope by each of these warps."""
        for warp in map(int, warps):
            _join(self.far.setdefault(warp, {}), self.taken.pop(warp, {}))
            self.published[warp] = self._now(machine, warp)

    def strong(
        self, machine: PtxMachine, accesses: Iterable[tuple[int, int]], how: str, *, reads: bool, writes: bool
    ) -> None:
        """Strong accesses, each of a warp to a word, in this order; `how` is what `semantics` gives."""
        acquires, releases = how in ("acquire", "acq_rel"), how in ("release", "acq_rel")
        for warp, word in accesses:
            if reads and (record := self.words.get(word)):
                _join((self.far if acquires else self.taken).setdefault(warp, {}), record)
            if writes:
                given = self._now(machine, warp) if releases else self.published.get(warp)
                if given:
                    _join(self.words.setdefault(word, {}), given)

    def barrier(self, warps: Iterable[int]) -> None:
        """Warps of one block meet."""
        every = list(map(int, warps))
        for warp in every:
            if warp in self.taken:
                _join(self.far.setdefault(warp, {}), self.taken.pop(warp))
        for table in (self.far, self.published):
            together: Clocks = {}
            for warp in every:
                _join(together, table.get(warp, {}))
            if together:
                for warp in every:
                    table[warp] = dict(together)

    def knows(self, warp: int, block: int, agent: int, clock: int) -> bool:
        """Whether a warp knows of an access of another block."""
        known = self.far.get(warp, {}).get(block)
        return known is not None and int(known[agent]) >= clock
