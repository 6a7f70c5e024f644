"""GGUF's quantised tensors: records of a few scales and the codes of a block, one after the other along each row.

A field of a record is a field whose block digit has the record's size as its stride. Source of all: ggml-common.h of
llama.cpp, `block_q4_0` and so on; the codes of two halves of a block share bytes.
"""

from __future__ import annotations

from lego_mlir.formats.catalog import storage
from lego_mlir.formats.codings import (
    Coding,
    Int4Blocks,
    Int4RangeBlocks,
    Int5Blocks,
    Int6SuperBlocks,
    Int8Blocks,
    Microscaled,
    NvidiaBlocks,
)
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import StoredField, stored
from lego_mlir.layout.canonical import Size

_SOURCE = "llama.cpp, ggml-common.h, block_"


class _Record:
    """The fields of one record of `size` bytes for each block of a row."""

    def __init__(self, rows: Size, blocks: Size, size: int) -> None:
        self.rows, self.blocks, self.size = rows, blocks, size

    def field(self, name: str, dtype: str, at: int, digits: dict[str, int], axis: str, order: str) -> StoredField:
        """Digits of an element inside the block, at a byte of the record."""
        every = {"r": self.rows, "b": self.blocks} | digits
        return stored(name, dtype, every, f"r | b {axis}", f"r b {order}", 8 * at, {"b": 8 * self.size})

    def scale(self, name: str, dtype: str, at: int) -> StoredField:
        """One number for the block."""
        return self.field(name, dtype, at, {}, "", "")

    def nibbles(self, name: str, dtype: str, at: int) -> StoredField:
        """32 codes of 4 bits, the first 16 in the low nibbles."""
        return self.field(name, dtype, at, {"half": 2, "i": 16}, "half i", "i half")

    def done(self, name: str, fields: list[StoredField], coding: Coding) -> StorageFormat:
        """The format."""
        return StorageFormat(name, fields, {"data": ("u8", (self.rows, self.blocks * self.size))}, coding=coding)


@storage("gguf.q4_0", "18-byte records of 32", _SOURCE + "q4_0", rows=1, columns=32)
def q4_0(rows: Size, columns: Size) -> StorageFormat:
    """An f16 scale and 16 bytes of codes."""
    record = _Record(rows, columns // 32, 18)
    return record.done("gguf.q4_0", [record.scale("scale", "f16", 0), record.nibbles("q", "u4", 2)], Int4Blocks())


@storage("gguf.q4_1", "20-byte records of 32", _SOURCE + "q4_1", rows=1, columns=32)
def q4_1(rows: Size, columns: Size) -> StorageFormat:
    """An f16 scale, an f16 least value and 16 bytes of codes."""
    record = _Record(rows, columns // 32, 20)
    fields = [record.scale("scale", "f16", 0), record.scale("least", "f16", 2), record.nibbles("q", "u4", 4)]
    return record.done("gguf.q4_1", fields, Int4RangeBlocks())


@storage("gguf.q5_0", "22-byte records of 32", _SOURCE + "q5_0", rows=1, columns=32)
def q5_0(rows: Size, columns: Size) -> StorageFormat:
    """An f16 scale, the fifth bits of the codes in 4 bytes, and their low 4 bits in 16."""
    record = _Record(rows, columns // 32, 22)
    high = record.field("high", "u1", 2, {"i": 32}, "i", "i")
    return record.done(
        "gguf.q5_0", [record.scale("scale", "f16", 0), high, record.nibbles("low", "u4", 6)], Int5Blocks()
    )


@storage("gguf.q8_0", "34-byte records of 32", _SOURCE + "q8_0", rows=1, columns=32)
def q8_0(rows: Size, columns: Size) -> StorageFormat:
    """An f16 scale and 32 bytes of codes."""
    record = _Record(rows, columns // 32, 34)
    fields = [record.scale("scale", "f16", 0), record.field("q", "i8", 2, {"i": 32}, "i", "i")]
    return record.done("gguf.q8_0", fields, Int8Blocks())


@storage("gguf.q6_k", "210-byte records of 256", _SOURCE + "q6_K", rows=1, columns=256)
def q6_k(rows: Size, columns: Size) -> StorageFormat:
    """Low 4 bits, high 2 bits, 16 scales of 8 bits and an f16 scale of the scales."""
    record = _Record(rows, columns // 256, 210)
    fields = [
        record.field("low", "u4", 0, {"half": 2, "part": 2, "i": 64}, "half part i", "half i part"),
        record.field("high", "u2", 128, {"half": 2, "part": 4, "i": 32}, "half part i", "half i part"),
        record.field("scale", "i8", 192, {"i": 16}, "i", "i"),
        record.scale("super_scale", "f16", 208),
    ]
    return record.done("gguf.q6_k", fields, Int6SuperBlocks())


@storage("gguf.mxfp4", "17-byte records of 32", _SOURCE + "mxfp4", rows=1, columns=32)
def mxfp4_records(rows: Size, columns: Size) -> StorageFormat:
    """An exponent and 16 bytes of e2m1 codes."""
    record = _Record(rows, columns // 32, 17)
    return record.done("gguf.mxfp4", [record.scale("scale", "e8m0", 0), record.nibbles("q", "e2m1", 1)], Microscaled())


@storage("gguf.nvfp4", "36-byte records of 64", _SOURCE + "nvfp4", rows=1, columns=64)
def nvfp4_records(rows: Size, columns: Size) -> StorageFormat:
    """Four e4m3 scales and 32 bytes of e2m1 codes, those of 16 elements in 8 bytes."""
    record = _Record(rows, columns // 64, 36)
    fields = [
        record.field("scale", "e4m3", 0, {"s": 4}, "s", "s"),
        record.field("q", "e2m1", 4, {"s": 4, "half": 2, "i": 8}, "s half i", "s i half"),
    ]
    return record.done("gguf.nvfp4", fields, NvidiaBlocks())
