"""mma.sp: D = A B + C, where of each 4 neighbours in a row of A two are kept (8 and 16 bits), or of 2 one (tf32).

The registers of A hold what is kept, as of a dense product of half the depth. For each that is kept, the metadata has
its place among its neighbours in 2 bits; tf32 has 0b0100 or 0b1110 in 4. A selector chooses the threads of each four
that give words: with group g and words w = 0, 1, .. of that group,

    16 and 32 bits    low half: row g, high half: row g + 8, of part w of the columns
    8 bits            row g + 8 * (w % 2), part w / 2 of the columns

PTX ISA, "Sparse matrix storage", "Matrix fragments for multiply-accumulate operation with sparse matrix A"; CUTLASS,
`util/host_reorder.h`, for the order of the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.tensor_core import (
    MmaShape,
    left_places,
    operand_values,
    result_words,
    right_matrix,
    shape_of,
    sum_matrix,
    truncated,
    wide_values,
)
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_reader import Immediate, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.report import Kind

if TYPE_CHECKING:
    from lego_mlir.aliases import Array, IntArray

DEPTHS: Final = {4: (8, 16), 2: (16, 32), 1: (32, 64)}
"""K by the bytes of an element."""
WIDE_PLACES: Final = {0b0100: 0, 0b1110: 1}
ROWS: Final = 16


def threads_of(shape: MmaShape) -> int:
    """How many threads of four give metadata."""
    size = NUMPY[shape.left].itemsize
    return shape.k // DEPTHS[size][0] * (2 if size == 1 else 1)


def kept_places(words: Array, shape: MmaShape, selector: int) -> tuple[IntArray, Array]:
    """(warps, 16, k / 2): the column of each element that is kept, and whether its metadata is valid."""
    size, count = NUMPY[shape.left].itemsize, threads_of(shape)
    given = words[:, 4 * np.arange(WARP // 4)[:, None] + selector * count + np.arange(count)]  # (warps, 8, count)
    if size == 1:
        by_row = given.reshape(len(words), 8, -1, 2).transpose(0, 3, 1, 2)  # (warps, half, group, part)
        bits = 32
    else:
        by_row = np.stack([given & 0xFFFF, given >> 16], axis=1)
        bits = 16
    width = 4 if size == 4 else 2
    codes = by_row[..., None] >> np.arange(0, bits, width, dtype=np.uint32) & ((1 << width) - 1)
    codes = codes.reshape(len(words), ROWS, -1).astype(np.int64)
    if size == 4:
        known = np.isin(codes, list(WIDE_PLACES))
        return 2 * np.arange(shape.k // 2) + (codes == 0b1110), known
    pairs = codes.reshape(len(words), ROWS, -1, 2)
    distinct = np.repeat(pairs[..., :1] != pairs[..., 1:], 2, axis=3).reshape(codes.shape)
    return 4 * (np.arange(shape.k // 2) // 2) + codes, distinct


@opcode("mma", form="sp", whole=True)
@opcode("mma", form="sp::ordered_metadata", whole=True)
def build_mma_sp(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d..}, {a..}, {b..}, {c..}, e, 0`."""
    shape = shape_of(decoder, instruction)
    size = NUMPY[shape.left].itemsize
    if shape.m != ROWS or shape.k not in DEPTHS.get(size, ()):
        raise decoder.refused(instruction, f"the shape m{shape.m}n{shape.n}k{shape.k} is not modelled")
    lists = [decoder.items(o) for o in instruction.operands[:4]]
    a, b, c = ([decoder.source(o, "b32", instruction) for o in operands] for operands in lists[1:])
    writes = [decoder.sink(o, instruction) for o in lists[0]]
    metadata, chosen = decoder.source(instruction.operands[4], "b32", instruction), instruction.operands[5]
    if not isinstance(chosen, Immediate) or int(chosen.value) not in range(4 // threads_of(shape)):
        raise decoder.refused(instruction, f"the selector of this shape is 0 to {4 // threads_of(shape) - 1}")
    selector, ordered = int(chosen.value), "sp::ordered_metadata" in instruction.modifiers
    machine, line = decoder.machine, instruction.line
    saturates = "satfinite" in instruction.modifiers

    def run(gang: Gang) -> Outcome:
        words = np.broadcast_to(metadata(gang), (gang.lanes,)).reshape(-1, WARP)
        columns, valid = kept_places(words, shape, selector)
        if ordered and size < 4:
            valid = valid & np.repeat(columns[..., 0::2] < columns[..., 1::2], 2, axis=2)
        if not valid.all():
            warp, row, _ = np.argwhere(~valid)[0]
            message = f"the metadata of mma.sp is invalid for row {row}: it names one place twice, or in no order"
            machine.fault(Kind.UNDEFINED, message, gang, int(warp) * WARP + 4 * (int(row) % 8), line)
        left = _spread(operand_values(gang, a, NUMPY[shape.left]), columns, shape)
        right = right_matrix(shape, operand_values(gang, b, NUMPY[shape.right]))
        total = left @ right + sum_matrix(gang, c, shape)
        for write, value in zip(writes, result_words(total, shape, saturates), strict=True):
            write(gang, value)
        return None

    return whole_warps(decoder, run)


def _spread(values: Array, columns: IntArray, shape: MmaShape) -> Array:
    """(warps, 16, k) from the registers and the columns of what they keep."""
    row, place = left_places(ROWS, values.shape[1], values.shape[3])
    kept = np.zeros((len(values), ROWS, shape.k // 2))
    kept[:, row, place] = wide_values(truncated(values, shape.left))
    matrix = np.zeros((len(values), ROWS, shape.k))
    np.put_along_axis(matrix, columns, kept, axis=2)
    return matrix
