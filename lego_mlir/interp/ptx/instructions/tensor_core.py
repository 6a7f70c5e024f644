"""mma.sync and mma.sp: D = A B + C on the registers of one warp. PTX ISA, "Matrix Fragments for mma".

`mma_fragments` has the rows and columns of registers. Products are exact and summed in f64, then rounded once; the unit
truncates somewhat more.

mma.sp keeps two of each 4 neighbours in a row of A (8 and 16 bits), or one of 2 (tf32), by its metadata. PTX ISA,
"Multiply-and-Accumulate Instruction: mma.sp".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, Dtype, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import rounding
from lego_mlir.interp.mma_fragments import (
    PART,
    ROWS,
    ascending,
    kept_columns,
    left_places,
    metadata_threads,
    right_places,
    spread_out,
    sum_places,
)
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import Immediate, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import FLOATS, NUMPY
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.report import Kind

INPUTS: Final = frozenset({"f16", "bf16", "tf32", "f64", "s8", "u8", "e4m3", "e5m2"})


@dataclass(frozen=True, slots=True)
class MmaShape:
    """The shape and types of an mma: D and C, A and B."""

    m: int
    n: int
    k: int
    result: str
    left: str
    right: str
    sum: str


def shape_of(decoder: Decoder, instruction: PtxInstruction) -> MmaShape:
    """The shape and types of an instruction. Raises InterpreterError for what is not modelled."""
    sizes = next((f for m in instruction.modifiers if (f := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", m))), None)
    types = [m for m in instruction.modifiers if m in NUMPY]
    if sizes is None or len(types) != 4 or not {types[1], types[2]} <= INPUTS:
        raise decoder.refused(
            instruction, f"its shape or types are not modelled; inputs are {', '.join(sorted(INPUTS))}"
        )
    m, n, k = (int(g) for g in sizes.groups())
    if n != 8 or m not in (8, 16) or (m == 8 and types[1] in ("f16", "bf16")) or "row" not in instruction.modifiers:
        raise decoder.refused(instruction, f"the shape m{m}n{n}k{k} is not modelled")
    return MmaShape(m, n, k, *types)


def elements(registers: Array, dtype: Dtype) -> Array:
    """(warps, registers, lanes) of words as (warps, registers, lanes, elements of a register)."""
    return np.ascontiguousarray(registers)[..., None].view(dtype)


def wide_values(values: Array) -> Array:
    """Numbers as f64, which holds each of the types exactly."""
    found: Array = values.astype(np.float32).astype(np.float64) if values.dtype.kind == "V" else values.astype("f8")
    return found


def operand_values(gang: Gang, sources: list[Source], dtype: Dtype) -> Array:
    """(warps, registers, lanes, elements of a register) of an operand."""
    word = np.dtype(np.uint64) if dtype.itemsize == 8 else np.dtype(np.uint32)
    words = np.empty((len(gang.warps), len(sources), WARP), word)
    for i, source in enumerate(sources):
        words[:, i] = np.broadcast_to(source(gang), (gang.lanes,)).reshape(-1, WARP)
    return elements(words, dtype)


def matrix_dtype(name: str) -> Dtype:
    """The elements that a type's registers are viewed as."""
    return NUMPY[name]


@opcode("mma", whole=True)
def build_mma(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d..}, {a..}, {b..}, {c..}`."""
    shape = shape_of(decoder, instruction)
    left, right = matrix_dtype(shape.left), matrix_dtype(shape.right)
    lists = [decoder.items(o) for o in instruction.operands]
    sources = []
    for operands, dtype in zip(lists[1:3], (left, right), strict=True):
        word = "b64" if dtype.itemsize == 8 else "b32"
        sources.append([decoder.source(o, word, instruction) for o in operands])
    accumulate = [decoder.source(o, "b64" if shape.sum == "f64" else "b32", instruction) for o in lists[3]]
    writes = [decoder.sink(o, instruction) for o in lists[0]]
    saturates = "satfinite" in instruction.modifiers

    def run(gang: Gang) -> None:
        a = _left_matrix(shape, operand_values(gang, sources[0], left))
        b = right_matrix(shape, operand_values(gang, sources[1], right))
        total = a @ b + sum_matrix(gang, accumulate, shape)
        for write, words in zip(writes, result_words(total, shape, saturates), strict=True):
            write(gang, words)

    return whole_warps(decoder, run)


def _left_matrix(shape: MmaShape, values: Array) -> Array:
    matrix = np.zeros((len(values), shape.m, shape.k))
    matrix[:, *left_places(shape.m, values.shape[1], values.shape[3])] = wide_values(truncated(values, shape.left))
    return matrix


def right_matrix(shape: MmaShape, values: Array) -> Array:
    """B, (warps, k, n), in f64."""
    matrix = np.zeros((len(values), shape.k, shape.n))
    matrix[:, *right_places(values.shape[1], values.shape[3])] = wide_values(truncated(values, shape.right))
    return matrix


def truncated(values: Array, type_: str) -> Array:
    """What the unit reads of an operand: of tf32, the upper bits."""
    return rounding.tf32(values) if type_ == "tf32" else values


def _accumulator_places(m: int) -> tuple[Array, Array]:
    """Row and column of each element of C: (elements, lanes)."""
    row, column = (place.swapaxes(1, 2).reshape(-1, WARP) for place in sum_places(m))
    return row, column


def sum_matrix(gang: Gang, sources: list[Source], shape: MmaShape) -> Array:
    """C, (warps, m, n), in f64."""
    dtype = NUMPY[shape.sum]
    values = operand_values(gang, sources, dtype)
    row, column = _accumulator_places(shape.m)
    matrix = np.zeros((len(values), shape.m, shape.n))
    if values.shape[3] == 2:  # f16 in pairs
        values = values.swapaxes(2, 3).reshape(len(values), -1, WARP)
    matrix[:, row, column] = wide_values(values.reshape(len(values), -1, WARP))
    return matrix


def result_words(total: Array, shape: MmaShape, saturates: bool) -> list[Array]:
    """The registers of D from its matrices, rounded."""
    row, column = _accumulator_places(shape.m)
    found = total[:, row, column]  # (warps, elements, lanes)
    if shape.result in FLOATS:
        numbers = rounding.narrow(found, NUMPY[shape.result])
    else:
        limits = np.iinfo(np.int32)
        numbers = (np.clip(found, limits.min, limits.max) if saturates else found).astype(np.int64).astype(np.int32)
    if shape.result == "f16":
        pairs = numbers.reshape(len(found), -1, 2, WARP).swapaxes(2, 3)
        words = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
    else:
        words = numbers.view(np.dtype(f"u{numbers.dtype.itemsize}"))
    return [np.ascontiguousarray(words[:, i]).reshape(-1) for i in range(words.shape[1])]


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

    def run(gang: Gang) -> None:
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

    return whole_warps(decoder, run)


def _spread(values: Array, columns: IntArray, shape: MmaShape) -> Array:
    """(warps, 16, k) from the registers and the columns of what they keep."""
    kept = np.zeros((len(values), ROWS, shape.k // 2))
    kept[:, *left_places(ROWS, values.shape[1], values.shape[3])] = wide_values(truncated(values, shape.left))
    return spread_out(kept, columns, shape.k)
