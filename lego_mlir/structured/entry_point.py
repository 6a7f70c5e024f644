"""The entry point called from Python: argument checks and the batch loop, in machine code.

`ctypes` passes the array objects themselves. The entry point reads type, rank, sizes, flags and data pointer at their
offsets in NumPy's C structs, rejects arguments that do not match (the caller then raises the error in Python), and runs
the kernel once, or once per matrix of a batch. A read-only scalar may be a Python float. Written operands must not
overlap others. The text is in the LLVM dialect, because memrefs hide pointers.

    kernel_python(address of numpy.ndarray, address of float, array, array, ...) -> 0 done, 1 rejected
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.structured.syntax import Operand, Program

# Offsets in PyObject and PyArrayObject_fields on 64-bit CPython; `build` verifies them
# before use. Source: numpy/ndarraytypes.h, unchanged from NumPy 1.7 to 2.4.
TYPE: Final = 8
DATA, RANK, SIZES, DESCRIPTION, FLAGS = 16, 24, 32, 56, 64
BYTE_ORDER, TYPE_NUMBER = 26, 28  # in PyArray_Descr
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
NUMBER_OF: Final = {"f32": 11, "f64": 12}
BYTES_OF: Final = {"f32": 4, "f64": 8}
FLOAT: Final = 16  # of the double in PyFloatObject
BIG_ENDIAN: Final = ord(">")


def array_shape(operand: Operand) -> tuple[int, ...]:
    """The shape of the caller's array: () for a Scalar, (n,) for a Vector, otherwise that of the storage."""
    if operand.structure.name == "Scalar()":
        return ()
    if operand.structure.name.startswith("Vector("):
        return (operand.structure.rows,)
    return operand.storage.shape(operand.structure)


def takes_numbers(program: Program, operand: Operand, lanes: int = 1) -> bool:
    """Whether this operand may be a Python number."""
    return array_shape(operand) == () and lanes == 1 and operand.name not in program.written


@dataclass(frozen=True, slots=True)
class _Given:
    """An argument as SSA values: data pointer, whether it is a batch, and the batch size."""

    operand: Operand
    data: str
    batched: str
    count: str


