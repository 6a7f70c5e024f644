"""Origins of NaN and infinity: an instruction of floats with finite operands whose result is not.

What follows from such a value is no birth, and neither is a constant: the infinity of a mask or of a maximum's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.ptx_types import FLOATS, PACKED
from lego_mlir.interp.report import Kind

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.decoder import Decoder
    from lego_mlir.interp.ptx.gangs import Gang
    from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
    from lego_mlir.interp.ptx.ptx_program import PtxInstruction

ARITHMETIC: Final = frozenset(
    {"add", "sub", "mul", "div", "fma", "mad", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh"}
)


def with_births(decoder: Decoder, instruction: PtxInstruction, step: Step) -> Step:
    """The step, which also reports results that are not finite; any other instruction as it is."""
    types = [m for m in instruction.modifiers if m in FLOATS or m in PACKED]
    if instruction.opcode not in ARITHMETIC or not types or PACKED.get(types[-1], types[-1]) not in FLOATS:
        return step
    type_, line, machine = types[-1], instruction.line, decoder.machine
    result, *operands = (decoder.source(o, type_, instruction) for o in instruction.operands)

    def finite(values: Array, lanes: int) -> Array:
        good = np.isfinite(values.astype(np.float64))
        rows = good.reshape(-1, 2).all(axis=1) if type_ in PACKED else good
        return np.broadcast_to(rows, (lanes,))

    def run(gang: Gang) -> Outcome:
        lanes = gang.lanes
        born = gang.mask().copy()
        for operand in operands:
            born &= finite(operand(gang), lanes)
        outcome = step(gang)
        values = result(gang)
        born &= ~finite(values, lanes)
        if born.any():
            lane = int(np.argmax(born))
            element = values.reshape(lanes, -1)[lane].astype(np.float64)
            message = f"{instruction.name} of finite numbers gives {', '.join(map(str, element))}"
            machine.fault(Kind.NONFINITE, message, gang, lane, line, count=int(born.sum()))
        return outcome

    return run
