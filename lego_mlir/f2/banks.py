"""Accesses of shared memory by a linear layout: which registers form vectors, how many wavefronts they take.

An access moves `vector` consecutive elements of each lane. If they take n words of 32 bits, the hardware works in n
phases of 32/n consecutive lanes, and a phase takes as many wavefronts as the most words it needs of one bank. For a
linear layout that number has a closed form (section 9.2 of the paper, lemma 9.4): lanes that agree in their bank and
differ in their word collide, and both are subspaces.

>>> row = [1 << k for k in range(5)]                       # lane l reads word l
>>> column = [32 << k for k in range(5)]                   # lane l reads word 32 l: one bank
>>> wavefronts(row, bits=32, vector=1), wavefronts(column, bits=32, vector=1)
(1, 32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.errors import LayoutError
from lego_mlir.f2.dims import log2
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import Echelon, combine, rank, solve
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS

WORD_BITS = 8 * BANK_BYTES
ROW_BITS = BANKS * WORD_BITS
"""Bits of one word in every bank: addresses that differ by a multiple of it share their bank."""
VECTOR_BITS = 128
"""The widest access of a lane (PTX ISA, ld.shared.v4.b32)."""
LANE_BITS = WARP.bit_length() - 1


def words_of(vector: int, bits: int) -> int:
    """The 32-bit words of an access, at least one: the least number of its wavefronts."""
    return max(1, vector * bits // WORD_BITS)


def phase_lanes(lanes: Sequence[int], vector: int, bits: int) -> Sequence[int]:
    """The lane columns that vary within one phase of an access."""
    return lanes[: LANE_BITS - (words_of(vector, bits).bit_length() - 1)]


def wavefronts(lanes: Sequence[int], bits: int, vector: int) -> int:
    """The wavefronts of an access of `vector` elements of `bits` bits; `lanes` are the offsets of the lane bits.

    Offsets count elements. Lanes that read one word share it.
    """
    inside = max(log2(WORD_BITS // bits), log2(vector))
    row = log2(ROW_BITS // bits)
    varying = phase_lanes(lanes, vector, bits)
    words = [c >> inside for c in varying]
    banks = [(c & ((1 << row) - 1)) >> inside for c in varying]
    return words_of(vector, bits) << (rank(words) - rank(banks))


@dataclass(frozen=True)
class VectorAccess:
    """One vector access of every lane: for each element the registers that hold it, and the offset of the registers."""

    registers: tuple[tuple[int, ...], ...]
    offset: int


@dataclass(frozen=True)
class MemoryAccesses:
    """A distributed value moved to or from memory: the accesses, and the offsets of lane and warp bits.

    The offset of an access is that of its registers exclusive-or those of the lane and the warp.
    """

    each: tuple[VectorAccess, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    vector: int
    bits: int

    def wavefronts(self) -> int:
        """The wavefronts of one access; the same for each."""
        return wavefronts(self.lanes, self.bits, self.vector)

    def offset(self, access: VectorAccess, lane: int, warp: int) -> int:
        """The first element that a lane of a warp accesses."""
        return access.offset ^ combine(self.lanes, lane) ^ combine(self.warps, warp)


def accesses(value: LinearLayout, memory: LinearLayout, vector: int, bits: int) -> MemoryAccesses:
    """The accesses that move a value (register, lane, warp -> tensor) to a memory layout (offset -> tensor).

    Registers are renumbered so that `vector` of them are consecutive in memory; registers that hold copies belong to
    the same element. Raises LayoutError if the registers hold no vector of this size, or a lane's access would be
    unaligned.
    """
    place = value.invert_and_compose(memory).sublayout(list(value.in_sizes), ["offset"])
    registers, size = place.columns_of("register"), log2(vector)
    inside = solve(registers, [1 << k for k in range(size)])
    if None in inside:
        raise LayoutError(f"accesses: the registers hold no {vector} consecutive elements of this memory layout")
    vectors = [x for x in inside if x is not None]
    for name in ("lane", "warp"):
        for k, column in enumerate(place.columns_of(name)):
            if column % vector:
                raise LayoutError(f"accesses: {name}={1 << k} has offset {column}, unaligned for vectors of {vector}")
    rest, copies = other_registers(registers, vectors, vector)
    span = [combine(copies, k) for k in range(1 << len(copies))]
    each = []
    for k in range(1 << len(rest)):
        first = combine(rest, k)
        elements = tuple(tuple(first ^ combine(vectors, e) ^ copy for copy in span) for e in range(vector))
        each.append(VectorAccess(elements, combine(registers, first)))
    return MemoryAccesses(tuple(each), place.columns_of("lane"), place.columns_of("warp"), vector, bits)


def other_registers(registers: Sequence[int], vectors: Sequence[int], vector: int) -> tuple[list[int], list[int]]:
    """Register vectors beside those of an access: ones whose offset is a multiple of the vector, and copies."""
    offsets = Echelon(combine(registers, v) for v in vectors)
    space = Echelon(vectors)
    rest: list[int] = []
    copies: list[int] = []
    for k, column in enumerate(registers):
        inside = combine(vectors, column & (vector - 1))
        candidate = 1 << k ^ inside
        if 1 << k in space:
            continue
        moved = column ^ combine(registers, inside)
        if moved in offsets:
            _, used = offsets.reduce(moved)
            chosen = [*vectors, *rest]
            candidate ^= combine(chosen, used)
            copies.append(candidate)
        else:
            offsets.add(moved)
            rest.append(candidate)
        space.add(candidate)
    return rest, copies
