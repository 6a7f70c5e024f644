"""tensormap.replace, tensormap.cp_fenceproxy: tensor maps made on the device. PTX ISA, "tensormap.replace".

The emulator's form of a map (`bulk_tensor_maps`) is edited field by field; the first edit of 128 bytes writes its mark.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from lego_mlir.interp.ptx.bulk_tensor_maps import MAGIC, MAP_BYTES, TYPES
from lego_mlir.interp.ptx.decoder import Decoder, opcode, space_of
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction

ELEMENTS: Final = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16", "tf32", "tf32")
SWIZZLE_BYTES: Final = (0, 32, 64, 128)
IGNORED: Final = ("element_stride", "interleave_layout", "fill_mode", "swizzle_atomicity")
FIELDS: Final = {  # name: offset and format of its first element, as in TensorMapArgument.encoded
    "global_address": (8, "Q"), "elemtype": (16, "B"), "rank": (17, "B"), "swizzle_mode": (18, "H"),
    "global_dim": (20, "I"), "global_stride": (40, "Q"), "box_dim": (72, "H"),
}  # fmt: skip


@opcode("tensormap", form="replace", whole=True)
def build_replace(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [p], 0, v`."""
    name = next((m for m in instruction.modifiers if m in FIELDS or m in IGNORED), None)
    if name is None:
        raise decoder.refused(instruction, "its field is not known")
    space, machine, line = space_of(instruction), decoder.machine, instruction.line
    place = decoder.address(instruction.operands[0], instruction)
    wide = "u64" if "b64" in instruction.modifiers and "b1024" in instruction.modifiers else "u32"
    values = [decoder.source(o, wide, instruction) for o in instruction.operands[1:]]

    def run(gang: Gang) -> None:
        if name in IGNORED:
            return
        offset, form = FIELDS[name]
        address = place(gang)
        for lane in gang.live():
            numbers = [int(v(gang)[lane if len(v(gang)) > 1 else 0]) for v in values]
            index, value = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, numbers[0])
            if name == "rank":
                value += 1
            elif name == "elemtype":
                value = TYPES.index(ELEMENTS[value])
            elif name == "swizzle_mode":
                value = SWIZZLE_BYTES[value]
            one = gang.of_lanes(np.arange(gang.lanes) == lane)
            for at, data in ((0, MAGIC), (offset + index * struct.calcsize(form), struct.pack("<" + form, value))):
                for i, byte in enumerate(data):  # fields of the form are not aligned
                    row = np.full((gang.lanes, 1), byte, np.uint8)
                    machine.store(one, space, address + (at + i), row, line)

    return run


@opcode("tensormap", form="cp_fenceproxy", whole=True)
def build_copy(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tensormap.cp_fenceproxy.global.shared::cta... [global], [shared], 128`: by the warp together."""
    to, source = (decoder.address(o, instruction) for o in instruction.operands[:2])
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        first = np.zeros(gang.lanes, np.bool_)
        live = gang.live()
        _, heads = np.unique(gang.lane_warp[live], return_index=True)
        first[live[heads]] = True
        one = gang.of_lanes(first)
        for at in range(0, MAP_BYTES, 16):
            machine.store(one, "global", to(gang) + at, machine.load(one, "shared", source(gang) + at, 16, line), line)
        machine.clocks.fence_proxy(gang.warps)

    return run
