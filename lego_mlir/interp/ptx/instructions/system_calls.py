"""Calls of what the system defines: vprintf, __assertfail, malloc, free.

CUDA C++ Programming Guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation and Operations".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import EXIT, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import OperandList, PtxInstruction, SymbolOperand
from lego_mlir.interp.report import Kind

_CONVERSION: Final = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
LONG: Final = ("l", "ll", "j", "z", "t")
LONGEST_STRING: Final = 4096


class _SystemCall:
    """A call's arguments and result, in the caller's local memory."""

    def __init__(self, decoder: Decoder, instruction: PtxInstruction) -> None:
        lists = [o.items for o in instruction.operands if isinstance(o, OperandList)]
        self.target = next(o.name for o in instruction.operands if isinstance(o, SymbolOperand))
        result = lists.pop(0) if isinstance(instruction.operands[0], OperandList) else ()
        self.arguments = [decoder.addresses[str(o)][1] for o in (lists[0] if lists else ())]
        self.result = decoder.addresses[str(result[0])][1] if result else None
        self.machine, self.line = decoder.machine, instruction.line

    def argument(self, gang: Gang, number: int, dtype: str) -> Array:
        """An argument of each lane."""
        address = np.full(gang.lanes, self.arguments[number], np.int64)
        size = np.dtype(dtype).itemsize
        return self.machine.load(gang, "local", address, size, self.line).view(dtype)[:, 0]

    def answer(self, gang: Gang, values: Array) -> None:
        """Store a result for each lane, if the call has one."""
        if self.result is not None:
            address = np.full(gang.lanes, self.result, np.int64)
            self.machine.store(gang, "local", address, values[:, None].view(np.uint8), self.line)


@opcode("call", whole=True)
def build_call(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`call.uni (retval0), vprintf, (param0, param1)`."""
    call = _SystemCall(decoder, instruction)
    run = _CALLS.get(call.target)
    if run is None:
        raise decoder.refused(instruction, f"{call.target} is not modelled")
    return lambda gang: run(call, gang)


def _assert_fail(call: _SystemCall, gang: Gang) -> Outcome:
    machine, lane = call.machine, int(gang.live()[0])
    text, file, function = (string(machine, int(call.argument(gang, i, "u8")[lane])) for i in (0, 1, 3))
    number = int(call.argument(gang, 2, "u4")[lane])
    message = f"assertion `{text}` failed at {file}:{number} in {function}"
    machine.fault(Kind.ASSERTION, message, gang, lane, call.line, count=gang.count())
    machine.stopped = True
    return EXIT


def _print(call: _SystemCall, gang: Gang) -> None:
    machine = call.machine
    formats, buffers = call.argument(gang, 0, "u8"), call.argument(gang, 1, "u8")
    for lane in map(int, gang.live()):
        text = string(machine, int(formats[lane]))
        machine.faults.printed.append(_Arguments(machine, gang, lane, int(buffers[lane])).formatted(text))
    call.answer(gang, np.zeros(gang.lanes, np.uint32))


def _malloc(call: _SystemCall, gang: Gang) -> None:
    heap = call.machine.globals.heap
    assert heap is not None
    sizes, found = call.argument(gang, 0, "u8"), np.zeros(gang.lanes, np.uint64)
    for lane in map(int, gang.live()):
        found[lane] = heap.malloc(int(sizes[lane]), call.line)
    call.answer(gang, found)


def _free(call: _SystemCall, gang: Gang) -> None:
    heap, addresses = call.machine.globals.heap, call.argument(gang, 0, "u8")
    for lane in map(int, gang.live()):
        wrong = "free of memory that malloc did not give"
        if heap is not None:
            wrong = heap.free(int(addresses[lane]), call.line)
        if wrong:
            call.machine.fault(Kind.OUT_OF_BOUNDS, wrong, gang, lane, call.line)


_CALLS: Final[dict[str, Callable[[_SystemCall, Gang], Outcome]]] = {
    "__assertfail": _assert_fail,
    "vprintf": _print,
    "malloc": _malloc,
    "free": _free,
}


def _bytes(machine: PtxMachine, gang: Gang | None, lane: int, address: int, size: int) -> bytes:
    if address & spaces.LOCAL_WINDOW and gang is not None:
        stride = spaces.rounded(machine.shape.local_bytes, 16)
        thread = int(gang.lane_warp[lane]) * 32 + lane % 32
        start = thread * stride + (address - spaces.LOCAL_WINDOW)
        return machine.local[start : start + size].tobytes()
    start = address - spaces.GLOBAL_BASE
    return machine.globals.arena[start : start + size].tobytes()


def string(machine: PtxMachine, address: int) -> str:
    """A C string in global memory."""
    if not address:
        return "(null)"
    return _bytes(machine, None, 0, address, LONGEST_STRING).split(b"\0")[0].decode(errors="replace")


class _Arguments:
    """A lane's packed arguments of printf, taken one after the other."""

    def __init__(self, machine: PtxMachine, gang: Gang, lane: int, buffer: int) -> None:
        self.machine, self.gang, self.lane, self.at = machine, gang, lane, buffer

    def _take(self, code: str) -> int | float:
        size = struct.calcsize(code)
        self.at = spaces.rounded(self.at, size)
        found: int | float = struct.unpack("<" + code, _bytes(self.machine, self.gang, self.lane, self.at, size))[0]
        self.at += size
        return found

    def formatted(self, text: str) -> str:
        """The text that printf makes of a format."""
        return _CONVERSION.sub(self._one, text)

    def _one(self, found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        width = str(self._take("i")) if width == "*" else width or ""
        precision = str(self._take("i")) if precision == "*" else precision
        spec = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        wide = length in LONG
        match kind:
            case "d" | "i":
                return (spec + "d") % self._take("q" if wide else "i")
            case "o" | "u" | "x" | "X" | "c":
                return (spec + ("d" if kind == "u" else kind)) % self._take("Q" if wide else "I")
            case "s":
                return (spec + "s") % string(self.machine, int(self._take("Q")))
            case "p":
                return hex(int(self._take("Q")))
            case _:
                return (spec + kind.replace("a", "e").replace("A", "E")) % self._take("d")
