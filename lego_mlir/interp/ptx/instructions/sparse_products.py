"""mma.sp: D = A B + C, where of each 4 neighbours in a row of A two are kept (8 and 16 bits), or of 2 one (tf32).

`mma_fragments` has the places of what is kept, by the metadata. PTX ISA, "Multiply-and-Accumulate Instruction: mma.sp".
"""

from __future__ import annotations

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.mma_fragments import (
    PART,
    ROWS,
    ascending,
    kept_columns,
    left_places,
    metadata_threads,
    spread_out,
)
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.tensor_core import (
    MmaShape,
    operand_values,
    result_words,
    right_matrix,
    shape_of,
    sum_matrix,
    truncated,
    wide_values,
)
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_program import Immediate, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.report import Kind


@opcode("mma", form="sp", whole=True)
@opcode("mma", form="sp::ordered_metadata", whole=True)
def build_mma_sp(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d..}, {a..}, {b..}, {c..}, e, 0`."""
    shape = shape_of(decoder, instruction)
    size = NUMPY[shape.left].itemsize
    if shape.m != ROWS or size not in PART or shape.k not in (PART[size], 2 * PART[size]):
        raise decoder.refused(instruction, f"the shape m{shape.m}n{shape.n}k{shape.k} is not modelled")
    lists = [decoder.items(o) for o in instruction.operands[:4]]
    a, b, c = ([decoder.source(o, "b32", instruction) for o in operands] for operands in lists[1:])
    writes = [decoder.sink(o, instruction) for o in lists[0]]
    metadata, chosen = decoder.source(instruction.operands[4], "b32", instruction), instruction.operands[5]
    selectors = 4 // metadata_threads(shape.k, size)
    if not isinstance(chosen, Immediate) or int(chosen.value) not in range(selectors):
        raise decoder.refused(instruction, f"the selector of this shape is 0 to {selectors - 1}")
    selector, ordered = int(chosen.value), "sp::ordered_metadata" in instruction.modifiers
    machine, line = decoder.machine, instruction.line
    saturates = "satfinite" in instruction.modifiers

    def run(gang: Gang) -> Outcome:
        words = np.broadcast_to(metadata(gang), (gang.lanes,)).reshape(-1, WARP)
        columns, valid = kept_columns(words, shape.k, size, selector)
        if ordered and size < 4:
            valid = valid & ascending(columns)
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
    kept = np.zeros((len(values), ROWS, shape.k // 2))
    kept[:, *left_places(ROWS, values.shape[1], values.shape[3])] = wide_values(truncated(values, shape.left))
    return spread_out(kept, columns, shape.k)
