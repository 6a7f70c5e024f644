"""A traced kernel as one verified MLIR module.

    gpu.module @<kernel>_module {
      gpu.func @<kernel>(memrefs and numbers of the signature, then sizes) workgroup(shared tiles) kernel

Tensors are one-dimensional memrefs over their physical elements, indexed by the simplified positions. Registers become
the values that loops and branches carry: a region takes and yields those that it writes. A masked access is a branch.
Every operation carries the file and line of its statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, assert_never

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Expr, Location, Symbol
from lego_mlir.aliases import Value as Emitted
from lego_mlir.hardware.memory import BANK_ROW_BYTES
from lego_mlir.hardware.tensor_maps import ATOM_BYTES
from lego_mlir.printers.builder import Builder
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.printers.mlir_names import Form
from lego_mlir.tracing.emit.emit_atomics import AtomicEmitter
from lego_mlir.tracing.emit.emit_copies import CopyEmitter
from lego_mlir.tracing.emit.emit_marks import copy_region, emit_barrier, emit_peer, role_attributes, tile_copies
from lego_mlir.tracing.emit.emit_ranges import range_attributes
from lego_mlir.tracing.emit.emit_shared import emit_views, is_dynamic
from lego_mlir.tracing.emit.emit_tiles import TileEmitter, order_of
from lego_mlir.tracing.emit.emit_values import ValueEmitter
from lego_mlir.tracing.emit.kept_rows import kept_steps
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.marks import ResidentBlocks, TileCopy, WarpRole
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.symbols import symbols
from lego_mlir.tracing.trace.trace import (
    Assume,
    AsyncCopy,
    Atomic,
    Barrier,
    Buffer,
    Compose,
    Compute,
    Constant,
    Contract,
    Convert,
    For,
    FromCondition,
    FromIndex,
    FunctionCall,
    FunctionTrace,
    If,
    KernelTrace,
    Lane,
    Load,
    MatrixLoad,
    MlirOperation,
    Piece,
    Read,
    Register,
    Return,
    Statement,
    Store,
    TensorAccess,
    TileLoad,
    TileStore,
    ToIndex,
    Value,
    While,
    Write,
    registers_written,
)
from lego_mlir.tracing.words.cache_hints import LEVELS
from lego_mlir.transforms.kernel_facts import APART_ATTRIBUTE
from lego_mlir.transforms.passes.lower_cache_hints import HINT
from lego_mlir.transforms.tile_names import NAME as TILE_NAME
from lego_mlir.transforms.tile_names import SCRATCH

if TYPE_CHECKING:
    from lego_mlir.tracing.emit.emit_calls import FunctionEmitter

RESIDENT_ATTRIBUTE: Final = "nvvm.minctasm"
"""The least number of blocks whose registers fit a multiprocessor."""
WORKGROUP: Final = "#gpu.address_space<workgroup>"
_PREFETCHED: Final = {
    hint: {"localityHint": f"{locality} : i32", "isWrite": "false", "isDataCache": "true"}
    for hint, locality in zip(LEVELS.values(), (3, 2), strict=True)
}
TILE_ALIGNMENT: Final = 16  # bytes: the alignment of the widest access of a thread


def emit_module(
    trace: KernelTrace,
    form: Form = "affine",
    tiles: type[TileEmitter] = TileEmitter,
    *,
    warpgroups: bool = False,
    emitter: KernelEmitter | None = None,
) -> Any:
    """The module, verified, in the current context; `tiles` emits the positions of accesses.

    With `warpgroups` the products of spread values that `wgmma` can compute are emitted so (`emit_wgmma`). Another
    `emitter` writes operations that the bindings do not know.
    """
    ir = bindings.load().ir
    ir.Context.current.allow_unregistered_dialects = tiles is not TileEmitter or emitter is not None
    with location_of(ir, trace.source):
        module = ir.Module.create()
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        with ir.InsertionPoint(module.body):
            outer = ir.Operation.create(
                "gpu.module", attributes={"sym_name": ir.StringAttr.get(f"{trace.name}_module")}, regions=1
            )
        with ir.InsertionPoint(outer.regions[0].blocks.append()):
            (emitter or _emitter(trace, form, tiles, warpgroups)).emit()
        module.operation.verify()
        return module


def _emitter(trace: KernelTrace, form: Form, tiles: type[TileEmitter], warpgroups: bool) -> KernelEmitter:
    if not warpgroups:
        return KernelEmitter(trace, form, tiles)
    from lego_mlir.tracing.emit.emit_wgmma import WarpgroupEmitter

    return WarpgroupEmitter(trace, form)


def location_of(ir: Any, source: Source) -> Any:
    """The location of a line of the spec."""
    return ir.Location.file(source.file, source.line, 1)


class KernelEmitter:
    """Emits one kernel at the current insertion point."""

    def __init__(self, trace: KernelTrace, form: Form, tiles: type[TileEmitter] = TileEmitter) -> None:
        self.trace, self.form, self.tiles_of = trace, form, tiles
        self.ir = bindings.load().ir
        self.rows = trace.tile_rows()
        self.dynamic = is_dynamic(trace)
        self._values: dict[int, Any] = {}
        self._registers: dict[Register, Any] = {}
        self._memrefs: dict[str, Any] = {}
        self._locations: dict[Source, Any] = {}
        self._used: set[int] | None = None  # the numbers of values that are operands
        self.functions: dict[FunctionTrace, FunctionEmitter] = {}

    def emit(self) -> None:
        """The gpu.func with its body."""
        entry = self._function()
        count = len(self.trace.parameters)
        for parameter, argument in zip(self.trace.parameters, entry.arguments, strict=False):
            if isinstance(parameter, Buffer):
                self._memrefs[parameter.name] = argument
            else:
                self._values[parameter.value.number] = argument
        sizes = dict(zip(self.trace.sizes, list(entry.arguments)[count:], strict=False))
        if not self.dynamic:
            for tile, argument in zip(self.trace.shared, list(entry.arguments)[count + len(sizes) :], strict=True):
                self._memrefs[tile.name] = argument
        with self.ir.InsertionPoint(entry):
            if self.dynamic:
                types = [memref_type(tile) for tile in self.trace.shared]
                self._memrefs |= self._views(types, location_of(self.ir, self.trace.source))
            self.printer = MlirPrinter(sizes, self.trace.ranges, form=self.form, tables=self._memrefs)
            self.compute = ValueEmitter(self.printer.build)
            self.tiles = self.tiles_of(self.printer, self.rows, self.trace.ranges)
            self.atomics = AtomicEmitter(self.printer.build, lambda value: self._values[value.number])
            self.copies = CopyEmitter(self.printer, self._memrefs, self.tiles)
            self._emit_ids(self.symbols_used())
            self._emit_body(self.trace.body)
            self.printer.build.operation("gpu.return")

    def _views(self, types: list[str], location: Location) -> dict[str, Emitted]:
        """The tiles in dynamic shared memory, by name."""
        alignment = ATOM_BYTES if tile_copies(self.trace) else BANK_ROW_BYTES
        return emit_views(Builder(), self.trace, types, location, alignment)

    # -- the function

    def memref_of(self, buffer: Buffer) -> str:
        """The type of a tensor."""
        return memref_type(buffer)

    def _function(self) -> Any:
        ir, trace = self.ir, self.trace
        inputs = [self.memref_of(p) if isinstance(p, Buffer) else p.dtype.mlir for p in trace.parameters]
        inputs += ["index"] * len(trace.sizes)
        tiles = [] if self.dynamic else [memref_type(tile, self.rows.get(tile.name)) for tile in trace.shared]
        attributes = {
            "sym_name": ir.StringAttr.get(trace.name),
            "function_type": ir.TypeAttr.parse(f"({', '.join(inputs)}) -> ()"),
            "kernel": ir.UnitAttr.get(),
        }
        for name, extents in (("known_block_size", trace.block), ("known_grid_size", trace.grid)):
            if all(isinstance(n, int) for n in extents):
                attributes[name] = ir.DenseI32ArrayAttr.get([*extents, 1, 1][:3])
        if trace.cluster:
            attributes["known_cluster_size"] = ir.DenseI32ArrayAttr.get([*trace.cluster, 1, 1][:3])
        for name, number in trace.bounds.attributes().items():
            attributes[name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
        attributes |= range_attributes(trace) | self._launch_attributes()
        if sum(isinstance(p, Buffer) for p in trace.parameters) > 1:
            attributes[APART_ATTRIBUTE] = ir.UnitAttr.get()
        if tiles:
            attributes["workgroup_attributions"] = ir.Attribute.parse(f"{len(tiles)} : i64")
            attributes["workgroup_attrib_attrs"] = ir.ArrayAttr.get([self._tile_facts(tile) for tile in trace.shared])
        function = ir.Operation.create("gpu.func", attributes=attributes, regions=1)
        types = [ir.Type.parse(t) for t in (*inputs, *tiles)]
        return function.regions[0].blocks.append(*types, arg_locs=[function.location] * len(types))

    def _launch_attributes(self) -> dict[str, Attribute]:
        """Attributes of the launch that words of the kernel ask for."""
        marks = [s.mark for s in self.trace.body if isinstance(s, If)]
        counts = [mark.count for mark in marks if isinstance(mark, ResidentBlocks)]
        return {RESIDENT_ATTRIBUTE: self.ir.Attribute.parse(f"{counts[-1]} : i32")} if counts else {}

    def _tile_facts(self, tile: Buffer) -> Any:
        """The attributes of a shared tile."""
        order = order_of(tile) if tile.name in self.rows else None
        copied = tile.name in {copy.tile.name for copy in tile_copies(self.trace)}
        alignment = ATOM_BYTES if copied else TILE_ALIGNMENT
        listed = {"llvm.align": self.ir.Attribute.parse(f"{alignment} : i64")}
        if tile.named:
            listed[TILE_NAME] = self.ir.StringAttr.get(tile.name)
        if tile.scratch:
            listed[SCRATCH] = self.ir.UnitAttr.get()
        if order is not None:
            listed["lego.order"] = self.ir.StringAttr.get(order)
        return self.ir.DictAttr.get(listed)

    def symbols_used(self) -> Collection[Symbol]:
        """The ids and other symbols that statements name."""
        return symbols(self.trace.body)

    def _emit_ids(self, used: Collection[Symbol]) -> None:
        for symbol, (kind, axis) in self.trace.ids.items():
            if symbol in used:
                value = self.printer.build.value(f"gpu.{kind}", (), "index", {"dimension": f"#gpu<dim {axis}>"})
                self.printer.bind(symbol, value)

    # -- statements

    def _emit_body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            location = self._locations.get(statement.source)
            if location is None:
                location = self._locations[statement.source] = location_of(self.ir, statement.source)
            with location:
                self._emit(statement)

    def _emit(self, statement: Statement) -> None:
        values, build = self._values, self.printer.build
        match statement:
            case Constant(result, number):
                values[result.number] = self.printer.remember(
                    repr(number), result.mlir, lambda _: self.compute.constant(number, result)
                )
            case Compute(result, operation, operands):
                values[result.number] = self.compute.compute(operation, operands, self._operands(operands), result)
            case Convert(result, operand):
                values[result.number] = self.compute.convert(values[operand.number], operand, result)
            case FromIndex(result, expr):
                values[result.number] = self.printer.value(expr, result.mlir)
            case ToIndex(symbol, operand):
                self.printer.bind(symbol, self.compute.to_index(values[operand.number], operand))
            case Assume(condition, text):
                claim = {"lego.claim": self.ir.StringAttr.get(text), "op_bundle_sizes": "array<i32>"}
                build.operation("llvm.intr.assume", (self.printer.condition(condition),), (), claim)
            case FromCondition(result, condition):
                values[result.number] = self.printer.condition(condition)
            case Lane(result, operand, lane):
                position = {"static_position": f"array<i64: {lane}>"}
                values[result.number] = build.value("vector.extract", (values[operand.number],), result.mlir, position)
            case Compose(result, operands):
                name = "vector.broadcast" if len(operands) == 1 else "vector.from_elements"
                values[result.number] = build.value(name, self._operands(operands), result.mlir)
            case Load():
                values[statement.result.number] = self._emit_load(statement)
            case Store():
                self._emit_store(statement)
            case Atomic():
                self._emit_atomic(statement)
            case TileLoad(result, buffer):
                values[result.number] = self.tiles.load(statement, self._memrefs[buffer.name])
            case TileStore(value, buffer):
                self.tiles.store(statement, values[value.number], self._memrefs[buffer.name])
            case Piece(result, operand):
                values[result.number] = self.tiles.piece(statement, values[operand.number])
            case Contract(result, a, b, c):
                values[result.number] = self.tiles.contract(statement, *self._operands((a, b, c)))
            case MatrixLoad(result):
                values[result.number] = self.copies.matrices(statement)
            case AsyncCopy():
                self.copies.copy(statement)
            case Barrier():
                emit_barrier(self.printer, statement)
            case MlirOperation(results, name, operands, attributes):
                types = [result.mlir for result in results]
                made = build.operation(name, self._operands(operands), types, dict(attributes))
                values.update(zip((result.number for result in results), made.results, strict=True))
            case Read(result, register):
                values[result.number] = self._registers[register]
            case Write(register, value):
                self._registers[register] = values[value.number]
            case For() | While() | If() | FunctionCall() | Return():
                self._emit_control(statement)
            case _:
                assert_never(statement)

    def _emit_control(self, statement: For | While | If | FunctionCall | Return) -> None:
        match statement:
            case For():
                self._emit_for(statement)
            case While():
                self._emit_while(statement)
            case If():
                self._emit_if(statement)
            case FunctionCall():
                self._emit_call(statement)
            case Return(ends):
                self.printer.build.operation("func.return", [self._end(end) for end in ends])
            case _:
                assert_never(statement)

    def _operands(self, operands: Sequence[Value]) -> list[Any]:
        return [self._values[o.number] for o in operands]

    def _memref_of(self, access: TensorAccess) -> Emitted:
        """The memory of an access, in another block of the cluster if it names one."""
        own = self._memrefs[access.buffer.name]
        return own if access.block is None else emit_peer(self.printer, own, access.block)

    def _emit_load(self, load: Load) -> Any:
        if load.other is None:
            return self._load_now(load)
        branch = self._branch(load.access.mask, [load.result.mlir])
        with self._region(branch, 0):
            self._yield([self._load_now(load)])
        with self._region(branch, 1):
            self._yield([self._values[load.other.number]])
        return branch.results[0]

    def _load_now(self, load: Load) -> Any:
        access, build = load.access, self.printer.build
        operands = (self._memref_of(access), *self.tiles.indices(access))
        dtype, name, facts = access.buffer.dtype, "memref.load", _hint(access)
        if access.hint in LEVELS.values():
            build.operation("memref.prefetch", operands, (), _PREFETCHED[access.hint])
            return self.compute.constant(0, load.result)
        if access.width > 1:
            name, facts = "vector.load", facts | _alignment(access.width, dtype)
        stored = build.value(name, operands, _in_memory(load.result), facts)
        return self.compute.from_memory(stored, load.result)

    def _emit_store(self, store: Store) -> None:
        if not store.access.is_masked:
            self._store_now(store)
            return
        branch = self._branch(store.access.mask, [])
        with self._region(branch, 0):
            self._store_now(store)
            self._yield([])

    def _store_now(self, store: Store) -> None:
        access, build = store.access, self.printer.build
        memref = self._memref_of(access)
        stored = self.compute.to_memory(self._values[store.value.number], store.value)
        operands = (stored, memref, *self.tiles.indices(access))
        if access.width == 1:
            build.operation("memref.store", operands, (), _hint(access))
        else:
            facts = _hint(access) | _alignment(access.width, access.buffer.dtype)
            build.operation("vector.store", operands, (), facts)

    def _emit_atomic(self, atomic: Atomic) -> None:
        """The update, in a branch where it is masked; a branch yields the old value only if it is used."""
        access, number = atomic.access, atomic.result.number
        memref = self._memref_of(access)
        if atomic.other is None:
            self._values[number] = self.atomics.emit(atomic, memref, self.tiles.indices(access))
            return
        if self._used is None:
            self._used = self.trace.values_used()
        wanted = number in self._used
        branch = self._branch(access.mask, [atomic.result.mlir] if wanted else [])
        with self._region(branch, 0):
            old = self.atomics.emit(atomic, memref, self.tiles.indices(access))
            self._yield([old] if wanted else [])
        if wanted:
            with self._region(branch, 1):
                self._yield([self._values[atomic.other.number]])
            self._values[number] = branch.results[0]

    # -- functions

    def _emit_call(self, call: FunctionCall) -> None:
        """The call; its function is emitted before the kernel, at the first call."""
        from lego_mlir.tracing.emit.emit_calls import FunctionEmitter

        if call.function not in self.functions:
            self.functions[call.function] = FunctionEmitter(self, call.function)
        callee = self.functions[call.function]
        operands = [self._end(argument) for argument in call.arguments]
        operands += [self._memrefs[buffer.name] for buffer in callee.buffers]
        operands += [self.printer.value(size, "index") for size in callee.sizes]
        made = self.printer.build.operation(
            "func.call", operands, callee.result_types, {"callee": f"@{call.function.name}"}
        )
        for result, value in zip(call.results, made.results, strict=True):
            if isinstance(result, Value):
                self._values[result.number] = value
            else:
                self.printer.bind(result, value)

    def _end(self, end: Any) -> Any:
        """A value, or an index expression, as an operand."""
        return self._values[end.number] if isinstance(end, Value) else self.printer.value(end, "index")

    # -- regions

    def _emit_for(self, loop: For) -> None:
        carried = [r for r in registers_written(loop.body) if r in self._registers]
        bounds = [self.printer.value(b, "index") for b in (loop.lo, loop.hi, loop.step)]
        types = [self._register_type(r) for r in carried]
        operation = self.printer.build.operation(
            "scf.for", (*bounds, *(self._registers[r] for r in carried)), types, regions=1
        )
        index = self.printer.build.type("index")
        arguments = [index, *map(self.printer.build.type, types)]
        block = operation.regions[0].blocks.append(*arguments, arg_locs=[operation.location] * len(arguments))
        before = dict(self._registers)
        with self.ir.InsertionPoint(block), self.printer.scope():
            self.printer.bind(loop.symbol, block.arguments[0])
            self._registers.update(zip(carried, list(block.arguments)[1:], strict=True))
            self._emit_body(loop.body)
            self._yield([self._registers[r] for r in carried])
        self._registers = {**before, **dict(zip(carried, operation.results, strict=True))}

    def _emit_while(self, loop: While) -> None:
        """An scf.while whose first region only passes the registers on."""
        carried = [r for r in registers_written(loop.body) if r in self._registers]
        types = [self._register_type(r) for r in carried]
        build, kinds = self.printer.build, list(map(self.printer.build.type, types))
        operation = build.operation("scf.while", [self._registers[r] for r in carried], types, regions=2)
        locations = [operation.location] * len(kinds)
        first = operation.regions[0].blocks.append(*kinds, arg_locs=locations)
        with self.ir.InsertionPoint(first):
            build.operation("scf.condition", (first.arguments[carried.index(loop.condition)], *first.arguments))
        block = operation.regions[1].blocks.append(*kinds, arg_locs=locations)
        before = dict(self._registers)
        with self.ir.InsertionPoint(block), self.printer.scope():
            self._registers.update(zip(carried, block.arguments, strict=True))
            self._emit_body(loop.body)
            self._yield([self._registers[r] for r in carried])
        self._registers = {**before, **dict(zip(carried, operation.results, strict=True))}

    @cached_property
    def _kept(self) -> Mapping[int, Expr]:
        """The steps since a loop began to copy the same rows into a ring."""
        return kept_steps(self.trace)

    def _emit_copy(self, branch: If, copy: TileCopy) -> None:
        since = copy.since if copy.since is not None else self._kept.get(id(branch))
        region, yielded = copy_region(self.printer, self.trace, replace(copy, since=since))
        with self._region(region, 0):
            self._emit_body(branch.then)
            self._yield(yielded)

    def _emit_if(self, branch: If) -> None:
        if isinstance(branch.mark, TileCopy):
            self._emit_copy(branch, branch.mark)
            return
        if branch.condition == True and not isinstance(branch.mark, WarpRole):  # noqa: E712  SymPy's true is not Python's
            self._emit_body(branch.then)
            return
        carried = [r for r in registers_written((*branch.then, *branch.otherwise)) if r in self._registers]
        types = [self._register_type(r) for r in carried]
        operation = self.printer.build.operation("scf.if", (self._condition_of(branch),), types, regions=2)
        if isinstance(branch.mark, WarpRole):
            for name, text in role_attributes(branch.mark).items():
                operation.attributes[name] = self.ir.Attribute.parse(text)
        before = dict(self._registers)
        for number, body in enumerate((branch.then, branch.otherwise)):
            if number and not body and not carried:
                continue
            self._registers = dict(before)
            with self._region(operation, number):
                self._emit_body(body)
                self._yield([self._registers[r] for r in carried])
        self._registers = {**before, **dict(zip(carried, operation.results, strict=True))}

    def _condition_of(self, branch: If) -> Emitted:
        return self.printer.condition(branch.condition)

    def _register_type(self, register: Register) -> str:
        return Value(register.number, register.dtype, register.width).mlir

    def _branch(self, condition: Any, results: list[str]) -> Any:
        """An scf.if without blocks yet."""
        return self.printer.build.operation("scf.if", (self.printer.condition(condition),), results, regions=2)

    @contextmanager
    def _region(self, operation: Any, number: int) -> Iterator[None]:
        with self.ir.InsertionPoint(operation.regions[number].blocks.append()), self.printer.scope():
            yield

    def _yield(self, values: Sequence[Any]) -> None:
        self.printer.build.operation("scf.yield", values)


def memref_type(buffer: Buffer, row: int | None = None) -> str:
    """The memref type, two-dimensional where `row` is the length of a row."""
    size = "?" if not buffer.is_static else buffer.size if row is None else f"{buffer.size // row}x{row}"
    space = f", {WORKGROUP}" if buffer.space == "workgroup" else ""
    return f"memref<{size}x{buffer.dtype.in_memory}{space}>"


def _in_memory(value: Value) -> str:
    """The MLIR type that a value is loaded and stored as."""
    return Value(value.number, dtypes.u8, value.width).mlir if value.dtype.family == "bool" else value.mlir


def _hint(access: TensorAccess) -> dict[str, str]:
    return {HINT: f'"{access.hint}"'} if access.hint else {}


def _alignment(width: int, dtype: DType) -> dict[str, str]:
    return {"alignment": f"{width * dtype.bytes} : i64"}
