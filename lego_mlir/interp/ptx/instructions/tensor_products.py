"""tcgen05.mma: D = A B + D by one thread; A in shared or tensor memory, B in shared memory, D in tensor memory.

The element in row i and column j of D is at column j of lane

    M = 128               i
    M = 64                i % 16 + 32 * (i / 16), from lane 0 or 16 on
    two blocks, M = 256   i % 128 of block i / 128
    two blocks, M = 128   i % 64 of block i / 64 for the first half of the columns, and 64 lanes further for the second

and A's rows are in tensor memory in the same lanes, 32 bytes in 8 columns. Of a pair of blocks, each has half of A's
rows and half of B's columns in its shared memory. Scales of row i are bytes of the word in lane i % 32, column i / 32,
the same in all four quarters of the lanes. Products are exact and summed in f64, then rounded once. PTX ISA,
"tcgen05.mma", "Data path layout", "Scale factor A"; CUTLASS, `cute/atom/mma_traits_sm100_frag.hpp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.tensor_pipe import (
    group_size,
    issued,
    matrix_descriptor,
    put_in_pipe,
    shared_rows,
    slots_of_group,
)
from lego_mlir.interp.ptx.instructions.wgmma import shared_values
from lego_mlir.interp.ptx.ptx_machine import PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import AddressOperand, Immediate, OperandList, PtxInstruction, PtxOperand
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.tensor_formats import (
    BYTES_ALONG_K,
    KINDS,
    NARROW,
    SCALES,
    ProductFormat,
    element_bytes,
    numbers,
    row_values,
)
from lego_mlir.interp.ptx.tensor_memory import TensorCells, TensorMemoryAccess, tensor_memory
from lego_mlir.interp.ptx.wgmma_descriptors import grid

REFUSED: Final = ("ws", "sp", "ashift")
BLOCK_OF: Final = {"scale_vec::1X": 32, "scale_vec::2X": 32, "scale_vec::4X": 16, "block32": 32, "block16": 16}
"""Elements that have one scale."""
QUARTERS: Final = 32 * np.arange(4)


@dataclass(frozen=True, slots=True)
class TensorProductForm:
    """What is the same for all executions of one instruction."""

    decoder: Decoder
    instruction: PtxInstruction
    kind: str
    blocks: int
    block_of_scale: int

    @property
    def packed(self) -> bool:
        return self.kind.startswith("mxf4")


@dataclass(frozen=True, slots=True)
class ProductOperands:
    """What one execution reads from registers: D and A's address in tensor memory, descriptors, and scales."""

    format: ProductFormat
    result: int
    left: int
    left_is_tensor: bool
    right: int
    adds: bool
    scales: tuple[int, int] | None
    scale_d: int
    disabled: tuple[int, ...]


