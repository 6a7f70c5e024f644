"""A kernel of an MLIR module as a `KernelTrace`, so that the proofs about traced kernels hold for it as well.

The operations are read in order: index arithmetic as expressions over ids, rounds and sizes (`module_values`), and
accesses as positions in the buffer that a memref is a view of:

    %tile = memref.alloc() : memref<32x33xf32, #gpu.address_space<workgroup>>
    %v = memref.load %tile[%j, %i]                                                     tile[33*j + i]

Loops, branches, barriers, asynchronous copies and their waits become statements. What is not read is unknown, with the
reason: an index from memory or carried by a loop is data; a memref made by another operation leaves the claims about
its buffer unknown, and an operation that may access any memory those about all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, Final

import sympy

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Block, Cond, Expr, Op, Symbol, Type
from lego_mlir.aliases import Value as Operand
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Ne, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import Derivation, simplify
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.program import Compiler, Operation, tile_names
from lego_mlir.layout import Row, as_layout
from lego_mlir.printers.affine import affine_function
from lego_mlir.proofs.footprints import COMMIT, WAIT, WARP_BARRIER
from lego_mlir.proofs.module_values import arithmetic_of, comparison_of, map_of, select_of
from lego_mlir.tracing.data_ranges import DataRanges
from lego_mlir.tracing.dtypes import DTYPES, DType
from lego_mlir.tracing.requirements import Requirement
from lego_mlir.tracing.trace import (
    AsyncCopy,
    Atomic,
    Barrier,
    Buffer,
    For,
    If,
    KernelTrace,
    Load,
    MlirOperation,
    Source,
    Statement,
    Store,
    TensorAccess,
    ToIndex,
    Value,
)
from lego_mlir.transforms import tile_names as names
from lego_mlir.transforms.modules import walk

AXES: Final = "xyz"
SHARED: Final = "#gpu.address_space<workgroup>"
IGNORED: Final = frozenset(
    {
        "memref.dealloc", "memref.assume_alignment", "gpu.return", "scf.yield", "affine.yield", "gpu.printf",
        "memref.dim", "memref.extract_aligned_pointer_as_index",
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
FOUND: Final = {"gpu.thread_id": "thread_id", "gpu.block_id": "block_id"}


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
    _dynamic: Buffer | None = None

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
        self._block(block)
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
        self.ranges[symbol] = Range(0, self._size(f"grid size {axis}") if extent is None else extent)

    def _size(self, name: str) -> Expr:
        return self.sizes.setdefault(name, Size(name))

    def _value(self, value: Operand) -> Expr | None:
        return self.values.get(value)

    def _fresh(self, what: str) -> int:
        self._numbers += 1
        return self._numbers

    def unknown(self, op: Op, result: Operand) -> Expr:
        """A variable for a result that is not read: it may differ between threads, as data does."""
        number = self._fresh("data")
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
        count = len(arguments) - len(types)
        shared = tile_names(operation, count)
        for number, argument in enumerate(arguments):
            if not isinstance(argument.type, ir.MemRefType):
                if str(argument.type) == "index" or str(argument.type).startswith("i"):
                    name = self.arguments[number] if number < len(self.arguments) else f"argument {number}"
                    self.values[argument] = self.sizes.get(name, sympy.Symbol(name, integer=True))
                continue
            name = shared[number - len(types)] if number >= len(types) else f"argument {number}"
            if number < min(len(types), len(self.arguments)):
                name = self.arguments[number]
            self._made(argument, name, self.source(operation), number < len(types))

    def _made(self, value: Operand, name: str, source: Source, is_global: bool) -> str:
        """The name of a buffer for a memref that is no view of another."""
        shape = [
            self._size(f"{name} {axis}") if n == value.type.get_dynamic_size() else sympy.Integer(n)
            for axis, n in enumerate(value.type.shape)
        ]
        strides = [sympy.Mul(*shape[k + 1 :]) for k in range(len(shape))]
        elements = self.elements.get(name, sympy.Mul(*shape)) if len(shape) == 1 else sympy.Mul(*shape)
        layout = as_layout(Row(int(elements) if elements.is_Integer else Index(elements)))
        dtype = _dtype(value.type)
        size = int(elements) if elements.is_Integer else Index(elements)
        if any(name == other.name for other in self.buffers):
            name = f"{name}, {len(self.buffers)}"
        buffer = Buffer(name, dtype, layout, "global" if is_global else "workgroup", size, source)
        self.buffers.append(buffer)
        if not _is_plain(str(value.type.layout)):
            self.unread[name] = f"the strides of {value.type} are not read"
        self.views[value] = MemoryView(buffer, sympy.Integer(0), tuple(strides))
        return name

    def _overlapping(self, operation: Op) -> None:
        """One buffer for the dynamic shared memory, if parts of it overlap; its positions are the smallest elements."""
        parts, bytes_ = [], []
        for op in walk(operation):
            found = _part(op) if op.name == "memref.view" else None
            if found is not None:
                parts.append(found)
                bytes_.append(_dtype(op.results[0].type).bytes)
        parts.sort()
        if all(first[1] <= second[0] for first, second in pairwise(parts)):
            return
        granule, end = min(bytes_), max(end for _, end in parts)
        dtype = next(d for d in DTYPES.values() if d.bytes == granule)
        size = -(-end // granule)
        layout = as_layout(Row(size))
        self._dynamic = Buffer(DYNAMIC_MEMORY, dtype, layout, "workgroup", size, self.source(operation))
        self.buffers.append(self._dynamic)

    def _access(
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

    def _touch(
        self, op: Op, memref: Operand, index: Sequence[Expr | None], written: bool, shape: Sequence[int]
    ) -> None:
        """A load or store of a vector: of rank 2, by the warp together."""
        offsets = []
        for n in shape[:-1]:
            row = sympy.Symbol(f"row {self._fresh('row')}", integer=True)
            self.ranges[row] = Range(0, n)
            offsets.append((row, n))
        at = list(index)
        for axis, (row, _) in enumerate(reversed(offsets), 2):
            if axis <= len(at) and at[-axis] is not None:
                at[-axis] = at[-axis] + row
        access = self._access(op, memref, at, shape[-1] if shape else 1, len(shape) > 1)
        if access is None:
            return
        value, source = Value(self._fresh("value"), access.buffer.dtype), access.source
        made: Statement = Store(value, access, source) if written else Load(value, access, None, source)
        for row, n in reversed(offsets):
            made = For(row, 0, n, 1, (made,), source)
        self.body.append(made)

    # ---- operations

    def _block(self, block: Block) -> None:
        for inner in block.operations:
            self._operation(inner.operation)

    def _inside(self, block: Block) -> tuple[Statement, ...]:
        """The statements of a block."""
        outer, self.body = self.body, []
        self._block(block)
        found, self.body = tuple(self.body), outer
        return found

    def _operation(self, op: Op) -> None:
        reader = _READERS.get(op.name)
        if reader is not None:
            reader(self, op)
        elif op.name not in IGNORED:
            self._other(op)

    def _other(self, op: Op) -> None:
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
                self._scalar(op, result)

    def _scalar(self, op: Op, result: Operand) -> None:
        """A result that is an index, an integer or a condition."""
        text = str(result.type)
        operands = [self._value(v) for v in op.operands]
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


def _is_plain(layout: str) -> bool:
    """Whether the layout of a memref is the identity: row-major."""
    found = re.fullmatch(r"affine_map<\((.*)\) -> \((.*)\)>", layout)
    return found is not None and found[1] == found[2]


def _dtype(type_: Type) -> DType:
    """The element type, or one of its size."""
    text = str(type_.element_type)
    known = next((dtype for dtype in DTYPES.values() if dtype.mlir == text), None)
    return known or DTYPES["i32"]


def _constant(kernel: ModuleKernel, op: Op) -> None:
    text = str(op.results[0].type)
    attribute = op.attributes["value"]
    if text == "i1":
        holds = sympy.true if str(attribute).startswith(("true", "1", "-1")) else sympy.false
        kernel.conditions[op.results[0]] = holds
    elif text == "index" or (text.startswith("i") and text[1:].isdigit()):
        kernel.values[op.results[0]] = sympy.Integer(int(attribute.value))


def _hardware_id(kernel: ModuleKernel, op: Op) -> None:
    axis = Operation(kernel.compiler, op).keyword("dimension")
    kind = FOUND[op.name]
    symbol = next((s for s, found in kernel.ids.items() if found == (kind, axis)), sympy.Integer(0))
    kernel.values[op.results[0]] = symbol


def _place_in_block(kernel: ModuleKernel, op: Op) -> None:
    """`gpu.lane_id` and `gpu.subgroup_id`."""
    found = {axis: s for s, (kind, axis) in kernel.ids.items() if kind == "thread_id"}
    linear: Expr = sympy.Integer(0)
    for axis, extent in zip("zyx", reversed([*kernel.block, 1, 1][:3]), strict=True):
        linear = linear * extent + found.get(axis, 0)
    kernel.values[op.results[0]] = (FloorMod if op.name == "gpu.lane_id" else FloorDiv)(linear, WARP)


def _extent(kernel: ModuleKernel, op: Op) -> None:
    axis = AXES.index(Operation(kernel.compiler, op).keyword("dimension"))
    extents = kernel.block if op.name == "gpu.block_dim" else kernel.grid
    value = kernel._size(f"grid size {AXES[axis]}") if extents is None else sympy.Integer([*extents, 1, 1][axis])
    kernel.values[op.results[0]] = value


def _select(kernel: ModuleKernel, op: Op) -> None:
    condition, one, other = op.operands
    found = select_of(kernel.conditions.get(condition), kernel._value(one), kernel._value(other))
    text = str(op.results[0].type)
    if found is not None:
        kernel.values[op.results[0]] = found
    elif text == "index" or (text.startswith("i") and text[1:].isdigit()):
        kernel.unknown(op, op.results[0])


def _alloc(kernel: ModuleKernel, op: Op) -> None:
    result = op.results[0]
    if SHARED not in str(result.type) and str(result.type.memory_space) not in ("3", "3 : i64"):
        kernel.views[result] = None  # memory of one thread
        return
    name = names.of_location(op.location) or f"the buffer of {kernel.compiler.place(op)}"
    kernel._made(result, name, kernel.source(op), False)


def _subview(kernel: ModuleKernel, op: Op) -> None:
    at = Operation(kernel.compiler, op)
    groups, start = [], 0
    for size in at.integers("operandSegmentSizes"):
        groups.append([kernel._value(v) for v in op.operands[start : start + size]])
        start += size
    view = kernel.views.get(op.operands[0])
    mixed = []
    for static, dynamic in zip(("static_offsets", "static_sizes", "static_strides"), groups[1:], strict=True):
        pending = list(dynamic)
        mixed.append([pending.pop(0) if n == DYNAMIC else sympy.Integer(n) for n in at.integers(static)])
    offsets, _, strides = mixed
    if view is None or None in offsets or None in strides:
        kernel.views[op.results[0]] = view if view is None else kernel.views[op.operands[0]]
        if view is not None:
            kernel.unread.setdefault(view.buffer.name, f"memref.subview in line {kernel.source(op).line} is not read")
        return
    kept = _kept_axes(op, at.integers("static_sizes"))
    by = [s * v for s, v in zip(strides, view.strides, strict=True)]
    kernel.views[op.results[0]] = MemoryView(view.buffer, view.at(offsets), tuple(by[k] for k in kept), view.unit)


def _kept_axes(op: Op, sizes: Sequence[int]) -> list[int]:
    """The axes of a subview that its result has: the first unit axes are dropped, as far as the shape needs it."""
    spare, wanted, kept = len(sizes) - len(op.results[0].type.shape), list(op.results[0].type.shape), list[int]()
    for axis, n in enumerate(sizes):
        left = wanted[len(kept) :]
        if spare and n == 1 and not (left and left[0] == 1 and len(left) == len(sizes) - axis):
            spare -= 1
        else:
            kept.append(axis)
    return kept


def _same(kernel: ModuleKernel, op: Op) -> None:
    kernel.views[op.results[0]] = kernel.views.get(op.operands[0])


def _dynamic_memory(kernel: ModuleKernel, op: Op) -> None:
    kernel.views[op.results[0]] = None


def _part(op: Op) -> tuple[int, int] | None:
    """The first byte and the end of a view of dynamic shared memory; None of other memory or at an unknown byte."""
    made, shift = (getattr(v.owner, "operation", v.owner) for v in list(op.operands)[:2])
    if getattr(made, "name", "") != "gpu.dynamic_shared_memory" or getattr(shift, "name", "") != "arith.constant":
        return None
    type_ = op.results[0].type
    start = int(shift.attributes["value"].value)
    return (start, start + prod(type_.shape) * _dtype(type_).bytes) if type_.has_static_shape else None


def _view(kernel: ModuleKernel, op: Op) -> None:
    """A part of the dynamic shared memory: a buffer if it overlaps no other."""
    result, part = op.results[0], _part(op)
    if part is None:
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: this {op.name} is not read"
        kernel.views[result] = None
    elif kernel._dynamic is None:
        name = names.of_location(op.location) or f"the buffer of {kernel.compiler.place(op)}"
        kernel._made(result, name, kernel.source(op), False)
    else:
        granule, shape = kernel._dynamic.dtype.bytes, list(result.type.shape)
        unit = _dtype(result.type).bytes // granule
        strides = tuple(sympy.Integer(unit * prod(shape[axis + 1 :])) for axis in range(len(shape)))
        kernel.views[result] = MemoryView(kernel._dynamic, sympy.Integer(part[0] // granule), strides, unit)


def _loaded(kernel: ModuleKernel, op: Op) -> None:
    shape = list(getattr(op.results[0].type, "shape", ()))
    kernel._touch(op, op.operands[0], _indices(kernel, op, 1), False, shape)
    if not shape:
        kernel._scalar(op, op.results[0])


def _stored(kernel: ModuleKernel, op: Op) -> None:
    shape = list(getattr(op.operands[0].type, "shape", ()))
    kernel._touch(op, op.operands[1], _indices(kernel, op, 2), True, shape)


def _indices(kernel: ModuleKernel, op: Op, first: int) -> list[Expr | None]:
    """The index operands from a position on, through the map of an `affine` access."""
    operands = list(op.operands)[first:]
    if op.name.startswith("vector.transfer"):
        operands = operands[: Operation(kernel.compiler, op).integers("operandSegmentSizes")[first]]
        return [kernel._value(v) for v in operands]
    values = [kernel._value(v) for v in operands]
    if not op.name.startswith("affine."):
        return values
    if None in values:
        return [None]
    map_ = map_of(op.attributes["map"])
    given = [Index(v) for v in values]
    return [as_expr(affine_function(part, map_.n_dims, Index)(given)) for part in map_.results]


def _transfer(kernel: ModuleKernel, op: Op) -> None:
    """`vector.transfer_read` and `_write` of the last axes, without a mask."""
    written = op.name == "vector.transfer_write"
    memref = op.operands[1 if written else 0]
    vector = op.operands[0].type if written else op.results[0].type
    shape, rank = list(vector.shape), len(memref.type.shape)
    map_ = map_of(op.attributes["permutation_map"])
    last = [f"d{k}" for k in range(rank - len(shape), rank)]
    masked = list(Operation(kernel.compiler, op).integers("operandSegmentSizes"))[-1] != 0
    results = [str(part) for part in map_.results]
    flipped = len(shape) == 2 and results == last[::-1] and not written
    if masked or (results != last and not flipped):
        kernel._other(op)
        return
    shape = shape[::-1] if flipped else shape
    kernel._touch(op, memref, _indices(kernel, op, 2 if written else 1), written, shape)


def _barrier(kernel: ModuleKernel, op: Op) -> None:
    text = str(op.attributes["address_spaces"]) if "address_spaces" in op.attributes else ""
    if op.operands or (text and "workgroup" not in text):
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: this barrier is not read"
    kernel.body.append(Barrier(kernel.source(op)))


def _warp_barrier(kernel: ModuleKernel, op: Op) -> None:
    kernel.body.append(MlirOperation((), WARP_BARRIER, (), (), kernel.source(op)))


def _commit(kernel: ModuleKernel, op: Op) -> None:
    kernel.body.append(MlirOperation((), COMMIT, (), (), kernel.source(op)))


def _wait(kernel: ModuleKernel, op: Op) -> None:
    named = next((name for name in ("numGroups", "n") if name in op.attributes), None)
    groups = 0 if named is None else int(op.attributes[named].value)
    kernel.body.append(MlirOperation((), WAIT, (), (("n", f"{groups} : i32"),), kernel.source(op)))


def _copied(kernel: ModuleKernel, op: Op) -> None:
    """`nvgpu.device_async_copy`: a copy of `dstElements` contiguous elements."""
    target, at, source, start, *_ = _grouped(kernel, op)
    width = int(op.attributes["dstElements"].value)
    to = kernel._access(op, target[0], [kernel._value(v) for v in at], width)
    origin = kernel._access(op, source[0], [kernel._value(v) for v in start], width)
    if to is not None and origin is not None:
        kernel.body.append(AsyncCopy(origin, to, kernel.source(op)))


def _grouped(kernel: ModuleKernel, op: Op) -> list[list[Operand]]:
    groups, start = [], 0
    for size in Operation(kernel.compiler, op).integers("operandSegmentSizes"):
        groups.append(list(op.operands)[start : start + size])
        start += size
    return groups


def _updated(kernel: ModuleKernel, op: Op) -> None:
    access = kernel._access(op, op.operands[1], [kernel._value(v) for v in list(op.operands)[2:]])
    if access is not None:
        value = Value(kernel._fresh("value"), access.buffer.dtype)
        kernel.body.append(Atomic(value, "add", access, None, None, None, "device", access.source))
    if str(op.results[0].type).startswith("i"):
        kernel.unknown(op, op.results[0])


def _matrices(kernel: ModuleKernel, op: Op) -> None:
    """`nvgpu.ldmatrix`: each lane addresses a row of 16 bytes."""
    view = kernel.views.get(op.operands[0])
    width = 1 if view is None else 16 // view.buffer.dtype.bytes
    index = [kernel._value(v) for v in list(op.operands)[1:]]
    access = kernel._access(op, op.operands[0], index, width)
    if access is not None:
        kernel.body.append(Load(Value(kernel._fresh("value"), access.buffer.dtype), access, None, access.source))


def _loop(kernel: ModuleKernel, op: Op) -> None:
    """`scf.for` and `affine.for`; values that it carries are not read."""
    if op.name == "affine.for":
        low_map, high_map = (map_of(op.attributes[name]) for name in ("lowerBoundMap", "upperBoundMap"))
        given, first = list(op.operands), low_map.n_inputs
        ends = [
            _bound(kernel, low_map, given[:first]),
            _bound(kernel, high_map, given[first : first + high_map.n_inputs]),
        ]
        step: Expr | None = sympy.Integer(int(op.attributes["step"].value))
    else:
        *ends, step = (kernel._value(v) for v in list(op.operands)[:3])
    block = next(iter(op.regions[0].blocks))
    symbol = sympy.Symbol(f"k{kernel._fresh('loop')}", integer=True)
    if None in (*ends, step):
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: the bounds of this loop are not read"
        ends, step = [sympy.Integer(0), sympy.Integer(1)], sympy.Integer(1)
    low, high = (e for e in ends if e is not None)
    known = [bounds(e, {s: kernel.ranges[s] for s in e.free_symbols if s in kernel.ranges}) for e in (low, high)]
    if all(isinstance(s, Size) for e in (low, high) for s in e.free_symbols):
        kernel.ranges[symbol] = Range(low, high)
    elif known[0].lo is not None and known[1].hi is not None:
        kernel.ranges[symbol] = Range(known[0].lo, known[1].hi + 1)
    induction, *carried = block.arguments
    kernel.values[induction] = symbol
    before = dict(kernel.unread), kernel.opaque, list(kernel.buffers)
    inside = _round(kernel, op, block, carried, {})
    starts = [kernel._value(v) for v in list(op.operands)[len(op.operands) - len(carried) :]]
    counted = _counted(kernel, block, carried, starts, (symbol, low, step))
    if counted:  # read again, with what the loop carries
        kernel.unread, kernel.opaque, kernel.buffers = before
        inside = _round(kernel, op, block, carried, counted)
    kernel.body.append(For(symbol, low, high, step, inside, kernel.source(op)))
    for result in op.results:
        _carried(kernel, op, result)


def _round(
    kernel: ModuleKernel, op: Op, block: Block, carried: Sequence[Operand], counted: Mapping[Operand, Expr]
) -> tuple[Statement, ...]:
    """The statements of a loop's body; `counted` has the values that it carries, as far as they are known."""
    outer, kernel.body = kernel.body, []
    for argument in carried:
        if argument in counted:
            kernel.values[argument] = counted[argument]
        else:
            _carried(kernel, op, argument)
    kernel._block(block)
    inside, kernel.body = tuple(kernel.body), outer
    return inside


