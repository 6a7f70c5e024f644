"""Lowers the lego operations of a module to upstream MLIR, with Python's layouts and provers instead of the plugin's.

    %p = lego.apply #lego.layout<Row(64, 64) tile_by([2, 2], [32, 32])>(%by, %bx, %ty, %tx)
    -->  %p = affine.apply affine_map<(d0, d1, d2, d3) -> (d0 + d2 * 32 + ..)>(%tx, %bx, %ty, %by)

The operands of an operation are read as expressions, the layout is applied to them, and the simplified result is
printed in place of the operation. The index of an operation is in range, by definition of the dialect, which bounds
values that nothing else bounds.

| operation | becomes |
|---|---|
| `lego.apply`, `lego.inv`, `lego.mask` | index arithmetic |
| `lego.load`, `lego.store` of a `lego.view` | `memref.load`, `memref.store` at the position |
| `lego.vector_load`, `lego.vector_store` | one access where the positions are proved consecutive, otherwise one each |
| `lego.for_each` | an `scf.for` over the positions, with an `scf.if` where some hold no element |
| `lego.genp` | nothing: its functions are in the arithmetic |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import sympy

from lego_mlir import bindings
from lego_mlir.aliases import Block, Cond, Expr, IndexLike, Module, Op, Symbol, Value
from lego_mlir.errors import LegoError
from lego_mlir.expr.index import Index, as_condition, as_expr, is_symbolic
from lego_mlir.expr.nodes import Size as SizeSymbol
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import unflatten
from lego_mlir.layout.chain import as_layout
from lego_mlir.layout.contiguity import contiguous
from lego_mlir.layout.notation import sizes_in_order
from lego_mlir.layout.notation_parser import Definitions, parse_layout
from lego_mlir.layout.values import end_of
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.transforms.lego_ops.expressions import IndexExpressions
from lego_mlir.transforms.lego_ops.genp_functions import definition
from lego_mlir.transforms.lego_ops.op_forms import mentions_lego, to_generic
from lego_mlir.transforms.modules import ModuleError, parse, place, report, run, session, to_text, walk
from lego_mlir.transforms.passes.operations import is_pure, producer

_FUNCTIONS: Final = ("func.func", "gpu.func", "llvm.func")
_LANE: Final = sympy.Symbol("lane", integer=True)


def without_lego(text: str, name: str = "-") -> str:
    """The module `text` with its lego operations lowered; a text without any is returned as it is.

    Raises ModuleError, with the line in `name`, for a malformed operation or layout.
    """
    if not mentions_lego(text):
        return text
    with session() as context:
        context.allow_unregistered_dialects = True
        module = parse(to_generic(text, name), name)
        _Lowering(module, name).run()
        try:
            module.operation.verify()
        except bindings.load().ir.MLIRError as error:
            raise ModuleError(report(error, name)) from error
        run(module, "builtin.module(cse)", name)
        return to_text(module, locations=True)


class _Lowering:
    """The lowering of one module."""

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        self.ir = bindings.load().ir
        self.symbols: Definitions = {}

    def run(self) -> None:
        """Lower every operation, loops before what is in them."""
        permutations = [op for op in walk(self.module.operation) if op.name == "lego.genp"]
        with self.blamed(self.module.operation):
            self.symbols = dict(definition(op) for op in permutations)
        while True:
            loop = next((op for op in walk(self.module.operation) if op.name == "lego.for_each"), None)
            if loop is None:
                break
            with self.blamed(loop):
                _Function(self, [loop]).for_each(loop)
        for around, uses in self._by_function():
            function = _Function(self, uses)
            for operation in uses:
                with self.blamed(operation), operation.location, self.ir.InsertionPoint(operation):
                    function.lower(operation)
            _erase(uses, around)
        for operation in permutations:
            operation.erase()

    def _by_function(self) -> Iterator[tuple[Op, list[Op]]]:
        """Each function with its lego operations, in order."""
        found: dict[Op, list[Op]] = {}
        for operation in walk(self.module.operation):
            if operation.name.startswith("lego.") and operation.name not in ("lego.genp", "lego.yield"):
                found.setdefault(_function_of(operation) or self.module.operation, []).append(operation)
        yield from found.items()

    @contextmanager
    def blamed(self, operation: Op) -> Iterator[None]:
        """Give an error the place of the operation."""
        try:
            yield
        except ModuleError as error:
            if "error:" in str(error):
                raise
            raise ModuleError(f"{self._place(operation)}: error: {error}") from error
        except LegoError as error:
            raise ModuleError(f"{self._place(operation)}: error: '{operation.name}' op {error}") from error

    def _place(self, operation: Op) -> str:
        return place(str(operation.location), self.name)


class _Function:
    """The lowering of the operations of one function, which share their symbols."""

    def __init__(self, lowering: _Lowering, uses: Sequence[Op]) -> None:
        self.lowering, self.ir = lowering, lowering.ir
        self.read = IndexExpressions()
        for operation in uses:
            with lowering.blamed(operation):
                self._bind_sizes(operation)

    # -- layouts and indices

    def _layout_of(self, operation: Op) -> tuple[Layout, list[Value], list[Value]]:
        """The layout of an operation as it is written, its indices, and its sizes."""
        operands = list(operation.operands)
        if operation.name not in _HANDLERS and operation.name != "lego.for_each":
            raise ModuleError(f"'{operation.name}' op is not an operation of the lego dialect that is known here")
        if operation.name in _ACCESSES:
            if len(operands) <= _ACCESSES[operation.name]:
                raise ModuleError(f"'{operation.name}' op takes a view, then one index for each logical size")
            view = producer(operands[_ACCESSES[operation.name]])
            if view is None or view.name != "lego.view":
                raise ModuleError(
                    f"'{operation.name}' op takes the result of a lego.view in the same function; pass the memref, "
                    "not the view"
                )
            layout, _, sizes = self._layout_of(view)
            return layout, operands[_ACCESSES[operation.name] + 1 :], sizes
        if operation.name == "lego.view":
            text = str(operation.results[0].type)
            layout, sizes, indices = self._parsed(text[text.index("#lego") : -1]), operands[1:], []
        else:
            if "layout" not in operation.attributes:
                raise ModuleError(f"'{operation.name}' op has no attribute 'layout'")
            layout = self._parsed(str(operation.attributes["layout"]))
            first = _segments(operation)
            indices, sizes = operands[:first], operands[first:]
            if operation.name == "lego.for_each":
                indices, sizes = sizes, indices
        declared = sizes_in_order(layout)
        if len(declared) != len(sizes):
            raise ModuleError(
                f"'{operation.name}' op has {len(sizes)} size operands for the sizes "
                f"[{', '.join(map(str, declared))}] of its layout"
            )
        return layout, indices, sizes

    def _parsed(self, text: str) -> Layout:
        return as_layout(parse_layout(text, self.lowering.symbols))

    def _bind_sizes(self, operation: Op) -> None:
        """Let values that are sizes of a layout be the layout's symbols, whose facts proofs use."""
        layout, _, sizes = self._layout_of(operation)
        for symbol, value in zip(sizes_in_order(layout), sizes, strict=True):
            if self.read.is_opaque(value):
                taken = symbol in self.read.values
                name = f"{symbol}_{len(self.read.values)}" if taken else str(symbol)
                self.read.bind(value, Index(SizeSymbol(name, symbol.min, symbol.max, symbol.multiple_of)))

    def layout(self, operation: Op) -> tuple[Layout, list[Value]]:
        """The layout of an operation over the values of its sizes, and its index operands."""
        layout, indices, sizes = self._layout_of(operation)
        replaced = {}
        for symbol, value in zip(sizes_in_order(layout), sizes, strict=True):
            known = self.read(value)
            if not (is_symbolic(known) and as_expr(known) == symbol):
                replaced[str(symbol)] = known
        return layout.subs(**replaced) if replaced else layout, indices

    def ranges(self, layout: Layout, index: Sequence[IndexLike]) -> dict[Symbol, Range]:
        """What is known of all symbols, each index being in range."""
        ranges = dict(self.read.ranges)
        for i, n in zip(index, layout.dims(), strict=True):
            symbol = as_expr(i)
            if symbol.is_Symbol and not isinstance(symbol, SizeSymbol) and symbol not in ranges:
                ranges[symbol] = Range(0, end_of(n))
        return ranges

    def index(self, layout: Layout, values: Sequence[Value]) -> list[IndexLike]:
        """The expressions of a logical index."""
        if len(values) != len(layout.dims()):
            raise ModuleError(f"'lego' op has {len(values)} indices for the logical sizes {list(layout.dims())}")
        return [self.read(value) for value in values]

    def position(
        self, layout: Layout, values: Sequence[Value], moved: IndexLike = 0
    ) -> tuple[IndexLike, dict[Symbol, Range]]:
        """The simplified position of an index, its last coordinate moved by some elements."""
        index = self.index(layout, values)
        ranges = self.ranges(layout, index)
        raw = layout.apply(*map(Index, [*index[:-1], index[-1] + moved]))
        return _simplified(raw, ranges), ranges

    # -- operations

    def lower(self, operation: Op) -> None:
        """Emit what replaces an operation, before it."""
        if len(operation.results) != _RESULTS.get(operation.name, len(operation.results)):
            raise ModuleError(f"'{operation.name}' op has {len(operation.results)} results")
        _HANDLERS[operation.name](self, operation)

    def emit(self, expr: IndexLike, ranges: dict[Symbol, Range], kind: str = "index") -> Value:
        printer = self.printer(ranges)
        if isinstance(expr, int):
            return printer.build.constant(expr, "index")
        return printer.value(expr, kind)

    def printer(self, ranges: dict[Symbol, Range]) -> MlirPrinter:
        return MlirPrinter(self.read.values, ranges, form="affine")

    def apply(self, operation: Op) -> None:
        layout, values = self.layout(operation)
        operation.results[0].replace_all_uses_with(self.emit(*self.position(layout, values)))

    def inverse(self, operation: Op) -> None:
        layout, values = self.layout(operation)
        if len(values) != 1:
            raise ModuleError(f"'lego.inv' op has {len(values)} positions instead of one")
        self.replace_by_index(layout, self.read(values[0]), operation.results)

    def replace_by_index(self, layout: Layout, position: IndexLike, results: Sequence[Value]) -> None:
        """Use the logical index of a position in place of the results."""
        symbol, ranges = as_expr(position), dict(self.read.ranges)
        if symbol.is_Symbol and symbol not in ranges:
            ranges[symbol] = Range(0, end_of(layout.physical_size()))
        index = layout.inv(Index(position))
        if len(index) != len(results):
            raise ModuleError(f"'lego.inv' op has {len(results)} results for {len(index)} logical sizes")
        for result, i in zip(results, index, strict=True):
            result.replace_all_uses_with(self.emit(_simplified(i, ranges), ranges))

    def mask(self, operation: Op) -> None:
        layout, values = self.layout(operation)
        index = list(map(Index, self.index(layout, values)))
        ranges = self.ranges(layout, index)
        condition = self.condition(layout.mask(*index), ranges)
        operation.results[0].replace_all_uses_with(self.printer(ranges).condition(condition))

    def condition(self, condition: Cond, ranges: dict[Symbol, Range]) -> Cond:
        """A conjunction without the parts that are proved."""
        whole = as_condition(condition)
        parts = whole.args if isinstance(whole, sympy.And) else (whole,)
        return sympy.And(*(part for part in parts if not isinstance(prove(part, _known(part, ranges)), Proved)))

    # -- memory

    def access(self, operation: Op) -> None:
        """A scalar access."""
        layout, values = self.layout(operation)
        memref = self.memref(operation)
        index = self.at(memref, *self.position(layout, values))
        if operation.name == "lego.load":
            made = self.ir.Operation.create("memref.load", [operation.results[0].type], [memref, *index])
            operation.results[0].replace_all_uses_with(made.results[0])
        else:
            self.ir.Operation.create("memref.store", [], [operation.operands[0], memref, *index])

    def memref(self, operation: Op) -> Value:
        return producer(operation.operands[_ACCESSES[operation.name]]).operands[0]

    def at(self, memref: Value, position: IndexLike, ranges: dict[Symbol, Range]) -> list[Value]:
        """The indices of a position in a memref, whose elements are counted in row-major order."""
        kind = self.ir.MemRefType(memref.type)
        if kind.rank < 2:
            return [self.emit(position, ranges)][: kind.rank]
        sizes = [self.extent(memref, axis) for axis in range(kind.rank)]
        index = unflatten(Index(position), sizes)
        return [self.emit(_simplified(i, ranges), ranges) for i in index]

    def extent(self, memref: Value, axis: int) -> IndexLike:
        kind = self.ir.MemRefType(memref.type)
        if not kind.is_dynamic_dim(axis):
            return int(kind.get_dim_size(axis))
        constant = self.printer({}).build.constant(axis, "index")
        made = self.ir.Operation.create("memref.dim", [self.ir.IndexType.get()], [memref, constant])
        return self.read(made.results[0])

    def vector(self, operation: Op) -> None:
        """Consecutive elements along the last axis."""
        layout, values = self.layout(operation)
        memref, loads = self.memref(operation), operation.name == "lego.vector_load"
        vector = operation.results[0] if loads else operation.operands[0]
        width = int(self.ir.VectorType(vector.type).shape[0])
        first, ranges = self.position(layout, values)
        last, _ = self.position(layout, values, Index(_LANE))
        ranges[_LANE] = Range(0, width)
        claim = contiguous(as_expr(first), _simplified(last, ranges), _LANE)
        one = self.ir.MemRefType(memref.type).rank == 1 and isinstance(prove(claim, _known(claim, ranges)), Proved)
        if one:
            index = self.at(memref, first, ranges)
            if loads:
                made = self.ir.Operation.create("vector.load", [vector.type], [memref, *index])
                vector.replace_all_uses_with(made.results[0])
            else:
                self.ir.Operation.create("vector.store", [], [vector, memref, *index])
            return
        self._one_by_one(operation, vector, [self.position(layout, values, lane) for lane in range(width)])

    def _one_by_one(
        self, operation: Op, vector: Value, places: Sequence[tuple[IndexLike, dict[Symbol, Range]]]
    ) -> None:
        memref, element = self.memref(operation), self.ir.VectorType(vector.type).element_type
        elements = []
        for lane, place_ in enumerate(places):
            index = self.at(memref, *place_)
            if operation.name == "lego.vector_load":
                elements.append(self.ir.Operation.create("memref.load", [element], [memref, *index]).results[0])
                continue
            position = self.ir.DenseI64ArrayAttr.get([lane])
            part = self.ir.Operation.create(
                "vector.extract", [element], [vector], attributes={"static_position": position}
            )
            self.ir.Operation.create("memref.store", [], [part.results[0], memref, *index])
        if elements:
            made = self.ir.Operation.create("vector.from_elements", [vector.type], elements)
            vector.replace_all_uses_with(made.results[0])

    # -- loops

    def for_each(self, operation: Op) -> None:
        """An scf.for over the positions; the elements' indices are inverted in its body."""
        with operation.location, self.ir.InsertionPoint(operation):
            layout, carried = self.layout(operation)
            build = self.printer({}).build
            zero, one = build.constant(0, "index"), build.constant(1, "index")
            end = self.emit(layout.physical_size(), {})
            types = [value.type for value in carried]
            loop = self.ir.Operation.create("scf.for", types, [zero, end, one, *carried], regions=1)
            places = [operation.location] * (1 + len(types))
            body = loop.regions[0].blocks.append(self.ir.IndexType.get(), *types, arg_locs=places)
        with operation.location, self.ir.InsertionPoint(body):
            variable, *state = body.arguments
            given = operation.regions[0].blocks[0]
            rank = len(layout.dims())
            if len(given.arguments) != rank + len(state):
                raise ModuleError(f"the body of a 'lego.for_each' op has {rank} indices, then the carried values")
            position = self.read(variable)
            self.replace_by_index(layout, position, list(given.arguments)[:rank])
            for old, new in zip(list(given.arguments)[rank:], state, strict=True):
                old.replace_all_uses_with(new)
            held = self.condition(layout.holds(Index(position)), self.read.ranges)
            self._fill(given, body, state, held)
        for old, new in zip(operation.results, loop.results, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()

    def _fill(self, given: Block, body: Block, state: Sequence[Value], held: Cond) -> None:
        """Move the operations of a loop's body, under a condition unless every position holds an element."""
        where = body
        if held != True:  # noqa: E712  SymPy's true is not Python's
            types = [value.type for value in state]
            branch = self.ir.Operation.create(
                "scf.if", types, [self.printer(self.read.ranges).condition(held)], regions=2
            )
            where = branch.regions[0].blocks.append()
            with self.ir.InsertionPoint(branch.regions[1].blocks.append()):
                self.ir.Operation.create("scf.yield", [], list(state))
            self.ir.Operation.create("scf.yield", [], list(branch.results))
        yielded: list[Value] = []
        for each in list(given.operations):
            if each.operation.name == "lego.yield":
                yielded = list(each.operation.operands)
                each.operation.erase()
            else:
                where.append(each)
        with self.ir.InsertionPoint(where):
            self.ir.Operation.create("scf.yield", [], yielded)


_ACCESSES: Final = {"lego.load": 0, "lego.store": 1, "lego.vector_load": 0, "lego.vector_store": 1}
"""Where the view of an access is among its operands; its indices follow."""
_HANDLERS: Final[dict[str, Callable[[_Function, Op], None]]] = {
    "lego.apply": _Function.apply,
    "lego.inv": _Function.inverse,
    "lego.mask": _Function.mask,
    "lego.load": _Function.access,
    "lego.store": _Function.access,
    "lego.vector_load": _Function.vector,
    "lego.vector_store": _Function.vector,
    "lego.view": lambda function, operation: None,
}


_RESULTS: Final = {"lego.apply": 1, "lego.mask": 1, "lego.load": 1, "lego.vector_load": 1, "lego.view": 1}


def _segments(operation: Op) -> int:
    """The number of operands in the first group."""
    if "operandSegmentSizes" not in operation.attributes:
        raise ModuleError(f"'{operation.name}' op has no attribute 'operandSegmentSizes'")
    counts = [int(n) for n in operation.attributes["operandSegmentSizes"]]
    if len(counts) != 2 or sum(counts) != len(operation.operands):
        raise ModuleError(f"'{operation.name}' op has {len(operation.operands)} operands in segments {counts}")
    return counts[0]


def _simplified(expr: IndexLike, ranges: dict[Symbol, Range]) -> IndexLike:
    if not is_symbolic(expr):
        return int(expr)
    return simplify(expr, _known(as_expr(expr), ranges)).expr


def _known(expr: Expr, ranges: dict[Symbol, Range]) -> dict[Symbol, Range]:
    return {s: ranges[s] for s in expr.free_symbols if s in ranges}


def _function_of(operation: Op) -> Op:
    """The function around an operation."""
    parent = operation.parent
    while parent is not None and parent.operation.name not in _FUNCTIONS:
        parent = parent.operation.parent
    return None if parent is None else parent.operation


def _erase(uses: Sequence[Op], function: Op) -> None:
    """Erase lowered operations, and the index arithmetic that nothing uses any more."""
    for operation in reversed(uses):
        operation.erase()
    for operation in reversed(list(walk(function))):
        if is_pure(operation) and not any(True for result in operation.results for _ in result.uses):
            operation.erase()
