"""atom and red: lanes update one after the other, in order of lane. PTX ISA, "atom", "red".

Updates of one address by several lanes are performed in rounds, so that each lane gets the value before its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, opcode, space_of
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.float_arithmetic import is_bf16
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_reader import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS, NUMPY, PACKED

if TYPE_CHECKING:
    from lego_mlir.aliases import Array

UPDATES: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": lambda old, top: np.where(old >= top, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - old.dtype.type(1)),
}


@opcode("atom", "red")
def build_atom(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`atom.global.add.u32 d, [p], a`, `atom.cas`, `red.add`."""
    if "async" in instruction.modifiers:
        raise decoder.refused(instruction, "red.async is not modelled")
    type_ = decoder.type_of(instruction)
    operation = next((m for m in instruction.modifiers if m in UPDATES or m == "cas"), None)
    if operation is None:
        raise decoder.refused(instruction, "its operation is not known")
    packed = type_ in PACKED
    dtype = NUMPY[PACKED.get(type_, type_)]
    words = 8 * dtype.itemsize * (2 if packed else 1)
    vector = next((n for name, n in (("v2", 2), ("v4", 4), ("v8", 8)) if name in instruction.modifiers), 1)
    operands = list(instruction.operands)
    result = operands.pop(0) if instruction.opcode == "atom" else None
    if vector > 1:
        raise decoder.refused(instruction, "vectors of atomic updates are not modelled")
    place = decoder.address(operands[0], instruction)
    values = [decoder.source(o, f"b{words}", instruction) for o in operands[1:]]
    write = decoder.sink(result, instruction) if result is not None else None
    space, line, machine = space_of(instruction), instruction.line, decoder.machine

    def update(old: Array, given: list[Array]) -> Array:
        if operation == "cas":
            return np.where(old == given[0], given[1], old)
        x, y = old.view(dtype), given[0].view(dtype)
        if is_bf16(dtype):
            return UPDATES[operation](x.astype(np.float32), y.astype(np.float32)).astype(dtype).view(old.dtype)
        return UPDATES[operation](x, y).view(old.dtype)

    def run(gang: Gang) -> Outcome:
        given = [np.broadcast_to(v(gang), (gang.lanes,)) for v in values]
        out = np.zeros(gang.lanes, BITS[words])
        for found in machine.locate(gang, space, place(gang), words // 8, line):
            if not len(found.lanes):
                continue
            if found.space == "shared":
                machine.check_shared_read(gang, found, words // 8, line, atomic=True)
                machine.check_shared_write(gang, found, words // 8, line, atomic=True)
            _rounds(found, given, out, update)
        if write is not None:
            write(gang, out)
        return None

    return run


def _rounds(
    place: spaces.Located, given: list[Array], out: Array, update: Callable[[Array, list[Array]], Array]
) -> None:
    """Each round updates every address once, with the first of its lanes that are left."""
    arena = place.arena.view(out.dtype)
    left = np.arange(len(place.lanes))
    while len(left):
        at = place.at[left] // out.dtype.itemsize
        _, first = np.unique(at, return_index=True)
        chosen = left[first]
        lanes, where = place.lanes[chosen], at[first]
        old = arena[where]
        out[lanes] = old
        arena[where] = update(old, [np.ascontiguousarray(v[lanes]) for v in given])
        left = np.delete(left, first)
