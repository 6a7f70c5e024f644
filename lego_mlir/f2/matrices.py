"""Matrix moves: `ldmatrix` and `stmatrix` between registers and shared memory (section 5.3 of the paper).

The instructions move 8x8 matrices of 16-bit elements, one row of 16 bytes per address. Plain, lane t receives two
neighbours of row t/4; transposed, it receives column t/4 of the two rows 2 (t mod 4) and 2 (t mod 4) + 1. A layout can
be moved by them if the map from registers and lanes to offsets has that structure in its lowest bits (theorem 5.1):

| | low offset bits, in this order | address bits of the 8 rows |
|---|---|---|
| plain, 8, 16, 32 bits | registers that fill 32 bits, lanes 0 and 1 | lanes 2, 3, 4 |
| transposed, 16 bits | lanes 2, 3, 4 | a register, lanes 0 and 1 |
| transposed, 8 bits | a register (pairs stay together), lanes 2, 3, 4 | a register, lanes 0 and 1 |

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix".

>>> from lego_mlir.f2.encodings import MmaOperand, MmaSync, SwizzledShared
>>> operand = MmaOperand(0, MmaSync((1, 1)), k_width=2).layout((16, 16))
>>> tile = SwizzledShared(8, 1, 1, order=(1, 0)).layout((16, 16))
>>> found = matrix_accesses(operand, tile, bits=16)
>>> found.transposed, found.count, len(found.each)
(False, 4, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.f2.banks import WORD_BITS, other_registers, wavefronts
from lego_mlir.f2.dims import log2
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine, solve

ROW_BITS = 128
"""Bits of one row of a matrix: the bytes of one address (PTX ISA, ldmatrix)."""
MOST_MATRICES = 4
TRANSPOSED_BITS = (8, 16)


@dataclass(frozen=True)
class MatrixAccess:
    """One instruction: registers[matrix][element of the lane's word] -> the registers that hold it; a base offset."""

    registers: tuple[tuple[tuple[int, ...], ...], ...]
    offset: int


@dataclass(frozen=True)
class MatrixAccesses:
    """A value moved by `ldmatrix` or `stmatrix`: `count` matrices an instruction, offsets of rows, matrices, warps."""

    each: tuple[MatrixAccess, ...]
    rows: tuple[int, ...]
    matrices: tuple[int, ...]
    warps: tuple[int, ...]
    transposed: bool
    bits: int

    @property
    def count(self) -> int:
        """The matrices of one instruction: 1, 2 or 4."""
        return 1 << len(self.matrices)

    def row_offset(self, access: MatrixAccess, lane: int, warp: int) -> int:
        """The element offset that a lane passes: row `lane mod 8` of matrix `lane / 8`."""
        matrix = (lane >> 3) & (self.count - 1)
        moved = combine(self.rows, lane & 7) ^ combine(self.matrices, matrix) ^ combine(self.warps, warp)
        return access.offset ^ moved

    def wavefronts(self) -> int:
        """The wavefronts of one matrix: 1 if its eight rows meet in no bank."""
        vector = ROW_BITS // self.bits
        return wavefronts(self.rows, self.bits, vector) // (ROW_BITS // WORD_BITS)


def matrix_accesses(value: LinearLayout, memory: LinearLayout, bits: int) -> MatrixAccesses | None:
    """The `ldmatrix` or `stmatrix` accesses between a value (register, lane, warp) and a memory layout; None if none.

    Plain is tried before transposed. `bits` is the width of an element.
    """
    return accesses_at(value.invert_and_compose(memory).sublayout(list(value.in_sizes), ["offset"]), bits)


def accesses_at(place: LinearLayout, bits: int) -> MatrixAccesses | None:
    """The same, given the `offset` of each register, lane and warp."""
    if "lane" not in place.in_sizes or place.in_sizes["lane"] != 32 or bits not in (8, 16, 32):
        return None
    return _plain(place, bits) or (_transposed(place, bits) if bits in TRANSPOSED_BITS else None)


def _plain(place: LinearLayout, bits: int) -> MatrixAccesses | None:
    """Registers and two lanes along the row."""
    lanes, inside = place.columns_of("lane"), log2(WORD_BITS // bits)
    if lanes[:2] != (1 << inside, 2 << inside):
        return None
    return _accesses(place, inside, [], lanes[2:], bits, transposed=False)


def _transposed(place: LinearLayout, bits: int) -> MatrixAccesses | None:
    """Three lanes along the row, a register and two lanes across the rows."""
    lanes, inside = place.columns_of("lane"), log2(16 // bits)
    if lanes[2:] != tuple(1 << (inside + k) for k in range(3)):
        return None
    row = ROW_BITS // bits
    across = next((k for k, c in enumerate(place.columns_of("register")) if c and c % row == 0), None)
    if across is None:
        return None
    columns = (place.columns_of("register")[across], *lanes[:2])
    return _accesses(place, inside, [1 << across], columns, bits, transposed=True)


def _accesses(
    place: LinearLayout, inside: int, across: Sequence[int], rows: Sequence[int], bits: int, transposed: bool
) -> MatrixAccesses | None:
    """The instructions, given the registers inside a row's word and across rows; None if something is unaligned."""
    registers, row = place.columns_of("register"), ROW_BITS // bits
    found = solve(registers, [1 << k for k in range(inside)])
    warps = place.columns_of("warp")
    if None in found or any(c % row for c in (*rows, *warps)):
        return None
    word = [*(x for x in found if x is not None), *across]
    fixed, copies = other_registers(registers, word, 1 << inside)
    further = [r for r in fixed if r not in across]
    if any(combine(registers, r) % row for r in further):
        return None
    count = min(len(further), log2(MOST_MATRICES))
    matrices, rest = further[:count], further[count:]
    span = [combine(copies, k) for k in range(1 << len(copies))]
    each = []
    for k in range(1 << len(rest)):
        first = combine(rest, k)
        words = tuple(
            tuple(
                tuple(first ^ combine(matrices, j) ^ combine(word, e) ^ c for c in span) for e in range(1 << len(word))
            )
            for j in range(1 << count)
        )
        each.append(MatrixAccess(words, combine(registers, first)))
    return MatrixAccesses(
        tuple(each), tuple(rows), tuple(combine(registers, m) for m in matrices), warps, transposed, bits
    )
