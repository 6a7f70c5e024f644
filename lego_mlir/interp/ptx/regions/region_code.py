"""The LLVM IR of a region: one function that loops over the lanes of a gang.

    i32 region(i64 lanes, i8* active or null, i64* registers, i64* context, i64* warp of each lane)

`registers` has addresses of arrays, one element a lane: those that the region reads, then those that it sets. The
result is 0, or 1 where a check failed. A region that stores has a second function, which only checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lego_mlir.interp.ptx.ptx_program import (
    Immediate,
    OperandList,
    PtxInstruction,
    PtxOperand,
    PtxRegister,
    SpecialRegister,
    SymbolOperand,
)
from lego_mlir.interp.ptx.ptx_types import TYPE_NAMES
from lego_mlir.interp.ptx.regions.llvm_ir import ir

IrValue = Any
"""A value or type of llvmlite, which has no types."""
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
POINTER: Final = I8.as_pointer()
FIELDS: Final = (
    "arena", "starts", "ends", "buffers", "shared", "stride", "shared_bytes", "writer", "written", "reads", "agents",
    "read_line", "initialised", "known", "first_agent", "slot_of_warp", "block_numbers", "global_writes",
    "global_reads", "granules", "write_line", "atomic", "stamp", "global_stamp", "tick", "shadowed", "parameters",
    "replicated", "several", "granule",
)  # fmt: skip
"""The 64-bit words of the context: addresses of tables, and numbers."""
FIRST_RESULT: Final = 512
"""The index of the first register that is set; those that are read come before."""
PLAIN: Final = frozenset({"pred", "f32", "f64", *(f"{kind}{n}" for kind in "bus" for n in (8, 16, 32, 64))})
NEVER: Final = frozenset({"sat", "cc", "rm", "rp", "rz", "volatile", "acquire", "release", "relaxed", "mmio"})
TINY: Final = 2.0**-126
Addresses = Mapping[str, tuple[str, int]]


class NotInRegionError(Exception):
    """An instruction, or a form of one, that a region does not hold."""


def ir_type(name: str) -> IrValue:
    """The LLVM type of a PTX type. Raises NotInRegionError for halves and pairs."""
    if name not in PLAIN:
        raise NotInRegionError(name)
    return {"f32": F32, "f64": F64, "pred": I1}.get(name) or ir.IntType(int(name[1:]))


def type_name(instruction: PtxInstruction) -> str:
    """The instruction's type. Raises NotInRegionError for one without."""
    found = next((m for m in reversed(instruction.modifiers) if m in TYPE_NAMES), None)
    if found is None:
        raise NotInRegionError(instruction.opcode)
    return found


