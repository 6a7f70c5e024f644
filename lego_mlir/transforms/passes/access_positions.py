"""The positions of memory accesses, as few instructions as their ranges allow.

An address is 64 bits wide, `base + size * position`. Three forms of a position:

    extend(narrow sum) + constant    the sum is in 32 bits; the constant is added after the extension, and becomes the
                                     offset of the load or store
    a*extend(x) + b*extend(y) + ..   a sum in 64 bits of few narrow terms: each is one instruction, which multiplies 32
                                     bits and adds 64
    in 64 bits                       where the range is not known to fit i32

A sum that is there in 32 bits, such as that of a condition, is extended instead of computed anew.

The first also holds for a position whose range is not known, in a memref of at most 2^31 elements: the access is in
bounds, so the position without its constant is an i32, and arithmetic modulo 2^32 finds it. A memref of several
dimensions is accessed as one of one dimension, so that its strides are part of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value
from lego_mlir.transforms.index_operations import I32, within
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.index_numbers import RING, IndexNumber, IndexNumbers
from lego_mlir.transforms.passes.operations import is_shared

LARGEST: Final = 2**31  # elements of a memref whose positions are i32
FEW_TERMS: Final = 4
# Where the memref of an access is among the operands; its indices follow.
ACCESSES: Final = {
    "memref.load": 0, "memref.store": 1, "memref.atomic_rmw": 1, "vector.load": 0, "vector.store": 1,
    "nvgpu.ldmatrix": 0, "nvgpu.device_async_copy": 0,
}  # fmt: skip
_COPY: Final = "nvgpu.device_async_copy"  # has two: the destination's, then the source's
_IDS: Final = ("gpu.thread_id", "gpu.block_id")


class AccessPositions:
    """Rewrites the accesses of one kernel; `number` gives the number of an index."""

    def __init__(self, function: Op, make: IndexNumbers, number: Callable[[Value], IndexNumber]) -> None:
        self.ir = bindings.load().ir
        self.make, self.number = make, number
        self.flat: dict[Value, Value] = {}  # memrefs of several dimensions, as one dimension
        self.limits: dict[Value, int] = {}  # of tensors whose size is not known: the most elements that they may have
        self.has_loops = any(operation.name.startswith("scf.for") for operation in walk(function))

    def rewrite(self, operation: Op) -> None:
        """Replace an access by one with cheaper positions."""
        place, operands, counts = ACCESSES[operation.name], list(operation.operands), []
        before = list(operands)
        for _ in range(2 if operation.name == _COPY else 1):
            memref = self.ir.MemRefType(operands[place].type)
            end = place + 1 + memref.rank
            narrowed = self._position(operation, operands[place], memref, operands[place + 1 : end])
            operands[place:end] = narrowed
            counts += [1, len(narrowed) - 1]
            place += len(narrowed)
        if operands == before:
            return
        named = [operation.attributes[i] for i in range(len(operation.attributes))]
        attributes = {attribute.name: attribute.attr for attribute in named}
        if operation.name == _COPY:
            counts.append(len(operands) - sum(counts))
            attributes["operandSegmentSizes"] = self.ir.DenseI32ArrayAttr.get(counts)
        types = [result.type for result in operation.results]
        made = self.ir.Operation.create(operation.name, types, operands, attributes=attributes)
        for old, new in zip(operation.results, made.results, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()

    def _position(self, operation: Op, buffer: Value, memref: Type, indices: list[Value]) -> list[Value]:
        """The buffer and the indices to access it by."""
        if not _is_contiguous(memref):
            return [buffer, *indices]
        numbers = list(map(self.number, indices))
        if not memref.has_static_shape:
            limit = self.limits.get(_argument(buffer))
            if limit is None or memref.rank > 1:
                return [buffer, *indices]
            return [buffer, self._index(numbers[0], limit, memref)]
        if memref.rank < 2 or _takes_rows(operation):
            return [buffer, *(self._index(n, size, memref) for n, size in zip(numbers, memref.shape, strict=True))]
        total = self.make.constant(0)
        for axis, number in enumerate(numbers):
            stride = self.make.constant(prod(memref.shape[axis + 1 :]))
            total = self.make.compute("add", total, self.make.compute("mul", number, stride))
        return [self._flattened(buffer, memref), self._index(total, prod(memref.shape), memref)]

    def _index(self, number: IndexNumber, size: int, memref: Type) -> Value:
        """The index of an access to a dimension of this size."""
        base, offset = self.make.split(number)
        if base.constant is not None:
            return self.make.wide(number)
        if number.fits and not is_shared(memref):
            terms: dict[IndexNumber, int] = {}
            _collect(base, 1, terms)
            is_there = len(terms) > 1 and self.make.has_narrow(base)
            if (not is_there and all(map(_is_id, terms))) or (
                len(terms) <= FEW_TERMS and self.make.is_outermost and not self.has_loops
            ):
                return self.make.sum(terms, offset)
        in_bounds = size <= LARGEST and within((-offset, size - 1 - offset), I32)
        if base.fits or (in_bounds and base.kind in RING):
            return self.make.moved(self.make.extended(base), offset)
        return self.make.wide(number)

    def _flattened(self, buffer: Value, memref: Type) -> Value:
        """The buffer as a memref of one dimension."""
        if buffer not in self.flat:
            ir, owner = self.ir, buffer.owner
            type_ = ir.MemRefType.get([prod(memref.shape)], memref.element_type, memory_space=memref.memory_space)
            is_argument = isinstance(owner, ir.Block)
            at = ir.InsertionPoint.at_block_begin(owner) if is_argument else ir.InsertionPoint.after(owner)
            together = ir.Attribute.parse(str([list(range(memref.rank))]))
            with at:
                self.flat[buffer] = ir.Operation.create(
                    "memref.collapse_shape", [type_], [buffer], attributes={"reassociation": together}
                ).results[0]
        return self.flat[buffer]


def _collect(number: IndexNumber, factor: int, terms: dict[IndexNumber, int]) -> None:
    """Add a sum's terms to `terms`, with their factors."""
    kind, constant = number.kind, number.operands[1].constant if number.operands else None
    if kind in ("add", "sub"):
        _collect(number.operands[0], factor, terms)
        _collect(number.operands[1], factor if kind == "add" else -factor, terms)
    elif kind == "mul" and constant is not None:
        _collect(number.operands[0], factor * constant, terms)
    elif factor:
        terms[number] = terms.get(number, 0) + factor


def _argument(buffer: Value) -> Value:
    """The argument of which this is a view without an offset."""
    return buffer.owner.operands[0] if getattr(buffer.owner, "name", "") == "memref.reinterpret_cast" else buffer


def _is_id(number: IndexNumber) -> bool:
    return number.wide is not None and getattr(number.wide.owner, "name", "") in _IDS


def _is_contiguous(memref: Type) -> bool:
    """Whether a memref is stored in the order of its indices."""
    ir = bindings.load().ir
    return bool(memref.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(memref.rank)))


def _takes_rows(operation: Op) -> bool:
    """Whether an access is to a vector of several dimensions, which needs the memref's."""
    ir = bindings.load().ir
    vectors = [v.type for v in (*operation.operands, *operation.results) if isinstance(v.type, ir.VectorType)]
    return operation.name.startswith("vector.") and any(vector.rank > 1 for vector in vectors)
