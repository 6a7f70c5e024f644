"""Opcodes in a region: the IR of arithmetic, bit operations, comparisons and conversions.

Each is equal to the interpreter's bit by bit: `div`, `sqrt` and `rcp` in their correctly rounded forms only, and
conversions that no NaN or overflow can enter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lego_mlir.interp.ptx.ptx_program import Immediate, OperandList, PtxInstruction, PtxRegister
from lego_mlir.interp.ptx.ptx_types import TYPE_NAMES
from lego_mlir.interp.ptx.regions.llvm_ir import ir
from lego_mlir.interp.ptx.regions.region_checks import emit_access
from lego_mlir.interp.ptx.regions.region_code import (
    F32,
    F64,
    I1,
    I32,
    I64,
    IrValue,
    NotInRegionError,
    RegionCode,
    ir_type,
    type_name,
)

BITWISE: Final = {"and": "and_", "or": "or_", "xor": "xor"}
INTEGER: Final = {"add": "add", "sub": "sub", **BITWISE}
COMPARISONS: Final = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
Emitter = Callable[[RegionCode, PtxInstruction, str], None]
EXACT: Final = {"rn"}
"""Modifiers of float functions that a region holds, with the type."""


def _intrinsic(code: RegionCode, name: str, kind: IrValue, *values: IrValue) -> IrValue:
    types = [value.type for value in values]
    function = code.function.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, types))
    return code.b.call(function, values)


def high_product(code: RegionCode, instruction: PtxInstruction, name: str) -> IrValue:
    """`mul.hi`, `mad.hi`: the upper half of the whole product, and a sum."""
    b, kind, signed = code.b, ir_type(name), name[0] == "s"
    wide = ir.IntType(2 * kind.width)
    x, y = ((b.sext if signed else b.zext)(code.get(o, kind), wide) for o in instruction.operands[1:3])
    high = b.trunc(b.lshr(b.mul(x, y), wide(kind.width)), kind)
    return b.add(high, code.get(instruction.operands[3], kind)) if instruction.opcode == "mad" else high


def lookup(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """`lop3.b32 d, a, b, c, table`: a sum of the minterms of a table of eight bits."""
    b, (target, *operands, table) = code.b, instruction.operands
    if len(operands) != 3 or not isinstance(table, Immediate):
        raise NotInRegionError(instruction.name)
    values = [code.get(o, I32) for o in operands]
    ones, found = I32(0xFFFFFFFF), I32(0)
    for row in range(8):
        if int(table.value) >> row & 1:
            terms = [v if row >> 2 - i & 1 else b.xor(v, ones) for i, v in enumerate(values)]
            found = b.or_(found, b.and_(b.and_(terms[0], terms[1]), terms[2]))
    code.put(target, found)


def funnel_shift(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """`shf.l.wrap.b32 d, low, high, count`: a part of the 64 bits high:low."""
    b, (target, *operands) = code.b, instruction.operands
    low, high, count = (code.get(o, I32) for o in operands)
    if "wrap" in instruction.modifiers:
        count = b.and_(count, I32(31))
    elif "clamp" in instruction.modifiers:
        count = b.select(b.icmp_unsigned("<", count, I32(32)), count, I32(32))
    else:
        raise NotInRegionError(instruction.name)
    both = b.or_(b.shl(b.zext(high, I64), I64(32)), b.zext(low, I64))
    if "l" in instruction.modifiers:
        both = b.lshr(b.shl(both, b.zext(count, I64)), I64(32))
    else:
        both = b.lshr(both, b.zext(count, I64))
    code.put(target, b.trunc(both, I32))


def count_bits(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """`popc`, `clz`, `brev`."""
    kind, (target, operand) = ir_type(name), instruction.operands
    value = code.get(operand, kind)
    match instruction.opcode:
        case "popc":
            found = _intrinsic(code, "llvm.ctpop", kind, value)
        case "clz":
            found = _intrinsic(code, "llvm.ctlz", kind, value, I1(0))
        case _:
            found = _intrinsic(code, "llvm.bitreverse", kind, value)
    code.put(target, found)


def negated(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """`neg` and `abs`: of a float, the sign alone changes."""
    b, kind, (target, operand) = code.b, ir_type(name), instruction.operands
    value = code.get(operand, kind)
    if isinstance(kind, ir.IntType):
        less = b.neg(value)
        if instruction.opcode == "abs":
            less = b.select(b.icmp_signed("<", value, kind(0)), less, value)
        code.put(target, less, signed=True)
        return
    if "ftz" in instruction.modifiers:
        raise NotInRegionError(instruction.name)
    width = 32 if kind == F32 else 64
    bits, sign = b.bitcast(value, ir.IntType(width)), 1 << width - 1
    change = b.xor(bits, ir.IntType(width)(sign)) if instruction.opcode == "neg" else b.and_(bits, bits.type(sign - 1))
    code.put(target, b.bitcast(change, kind))


def rounded_function(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """`div.rn`, `rcp.rn`, `sqrt.rn` of f32 and f64."""
    b, kind, (target, *operands) = code.b, ir_type(name), instruction.operands
    if kind not in (F32, F64) or set(instruction.modifiers) - {name} != EXACT:
        raise NotInRegionError(instruction.name)
    values = [code.get(o, kind) for o in operands]
    match instruction.opcode:
        case "div":
            found = b.fdiv(*values)
        case "rcp":
            found = b.fdiv(kind(1.0), *values)
        case _:
            found = _intrinsic(code, "llvm.sqrt", kind, *values)
    code.put(target, found)


def float_conversion(code: RegionCode, instruction: PtxInstruction) -> bool:
    """`cvt` of integers to floats and of f32 to f64 and back, rounded to nearest; whether it is one of these."""
    b, modifiers = code.b, list(instruction.modifiers)
    types = [m for m in modifiers if m in TYPE_NAMES]
    if len(types) != 2 or set(modifiers) - set(types) - EXACT:
        return False
    to, source = (ir_type(t) for t in types)
    if to not in (F32, F64):
        return False
    value = code.get(instruction.operands[1], source)
    if isinstance(source, ir.IntType):
        found = (b.sitofp if types[1][0] == "s" else b.uitofp)(value, to)
    elif source == to:
        return False
    else:
        found = b.fpext(value, to) if to == F64 else b.fptrunc(value, to)
    code.put(instruction.operands[0], found)
    return True


def _move(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    kind, (target, source) = ir_type(name), instruction.operands
    bits = I1 if kind == I1 else ir.IntType({F32: 32, F64: 64}.get(kind) or kind.width)
    if instruction.opcode == "cvta" and "global" not in instruction.modifiers:
        raise NotInRegionError("cvta")
    b = code.b
    if isinstance(source, OperandList):
        parts = [code.get(o, ir.IntType(bits.width // len(source.items))) for o in source.items]
        whole = bits(0)
        for at, part in enumerate(parts):
            whole = b.or_(whole, b.shl(b.zext(part, bits), bits(at * part.type.width)))
        code.put(target, whole)
    elif isinstance(target, OperandList):
        whole, width = code.get(source, bits), bits.width // len(target.items)
        for at, item in enumerate(target.items):
            if isinstance(item, PtxRegister):
                code.put(item, b.trunc(b.lshr(whole, bits(at * width)), ir.IntType(width)))
    else:
        code.put(target, code.get(source, bits))


def _arithmetic(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """add, sub, mul, mad, fma, and the bitwise ones."""
    b, opcode = code.b, instruction.opcode
    kind, signed = ir_type(name), name[0] == "s"
    target, *operands = instruction.operands
    if isinstance(kind, ir.IntType):
        if opcode in INTEGER:
            code.put(target, getattr(b, INTEGER[opcode])(*(code.get(o, kind) for o in operands)), signed=signed)
        else:
            code.put(target, _product(code, instruction, kind, name), signed=signed)
        return
    ftz = "ftz" in instruction.modifiers and kind == F32
    values = [code.get(o, kind) for o in operands]
    if ftz:
        values = [code.flushed(value) for value in values]
    if opcode in ("fma", "mad"):
        function = code.function.module.declare_intrinsic("llvm.fma", [kind], ir.FunctionType(kind, [kind] * 3))
        value = b.call(function, values)
    elif opcode in ("add", "sub", "mul") and len(values) == 2:
        value = getattr(b, "f" + opcode)(*values)
    else:
        raise NotInRegionError(instruction.name)
    code.put(target, code.flushed(value) if ftz else value)


def _product(code: RegionCode, instruction: PtxInstruction, kind: IrValue, name: str) -> IrValue:
    b, operands, signed = code.b, instruction.operands[1:], name[0] == "s"
    if instruction.opcode not in ("mul", "mad") or not {"lo", "hi", "wide"} & set(instruction.modifiers):
        raise NotInRegionError(instruction.name)
    if "hi" in instruction.modifiers:
        return high_product(code, instruction, name)
    x, y = (code.get(o, kind) for o in operands[:2])
    if "wide" in instruction.modifiers:
        kind = ir.IntType(2 * kind.width)
        x, y = ((b.sext if signed else b.zext)(v, kind) for v in (x, y))
    product = b.mul(x, y)
    return b.add(product, code.get(operands[2], kind)) if instruction.opcode == "mad" else product


def _not(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    code.put(instruction.operands[0], code.b.not_(code.get(instruction.operands[1], ir_type(name))))


def _shift(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """A shift by the width or more gives zeros, or copies of the sign."""
    b, kind, signed = code.b, ir_type(name), name[0] == "s" and instruction.opcode == "shr"
    value, count = code.get(instruction.operands[1], kind), code.get(instruction.operands[2], I32)
    inside = b.icmp_unsigned("<", count, I32(kind.width))
    safe = b.select(inside, count, I32(kind.width - 1))
    safe = b.zext(safe, kind) if kind.width > 32 else b.trunc(safe, kind) if kind.width < 32 else safe
    shifted = (b.shl if instruction.opcode == "shl" else b.ashr if signed else b.lshr)(value, safe)
    code.put(instruction.operands[0], shifted if signed else b.select(inside, shifted, kind(0)), signed=signed)


def _compare(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    b, kind = code.b, ir_type(name)
    how = next((m for m in instruction.modifiers if m in COMPARISONS), None)
    if how is None or len(instruction.operands) != 3 or isinstance(instruction.operands[0], OperandList):
        raise NotInRegionError(instruction.name)
    x, y = (code.get(o, kind) for o in instruction.operands[1:])
    if isinstance(kind, ir.IntType):
        found = (b.icmp_signed if name[0] == "s" else b.icmp_unsigned)(COMPARISONS[how], x, y)
    elif "ftz" in instruction.modifiers:
        raise NotInRegionError(instruction.name)
    else:
        found = b.fcmp_ordered(COMPARISONS[how], x, y)
    code.put(instruction.operands[0], found)


def _select(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    kind, (target, x, y, condition) = ir_type(name), instruction.operands
    code.put(target, code.b.select(code.get(condition, I1), code.get(x, kind), code.get(y, kind)))


def _extreme(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """min and max of integers."""
    b, kind, signed = code.b, ir_type(name), name[0] == "s"
    if not isinstance(kind, ir.IntType) or len(instruction.operands) != 3:
        raise NotInRegionError(instruction.name)
    x, y = (code.get(o, kind) for o in instruction.operands[1:])
    less = (b.icmp_signed if signed else b.icmp_unsigned)("<", x, y)
    code.put(
        instruction.operands[0], b.select(less, *((x, y) if instruction.opcode == "min" else (y, x))), signed=signed
    )


def _convert(code: RegionCode, instruction: PtxInstruction, name: str) -> None:
    """Integers of other widths, and floats."""
    if float_conversion(code, instruction):
        return
    types = [m for m in instruction.modifiers if m in TYPE_NAMES]
    if len(types) != 2 or len(instruction.modifiers) != 2 or any(t[0] not in "us" for t in types):
        raise NotInRegionError(instruction.name)
    to, value = ir_type(types[0]), code.get(instruction.operands[1], ir_type(types[1]))
    if to.width > value.type.width:
        value = (code.b.sext if types[1][0] == "s" else code.b.zext)(value, to)
    elif to.width < value.type.width:
        value = code.b.trunc(value, to)
    code.put(instruction.operands[0], value, signed=types[0][0] == "s")


_EMITTERS: Final[dict[str, Emitter]] = {
    "mov": _move, "cvta": _move, "not": _not, "shl": _shift, "shr": _shift, "setp": _compare, "selp": _select,
    "min": _extreme, "max": _extreme, "cvt": _convert, "lop3": lookup, "shf": funnel_shift,
    **dict.fromkeys(("popc", "clz", "brev"), count_bits), **dict.fromkeys(("neg", "abs"), negated),
    **dict.fromkeys(("div", "rcp", "sqrt"), rounded_function),
    **dict.fromkeys(("add", "sub", "mul", "mad", "fma", *BITWISE), _arithmetic),
}  # fmt: skip
HELD: Final = frozenset({"ld", "st", *_EMITTERS})
"""Opcodes of which a region holds some forms."""


def emit_instruction(code: RegionCode, instruction: PtxInstruction) -> None:
    """One instruction without its guard. Raises NotInRegionError."""
    if instruction.opcode in ("ld", "st"):
        emit_access(code, instruction)
        return
    emit = _EMITTERS.get(instruction.opcode)
    if emit is None:
        raise NotInRegionError(instruction.opcode)
    emit(code, instruction, type_name(instruction))
