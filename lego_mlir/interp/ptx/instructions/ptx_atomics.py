"""atom and red: lanes update one after the other, in order of lane. PTX ISA, "atom", "red".

Updates of one address by several lanes are performed in rounds, so that each lane gets the value before its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, Sink, opcode, space_of
from lego_mlir.interp.ptx.device_order import semantics
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.float_arithmetic import is_bf16
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS, NUMPY, PACKED

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
    place = decoder.address(operands[0], instruction)
    wanted = [decoder.items(o) for o in operands[1:]]
    parts = [[decoder.source(w[i], f"b{words}", instruction) for w in wanted] for i in range(vector)]
    writes: list[Sink | None] = [None] * vector
    if result is not None:
        writes = [decoder.sink(r, instruction) for r in decoder.items(result)]
    space, line, machine = space_of(instruction), instruction.line, decoder.machine
    size, how, of_device = words // 8, semantics(instruction), "cta" not in instruction.modifiers

    def update(old: Array, given: list[Array]) -> Array:
        if operation == "cas":
            return np.where(old == given[0], given[1], old)
        x, y = old.view(dtype), given[0].view(dtype)
        if is_bf16(dtype):
            return UPDATES[operation](x.astype(np.float32), y.astype(np.float32)).astype(dtype).view(old.dtype)
        return UPDATES[operation](x, y).view(old.dtype)

    def run(gang: Gang) -> None:
        for i, (values, write) in enumerate(zip(parts, writes, strict=True)):
            given = [np.broadcast_to(v(gang), (gang.lanes,)) for v in values]
            old = np.zeros(gang.lanes, BITS[words])
            for found in machine.locate(gang, space, place(gang) + i * size, size, line):
                if len(found.lanes):
                    check(gang, found)
                    machine.changes += _rounds(found, given, old, update)
            if write is not None:
                write(gang, old)

    def check(gang: Gang, found: spaces.Located) -> None:
        order = machine.globals.order
        if found.space == "shared":
            machine.check_shared_read(gang, found, size, line, atomic=True)
            machine.check_shared_write(gang, found, size, line, atomic=True)
        elif found.space == "global":
            if order is not None and of_device:
                accesses = zip(gang.lane_warp[found.lanes].tolist(), (found.at // 4).tolist(), strict=True)
                order.strong(machine, dict.fromkeys(accesses), how, reads=True, writes=True)
            # With unordered writes only: a loop of compare and swap begins with a plain read, in the CUDA guide too.
            machine.check_global(gang, found, size, line, written=False, strong=True, what="update")

    return run


def _rounds(
    place: spaces.Located, given: list[Array], out: Array, update: Callable[[Array, list[Array]], Array]
) -> bool:
    """Each round updates every address once, with the first of its lanes that are left; whether a value changed."""
    changed = False
    arena = place.arena.view(out.dtype)
    left = np.arange(len(place.lanes))
    while len(left):
        at = place.at[left] // out.dtype.itemsize
        _, first = np.unique(at, return_index=True)
        chosen = left[first]
        lanes, where = place.lanes[chosen], at[first]
        old = arena[where]
        out[lanes] = old
        new = update(old, [np.ascontiguousarray(v[lanes]) for v in given])
        changed = changed or not np.array_equal(old, new)
        arena[where] = new
        left = np.delete(left, first)
    return changed
