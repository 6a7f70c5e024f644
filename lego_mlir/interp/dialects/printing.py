"""`gpu.printf`: the lines that threads print, statement by statement, block by block, thread by thread."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from lego_mlir.interp import values
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements

_CONVERSION: Final = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z)?([A-Za-z%])")
_PATTERNS: Final = "uxXo"  # conversions of the bits of an integer


@implements("gpu.printf")
def printf(op: Operation) -> Step:
    """Format the operands of every active lane as C does."""
    text, operands = str(op.attribute("format").value), op.operands
    kinds = [kind for _, kind in _CONVERSION.findall(text) if kind != "%"]
    if len(kinds) != len(operands) or set(kinds) - set("diuxXofFeEgGc"):
        op.fail(f"the text {text!r} does not fit {len(operands)} operands")
    shown = _CONVERSION.sub(lambda m: f"%{m[1]}{'d' if m[2] == 'u' else m[2]}", text)

    def step(m: Machine) -> None:
        lanes = m.lanes
        given = [
            _as_c(np.broadcast_to(m.values[slot], lanes), kind) for slot, kind in zip(operands, kinds, strict=True)
        ]
        active = np.ones(lanes, bool) if m.mask is None else np.broadcast_to(m.mask, lanes)
        for lane in zip(*active.nonzero(), strict=True):
            if not m.printed.add(shown % tuple(value[lane].item() for value in given)):
                break

    return step


def _as_c(value: values.Array, kind: str) -> values.Array:
    if kind in _PATTERNS and value.dtype.kind == "i":
        return values.unsigned(np.ascontiguousarray(value))
    return value.astype(np.float64) if values.is_float(value.dtype) else value
