"""An object file brought into memory: the few steps of a linker that a kernel's object needs.

What MLIR's ExecutionEngine writes for x86-64 has code, constants, and nothing but 64-bit absolute addresses to fill in,
and it calls no one but itself, sometimes `memset` or `memcpy`. So its sections are laid out one after the other in one
piece of memory, relocated addresses are filled in, and the memory becomes executable.
LLVM's own linker does this and much more, but loading LLVM takes longer than all of it:

    sections  ->  | code ... | constants ... |        symbol value + addend  ->  8 bytes at the relocation's offset

Whatever is not as described here is refused with `UnknownObjectError`, and left to LLVM's linker.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import LegoError

# ELF-64 object files: System V ABI, chapters 4 and 5, and its AMD64 supplement
MAGIC: Final = b"\x7fELF\x02\x01\x01"
RELOCATABLE, X86_64 = 1, 62
PROGBITS, SYMTAB, RELA, REL = 1, 2, 4, 9
ALLOCATED: Final = 0x2
WRITABLE: Final = 0x1
ABSOLUTE_64: Final = 1  # R_X86_64_64
READ_EXECUTE: Final = mmap.PROT_READ | mmap.PROT_EXEC


class UnknownObjectError(LegoError):
    """An object file that needs a real linker."""


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the section table."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True)
class Image:
    """Code in memory, with the addresses of its symbols. The functions live as long as this object."""

    memory: mmap.mmap
    addresses: dict[str, int]

    def address(self, symbol: str) -> int:
        return self.addresses[symbol]


def load(code: bytes) -> Image:
    """Bring an object file into this process. Raises UnknownObjectError; OSError where no memory may be executed."""
    known = platform.machine() == "x86_64" and code[:7] == MAGIC
    if not known or struct.unpack_from("<HH", code, 16) != (RELOCATABLE, X86_64):
        raise UnknownObjectError("only relocatable objects of x86-64 are loaded without LLVM")
    sections = _sections(code)
    starts: dict[int, int] = {}
    end = 0
    for number, section in enumerate(sections):
        if section.flags & ALLOCATED and section.size:
            if section.kind != PROGBITS or section.flags & WRITABLE:
                raise UnknownObjectError(f"section {number} is of kind {section.kind} with flags {section.flags:#x}")
            starts[number] = -(-end // section.align) * section.align
            end = starts[number] + section.size
    memory = mmap.mmap(-1, max(end, 1))
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, start in starts.items():
        section = sections[number]
        memory[start : start + section.size] = code[section.offset : section.offset + section.size]
    symbols = list(_symbols(code, sections, {number: base + start for number, start in starts.items()}))
    for at, symbol, addend in _relocations(code, sections, starts):
        struct.pack_into("<Q", memory, at, (_value(*symbols[symbol]) + addend) & 0xFFFFFFFFFFFFFFFF)
    _executable(base, len(memory))
    return Image(memory, {name: value for name, value in symbols if name and value is not None})


def _sections(code: bytes) -> list[Section]:
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    found = []
    for number in range(count):
        _, kind, flags, _, offset, length, link, info, align, _ = struct.unpack_from(
            "<IIQQQQIIQQ", code, table + number * size
        )
        found.append(Section(kind, flags, offset, length, link, info, max(align, 1)))
    return found


def _symbols(code: bytes, sections: list[Section], starts: dict[int, int]) -> Iterator[tuple[str, int | None]]:
    """Name and address of every symbol; None for one that is defined elsewhere."""
    for table in sections:
        if table.kind != SYMTAB:
            continue
        names = sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24):
            name, _, _, where, value, _ = struct.unpack_from("<IBBHQQ", code, at)
            spelled = code[names + name : code.index(b"\0", names + name)].decode()
            yield spelled, starts[where] + value if where in starts else None


def _relocations(code: bytes, sections: list[Section], starts: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Offset in the image, symbol number and addend of every address to fill in."""
    for table in sections:
        if table.kind == REL:
            raise UnknownObjectError("relocations without addends")
        if table.kind != RELA or table.info not in starts:
            continue
        for at in range(table.offset, table.offset + table.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", code, at)
            if info & 0xFFFFFFFF != ABSOLUTE_64:
                raise UnknownObjectError(f"relocation of kind {info & 0xFFFFFFFF}")
            yield starts[table.info] + offset, info >> 32, addend


def _value(name: str, address: int | None) -> int:
    """The address of a symbol, that of a function of the C library where the object does not define it."""
    if address is not None:
        return address
    try:
        found = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError as error:
        raise UnknownObjectError(f"the symbol {name!r} is defined nowhere") from error
    if found is None:
        raise UnknownObjectError(f"the symbol {name!r} has no address")
    return found


def _executable(base: int, size: int) -> None:
    """From now on the memory may be executed and not written."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), READ_EXECUTE):
        raise OSError(ctypes.get_errno(), "mprotect refused to make memory executable")