class RegionCode:
    """Emits the functions of a region; `reads` and `results` say which registers its arrays are.

    `emit` adds one instruction: that of `region_operations`.
    """

    def __init__(
        self, instructions: Sequence[PtxInstruction], addresses: Addresses, granule: int, name: str,
        emit: Callable[[RegionCode, PtxInstruction], None],
    ) -> None:  # fmt: skip
        self.instructions, self.addresses, self.granule, self.name = instructions, addresses, granule, name
        self.emit = emit
        self.reads: dict[tuple[str, int | str, int], int] = {}
        self.results: dict[int, int] = {}
        self.stores = any(i.opcode == "st" for i in instructions)
        self.values: dict[int, tuple[IrValue, int]] = {}

    def build(self, module: IrValue) -> None:
        """Add the functions to a module. Raises NotInRegionError."""
        for checking in (True, False) if self.stores else (False,):
            self._function(module, checking)

    def _function(self, module: IrValue, checking: bool) -> None:
        pointer = I64.as_pointer()
        kind = ir.FunctionType(I32, [I64, POINTER, pointer, pointer, pointer])
        function = ir.Function(module, kind, self.name + ("_check" if checking else ""))
        lanes, mask, self.registers, context, lane_warp = function.args
        entry, loop, body, masked, live, following, done, self.bad = (
            function.append_basic_block(n) for n in ("entry", "loop", "body", "masked", "live", "next", "done", "bad")
        )
        b = self.b = ir.IRBuilder(entry)
        self.function, self.checking, self.values = function, checking, {}
        self.fields = {name: b.load(b.gep(context, [I64(i)])) for i, name in enumerate(FIELDS)}
        self.last_buffer = b.alloca(I64)
        b.store(I64(0), self.last_buffer)
        b.branch(loop)
        b.position_at_end(loop)
        self.lane = b.phi(I64)
        self.lane.add_incoming(I64(0), entry)
        b.cbranch(b.icmp_unsigned("<", self.lane, lanes), body, done)
        b.position_at_end(body)
        b.cbranch(b.icmp_unsigned("!=", b.ptrtoint(mask, I64), I64(0)), masked, live)
        b.position_at_end(masked)
        b.cbranch(b.icmp_unsigned("!=", b.load(b.gep(mask, [self.lane])), I8(0)), live, following)
        b.position_at_end(live)
        self.warp = b.load(b.gep(lane_warp, [self.lane]))
        for instruction in self.instructions:
            self._guarded(instruction)
        if not checking:
            self._write_results()
        b.branch(following)
        b.position_at_end(following)
        self.lane.add_incoming(b.add(self.lane, I64(1)), following)
        b.branch(loop)
        b.position_at_end(done)
        b.ret(I32(0))
        b.position_at_end(self.bad)
        b.ret(I32(1))

    # --- registers ------------------------------------------------------------------------------------------------

    def _element(self, number: int, bits: int) -> IrValue:
        """The address of this lane's element of an array."""
        base = self.b.load(self.b.gep(self.registers, [I64(number)]))
        kind = ir.IntType(8 if bits == 1 else bits)
        return self.b.gep(self.b.inttoptr(base, kind.as_pointer()), [self.lane])

    def _read(self, key: tuple[str, int | str, int]) -> IrValue:
        number = self.reads.setdefault(key, len(self.reads))
        if number >= FIRST_RESULT:
            raise NotInRegionError("too many registers")
        raw = self.b.load(self._element(number, key[2]))
        return self.b.trunc(raw, I1) if key[2] == 1 else raw

    def _register(self, register: PtxRegister) -> IrValue:
        if register.slot not in self.values:
            self.values[register.slot] = self._read(("register", register.slot, register.bits)), register.bits
        value = self.values[register.slot][0]
        return self.b.not_(value) if register.negated else value

    def _write_results(self) -> None:
        changed = {register.slot for instruction in self.instructions for register in _targets(instruction)}
        for slot, (value, bits) in self.values.items():
            if slot not in changed:
                continue
            number = FIRST_RESULT + self.results.setdefault(slot, len(self.results))
            self.b.store(self.b.zext(value, I8) if bits == 1 else value, self._element(number, bits))

    def get(self, operand: PtxOperand, kind: IrValue) -> IrValue:
        """An operand as a value of a type. Raises NotInRegionError."""
        b = self.b
        match operand:
            case PtxRegister():
                value = self._register(operand)
            case Immediate():
                value = _constant(operand, kind)
            case SpecialRegister(name=name):
                value = self._read(("special", name, 32))
            case SymbolOperand(name=name, offset=offset):
                space, address = self.addresses.get(name, ("", 0))
                if space not in ("global", "const", "shared"):
                    raise NotInRegionError(name)
                value = I64(address + offset)
            case _:
                raise NotInRegionError(str(operand))
        if value.type == kind:
            return value
        if isinstance(kind, ir.IntType):
            return b.trunc(value, kind) if value.type.width > kind.width else b.zext(value, kind)
        if value.type.width != (32 if kind == F32 else 64):
            raise NotInRegionError("a float of another width")
        return b.bitcast(value, kind)

    def put(self, operand: PtxOperand, value: IrValue, *, signed: bool = False) -> None:
        """Set a register, extended or cut to its width."""
        if not isinstance(operand, PtxRegister):
            raise NotInRegionError("a result that is no register")
        b, bits = self.b, operand.bits
        if value.type in (F32, F64):
            value = b.bitcast(value, I32 if value.type == F32 else I64)
        if value.type.width < bits:
            value = (b.sext if signed else b.zext)(value, ir.IntType(bits))
        elif value.type.width > bits:
            value = b.trunc(value, ir.IntType(bits))
        self.values[operand.slot] = value, bits

    # --- instructions ---------------------------------------------------------------------------------------------

    def _guarded(self, instruction: PtxInstruction) -> None:
        """An instruction; under a guard, its results are chosen after it."""
        if instruction.guard is None:
            self._emit(instruction)
            return
        b, condition = self.b, self._register(instruction.guard)
        for register in (*_targets(instruction), *_sources(instruction)):
            self._register(register)
        before, start = dict(self.values), b.block
        taken, after = self.function.append_basic_block(), self.function.append_basic_block()
        b.cbranch(condition, taken, after)
        b.position_at_end(taken)
        self._emit(instruction)
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        for register in _targets(instruction):
            (new, bits), (old, _) = self.values[register.slot], before[register.slot]
            phi = b.phi(new.type)
            phi.add_incoming(new, end)
            phi.add_incoming(old, start)
            self.values[register.slot] = phi, bits
        for slot in set(self.values) - set(before):
            del self.values[slot]

    def _emit(self, instruction: PtxInstruction) -> None:
        modifiers = set(instruction.modifiers)
        if modifiers & NEVER:
            raise NotInRegionError(instruction.name)
        self.emit(self, instruction)

    def flushed(self, value: IrValue) -> IrValue:
        """`.ftz` of an f32: zero of the same sign for a subnormal."""
        b = self.b
        bits = b.bitcast(value, I32)
        size = b.bitcast(b.and_(bits, I32(0x7FFFFFFF)), F32)
        zero = b.bitcast(b.and_(bits, I32(0x80000000)), F32)
        return b.select(b.fcmp_ordered("<", size, F32(TINY)), zero, value)

    def require(self, good: IrValue) -> None:
        """Leave the function where a condition does not hold."""
        following = self.function.append_basic_block()
        self.b.cbranch(good, following, self.bad).set_weights([1000, 1])
        self.b.position_at_end(following)

    def table(self, name: str, kind: IrValue, at: IrValue) -> IrValue:
        """The address of an element of one of the context's tables."""
        return self.b.gep(self.b.inttoptr(self.fields[name], kind.as_pointer()), [at])


def _targets(instruction: PtxInstruction) -> list[PtxRegister]:
    if instruction.opcode == "st" or not instruction.operands:
        return []
    first = instruction.operands[0]
    items = first.items if isinstance(first, OperandList) else (first,)
    return [item for item in items if isinstance(item, PtxRegister)]


def _sources(instruction: PtxInstruction) -> list[PtxRegister]:
    found: list[PtxRegister] = []
    waiting: list[PtxOperand] = list(instruction.operands)
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, PtxRegister):
            found.append(operand)
        elif isinstance(operand, OperandList):
            waiting += operand.items
        elif hasattr(operand, "base"):
            waiting.append(operand.base)
    return found


def _constant(operand: Immediate, kind: IrValue) -> IrValue:
    text = operand.text.lower()
    if text[:2] in ("0f", "0d"):
        return ir.IntType(4 * len(text[2:]))(int(text[2:], 16))
    if isinstance(operand.value, float):
        raise NotInRegionError("a float in decimals")
    width = kind.width if isinstance(kind, ir.IntType) else 32 if kind == F32 else 64
    return ir.IntType(width)(int(operand.value) & ((1 << width) - 1))
