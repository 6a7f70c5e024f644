"""The IR of a checked load or store: alignment, bounds, what nobody wrote, races; then the access itself.

The conditions are those of `ptx_machine`, `shared_shadow` and `global_shadow`, and leave out what those forgive, such
as two lanes that store one value: the interpreter then decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import space_of
from lego_mlir.interp.ptx.global_shadow import AGENT, BLOCK, CLOCK, LINE, SEVERAL
from lego_mlir.interp.ptx.ptx_program import (
    AddressOperand,
    OperandList,
    PtxInstruction,
    PtxOperand,
    PtxRegister,
    SymbolOperand,
)
from lego_mlir.interp.ptx.regions.llvm_ir import ir
from lego_mlir.interp.ptx.regions.region_code import (
    I1,
    I8,
    I32,
    I64,
    IrValue,
    NotInRegionError,
    RegionCode,
    ir_type,
    type_name,
)

WIDEST: Final = 16
VECTORS: Final = {"v2": 2, "v4": 4}


@dataclass(frozen=True, slots=True)
class _Access:
    """One instruction: `size` bytes a lane of `elements`, each of an LLVM type."""

    code: RegionCode
    instruction: PtxInstruction
    size: int

    @property
    def loads(self) -> bool:
        return self.instruction.opcode == "ld"

    @property
    def line(self) -> IrValue:
        return I32(self.instruction.line)


def emit_access(code: RegionCode, instruction: PtxInstruction) -> None:
    """`ld` or `st` of global and shared memory, and `ld.param`. Raises NotInRegionError for others."""
    loads = instruction.opcode == "ld"
    target, place = instruction.operands if loads else reversed(instruction.operands)
    if not isinstance(place, AddressOperand):
        raise NotInRegionError(str(place))
    space, name = space_of(instruction), type_name(instruction)
    item = ir.IntType(int(name[1:])) if name in ("f32", "f64") else ir_type(name)
    elements = target.items if isinstance(target, OperandList) else (target,)
    count = next((n for word, n in VECTORS.items() if word in instruction.modifiers), 1)
    if item == I1 or count != len(elements) or item.width // 8 * count > WIDEST:
        raise NotInRegionError(instruction.name)
    if space == "param" and loads:
        _load_parameter(code, place, item, elements, signed=name[0] == "s")
        return
    if space not in ("global", "shared"):
        raise NotInRegionError(space)
    access = _Access(code, instruction, item.width // 8 * count)
    b = code.b
    address = b.add(_base(code, place.base), I64(place.offset))
    code.require(b.icmp_unsigned("==", b.and_(address, I64(access.size - 1)), I64(0)))
    at = _global(access, address) if space == "global" else _shared(access, address)
    memory = code.table("arena" if space == "global" else "shared", I8, at)
    for number, element in enumerate(elements):
        word = b.bitcast(b.gep(memory, [I64(number * item.width // 8)]), item.as_pointer())
        if loads:
            value = b.load(word)
            if isinstance(element, PtxRegister):
                code.put(element, value, signed=name[0] == "s")
        elif not code.checking:
            b.store(code.get(element, item), word)


def _base(code: RegionCode, base: PtxOperand) -> IrValue:
    if isinstance(base, PtxRegister) and base.bits < 64:
        return code.b.zext(code.get(base, ir.IntType(base.bits)), I64)
    return code.get(base, I64)


def _load_parameter(
    code: RegionCode, place: AddressOperand, item: IrValue, elements: tuple[PtxOperand, ...], *, signed: bool
) -> None:
    if not isinstance(place.base, SymbolOperand) or code.addresses.get(place.base.name, ("", 0))[0] != "param":
        raise NotInRegionError(str(place))
    start = code.addresses[place.base.name][1] + place.base.offset + place.offset
    for number, element in enumerate(elements):
        at = I64(start + number * item.width // 8)
        code.put(
            element, code.b.load(code.b.bitcast(code.table("parameters", I8, at), item.as_pointer())), signed=signed
        )


@dataclass(frozen=True, slots=True)
class _Warp:
    """The accessing warp: its agent, its clock, and where its row of clocks begins."""

    code: RegionCode
    agent: IrValue
    clock: IrValue
    row: IrValue

    @classmethod
    def of(cls, code: RegionCode) -> _Warp:
        b = code.b
        agent = b.load(code.table("first_agent", I64, code.warp))
        row = b.mul(code.warp, code.fields["agents"])
        return cls(code, agent, b.load(code.table("known", I64, b.add(row, agent))), row)

    def knows(self, agent: IrValue) -> IrValue:
        """The latest clock of an agent that the warp knows of."""
        return self.code.b.load(self.code.table("known", I64, self.code.b.add(self.row, agent)))


# --- global memory ----------------------------------------------------------------------------------------------------


def _global(access: _Access, address: IrValue) -> IrValue:
    """The byte of the arena, once it is known to be inside a buffer, written, and free of races."""
    code, b = access.code, access.code.b
    at = b.sub(address, I64(spaces.GLOBAL_BASE))
    _require_inside(access, at)
    if access.loads:
        for word in range(max(access.size // 4, 1)):
            place = b.and_(b.add(at, I64(4 * word)), I64(~3 & (1 << 64) - 1))
            value = b.load(b.bitcast(code.table("arena", I8, place), I32.as_pointer()))
            code.require(b.icmp_unsigned("!=", value, I32(spaces.UNWRITTEN)))
    skip, check = (code.function.append_basic_block() for _ in range(2))
    b.cbranch(b.icmp_unsigned("!=", code.fields["shadowed"], I64(0)), check, skip)
    b.position_at_end(check)
    _check_granules(access, at)
    b.branch(skip)
    b.position_at_end(skip)
    return at


def _require_inside(access: _Access, at: IrValue) -> None:
    """Try the buffer of the last access, then all of them."""
    code, b = access.code, access.code.b

    def inside(number: IrValue) -> IrValue:
        low, high = b.load(code.table("starts", I64, number)), b.load(code.table("ends", I64, number))
        return b.and_(b.icmp_signed(">=", at, low), b.icmp_signed("<=", b.add(at, I64(access.size)), high))

    start, loop, test, more, good = (code.function.append_basic_block() for _ in range(5))
    b.cbranch(inside(b.load(code.last_buffer)), good, start)
    b.position_at_end(start)
    b.branch(loop)
    b.position_at_end(loop)
    number = b.phi(I64)
    number.add_incoming(I64(0), start)
    b.cbranch(b.icmp_signed("<", number, code.fields["buffers"]), test, code.bad)
    b.position_at_end(test)
    b.store(number, code.last_buffer)
    b.cbranch(inside(number), good, more)
    b.position_at_end(more)
    number.add_incoming(b.add(number, I64(1)), more)
    b.branch(loop)
    b.position_at_end(good)


def _check_granules(access: _Access, at: IrValue) -> None:
    """A loop over the granules of an access, whose size is known when the region runs."""
    code, b = access.code, access.code.b
    warp = _Warp.of(code)
    slot = b.load(code.table("slot_of_warp", I64, code.warp))
    block = b.add(b.load(code.table("block_numbers", I32, slot)), I32(1))
    granule = code.fields["granule"]
    first = b.udiv(at, granule)
    count = b.udiv(I64(access.size), granule)
    count = b.select(b.icmp_unsigned("==", count, I64(0)), I64(1), count)
    before = b.block
    head, body, done = (code.function.append_basic_block() for _ in range(3))
    b.branch(head)
    b.position_at_end(head)
    step = b.phi(I64)
    step.add_incoming(I64(0), before)
    b.cbranch(b.icmp_unsigned("<", step, count), body, done)
    b.position_at_end(body)
    _check_granule(access, warp, block, b.add(first, step))
    step.add_incoming(b.add(step, I64(1)), b.block)
    b.branch(head)
    b.position_at_end(done)


def _check_granule(access: _Access, warp: _Warp, block: IrValue, granule: IrValue) -> None:
    code, b = access.code, access.code.b

    def field(side: str, number: int) -> IrValue:
        return code.table(side, I32, b.add(granule, b.mul(code.fields["granules"], I64(number))))

    if access.loads or code.checking:
        for side in ("global_writes",) if access.loads else ("global_writes", "global_reads"):
            old, agent, clock = (b.load(field(side, n)) for n in (BLOCK, AGENT, CLOCK))
            known = warp.knows(b.sext(agent, I64))
            ordered = b.or_(
                b.icmp_signed("==", b.sext(agent, I64), warp.agent), b.icmp_signed("<=", b.sext(clock, I64), known)
            )
            mine = b.and_(b.icmp_signed("==", old, block), ordered)
            code.require(b.or_(b.icmp_signed("<=", old, I32(0)), mine))
    agent, clock = b.trunc(warp.agent, I32), b.trunc(warp.clock, I32)
    if not access.loads and code.checking:
        _require_unstamped(access, "global_stamp", granule)
        return
    side = "global_reads" if access.loads else "global_writes"
    owner = block
    if access.loads:
        old, other, line = (b.load(field(side, n)) for n in (BLOCK, AGENT, LINE))
        shared = b.and_(b.icmp_signed(">", old, I32(0)), b.icmp_signed("!=", old, block))
        shared = b.and_(shared, b.icmp_unsigned("!=", code.fields["several"], I64(0)))
        owner = b.select(shared, I32(int(SEVERAL)), owner)
        again = b.and_(b.icmp_signed("==", old, block), b.icmp_signed("!=", other, agent))
        again = b.and_(b.or_(again, b.icmp_signed("==", old, b.neg(block))), b.icmp_signed("==", line, access.line))
        again = b.and_(again, b.icmp_unsigned("!=", code.fields["replicated"], I64(0)))
        owner = b.select(again, b.neg(block), owner)
    for number, value in ((BLOCK, owner), (AGENT, agent), (CLOCK, clock), (LINE, access.line)):
        b.store(value, field(side, number))


def _require_unstamped(access: _Access, table: str, granule: IrValue) -> None:
    """No other lane stores there in this instruction."""
    code, b = access.code, access.code.b
    stamp = code.table(table, I32, granule)
    tick = b.trunc(b.add(code.fields["tick"], I64(code.instructions.index(access.instruction))), I32)
    code.require(b.icmp_signed("!=", b.load(stamp), tick))
    b.store(tick, stamp)


# --- shared memory ----------------------------------------------------------------------------------------------------


def _shared(access: _Access, address: IrValue) -> IrValue:
    """The byte of the shared arena, once it is known to be the block's, written, and free of races."""
    code, b = access.code, access.code.b
    code.require(b.icmp_signed(">=", address, I64(spaces.SHARED_BASE)))
    code.require(b.icmp_signed("<=", b.add(address, I64(access.size)), code.fields["shared_bytes"]))
    slot = b.load(code.table("slot_of_warp", I64, code.warp))
    at = b.add(b.mul(slot, code.fields["stride"]), address)
    warp = _Warp.of(code)
    flags = b.bitcast(code.table("initialised", I8, at), ir.IntType(8 * access.size).as_pointer())
    ones = ir.IntType(8 * access.size)(int.from_bytes(b"\1" * access.size, "little"))
    if access.loads:
        code.require(b.icmp_unsigned("==", b.load(flags), ones))
    elif not code.checking:
        b.store(ones, flags)
    for step in range(max(access.size // code.granule, 1)):
        _shared_granule(access, warp, b.add(b.udiv(at, I64(code.granule)), I64(step)))
    return at


def _shared_granule(access: _Access, warp: _Warp, granule: IrValue) -> None:
    code, b = access.code, access.code.b
    if access.loads or code.checking:
        writer = b.sext(b.load(code.table("writer", I32, granule)), I64)
        code.require(b.icmp_signed("<=", b.load(code.table("written", I64, granule)), warp.knows(writer)))
    first = b.mul(granule, code.fields["agents"])
    agent, clock = b.trunc(warp.agent, I32), b.trunc(warp.clock, I32)
    if access.loads:
        b.store(clock, code.table("reads", I32, b.add(first, warp.agent)))
        b.store(access.line, code.table("read_line", I32, granule))
    elif code.checking:
        _require_unstamped(access, "stamp", granule)
        _require_reads_known(access, warp, first)
    else:
        b.store(agent, code.table("writer", I32, granule))
        b.store(warp.clock, code.table("written", I64, granule))
        b.store(access.line, code.table("write_line", I32, granule))
        b.store(I8(0), code.table("atomic", I8, granule))


def _require_reads_known(access: _Access, warp: _Warp, first: IrValue) -> None:
    """Every agent's last read of a granule is known to the warp."""
    code, b = access.code, access.code.b
    before = b.block
    head, body, done = (code.function.append_basic_block() for _ in range(3))
    b.branch(head)
    b.position_at_end(head)
    agent, late = b.phi(I64), b.phi(I1)
    agent.add_incoming(I64(0), before)
    late.add_incoming(I1(0), before)
    b.cbranch(b.icmp_signed("<", agent, code.fields["agents"]), body, done)
    b.position_at_end(body)
    read = b.sext(b.load(code.table("reads", I32, b.add(first, agent))), I64)
    late.add_incoming(b.or_(late, b.icmp_signed(">", read, warp.knows(agent))), body)
    agent.add_incoming(b.add(agent, I64(1)), body)
    b.branch(head)
    b.position_at_end(done)
    code.require(b.not_(late))