@dataclass
class _Lines:
    """LLVM-dialect text under construction: fresh SSA names and blocks."""

    lines: list[str]
    count: int = 0

    def value(self, operation: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {operation}")
        return f"%v{self.count}"

    def number(self, value: int, kind: str = "i64") -> str:
        return self.value(f"llvm.mlir.constant({value} : {kind}) : {kind}")

    def field(self, base: str, offset: int, kind: str) -> str:
        at = self.value(f"llvm.getelementptr {base}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8")
        return self.value(f"llvm.load {at} : !llvm.ptr -> {kind}")

    def require(self, condition: str) -> None:
        self.count += 1
        self.lines += [f"  llvm.cond_br {condition}, ^ok{self.count}, ^refused", f"^ok{self.count}:"]

    def either(self, a: str, b: str) -> str:
        return self.value(f"llvm.or {a}, {b} : i1")

    def equal(self, a: str, b: str, kind: str) -> str:
        return self.value(f'llvm.icmp "eq" {a}, {b} : {kind}')


def text(program: Program, name: str, element: str, lanes: int = 1) -> str:
    """The driver of a kernel, as a module that declares the kernel.

    With several lanes, the last dimension of each array is the lane, and each batch element is a group of matrices.
    """
    operands = program.operands
    pointers = ", ".join(["!llvm.ptr"] * len(operands))
    arguments = "".join(f", %a{at}: !llvm.ptr" for at in range(len(operands)))
    out = _Lines([])
    given = [_argument(out, at, program, element, lanes) for at in range(len(operands))]
    rounds = _rounds(out, program, given)
    zero, one = out.number(0), out.number(1)
    strides = [_stride(out, each, element, lanes) for each in given]
    _require_disjoint(out, program, given, strides, rounds)
    out.lines += [
        f"  llvm.br ^head({zero} : i64)",
        "^head(%i: i64):",
        f'  %more = llvm.icmp "slt" %i, {rounds} : i64',
        "  llvm.cond_br %more, ^body, ^done",
        "^body:",
    ]
    places = []
    for each, (_, stride) in zip(given, strides, strict=True):
        offset = out.value(f"llvm.mul %i, {stride} : i64")
        places.append(out.value(f"llvm.getelementptr {each.data}[{offset}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"))
    lines = [
        "module {",
        f"llvm.func @{name}({pointers})",
        f"llvm.func @{name}_python(%ndarray: !llvm.ptr, %float: !llvm.ptr{arguments}) -> i32 {{",
        *out.lines,
        f"  llvm.call @{name}({', '.join(places)}) : ({pointers}) -> ()",
        f"  %next = llvm.add %i, {one} : i64",
        "  llvm.br ^head(%next : i64)",
        "^done:",
        "  %fine = llvm.mlir.constant(0 : i32) : i32",
        "  llvm.return %fine : i32",
        "^refused:",
        "  %bad = llvm.mlir.constant(1 : i32) : i32",
        "  llvm.return %bad : i32",
        "}",
        "}",
    ]
    return "\n".join(lines)


def _argument(out: _Lines, at: int, program: Program, element: str, lanes: int) -> _Given:
    """Check an argument: an array, or a Python float for a read-only scalar."""
    operand, array = program.operands[at], f"%a{at}"
    if not takes_numbers(program, operand, lanes):
        return _array(out, array, operand, element, operand.name in program.written, lanes)
    slot = out.value(f"llvm.alloca {out.number(1)} x {element} : (i64) -> !llvm.ptr")
    is_float = out.value(f'llvm.icmp "eq" {out.field(array, TYPE, "!llvm.ptr")}, %float : !llvm.ptr')
    out.lines += [f"  llvm.cond_br {is_float}, ^float{at}, ^array{at}", f"^float{at}:"]
    number = out.field(array, FLOAT, "f64")
    number = number if element == "f64" else out.value(f"llvm.fptrunc {number} : f64 to f32")
    alone, nothing = out.number(0, "i1"), out.number(0)
    kinds = "!llvm.ptr, i1, i64"
    out.lines += [
        f"  llvm.store {number}, {slot} : {element}, !llvm.ptr",
        f"  llvm.br ^given{at}({slot}, {alone}, {nothing} : {kinds})",
        f"^array{at}:",
    ]
    found = _array(out, array, operand, element, False, lanes)
    out.lines += [
        f"  llvm.br ^given{at}({found.data}, {found.batched}, {found.count} : {kinds})",
        f"^given{at}(%d{at}: !llvm.ptr, %b{at}: i1, %n{at}: i64):",
    ]
    return _Given(operand, f"%d{at}", f"%b{at}", f"%n{at}")


def _rounds(out: _Lines, program: Program, given: Sequence[_Given]) -> str:
    """The batch size: all batches must agree, and written operands must be batched if any operand is."""
    none = out.number(-1)
    total = none
    for each in given:
        alone = out.value(f"llvm.xor {each.batched}, {out.number(1, 'i1')} : i1")
        same = out.either(out.equal(total, none, "i64"), out.equal(total, each.count, "i64"))
        out.require(out.either(alone, same))
        total = out.value(f"llvm.select {each.batched}, {each.count}, {total} : i1, i64")
    single = out.equal(total, none, "i64")
    for each in given:
        if each.operand.name in program.written:
            out.require(out.either(single, each.batched))
    return out.value(f"llvm.select {single}, {out.number(1)}, {total} : i1, i64")


def _require_disjoint(
    out: _Lines, program: Program, given: Sequence[_Given], strides: Sequence[tuple[str, str]], rounds: str
) -> None:
    """Reject a written operand that overlaps another one. An empty batch overlaps nothing."""
    none = out.equal(rounds, out.number(0), "i64")
    ranges = []
    for each, (whole, _) in zip(given, strides, strict=True):
        start = out.value(f"llvm.ptrtoint {each.data} : !llvm.ptr to i64")
        several = out.value(f"llvm.mul {whole}, {each.count} : i64")
        size = out.value(f"llvm.select {each.batched}, {several}, {whole} : i1, i64")
        ranges.append((start, out.value(f"llvm.add {start}, {size} : i64")))
    for a, b in overlapping_pairs(program):
        (start, end), (other_start, other_end) = ranges[a], ranges[b]
        before = out.value(f'llvm.icmp "ule" {end}, {other_start} : i64')
        behind = out.value(f'llvm.icmp "ule" {other_end}, {start} : i64')
        out.require(out.either(none, out.either(before, behind)))


def overlapping_pairs(program: Program) -> list[tuple[int, int]]:
    """The pairs of operand numbers that must not overlap: one is written, and both have elements."""
    held = [at for at, operand in enumerate(program.operands) if operand.structure.stored.any()]
    written = [at for at in held if program.operands[at].name in program.written]
    return [(a, b) for a in written for b in held if b != a and (b not in written or a < b)]


COPIES: Final = 8  # a power of two


def repeat(program: Program, name: str) -> str:
    """A function that runs the kernel repeatedly, for timing.

    Each array has the byte stride to its next copy. Runs cycle through COPIES copies, so an in-place run does not
    wait for the stores of the previous one. A stride of zero means no copies.
    """
    count = len(program.operands)
    pointers = ", ".join(["!llvm.ptr"] * count)
    arguments = ", ".join(f"%a{at}: !llvm.ptr, %s{at}: i64" for at in range(count))
    moved = "\n".join(
        f"  %o{at} = llvm.mul %slot, %s{at} : i64\n"
        f"  %p{at} = llvm.getelementptr %a{at}[%o{at}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"
        for at in range(count)
    )
    given = ", ".join(f"%p{at}" for at in range(count))
    return f"""module {{
llvm.func @{name}({pointers})
llvm.func @{name}_repeat(%times: i64, {arguments}) {{
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %last = llvm.mlir.constant({COPIES - 1} : i64) : i64
  llvm.br ^head(%zero : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %times : i64
  llvm.cond_br %more, ^body, ^done
^body:
  %slot = llvm.and %i, %last : i64
{moved}
  llvm.call @{name}({given}) : ({pointers}) -> ()
  %next = llvm.add %i, %one : i64
  llvm.br ^head(%next : i64)
^done:
  llvm.return
}}
}}"""


def _array(out: _Lines, array: str, operand: Operand, element: str, written: bool, lanes: int) -> _Given:
    """Check that an argument is an array for the operand, with an optional batch dimension."""
    out.require(out.value(f'llvm.icmp "eq" {out.field(array, TYPE, "!llvm.ptr")}, %ndarray : !llvm.ptr'))
    sizes = array_shape(operand) if lanes == 1 else (*array_shape(operand), lanes)
    flags = out.field(array, FLAGS, "i32")
    wanted = out.number(C_CONTIGUOUS | ALIGNED | (WRITEABLE if written else 0), "i32")
    out.require(out.equal(out.value(f"llvm.and {flags}, {wanted} : i32"), wanted, "i32"))
    description = out.field(array, DESCRIPTION, "!llvm.ptr")
    kind = out.field(description, TYPE_NUMBER, "i32")
    out.require(out.equal(kind, out.number(NUMBER_OF[element], "i32"), "i32"))
    order = out.field(description, BYTE_ORDER, "i8")
    out.require(out.value(f'llvm.icmp "ne" {order}, {out.number(BIG_ENDIAN, "i8")} : i8'))
    rank = out.field(array, RANK, "i32")
    batched = out.equal(rank, out.number(len(sizes) + 1, "i32"), "i32")
    plain = out.equal(rank, out.number(len(sizes), "i32"), "i32")
    out.require(out.either(batched, plain))
    if not sizes:
        # a 0-d array may have no sizes pointer: read the batch size only if batched
        here = out.value(f"llvm.getelementptr {array}[{SIZES}] : (!llvm.ptr) -> !llvm.ptr, i8")
        first = out.value(f"llvm.load {here} : !llvm.ptr -> !llvm.ptr")
        source = out.value(f"llvm.select {batched}, {first}, {here} : i1, !llvm.ptr")
        count = out.value(f"llvm.load {source} : !llvm.ptr -> i64")
        return _Given(operand, out.field(array, DATA, "!llvm.ptr"), batched, count)
    first = out.field(array, SIZES, "!llvm.ptr")
    length = out.value(f"llvm.load {first} : !llvm.ptr -> i64")
    skip = out.value(f"llvm.zext {batched} : i1 to i64")
    own = out.value(f"llvm.getelementptr {first}[{skip}] : (!llvm.ptr, i64) -> !llvm.ptr, i64")
    for axis, size in enumerate(sizes):
        out.require(out.equal(out.field(own, 8 * axis, "i64"), out.number(size), "i64"))
    return _Given(operand, out.field(array, DATA, "!llvm.ptr"), batched, length)


def _stride(out: _Lines, given: _Given, element: str, lanes: int) -> tuple[str, str]:
    """Bytes of one matrix, and the stride between matrices of a batch: 0 if one is shared by all."""
    whole = out.number(math.prod(array_shape(given.operand)) * lanes * BYTES_OF[element])
    return whole, out.value(f"llvm.select {given.batched}, {whole}, {out.number(0)} : i1, i64")


# Keywords of C or C++; a header serves both.
_WORDS: Final = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq
"""
KEYWORDS: Final = frozenset(_WORDS.split())


def parameter_names(program: Program) -> list[str]:
    """The operand names as C identifiers: keywords get underscores until the names are unique."""
    taken = {operand.name for operand in program.operands}
    found = []
    for operand in program.operands:
        name = operand.name
        while name in KEYWORDS or (name != operand.name and name in taken):
            name += "_"
        taken.add(name)
        found.append(name)
    return found


def signature(program: Program, name: str, element: str) -> str:
    """The kernel's declaration in C. Raises UsageError for a name that C cannot declare."""
    if name in KEYWORDS:
        raise UsageError(f"{name} is a keyword of C or C++ and cannot name a function; choose another name")
    kind = {"f64": "double", "f32": "float"}[element]
    arguments = [
        f"{'' if o.name in program.written else 'const '}{kind} *{parameter}"
        for o, parameter in zip(program.operands, parameter_names(program), strict=True)
    ]
    return f"void {name}({', '.join(arguments)});"


def header(program: Program, name: str, element: str, arguments: Sequence[str]) -> str:
    """A C header for the kernel, documenting each argument."""
    guard = f"{name.upper()}_H"
    described = [
        f" *   {parameter}: {o.structure}, {storage}, {'written' if o.name in program.written else 'read'}"
        for o, parameter, storage in zip(program.operands, parameter_names(program), arguments, strict=True)
    ]
    return "\n".join([
        f"#ifndef {guard}", f"#define {guard}", "",
        f"/* {program}", " *", *described, " *",
        " * Elements that a structure does not store are neither read nor written. The matrices must not overlap. */",
        "#ifdef __cplusplus", 'extern "C" {', "#endif",
        signature(program, name, element),
        "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */", "",
    ])  # fmt: skip
