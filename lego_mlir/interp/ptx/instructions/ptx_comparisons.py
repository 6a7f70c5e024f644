"""Comparisons and selections: setp, set, selp, slct. PTX ISA, "Comparison and Selection Instructions"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import OperandList, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS, FLOATS, NUMPY, PACKED

Compare = Callable[["Array", "Array"], "Array"]
ORDERED: Final[dict[str, Compare]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
COMBINE: Final[dict[str, Compare]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(name: str, type_: str) -> Compare | None:
    """The comparison of a modifier. `ne` of floats is false for NaN in PTX, `neu` true."""
    if type_ not in FLOATS:
        return ORDERED.get(name)
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if name == "ne":
        return lambda a, b: (a != b) & ~(np.isnan(a) | np.isnan(b))
    if name in ORDERED:
        return ORDERED[name]
    ordered = ORDERED.get(name[:-1]) if name.endswith("u") else None
    if ordered is None:
        return None
    return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)


@opcode("setp")
def build_setp(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`setp.lt.s32 p, a, b` and `setp.lt.and.s32 p|q, a, b, c`; q is the opposite of p, or of a pair's upper half."""
    type_ = decoder.type_of(instruction)
    compare = comparison(instruction.modifiers[0], type_)
    if compare is None:
        raise decoder.refused(instruction, f"the comparison .{instruction.modifiers[0]} is not known")
    result, a, b, *third = instruction.operands
    left, right = (decoder.source(o, type_, instruction) for o in (a, b))
    targets = result.items if isinstance(result, OperandList) else (result,)
    writes = [decoder.sink(t, instruction) for t in targets]
    combine = next((COMBINE[m] for m in instruction.modifiers if m in COMBINE), None)
    other = decoder.source(third[0], "pred", instruction) if third else None

    is_pair = not PACKED.keys().isdisjoint(instruction.modifiers)

    def run(gang: Gang) -> None:
        truth = compare(left(gang), right(gang))
        both = tuple(truth.reshape(-1, 2).T) if is_pair else (truth, ~truth)
        for write, value in zip(writes, both, strict=False):
            write(gang, value if combine is None or other is None else combine(value, other(gang)))

    return run


@opcode("set")
def build_set(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`set.lt.u32.s32 d, a, b`: all ones, or 1.0, where it holds."""
    types = [m for m in instruction.modifiers if m in NUMPY]
    compare = comparison(instruction.modifiers[0], types[-1])
    if compare is None or len(types) != 2 or len(instruction.operands) != 3:
        raise decoder.refused(instruction, "only the form set.CMP.TYPE.TYPE d, a, b is modelled")

    def compute(a: Array, b: Array) -> Array:
        truth = compare(a, b)
        return truth.astype(NUMPY[types[0]]) if types[0] in FLOATS else (-truth.astype(np.int64)).astype(np.int32)

    return decoder.computed(instruction, compute, types[1])


@opcode("selp", "slct")
def build_select(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`selp.b32 d, a, b, p`; `slct.f32.s32 d, a, b, c` chooses a where c >= 0."""
    types = [m for m in instruction.modifiers if m in NUMPY]
    sign, dtype = instruction.opcode == "slct", NUMPY[types[0]]
    bits = BITS[8 * dtype.itemsize] if dtype.kind != "b" else dtype

    def compute(yes: Array, no: Array, chosen: Array) -> Array:
        return np.where(chosen >= 0 if sign else chosen, yes.view(bits), no.view(bits))

    return decoder.computed(instruction, compute, types[0], types[0], types[1] if sign else "pred")
