"""tex, suld and sust: reads of textures, and accesses of surfaces by byte and row. PTX ISA, "Texture Instructions".

Handles are those that the launch gave to its `TextureArgument`s. Each element is read from global memory, so that what
a kernel writes there at the same time is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import AddressOperand, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY, TYPE_NAMES
from lego_mlir.interp.ptx.texture_memory import PlacedTexture
from lego_mlir.interp.report import Kind

GEOMETRIES: Final = {"1d": (1, False), "2d": (2, False), "3d": (3, False), "a1d": (1, True), "a2d": (2, True)}
"""Dimensions of a geometry, and whether the first coordinate is a layer."""
VECTORS: Final = {"v2": 2, "v4": 4}
Coordinates = Callable[[Gang], list[Array]]


def _geometry(decoder: Decoder, instruction: PtxInstruction) -> tuple[int, bool]:
    found = next((GEOMETRIES[m] for m in instruction.modifiers if m in GEOMETRIES), None)
    if found is None or {"level", "grad", "tex", "unified"} & set(instruction.modifiers):
        raise decoder.refused(instruction, f"this geometry or mipmap mode; modelled are {', '.join(GEOMETRIES)}")
    return found


def _coordinates(decoder: Decoder, instruction: PtxInstruction, place: AddressOperand, type_: str) -> Coordinates:
    """x, y, z and the layer, in the order of `extents`."""
    dimensions, layered = _geometry(decoder, instruction)
    assert place.coordinates is not None
    items = place.coordinates.items
    layer = [decoder.source(items[0], "u32", instruction)] if layered else []
    spatial = [decoder.source(item, type_, instruction) for item in items[layered : layered + dimensions]]

    def read(gang: Gang) -> list[Array]:
        return [np.broadcast_to(source(gang), (gang.lanes,)) for source in (*spatial, *layer)]

    return read


def _textures(machine: PtxMachine, gang: Gang, handles: Array, line: int) -> Iterator[tuple[Array, PlacedTexture]]:
    """The textures of the active lanes, each with a mask of its lanes; a handle of none is a fault."""
    handles = np.broadcast_to(handles, (gang.lanes,))
    for handle in np.unique(handles[gang.live()]):
        lanes = (handles == handle) & gang.mask()
        placed = machine.globals.textures.get(int(handle))
        if placed is None:
            message = f"{int(handle):#x} is no texture or surface; pass a TextureArgument"
            machine.fault(Kind.OUT_OF_BOUNDS, message, gang, int(np.flatnonzero(lanes)[0]), line)
        else:
            yield lanes, placed


@opcode("tex")
def build_tex(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tex.2d.v4.f32.f32 {r, g, b, a}, [texture, {x, y}]`."""
    place = instruction.operands[1]
    types = [m for m in instruction.modifiers if m in TYPE_NAMES]
    if not isinstance(place, AddressOperand) or place.coordinates is None or len(types) != 2:
        raise decoder.refused(instruction, "a texture with its coordinates in braces")
    read = _coordinates(decoder, instruction, place, types[1])
    handle = decoder.source(place.base, "u64", instruction)
    writes = [decoder.sink(item, instruction) for item in decoder.items(instruction.operands[0])]
    kind, line, machine = NUMPY[types[0]], instruction.line, decoder.machine

    def run(gang: Gang) -> None:
        coordinates, out = read(gang), np.zeros((4, gang.lanes), kind)
        for lanes, placed in _textures(machine, gang, handle(gang), line):
            part, texture = gang.of_lanes(lanes), placed.texture
            total: Array = np.zeros((gang.lanes, texture.channels), np.float64)
            for corner in placed.corners(coordinates):
                raw = machine.load(part, "global", corner.address, texture.texel, line)
                value = np.where(corner.inside[:, None], placed.values(raw), 0)
                total = total + value * corner.weight[:, None] if texture.filter == "linear" else value
            for channel in range(texture.channels):
                out[channel, lanes] = total[lanes, channel].astype(kind)
        for row, write in zip(out, writes, strict=False):
            write(gang, row.view(f"u{kind.itemsize}"))

    return run


def _surface(
    decoder: Decoder, instruction: PtxInstruction, place: object
) -> tuple[Callable[[Gang], Iterator[tuple[Gang, Array, IntArray]]], int, int]:
    """For each surface of a gang: its lanes, which are inside, and their addresses; elements and their bytes."""
    if not isinstance(place, AddressOperand) or place.coordinates is None or "b" not in instruction.modifiers:
        raise decoder.refused(instruction, "sust.p, and a surface without coordinates")
    count = next((n for name, n in VECTORS.items() if name in instruction.modifiers), 1)
    item = NUMPY[decoder.type_of(instruction)].itemsize
    read = _coordinates(decoder, instruction, place, "s32")
    handle = decoder.source(place.base, "u64", instruction)
    line, machine = instruction.line, decoder.machine
    mode = next((m for m in ("trap", "clamp", "zero") if m in instruction.modifiers), "trap")

    def parts(gang: Gang) -> Iterator[tuple[Gang, Array, IntArray]]:
        coordinates = [c.astype(np.int64) for c in read(gang)]
        for lanes, placed in _textures(machine, gang, handle(gang), line):
            width, *others = placed.texture.extents
            extents = (width * placed.texture.texel // (count * item), *others)
            indices = [coordinates[0] // (count * item), *coordinates[1:]]
            inside = np.logical_and.reduce([(i >= 0) & (i < n) for i, n in zip(indices, extents, strict=True)])
            outside = lanes & ~inside
            if mode == "trap" and outside.any():
                lane = int(np.flatnonzero(outside)[0])
                at = ", ".join(str(int(c[lane])) for c in coordinates)
                message = f"({at}) is outside of a surface of {placed.texture.extents} elements; x is in bytes"
                machine.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line, count=int(outside.sum()))
            if mode == "clamp":
                indices = [np.clip(i, 0, n - 1) for i, n in zip(indices, extents, strict=True)]
                inside = np.ones_like(inside)
            element = np.zeros(gang.lanes, np.int64)
            for axis, index in enumerate(indices):
                element += index * prod(extents[:axis])
            yield gang.of_lanes(lanes & inside), lanes & inside, placed.address + element * (count * item)

    return parts, count, item


@opcode("suld")
def build_suld(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`suld.b.2d.b32.trap {value}, [surface, {x in bytes, y}]`."""
    parts, count, item = _surface(decoder, instruction, instruction.operands[1])
    writes = [decoder.sink(o, instruction) for o in decoder.items(instruction.operands[0])]
    line, machine = instruction.line, decoder.machine

    def run(gang: Gang) -> None:
        out = np.zeros((gang.lanes, count), f"u{item}")
        for part, inside, address in parts(gang):
            if inside.any():
                raw = machine.load(part, "global", address, count * item, line)
                out[inside] = raw.view(out.dtype)[inside]
        for column, write in enumerate(writes):
            write(gang, np.ascontiguousarray(out[:, column]))

    return run


@opcode("sust")
def build_sust(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`sust.b.2d.b32.trap [surface, {x in bytes, y}], {value}`."""
    parts, count, item = _surface(decoder, instruction, instruction.operands[0])
    values = [decoder.source(o, f"b{8 * item}", instruction) for o in decoder.items(instruction.operands[1])]
    line, machine = instruction.line, decoder.machine

    def run(gang: Gang) -> None:
        data = np.empty((gang.lanes, count), f"u{item}")
        for column, read in enumerate(values):
            data[:, column] = read(gang)
        for part, inside, address in parts(gang):
            if inside.any():
                machine.store(part, "global", address, data.view(np.uint8), line)

    return run