def _counted(
    kernel: ModuleKernel,
    block: Block,
    carried: Sequence[Operand],
    starts: Sequence[Expr | None],
    loop: tuple[Symbol, Expr, Expr],
) -> dict[Operand, Expr]:
    """Carried indices that are functions of the loop's variable: the slot of a ring, and those that it shifts on.

    What round k yields is the value in round k + 1, and that of the first round is the one before the loop.
    """
    symbol, low, step = loop
    yielded = list(list(block.operations)[-1].operation.operands)
    unknown = {kernel.values[a]: a for a in carried if kernel.values.get(a) is not None}
    found: dict[Operand, Expr] = {}
    for _ in carried:
        for argument, start, end in zip(carried, starts, yielded, strict=True):
            after = kernel._value(end)
            if argument in found or start is None or after is None or argument not in unknown.values():
                continue
            after = after.xreplace({u: found[a] for u, a in unknown.items() if a in found})
            here = after.xreplace({symbol: symbol - step})
            first = here.xreplace({symbol: low}) - start
            if not after.free_symbols & kernel.data.symbols.keys() and simplify(first, kernel.ranges).expr == 0:
                found[argument] = here
    return found


def _bound(kernel: ModuleKernel, map_: Attribute, operands: Sequence[Operand]) -> Expr | None:
    values = [kernel._value(v) for v in operands]
    if None in values or len(map_.results) != 1:
        return None
    return as_expr(affine_function(map_.results[0], map_.n_dims, Index)([Index(v) for v in values]))


