"""A kernel of an MLIR module while it is read: values, conditions, views of memory, and statements so far.

The operations are read by functions that `reads` registers, in the modules beside this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, Final, TypeAlias

import sympy

from lego_mlir import bindings
from lego_mlir.aliases import Block, Cond, Expr, Op, Type
from lego_mlir.aliases import Value as Operand
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Ne, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import Derivation
from lego_mlir.interp.program import Compiler, Operation, tile_names
from lego_mlir.layout import Row, as_layout
from lego_mlir.proofs.module_values import arithmetic_of, comparison_of
from lego_mlir.tracing.trace.data_ranges import DataRanges
from lego_mlir.tracing.trace.dtypes import DTYPES, DType
from lego_mlir.tracing.trace.requirements import Requirement
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    Buffer,
    For,
    KernelTrace,
    Load,
    MlirOperation,
    Statement,
    Store,
    TensorAccess,
    ToIndex,
    Value,
)
from lego_mlir.transforms.modules import walk

AXES: Final = "xyz"
IGNORED: Final = frozenset(
    {
        "memref.dealloc", "gpu.return", "scf.yield", "affine.yield", "gpu.printf", "memref.dim",
        "memref.extract_aligned_pointer_as_index",
    }
)  # fmt: skip
WITHOUT_EFFECT: Final = (
    "arith.", "math.", "index.", "affine.", "vector.", "complex.", "ub.", "memref.", "gpu.shuffle", "gpu.subgroup_size",
    "gpu.num_subgroups", "nvgpu.mma.sync", "nvgpu.mma.sp.sync", "builtin.unrealized_conversion_cast", "llvm.intr.",
    "nvvm.shfl.sync", "nvvm.vote",
)  # fmt: skip
"""Operations without effect but on memrefs that are operands."""
DYNAMIC_MEMORY: Final = "dynamic shared memory"
"""The name that the interpreter gives it."""
UNREAD: Final = "lego.unread"
"""The name of a statement whose result is data that is not read."""


@dataclass(frozen=True, slots=True)
class MemoryView:
    """A memref as positions in a buffer: `offset`, a stride for each axis, and the positions that an element takes."""

    buffer: Buffer
    offset: Expr
    strides: tuple[Expr, ...]
    unit: int = 1

    def at(self, index: Sequence[Expr]) -> Expr:
        """The position of an element."""
        return self.offset + sum((i * s for i, s in zip(index, self.strides, strict=True)), sympy.Integer(0))


@dataclass(slots=True)
class ModuleKernel:
    """One kernel while it is read. `unread` has the reason for each buffer that is not; `opaque` that for all memory.

    `sizes` and `elements` have the sizes of arguments that are known by name, and `required` what holds of them.
    """

    compiler: Compiler
    name: str
    grid: Sequence[Any] | None
    block: Sequence[Any]
    arguments: Sequence[str] = ()
    unread: dict[str, str] = field(default_factory=dict)
    opaque: str | None = None
    ranges: dict[Any, Range] = field(default_factory=dict)
    values: dict[Any, Expr | None] = field(default_factory=dict)
    conditions: dict[Any, Cond] = field(default_factory=dict)
    views: dict[Any, MemoryView | None] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    sizes: dict[str, Any] = field(default_factory=dict)
    elements: dict[str, Expr] = field(default_factory=dict)
    required: tuple[Requirement, ...] = ()
    ids: dict[Any, tuple[str, str]] = field(default_factory=dict)
    data: DataRanges = field(default_factory=DataRanges)
    body: list[Statement] = field(default_factory=list)
    _numbers: int = 0
    dynamic: Buffer | None = None

    def trace(self) -> KernelTrace:
        """The kernel as statements."""
        operation = self.compiler.symbol(self.name)
        source = self.source(operation)
        for kind, extents in (("thread_id", self.block), ("block_id", self.grid or (None,) * 3)):
            for axis, extent in zip(AXES, extents, strict=False):
                if extent != 1:
                    self._id(kind, axis, extent)
        block = next(iter(operation.regions[0].blocks))
        self._arguments(operation, list(block.arguments))
        self._overlapping(operation)
        self.read_block(block)
        shared = tuple(b for b in self.buffers if b.space == "workgroup")
        return KernelTrace(
            name=self.name,
            parameters=tuple(b for b in self.buffers if b.space == "global"),
            sizes=tuple(self.sizes.values()),
            grid=tuple(self.grid or ()),
            block=tuple(self.block),
            shared=shared,
            ids=self.ids,
            ranges=self.ranges,
            body=tuple(self.body),
            source=source,
            data=self.data,
            requirements=self.required,
        )

    # ---- values

    def source(self, op: Op) -> Source:
        """The line of an operation."""
        place = self.compiler.place(op)
        return Source(place.file, place.line)

    def _id(self, kind: str, axis: str, extent: int | None) -> None:
        symbol = sympy.Symbol(("t" if kind == "thread_id" else "b") + axis, integer=True)
        self.ids[symbol] = (kind, axis)
        self.ranges[symbol] = Range(0, self.size(f"grid size {axis}") if extent is None else extent)

    def size(self, name: str) -> Expr:
        return self.sizes.setdefault(name, Size(name))

    def value(self, value: Operand) -> Expr | None:
        return self.values.get(value)

    def fresh(self, what: str) -> int:
        self._numbers += 1
        return self._numbers

    def unknown(self, op: Op, result: Operand) -> Expr:
        """A variable for a result that is not read: it may differ between threads, as data does."""
        number = self.fresh("data")
        dtype = DTYPES["i64"]
        value, source = Value(number, dtype), self.source(op)
        symbol = sympy.Symbol(f"{op.name} {number}", integer=True)
        self.data.symbols[symbol] = value
        made = MlirOperation((value,), UNREAD, (), (), source)
        self.data.define(made)
        self.body += [made, ToIndex(symbol, value, source)]
        if str(result.type) == "i1":
            self.conditions[result] = Ne(symbol, 0)
        else:
            self.values[result] = symbol
        return symbol

    # ---- memory

    def _arguments(self, operation: Op, arguments: Sequence[Operand]) -> None:
        ir = bindings.load().ir
        types = list(ir.FunctionType(operation.attributes["function_type"].value).inputs)
        count = Operation(self.compiler, operation).integer("workgroup_attributions", 0)
        shared = tile_names(operation, count)
        for number, argument in enumerate(arguments):
            if not isinstance(argument.type, ir.MemRefType):
                if str(argument.type) == "index" or str(argument.type).startswith("i"):
                    name = self.arguments[number] if number < len(self.arguments) else f"argument {number}"
                    self.values[argument] = self.sizes.get(name, sympy.Symbol(name, integer=True))
                continue
            if number >= len(types) + count:
                self.views[argument] = None  # memory of one thread
                continue
            name = shared[number - len(types)] if number >= len(types) else f"argument {number}"
            if number < min(len(types), len(self.arguments)):
                name = self.arguments[number]
            self.made(argument, name, self.source(operation), number < len(types))

    def made(self, value: Operand, name: str, source: Source, is_global: bool) -> str:
        """The name of a buffer for a memref that is no view of another."""
        shape = [
            self.size(f"{name} {axis}") if n == value.type.get_dynamic_size() else sympy.Integer(n)
            for axis, n in enumerate(value.type.shape)
        ]
        strides = [sympy.Mul(*shape[k + 1 :]) for k in range(len(shape))]
        elements = self.elements.get(name, sympy.Mul(*shape)) if len(shape) == 1 else sympy.Mul(*shape)
        layout = as_layout(Row(int(elements) if elements.is_Integer else Index(elements)))
        dtype = dtype_of(value.type)
        size = int(elements) if elements.is_Integer else Index(elements)
        if any(name == other.name for other in self.buffers):
            name = f"{name}, {len(self.buffers)}"
        buffer = Buffer(name, dtype, layout, "global" if is_global else "workgroup", size, source)
        self.buffers.append(buffer)
        if not is_plain(str(value.type.layout)):
            self.unread[name] = f"the strides of {value.type} are not read"
        if not has_dtype(value.type):
            self.unread[name] = f"the elements of {value.type} are not read"
        self.views[value] = MemoryView(buffer, sympy.Integer(0), tuple(strides))
        return name

    def _overlapping(self, operation: Op) -> None:
        """One buffer for the dynamic shared memory, if parts of it overlap; its positions are the smallest elements."""
        parts, bytes_ = [], []
        for op in walk(operation):
            found = part_of(op) if op.name == "memref.view" else None
            if found is not None:
                parts.append(found)
                bytes_.append(dtype_of(op.results[0].type).bytes)
        parts.sort()
        if all(first[1] <= second[0] for first, second in pairwise(parts)):
            return
        granule, end = min(bytes_), max(end for _, end in parts)
        dtype = next(d for d in DTYPES.values() if d.bytes == granule)
        size = -(-end // granule)
        layout = as_layout(Row(size))
        self.dynamic = Buffer(DYNAMIC_MEMORY, dtype, layout, "workgroup", size, self.source(operation))
        self.buffers.append(self.dynamic)

    def access(
        self, op: Op, memref: Operand, index: Sequence[Expr | None], width: int = 1, by_warp: bool = False
    ) -> TensorAccess | None:
        """An access of an element, or of a contiguous segment; None if the position is not read."""
        view = self.views.get(memref)
        if memref not in self.views:
            self.opaque = self.opaque or f"{self.source(op)}: {op.name} accesses a memref that is not read"
        if view is None:
            return None
        if any(i is None for i in index):
            self.unread.setdefault(view.buffer.name, f"the index in line {self.source(op).line} is not read")
            return None
        position = view.at([i for i in index if i is not None])
        derived = Derivation(position, position, 0, 0)
        if width > 1 and view.strides[-1] != view.unit:
            self.unread.setdefault(view.buffer.name, f"the vector in line {self.source(op).line} is not contiguous")
        width *= view.unit
        return TensorAccess(
            view.buffer, view.buffer.layout, (position,), sympy.true, derived, width, self.source(op), by_warp
        )

    def touch(self, op: Op, memref: Operand, index: Sequence[Expr | None], written: bool, shape: Sequence[int]) -> None:
        """A load or store of a vector: of rank 2, by the warp together."""
        offsets = []
        for n in shape[:-1]:
            row = sympy.Symbol(f"row {self.fresh('row')}", integer=True)
            self.ranges[row] = Range(0, n)
            offsets.append((row, n))
        at = list(index)
        for axis, (row, _) in enumerate(reversed(offsets), 2):
            if axis <= len(at) and at[-axis] is not None:
                at[-axis] = at[-axis] + row
        access = self.access(op, memref, at, shape[-1] if shape else 1, len(shape) > 1)
        if access is None:
            return
        value, source = Value(self.fresh("value"), access.buffer.dtype), access.source
        made: Statement = Store(value, access, source) if written else Load(value, access, None, source)
        for row, n in reversed(offsets):
            made = For(row, 0, n, 1, (made,), source)
        self.body.append(made)

    # ---- operations

    def operand_groups(self, op: Op) -> list[list[Operand]]:
        """The operands by the segments of the operation."""
        groups, start = [], 0
        for size in Operation(self.compiler, op).integers("operandSegmentSizes"):
            groups.append(list(op.operands)[start : start + size])
            start += size
        return groups

    def read_block(self, block: Block) -> None:
        for inner in block.operations:
            self.read(inner.operation)

    def inside(self, block: Block) -> tuple[Statement, ...]:
        """The statements of a block."""
        outer, self.body = self.body, []
        self.read_block(block)
        found, self.body = tuple(self.body), outer
        return found

    def read(self, op: Op) -> None:
        reader = READERS.get(op.name)
        if reader is not None:
            reader(self, op)
        elif op.name not in IGNORED:
            self.other(op)

    def other(self, op: Op) -> None:
        """An operation that is not read: its results are unknown, and so is all memory that it may access."""
        ir = bindings.load().ir
        if not op.name.startswith(WITHOUT_EFFECT):
            self.opaque = self.opaque or f"{self.source(op)}: {op.name} is not read"
        views = [v for v in op.operands if isinstance(v.type, ir.MemRefType)]
        if list(op.regions) and any(list(region.blocks) for region in op.regions):
            self.opaque = self.opaque or f"{self.source(op)}: {op.name} is not read"
        for value in views:
            view = self.views.get(value)
            if view is not None:
                self.unread.setdefault(view.buffer.name, f"{op.name} in line {self.source(op).line} is not read")
            elif value not in self.views:
                self.opaque = self.opaque or f"{self.source(op)}: {op.name} is not read"
        for result in op.results:
            if isinstance(result.type, ir.MemRefType):
                self.views[result] = self.views.get(views[0]) if views else None
                if not views:
                    self.opaque = self.opaque or f"{self.source(op)}: {op.name} is not read"
            else:
                self.scalar(op, result)

    def scalar(self, op: Op, result: Operand) -> None:
        """A result that is an index, an integer or a condition."""
        text = str(result.type)
        operands = [self.value(v) for v in op.operands]
        if text == "i1" and op.name in ("arith.cmpi", "index.cmp"):
            found = comparison_of(op, operands, self.ranges)
            if found is not None:
                self.conditions[result] = found
                return
        if text == "i1" and op.name in ("arith.andi", "arith.ori") and all(v in self.conditions for v in op.operands):
            join = sympy.And if op.name == "arith.andi" else sympy.Or
            self.conditions[result] = join(*(self.conditions[v] for v in op.operands))
            return
        if text != "index" and not (text.startswith("i") and text[1:].isdigit()):
            return
        value = arithmetic_of(op, operands, self.ranges) if operands and text != "i1" else None
        if value is None:
            self.unknown(op, result)
        else:
            self.values[result] = value


def is_plain(layout: str) -> bool:
    """Whether the layout of a memref is the identity: row-major."""
    found = re.fullmatch(r"affine_map<\((.*)\) -> \((.*)\)>", layout)
    return found is not None and found[1] == found[2]


def dtype_of(type_: Type) -> DType:
    """The data type of the elements; i32 stands in for what `has_dtype` excludes."""
    return next((dtype for dtype in DTYPES.values() if dtype.mlir == str(type_.element_type)), DTYPES["i32"])


def has_dtype(type_: Type) -> bool:
    """Whether the elements have a data type of the language: vectors have none."""
    return any(dtype.mlir == str(type_.element_type) for dtype in DTYPES.values())


def part_of(op: Op) -> tuple[int, int] | None:
    """The first byte and the end of a view of dynamic shared memory; None of other memory or at an unknown byte."""
    made, shift = (getattr(v.owner, "operation", v.owner) for v in list(op.operands)[:2])
    if getattr(made, "name", "") != "gpu.dynamic_shared_memory" or getattr(shift, "name", "") != "arith.constant":
        return None
    type_ = op.results[0].type
    start = int(shift.attributes["value"].value)
    return (start, start + prod(type_.shape) * dtype_of(type_).bytes) if type_.has_static_shape else None


Read: TypeAlias = Callable[[ModuleKernel, Op], None]
READERS: Final[dict[str, Read]] = {}


def reads(*operations: str) -> Callable[[Read], Read]:
    """The function reads these operations."""

    def register(function: Read) -> Read:
        READERS.update(dict.fromkeys(operations, function))
        return function

    return register
