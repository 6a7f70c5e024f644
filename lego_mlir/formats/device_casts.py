"""Casts as kernels: a thread decodes the elements of one group and encodes them, from rows to rows of packed fields.

The arithmetic is that of `codings`, operation by operation in f32 and without contraction, so the codes are the same
bits. A group is what shares a scale on either side; a thread reads its elements twice, for the scale and for the codes.

>>> from lego_mlir.formats.catalog import FORMATS
>>> plan = Conversion(FORMATS["hf.linear"](rows=2, columns=64), FORMATS["gguf.q8_0"](rows=2, columns=64))
>>> kernel, reads, writes = cast_kernel(plan)
>>> kernel.grid, reads, writes
((1,), ['weight'], ['scale', 'q'])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import lcm
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.aliases import AnyArray, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.formats.codings import (
    BLOCK,
    AffineGroups,
    Coding,
    Int4Blocks,
    Int4RangeBlocks,
    Int5Blocks,
    Int8Blocks,
    PlainValues,
)
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import PlaceDigit, StoredField
from lego_mlir.layout import Row
from lego_mlir.layout.canonical import product
from lego_mlir.tracing.definition.named_parameters import with_parameters
from lego_mlir.tracing.trace.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.words.tensor import View

THREADS: Final = 128
_NAMES: Final = {"e4m3": "f8e4m3fn", "e5m2": "f8e5m2"}
Value = Callable[[IndexLike], AnyArray]
"""The f32 value of an element, by its row-major number."""


def in_packed_rows(format_: StorageFormat) -> StorageFormat:
    """The same fields as dense row-major arrays, each packed to the bit in a buffer of its name."""
    fields, buffers = [], {}
    for field in format_.fields:
        stride, axes = field.bits, []
        for n in reversed([int(n) for n in field.shape]):
            axes.append((PlaceDigit(n, stride),))
            stride *= n
        fields.append(StoredField(field.name, field.dtype, tuple(reversed(axes)), 0, field.name))
        buffers[field.name] = ("u8", (-(-stride // 8),))
    return StorageFormat(f"{format_.name} in rows", fields, buffers, coding=format_.coding)


def group_of(coding: Coding | None) -> int:
    """The elements that share a scale. Raises LayoutError for a coding that has no kernel."""
    match coding:
        case PlainValues():
            return 1
        case Int8Blocks() | Int4Blocks() | Int4RangeBlocks() | Int5Blocks():
            return BLOCK
        case AffineGroups(group=group):
            return group
    raise LayoutError(f"casts of {type(coding).__name__} run on the processor; pass NumPy arrays")


def _step_of(coding: Coding | None) -> int:
    """The elements whose fields fill whole bytes."""
    if isinstance(coding, PlainValues):
        return 1
    zero = isinstance(coding, AffineGroups) and coding.zero is not None
    return lcm(8, group_of(coding) * (2 if zero else 1))


def cast_kernel(plan: Conversion) -> tuple[Kernel, list[str], list[str]]:
    """The kernel from packed rows of the source's fields to those of the target's, and the names of both."""
    a, b = plan.source.coding, plan.target.coding
    together = lcm(group_of(a), _step_of(b))
    elements = max(int(product(field.shape)) for field in plan.source.fields)
    if elements % together:
        raise LayoutError(f"{plan.source.name} to {plan.target.name}: groups of {together} do not divide {elements}")
    groups, reads, writes = elements // together, plan.source.fields, plan.target.fields
    kinds = {f"x_{f.name}": _tensor(f) for f in reads} | {f"y_{f.name}": _tensor(f) for f in writes}

    def cast(*tensors: View) -> None:
        given = dict(zip([f.name for f in reads], tensors, strict=False))
        found = dict(zip([f.name for f in writes], tensors[len(reads) :], strict=True))
        group = lego.block_id.x * THREADS + lego.thread_id.x
        with lego.when(group < groups):
            first = group * together
            each = group_of(b) if not isinstance(b, PlainValues) else together
            for part in range(0, together, each):
                _encode(b, found, partial(_decoded, a, given), first + part, each)
            if isinstance(b, AffineGroups) and b.zero is not None:
                for pair in range(together // (2 * b.group)):  # two zero points a byte
                    code = 7 if b.zero == "zero_minus_1" else 8
                    found[b.zero][first // (2 * b.group) + pair] = lego.u8(code * 17)

    kernel = lego.kernel(grid=-(-groups // THREADS), block=THREADS, contract=False)(with_parameters(cast, kinds))
    return kernel, [f.name for f in reads], [f.name for f in writes]


def _tensor(field: StoredField) -> object:
    """The packed rows of a field: codes below a byte as bytes."""
    elements = int(product(field.shape))
    if field.bits < 8:
        return lego.Tensor(lego.u8, Row(-(-elements * field.bits // 8)))
    return lego.Tensor(dtype_named(_NAMES.get(field.dtype, field.dtype)), Row(elements))


def _code(view: View, bits: int, i: IndexLike) -> AnyArray:
    """Code i of packed rows, as u32."""
    byte = view[i * bits // 8].to(lego.u32)
    return byte if bits == 8 else (byte >> lego.u32(i * bits % 8)) & lego.u32((1 << bits) - 1)


def _decoded(coding: Coding | None, given: Mapping[str, View], i: IndexLike) -> AnyArray:
    match coding:
        case PlainValues():
            return given["weight"][i].to(lego.f32)
        case Int8Blocks():
            return given["q"][i].to(lego.f32) * given["scale"][i // BLOCK].to(lego.f32)
        case Int4Blocks():
            return (_code(given["q"], 4, i).to(lego.f32) - 8.0) * given["scale"][i // BLOCK].to(lego.f32)
        case Int4RangeBlocks():
            scaled = _code(given["q"], 4, i).to(lego.f32) * given["scale"][i // BLOCK].to(lego.f32)
            return scaled + given["least"][i // BLOCK].to(lego.f32)
        case Int5Blocks():
            codes = _code(given["low"], 4, i).to(lego.f32) + _code(given["high"], 1, i).to(lego.f32) * 16.0
            return (codes - 16.0) * given["scale"][i // BLOCK].to(lego.f32)
        case AffineGroups(group=group, zero=name):
            g = i // group
            zero = 8.0 if name is None else _code(given[name], 4, g).to(lego.f32) + float(name == "zero_minus_1")
            return (_code(given["q"], 4, i).to(lego.f32) - zero) * given["scale"][g].to(lego.f32)
    raise LayoutError(f"casts of {type(coding).__name__} run on the processor; pass NumPy arrays")


def _encode(coding: Coding | None, found: Mapping[str, View], value: Value, first: IndexLike, count: int) -> None:
    """Store the codes of `count` elements from `first` on, which share a scale."""
    match coding:
        case PlainValues():
            weight = found["weight"]
            for element in range(count):
                weight[first + element] = value(first + element).to(weight.dtype)
            return
        case Int8Blocks():
            scale = _magnitude(value, first, count) / 127.0
            inverse = _inverse(scale)
            for k in lego.range(count):
                scaled = value(first + k) * inverse
                whole = lego.floor(abs(scaled))  # halves away from zero
                size = whole + lego.floor((abs(scaled) - whole) * 2.0)
                found["q"][first + k] = lego.where(scaled < 0.0, -size, size).to(lego.i8)
            found["scale"][first // BLOCK] = scale.to(lego.f16)
            return
        case Int4RangeBlocks():
            least, most = lego.register(lego.f32, float("inf")), lego.register(lego.f32, float("-inf"))
            for k in lego.range(count):
                least.set(lego.minimum(least.get(), value(first + k)))
                most.set(lego.maximum(most.get(), value(first + k)))
            scale, low = (most.get() - least.get()) / 15.0, least.get()
            inverse = _inverse(scale)
            found["scale"][first // BLOCK] = scale.to(lego.f16)
            found["least"][first // BLOCK] = low.to(lego.f16)

            def code_above(i: IndexLike) -> AnyArray:
                return _clipped(lego.trunc((value(i) - low) * inverse + 0.5), 15)

            _store_codes(found["q"], 4, first, count, code_above)
            return
        case Int4Blocks() | Int5Blocks():
            half = 8 if isinstance(coding, Int4Blocks) else 16
            scale = _largest(value, first, count) / -float(half)
            inverse = _inverse(scale)

            def code(i: IndexLike) -> AnyArray:
                return _clipped(lego.trunc(value(i) * inverse + (half + 0.5)), 2 * half - 1)

            if half == 8:
                _store_codes(found["q"], 4, first, count, code)
            else:
                _store_codes(found["low"], 4, first, count, lambda i: code(i) & lego.u32(15))
                _store_codes(found["high"], 1, first, count, lambda i: code(i) >> lego.u32(4))
            found["scale"][first // BLOCK] = scale.to(lego.f16)
            return
        case AffineGroups(group=group):
            stored = (_magnitude(value, first, count) * 2.0 / 15.0).to(found["scale"].dtype)
            inverse = _inverse(stored.to(lego.f32))
            _store_codes(found["q"], 4, first, count, lambda i: _clipped(lego.round(value(i) * inverse) + 8.0, 15))
            found["scale"][first // group] = stored
            return
    raise LayoutError(f"casts to {type(coding).__name__} run on the processor; pass NumPy arrays")


def _store_codes(view: View, bits: int, first: IndexLike, count: int, code: Value) -> None:
    """Store packed codes, a byte at a time."""
    each = 8 // bits
    for byte in lego.range(count // each):
        found = lego.u32(0)
        for k in range(each):
            found = found | (code(first + byte * each + k) << lego.u32(k * bits))
        view[first * bits // 8 + byte] = found.to(lego.u8)


def _clipped(codes: AnyArray, most: int) -> AnyArray:
    return lego.minimum(lego.maximum(codes, 0.0), float(most)).to(lego.u32)


def _inverse(scale: AnyArray) -> AnyArray:
    return lego.where(scale == 0.0, lego.f32(0.0), lego.f32(1.0) / scale)


def _magnitude(value: Value, first: IndexLike, count: int) -> AnyArray:
    most = lego.register(lego.f32, 0.0)
    for k in lego.range(count):
        most.set(lego.maximum(most.get(), abs(value(first + k))))
    return most.get()


def _largest(value: Value, first: IndexLike, count: int) -> AnyArray:
    """The first element of largest magnitude, with its sign."""
    largest = lego.register(lego.f32, 0.0)
    for k in lego.range(count):
        one = value(first + k)
        largest.set(lego.where(abs(one) > abs(largest.get()), one, largest.get()))
    return largest.get()