@opcode("tcgen05", form="mma", whole=True)
def build_tensor_mma(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.mma.cta_group::1.kind::f16 [d], a, b, descriptor{, {disabled lanes}}, adds{, scale}`."""
    form = _form(decoder, instruction)
    d, a, b, descriptor, *rest = instruction.operands
    result, right = decoder.address(d, instruction), decoder.source(b, "u64", instruction)
    from_tensor = isinstance(a, AddressOperand)
    left: Source = decoder.address(a, instruction) if from_tensor else decoder.source(a, "u64", instruction)
    shape = decoder.source(descriptor, "u32", instruction)
    scales: list[Source] = []
    while rest and isinstance(rest[0], AddressOperand):
        scales.append(decoder.address(rest.pop(0), instruction))
    masks = [decoder.source(o, "u32", instruction) for o in _taken_list(rest)]
    adds = decoder.source(rest[0], "pred", instruction)
    scale_d = int(rest[1].value) if len(rest) > 1 and isinstance(rest[1], Immediate) else 0
    if bool(scales) != form.kind.startswith("mx") or len(scales) not in (0, 2):
        raise decoder.refused(instruction, "two addresses of scales belong to the mx kinds, and to no other")

    def run(gang: Gang) -> None:
        values = [np.broadcast_to(v(gang), (gang.lanes,)) for v in (result, left, right, shape, adds)]
        extra = [np.broadcast_to(v(gang), (gang.lanes,)) for v in (*scales, *masks)]
        for lane in map(int, gang.live()):
            at, a_at, b_at, bits, add = (int(v[lane]) for v in values)
            more = [int(v[lane]) for v in extra]
            access = issued(decoder.machine, gang, lane, instruction.line, "tcgen05.mma")
            format_ = ProductFormat.decoded(bits, form.kind)
            if format_ is None or (why := _refusal(form, format_)):
                message = f"the instruction descriptor {bits:#x} of kind::{form.kind} is none: "
                message += "its types" if format_ is None else why
                tensor_memory(decoder.machine).misused(access, message)
                continue
            operands = ProductOperands(
                format_, at, a_at, from_tensor, b_at, bool(add), (more[0], more[1]) if scales else None, scale_d,
                tuple(more[len(scales) :]),
            )  # fmt: skip
            _issue(form, operands, access)

    return run


def _taken_list(rest: list[PtxOperand]) -> tuple[PtxOperand, ...]:
    """The vector that disables lanes, taken from the operands that are left."""
    if isinstance(rest[0], OperandList):
        found = rest[0].items
        rest.pop(0)
        return found
    return ()


def _form(decoder: Decoder, instruction: PtxInstruction) -> TensorProductForm:
    modifiers = instruction.modifiers
    for word in REFUSED:
        if word in modifiers:
            raise decoder.refused(instruction, f"tcgen05.mma with .{word} is not modelled")
    kind = next((m.removeprefix("kind::") for m in modifiers if m.startswith("kind::")), "")
    if kind not in KINDS:
        raise decoder.refused(instruction, f"its kind is one of {', '.join(KINDS)}")
    blocks = group_size(decoder, instruction)
    if blocks == 2 and kind.startswith("mx"):
        raise decoder.refused(instruction, "products with scales by two blocks are not modelled")
    default = 16 if kind == "mxf4nvf4" else 32
    return TensorProductForm(
        decoder, instruction, kind, blocks, next((BLOCK_OF[m] for m in modifiers if m in BLOCK_OF), default)
    )


def _refusal(form: TensorProductForm, format_: ProductFormat) -> str:
    """Why a shape is none, or an empty string."""
    heights = (128, 256) if form.blocks == 2 else (128,) if format_.scales else (64, 128)
    if format_.m not in heights:
        return f"M is {format_.m}, not one of {', '.join(map(str, heights))}"
    step = 8 if format_.m == 64 or format_.scales else 16
    if not 8 <= format_.n <= 256 or format_.n % step:
        return f"N is {format_.n}, not a multiple of {step} to 256"
    transposed = (format_.left, format_.left_k_major), (format_.right, format_.right_k_major)
    if any(not major and (type_ in NARROW or form.packed) for type_, major in transposed):
        return "elements of less than 8 bits are K-major"
    return ""


# --- issue ------------------------------------------------------------------------------------------------------------


def _rows_of(format_: ProductFormat, blocks: int, part: int) -> slice:
    """A's rows that are in a block of the pair."""
    height = format_.m // blocks
    return slice(part * height, (part + 1) * height)


def _result_cells(format_: ProductFormat, blocks: int, slot: int, at: int) -> TensorCells:
    """(rows of a block, n): where D's elements are."""
    row, column = grid(format_.m // blocks, format_.n)
    if blocks == 2 and format_.m == 128:
        half = format_.n // 2
        return TensorCells.at(slot, at, row + 64 * (column // half), column % half + 0 * row)
    if format_.m == 64:
        row = row % 16 + 32 * (row // 16)
    return TensorCells.at(slot, at, row, column)


def _left_cells(format_: ProductFormat, slot: int, at: int) -> TensorCells:
    row, column = grid(format_.m, BYTES_ALONG_K // 4)
    if format_.m == 64:
        row = row % 16 + 32 * (row // 16)
    return TensorCells.at(slot, at, row, column)


def _scale_cells(count: int, slot: int, at: int) -> TensorCells:
    """(rows, quarters): the words with the scales of rows of A or columns of B."""
    row = np.arange(count)[:, None]
    return TensorCells.at(slot, at & 0x3FFFFFFF, row % 32 + QUARTERS, row // 32)


@dataclass(eq=False, slots=True)
class IssuedProduct:
    """An operation in flight: where its operands are."""

    form: TensorProductForm
    operands: ProductOperands
    results: list[TensorCells]
    left: list[IntArray] | TensorCells
    right: list[IntArray]
    scales: list[TensorCells]


def _issue(form: TensorProductForm, operands: ProductOperands, access: TensorMemoryAccess) -> None:
    """Check all accesses, and put the product in the pipe; one with an access outside is dropped."""
    machine, format_ = form.decoder.machine, operands.format
    slots = slots_of_group(machine, access.gang, access.lane, form.blocks)
    memory, ok = tensor_memory(machine), True
    left: list[IntArray] | TensorCells
    if operands.left_is_tensor:
        if form.blocks == 2 or format_.left in NARROW:
            why = "A in tensor memory, of two blocks or of less than 8 bits, is not modelled"
            raise form.decoder.refused(form.instruction, why)
        left = _left_cells(format_, slots[0], operands.left)
        ok &= memory.enter(access, left, writes=False)
    else:
        left = []
        for slot in slots:
            places = _operand_places(form, access, operands.left, format_.left, format_.m // form.blocks, slot,
                                     k_major=format_.left_k_major)  # fmt: skip
            left.append(places if places is not None else np.zeros(0, np.int64))
    right = []
    for slot in slots:
        places = _operand_places(form, access, operands.right, format_.right, format_.n // form.blocks, slot,
                                 k_major=format_.right_k_major)  # fmt: skip
        right.append(places if places is not None else np.zeros(0, np.int64))
    ok &= all(len(p) for p in (*right, *(left if isinstance(left, list) else [])))
    scales = []
    for at, count in zip(operands.scales or (), (format_.m, format_.n), strict=bool(operands.scales)):
        cells = _scale_cells(count, slots[0], at)
        ok &= memory.enter(access, cells, writes=False)
        scales.append(cells)
    results = [_result_cells(format_, form.blocks, slot, operands.result) for slot in slots]
    for cells in results:
        if operands.adds:
            ok &= memory.enter(access, cells, writes=False)
        ok &= memory.enter(access, cells, writes=True)
    if ok:
        product = IssuedProduct(form, operands, results, left, right, scales)
        put_in_pipe(machine, slots[0], partial(_perform, machine, product), access.line, "tcgen05.mma")


def _operand_places(
    form: TensorProductForm, access: TensorMemoryAccess, bits: int, type_: str, outer: int, slot: int, *, k_major: bool
) -> IntArray | None:
    """Arena positions of elements, (outer, k), or of the bytes of types of less than 8 bits, (outer, 32)."""
    descriptor = matrix_descriptor(form.decoder, form.instruction, bits)
    size = element_bytes(type_)
    places = descriptor.addresses(*grid(outer, BYTES_ALONG_K // size), size, k_major=k_major)
    return shared_rows(form.decoder.machine, access, places, slot)


# --- landing ----------------------------------------------------------------------------------------------------------


def _perform(machine: PtxMachine, product: IssuedProduct) -> None:
    form, operands = product.form, product.operands
    format_, memory = operands.format, tensor_memory(machine)
    if isinstance(product.left, TensorCells):
        cells = product.left
        words = np.ascontiguousarray(memory.data[cells.slot, cells.lanes, cells.columns])
        a = row_values(words.view(np.uint8), format_.left, packed=form.packed)
    else:
        a = np.concatenate([_matrix(machine, p, format_.left, packed=form.packed) for p in product.left])
    b = np.concatenate([_matrix(machine, p, format_.right, packed=form.packed) for p in product.right])
    a, b = a * format_.left_sign, b * format_.right_sign
    if product.scales:
        total = _scaled(memory.data, product, a, b)
    else:
        total = a @ b.T
    for part, cells in enumerate(product.results):
        rows = total[_rows_of(format_, form.blocks, part)]
        if operands.adds:
            old = _result_values(memory.data[cells.slot, cells.lanes, cells.columns], format_.result)
            rows = rows + old * 2.0**-operands.scale_d
        words = _result_words(rows, format_)
        kept = _enabled(operands.disabled[4 * part : 4 * part + 4], cells)
        memory.data[cells.slot, cells.lanes, cells.columns] = np.where(
            kept, words, memory.data[cells.slot, cells.lanes, cells.columns]
        )


def _matrix(machine: PtxMachine, places: IntArray, type_: str, *, packed: bool) -> Array:
    """Elements of shared memory at positions that `_operand_places` found."""
    if type_ in NARROW:
        return row_values(machine.shared[places], type_, packed=packed)
    return numbers(shared_values(machine, places, NUMPY[type_]), type_)


def _scaled(data: Array, product: IssuedProduct, a: Array, b: Array) -> Array:
    """Products of blocks along K, each with the scales of its row and column."""
    format_, block = product.operands.format, product.form.block_of_scale
    parts = a.shape[1] // block
    scales = []
    for cells, first in zip(product.scales, (format_.left_scale, format_.right_scale), strict=True):
        words = np.ascontiguousarray(data[cells.slot, cells.lanes[:, :1], cells.columns])
        chosen = words.view(np.uint8)[:, first : first + parts]
        scales.append(np.abs(numbers(np.ascontiguousarray(chosen).view(SCALES[format_.scales]), format_.scales)))
    total = np.zeros((len(a), len(b)))
    for part in range(parts):
        along = slice(part * block, (part + 1) * block)
        total += (a[:, along] * scales[0][:, part : part + 1]) @ (b[:, along] * scales[1][:, part : part + 1]).T
    return total


def _enabled(disabled: tuple[int, ...], cells: TensorCells) -> Array:
    """Whether an element is written: bit l % 32 of word l / 32 disables lane l."""
    lanes = np.broadcast_to(cells.lanes, np.broadcast_shapes(cells.lanes.shape, cells.columns.shape))
    if not disabled:
        return np.ones(lanes.shape, np.bool_)
    words = np.array(disabled, np.uint64)
    off: Array = words[lanes // 32] >> (lanes % 32).astype(np.uint64) & np.uint64(1)
    return off == 0


def _result_values(words: Array, type_: str) -> Array:
    """D's words as f64; f16 is in the low half."""
    if type_ == "f16":
        words = words.astype(np.uint16)
    return np.ascontiguousarray(words).view(NUMPY[type_]).astype(np.float64)


def _result_words(total: Array, format_: ProductFormat) -> Array:
    if format_.result == "s32":
        limits = np.iinfo(np.int32)
        total = total.clip(limits.min, limits.max) if format_.saturates else total
        return total.astype(np.int64).astype(np.int32).view(np.uint32)
    if format_.result == "f16":
        return total.astype(np.float16).view(np.uint16).astype(np.uint32)
    return total.astype(np.float32).view(np.uint32)
