"""wmma.load, wmma.mma, wmma.store: the products of warps with fragments. PTX ISA, "Matrix Fragments for WMMA".

Which lane has which element is not specified, so any placement that is used throughout gives a kernel's values. Here
register elements are numbered lane by lane, and number s holds element s modulo the matrix's size, row by row. A code
that takes a fragment's elements apart, and relies on more than that, is wrong on hardware too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, Dtype
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import rounding
from lego_mlir.interp.ptx.decoder import Decoder, opcode, space_of
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.tensor_core import wide_values
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import FLOATS, NUMPY
from lego_mlir.interp.ptx.warp_convergence import whole_warps

_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)")
INPUTS: Final = frozenset({"f16", "bf16", "tf32", "s8", "u8"})


@dataclass(frozen=True, slots=True)
class WarpFragment:
    """A matrix of `rows` x `columns` elements in the registers of a warp."""

    rows: int
    columns: int
    dtype: Dtype

    def elements(self, registers: int) -> Array:
        """Which element of the matrix each register element is: (lanes, elements of a lane)."""
        slots = WARP * registers * (4 // self.dtype.itemsize)
        return (np.arange(slots) % (self.rows * self.columns)).reshape(WARP, -1)

    def matrices(self, words: Array) -> Array:
        """(warps, rows, columns) from the words of (warps, lanes, registers)."""
        flat = np.ascontiguousarray(words).view(self.dtype).reshape(len(words), -1)
        return flat[:, : self.rows * self.columns].reshape(-1, self.rows, self.columns)

    def words(self, matrices: Array, registers: int) -> Array:
        """(warps, lanes, registers) from matrices."""
        flat = matrices.reshape(len(matrices), -1)[:, self.elements(registers)]
        return np.ascontiguousarray(flat).view(np.uint32)


def _fragment(decoder: Decoder, instruction: PtxInstruction, which: str, type_: str) -> WarpFragment:
    found = next((f for m in instruction.modifiers if (f := _SHAPE.fullmatch(m))), None)
    if found is None or (which in "ab" and type_ not in INPUTS) or type_ not in NUMPY:
        raise decoder.refused(instruction, f"its shape or types are not modelled; inputs are {', '.join(INPUTS)}")
    m, n, k = map(int, found.groups())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    return WarpFragment(rows, columns, NUMPY[type_])


def _positions(fragment: WarpFragment, registers: int, stride: Array, *, by_rows: bool) -> Array:
    """The byte of each register element from the matrix's first: (lanes of the gang, elements of a lane)."""
    element = fragment.elements(registers)
    row, column = element // fragment.columns, element % fragment.columns
    outer, inner = (row, column) if by_rows else (column, row)
    warps = len(stride) // WARP
    return (np.tile(outer, (warps, 1)) * stride[:, None] + np.tile(inner, (warps, 1))) * fragment.dtype.itemsize


@opcode("wmma", form="load", whole=True)
def build_load(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {r..}, [p], stride`."""
    which, type_ = instruction.modifiers[1], decoder.type_of(instruction)
    fragment = _fragment(decoder, instruction, which, type_)
    targets = decoder.items(instruction.operands[0])
    writes = [decoder.sink(target, instruction) for target in targets]
    place, (stride, by_rows) = decoder.address(instruction.operands[1], instruction), _layout(instruction, fragment)
    read_stride = decoder.source(instruction.operands[2], "u32", instruction) if stride is None else None
    machine, line, space = decoder.machine, instruction.line, space_of(instruction)

    def run(gang: Gang) -> None:
        steps = np.broadcast_to(read_stride(gang) if read_stride is not None else np.array([stride]), (gang.lanes,))
        at = _positions(fragment, len(writes), steps.astype(np.int64), by_rows=by_rows)
        item, base = fragment.dtype.itemsize, place(gang)
        data = np.empty((gang.lanes, at.shape[1], item), np.uint8)
        for number in range(at.shape[1]):
            data[:, number] = machine.load(gang, space, base + at[:, number], item, line)
        words = data.reshape(gang.lanes, -1).view(np.uint32)
        for number, write in enumerate(writes):
            write(gang, np.ascontiguousarray(words[:, number]))

    return whole_warps(decoder, run)


def _layout(instruction: PtxInstruction, fragment: WarpFragment) -> tuple[int | None, bool]:
    """The stride in elements where no operand gives it, and whether rows are contiguous."""
    by_rows = "row" in instruction.modifiers
    given = len(instruction.operands) == 3
    return None if given else fragment.columns if by_rows else fragment.rows, by_rows


@opcode("wmma", form="store", whole=True)
def build_store(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [p], {r..}, stride`."""
    fragment = _fragment(decoder, instruction, "d", decoder.type_of(instruction))
    values = [decoder.source(o, "b32", instruction) for o in decoder.items(instruction.operands[1])]
    place, (stride, by_rows) = decoder.address(instruction.operands[0], instruction), _layout(instruction, fragment)
    read_stride = decoder.source(instruction.operands[2], "u32", instruction) if stride is None else None
    machine, line, space = decoder.machine, instruction.line, space_of(instruction)

    def run(gang: Gang) -> None:
        steps = np.broadcast_to(read_stride(gang) if read_stride is not None else np.array([stride]), (gang.lanes,))
        at = _positions(fragment, len(values), steps.astype(np.int64), by_rows=by_rows)
        words = np.stack([np.broadcast_to(value(gang), (gang.lanes,)) for value in values], axis=1)
        data = np.ascontiguousarray(words).view(np.uint8).reshape(gang.lanes, at.shape[1], -1)
        base = place(gang)
        for number in range(at.shape[1]):
            machine.store(gang, space, base + at[:, number], np.ascontiguousarray(data[:, number]), line)

    return whole_warps(decoder, run)


@opcode("wmma", form="mma", whole=True)
def build_product(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {d..}, {a..}, {b..}, {c..}`; inputs are f16 where not named."""
    types = [m for m in instruction.modifiers if m in NUMPY]
    result, left, right, total = types if len(types) == 4 else (types[0], "f16", "f16", types[-1])
    parts = [_fragment(decoder, instruction, w, t) for w, t in zip("abc", (left, right, total), strict=True)]
    made = _fragment(decoder, instruction, "d", result)
    targets, *lists = (decoder.items(o) for o in instruction.operands)
    sources = [[decoder.source(o, "b32", instruction) for o in items] for items in lists]
    writes = [decoder.sink(target, instruction) for target in targets]
    saturates = "satfinite" in instruction.modifiers

    def run(gang: Gang) -> None:
        matrices = []
        for fragment, registers in zip(parts, sources, strict=True):
            words = np.stack([np.broadcast_to(source(gang), (gang.lanes,)) for source in registers], axis=1)
            values = fragment.matrices(words.reshape(-1, WARP, len(registers)))
            is_tf32 = fragment is not parts[2] and "tf32" in types
            matrices.append(wide_values(rounding.tf32(values) if is_tf32 else values))
        a, b, c = matrices
        numbers = _narrowed(a @ b + c, result, saturates=saturates)
        found = made.words(numbers, len(writes)).reshape(gang.lanes, -1)
        for number, write in enumerate(writes):
            write(gang, np.ascontiguousarray(found[:, number]))

    return whole_warps(decoder, run)


def _narrowed(total: Array, type_: str, *, saturates: bool) -> Array:
    """Sums in f64 as the result's type."""
    if type_ in FLOATS:
        return rounding.narrow(total, NUMPY[type_])
    limits = np.iinfo(np.int32)
    whole = np.clip(total, limits.min, limits.max) if saturates else total
    return whole.astype(np.int64).astype(np.int32)
