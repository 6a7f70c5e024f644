"""tcgen05.ld, .st and .wait: between tensor memory and the registers of a warp.

Warp w of a block reaches the lanes from 32 * (w % 4) on. A shape is lanes by bits, repeated along the columns; register
r of thread t is at

    32x32b      lane t                        column r
    16x64b      lane t / 4 + 8 * (t % 2)      column 2 * r + t / 2 % 2
    16x128b     lane t / 4 + 8 * (r % 2)      column 4 * (r / 2) + t % 4
    16x256b     lane t / 4 + 8 * (r / 2 % 2)  column 8 * (r / 4) + 2 * (t % 4) + r % 2
    16x32bx2    lane t % 16                   column r, and a constant more for t >= 16

`.pack::16b` and `.unpack::16b` have the low halves of two columns in a register. The values are read when the load is
issued; its registers must not be touched before `tcgen05.wait::ld`. PTX ISA, "tcgen05.ld", "Data Movement Shape";
CUTLASS, `cute/atom/copy_traits_sm100.hpp`, for the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import Immediate, PtxInstruction, PtxOperand, PtxRegister
from lego_mlir.interp.ptx.tensor_memory import TensorCells, TensorMemoryAccess, tensor_memory
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.shared_shadow import TENSOR_AGENT

REGISTERS: Final = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Of a thread, for each repetition."""
QUARTER_WARPS: Final = 4
MOST_REGISTERS: Final = 128


