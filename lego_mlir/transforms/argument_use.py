"""Use of each argument's memory by a kernel: whether it reads or writes it, and how widely at once.

A vector access and an asynchronous copy fault where their address is not a multiple of their size. Positions are proved
to be multiples of the width, so the array itself must begin at one. Views of an argument count as the argument. An
unknown operation may do anything to it, at the widest access.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value
from lego_mlir.transforms.modules import string_attribute, walk

WIDEST: Final = 16  # bytes: ld.global.v4.b32, cp.async; PTX ISA

_VIEWS: Final = frozenset(
    f"memref.{name}"
    for name in ("cast", "memory_space_cast", "subview", "reinterpret_cast", "view", "collapse_shape", "expand_shape")
) | {"memref.assume_alignment"}
_HARMLESS: Final = frozenset({"memref.dim", "memref.extract_strided_metadata", "memref.prefetch"})
_READS: Final = frozenset(
    {"memref.load", "affine.load", "affine.vector_load", "vector.load", "vector.transfer_read", "vector.maskedload"}
)
_WRITES: Final = frozenset(
    {"memref.store", "affine.store", "affine.vector_store", "vector.store", "vector.transfer_write",
     "vector.maskedstore"}
)  # fmt: skip
_ATOMIC: Final = frozenset({"memref.atomic_rmw"})
_CALL: Final = "func.call"
_COPY: Final = "nvgpu.device_async_copy"


@dataclass(slots=True)
class Use:
    """`alignment` in bytes: the widest access, at least one element."""

    alignment: int
    read: bool = False
    written: bool = False


def uses(function: Op, arguments: Sequence[Value], element_bytes: Sequence[int]) -> list[Use]:
    """The use of each of the leading arguments of a `gpu.func`; of a scalar, as if it were an element."""
    found = [Use(max(1, size)) for size in element_bytes]
    roots: dict[Any, int] = {value: number for number, value in enumerate(arguments)}
    for operation in walk(function):
        touched = {roots[operand]: k for k, operand in enumerate(operation.operands) if operand in roots}
        for number, position in touched.items():
            if not _is_memref(operation.operands[position]):
                continue
            if operation.name in _VIEWS:
                roots[operation.results[0]] = number
            elif operation.name == _CALL:
                _record_call(found[number], operation, position, element_bytes[number])
            elif operation.name not in _HARMLESS:
                _record(found[number], operation, element_bytes[number])
    return found


def _record_call(use: Use, call: Op, position: int, size: int) -> None:
    """What the called function does with one of its arguments."""
    name = str(bindings.load().ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
    parent = call.parent
    while parent.name not in ("gpu.module", "builtin.module"):
        parent = parent.parent
    for operation in parent.regions[0].blocks[0].operations:
        if "sym_name" in operation.attributes and string_attribute(operation, "sym_name") == name:
            (inner,) = uses(operation.operation, [operation.regions[0].blocks[0].arguments[position]], [size])
            use.alignment = max(use.alignment, inner.alignment)
            use.read, use.written = use.read or inner.read, use.written or inner.written
            return
    use.alignment, use.read, use.written = WIDEST, True, True


def _record(use: Use, operation: Op, size: int) -> None:
    name = operation.name
    if name in _READS | _WRITES | _ATOMIC:
        value = operation.results[0] if name in _READS else operation.operands[0]
        use.alignment = max(use.alignment, _power(_elements(value.type) * size))
        use.read |= name not in _WRITES
        use.written |= name not in _READS
    elif name == _COPY:
        ir = bindings.load().ir
        elements = int(ir.IntegerAttr(operation.attributes["dstElements"]).value)
        use.alignment = max(use.alignment, _power(elements * size))
        use.read = True
    else:
        use.alignment, use.read, use.written = WIDEST, True, True


def _elements(type_: Type) -> int:
    return prod(type_.shape) if isinstance(type_, bindings.load().ir.VectorType) else 1


def _power(size: int) -> int:
    """The power of two from `size` on, up to the widest access."""
    return min(WIDEST, 1 << max(0, size - 1).bit_length())


def _is_memref(value: Value) -> bool:
    return isinstance(value.type, bindings.load().ir.MemRefType)