def _carried(kernel: ModuleKernel, op: Op, value: Operand) -> None:
    """A value that a loop or branch passes on, which is not read."""
    ir = bindings.load().ir
    text = str(value.type)
    if isinstance(value.type, ir.MemRefType):
        kernel.views[value] = None
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: the memref that {op.name} carries is not read"
    elif text == "index" or (text.startswith("i") and text[1:].isdigit()):
        kernel.unknown(op, value)


def _branch(kernel: ModuleKernel, op: Op) -> None:
    condition = kernel.conditions.get(op.operands[0])
    if condition is None:
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: the condition of this branch is not read"
        condition = sympy.true
    sides = [kernel._inside(next(iter(r.blocks))) if list(r.blocks) else () for r in op.regions]
    kernel.body.append(If(condition, sides[0], sides[1] if len(sides) > 1 else (), kernel.source(op)))
    for result in op.results:
        _carried(kernel, op, result)


DYNAMIC: Final = -(2**63)
_READERS: Final[dict[str, Callable[[ModuleKernel, Op], None]]] = {
    "arith.constant": _constant, "index.constant": _constant, "index.bool.constant": _constant,
    "gpu.thread_id": _hardware_id, "gpu.block_id": _hardware_id, "gpu.block_dim": _extent, "gpu.grid_dim": _extent,
    "gpu.lane_id": _place_in_block, "gpu.subgroup_id": _place_in_block,
    "arith.select": _select, "memref.alloc": _alloc, "memref.alloca": _alloc, "memref.subview": _subview,
    "memref.cast": _same, "gpu.dynamic_shared_memory": _dynamic_memory, "memref.view": _view,
    "memref.load": _loaded, "affine.load": _loaded, "vector.load": _loaded, "affine.vector_load": _loaded,
    "memref.store": _stored, "affine.store": _stored, "vector.store": _stored, "affine.vector_store": _stored,
    "vector.transfer_read": _transfer, "vector.transfer_write": _transfer,
    "gpu.barrier": _barrier, "nvvm.barrier0": _barrier, "nvvm.bar.warp.sync": _warp_barrier,
    "nvgpu.device_async_copy": _copied, "nvgpu.device_async_create_group": _commit, "nvgpu.device_async_wait": _wait,
    "nvvm.cp.async.commit.group": _commit, "nvvm.cp.async.wait.group": _wait,
    "memref.atomic_rmw": _updated, "nvgpu.ldmatrix": _matrices,
    "scf.for": _loop, "affine.for": _loop, "scf.if": _branch,
}  # fmt: skip