@dataclass(frozen=True, slots=True)
class TensorFragment:
    """What a load or store moves: lanes and columns from its address for (registers, 32 threads).

    >>> TensorFragment.of("16x256b", 1).lanes[:, 5]
    array([1, 1, 9, 9])
    """

    shape: str
    lanes: IntArray
    columns: IntArray
    packed: bool = False

    @staticmethod
    def of(shape: str, repeats: int, *, packed: bool = False, split: int = 0) -> TensorFragment:
        """The fragment of a shape; `split` is the distance of the halves of `16x32bx2`."""
        r, t = np.arange(REGISTERS[shape] * repeats)[:, None], np.arange(WARP)[None, :]
        lanes, columns = {
            "32x32b": (t + 0 * r, r + 0 * t),
            "16x64b": (t // 4 + 8 * (t % 2) + 0 * r, 2 * r + t // 2 % 2),
            "16x128b": (t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4),
            "16x256b": (t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2),
            "16x32bx2": (t % 16 + 0 * r, r + 0 * t),
        }[shape]
        columns = (2 if packed else 1) * columns + split * (t // 16)
        return TensorFragment(shape, lanes, columns, packed)

    @property
    def height(self) -> int:
        return int(self.shape.split("x")[0])

    def cells(self, slot: int, address: int) -> TensorCells:
        """All cells: (halves, registers, 32), where a register has the halves of two columns, or one."""
        halves = np.arange(2 if self.packed else 1)[:, None, None]
        return TensorCells.at(slot, address, self.lanes + 0 * halves, self.columns + halves)

    def to_registers(self, cells: Array) -> Array:
        """(registers, 32) from the cells' words."""
        if not self.packed:
            found: Array = cells[0]
            return found
        words: Array = cells[0] & 0xFFFF | cells[1] << 16
        return words

    def from_registers(self, words: Array) -> Array:
        """The cells' words."""
        return np.stack([words & 0xFFFF, words >> 16]) if self.packed else words[None]


def _fragment(decoder: Decoder, instruction: PtxInstruction, registers: int) -> TensorFragment:
    shape = next((m for m in instruction.modifiers if m in REGISTERS), None)
    repeats = next((int(m[1:]) for m in instruction.modifiers if m[0] == "x" and m[1:].isdigit()), 0)
    if shape is None or not repeats or "red" in instruction.modifiers:
        raise decoder.refused(instruction, f"it moves {', '.join(REGISTERS)}, x1 to x128, and reduces nothing")
    expected = REGISTERS[shape] * repeats
    if registers != expected or expected > MOST_REGISTERS:
        raise decoder.refused(instruction, f"{registers} registers, where {shape}.x{repeats} has {expected}")
    distance = next((int(o.value) for o in instruction.operands if isinstance(o, Immediate)), 0)
    packed = bool({"pack::16b", "unpack::16b"} & set(instruction.modifiers))
    return TensorFragment.of(shape, repeats, packed=packed, split=distance)


def _address(machine: PtxMachine, gang: Gang, row: int, addresses: IntArray, fragment: TensorFragment,
             access: TensorMemoryAccess) -> int | None:  # fmt: skip
    """The address of a warp, which is the same in all its lanes and in its quarter; None after a fault."""
    own = addresses[row * WARP : (row + 1) * WARP]
    address, quarter = int(own[0]), int(gang.warps[row]) % machine.shape.warps % QUARTER_WARPS
    memory = tensor_memory(machine)
    if (own != address).any():
        memory.misused(access, f"the lanes of a warp give different addresses to {access.what}")
        return None
    lane = address >> 16
    starts = range(WARP * quarter, WARP * (quarter + 1), fragment.height)
    if lane not in starts:
        message = f"{access.what}.{fragment.shape} at lane {lane}: its warp may begin at {', '.join(map(str, starts))}"
        memory.misused(access, message)
        return None
    return address


@opcode("tcgen05", form="ld", whole=True)
def build_tensor_ld(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.ld.sync.aligned.32x32b.x8.b32 {a, ..}, [address]`."""
    registers, place = decoder.items(instruction.operands[0]), instruction.operands[1]
    fragment = _fragment(decoder, instruction, len(registers))
    address, writes = decoder.address(place, instruction), [decoder.sink(r, instruction) for r in registers]
    pending = frozenset(_slots(registers))
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        values = np.zeros((len(registers), gang.lanes), np.uint32)
        addresses, memory = address(gang), tensor_memory(machine)
        for row, warp in enumerate(map(int, gang.warps)):
            access = _issued(machine, gang, row, line, "tcgen05.ld")
            at = _address(machine, gang, row, addresses, fragment, access)
            if at is None:
                continue
            cells = fragment.cells(int(machine.slot_of_warp[warp]), at)
            if memory.enter(access, cells, writes=False):
                words = fragment.to_registers(memory.data[cells.slot, cells.lanes, cells.columns])
                values[:, row * WARP : (row + 1) * WARP] = words
        for write, value in zip(writes, values, strict=True):
            write(gang, value)
        gang.pending = gang.pending | pending

    return whole_warps(decoder, run)


def _slots(registers: tuple[PtxOperand, ...]) -> list[int]:
    return [r.slot for r in registers if isinstance(r, PtxRegister)]


def _issued(machine: PtxMachine, gang: Gang, row: int, line: int, what: str) -> TensorMemoryAccess:
    _, clock = machine.clocks.issue(int(gang.warps[row]), TENSOR_AGENT)
    return TensorMemoryAccess(gang, row * WARP, TENSOR_AGENT, clock, line, what)


@opcode("tcgen05", form="st", whole=True)
def build_tensor_st(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.st.sync.aligned.32x32b.x8.b32 [address], {a, ..}`."""
    place = instruction.operands[0]
    registers = next(decoder.items(o) for o in reversed(instruction.operands) if not isinstance(o, Immediate))
    fragment = _fragment(decoder, instruction, len(registers))
    address = decoder.address(place, instruction)
    sources = [decoder.source(r, "b32", instruction) for r in registers]
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        values = np.array([np.broadcast_to(source(gang), (gang.lanes,)) for source in sources], np.uint32)
        addresses, memory = address(gang), tensor_memory(machine)
        for row, warp in enumerate(map(int, gang.warps)):
            access = _issued(machine, gang, row, line, "tcgen05.st")
            at = _address(machine, gang, row, addresses, fragment, access)
            if at is None:
                continue
            cells = fragment.cells(int(machine.slot_of_warp[warp]), at)
            if memory.enter(access, cells, writes=True):
                words = fragment.from_registers(values[:, row * WARP : (row + 1) * WARP])
                memory.data[cells.slot, cells.lanes, cells.columns] = words

    return whole_warps(decoder, run)


@opcode("tcgen05", form="wait::ld", whole=True)
@opcode("tcgen05", form="wait::st", whole=True)
def build_tensor_wait(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """The warp's loads, or its stores, are complete."""
    machine, loads = decoder.machine, instruction.modifiers[0] == "wait::ld"

    def run(gang: Gang) -> None:
        clocks = machine.clocks
        for warp in map(int, gang.warps):
            clocks.learn(warp, TENSOR_AGENT, int(clocks.issued[warp, TENSOR_AGENT]))
        if loads:
            gang.pending = frozenset()

    return whole_warps(decoder, run)
