"""A kernel of tiles as a module of the lego dialect, whose types have the layouts that the engine chose.

    %x = "lego.tile_load"(%a, %i, %j) : (memref<64x512xf32>, index, index) -> tensor<4x512xf32, #lego.spread<..>>
    %m = linalg.reduce ins(%x ..) outs(%least ..) dimensions = [1] ..

| word | operation |
|---|---|
| `lego.load`, `x.store` | `lego.tile_load`, `lego.tile_store` of a tensor in row-major order, masked at its ends |
| functions of elements | those of `arith` and `math` on tensors; other operands are repeated by `tensor.splat` |
| functions of indices, or with branches | `linalg.map` over `lego.tile_index` and tiles |
| `x.T`, `x[:, None]`, `x.reshape`, broadcasts | `linalg.transpose`, `linalg.broadcast`, `tensor.expand_shape`, .. |
| reductions by one operation | `linalg.reduce` |
| `lego.mma` of tiles in registers | `lego.mma`; narrower operands are converted |
| loops, branches, variables | `scf.for`, `scf.while`, `scf.if`, which carry the tiles that they change |
| conversions of the choice | `lego.convert` |

The passes of the plugin lower it for each thread (docs/reference/dialect-tiles.md). Other words have no operation:
scans, sorts, gathers, reductions to a number, packed numbers, accesses of single threads. LayoutError names the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Symbol
from lego_mlir.aliases import Value as Emitted
from lego_mlir.engine.shared_placements import is_shared
from lego_mlir.engine.tile_graph import (
    RELABELS,
    AssignTile,
    FreeTile,
    GrowTile,
    LoadTile,
    MapTile,
    MultiplyTiles,
    NewAxis,
    ReadTile,
    ReduceTile,
    ReshapeTile,
    StoreTile,
    TileNode,
    TileState,
    TransposeTile,
    label_back,
)
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Condition, Index, as_expr
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.boxed import padded
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import rank
from lego_mlir.layout.permutations import Row
from lego_mlir.tracing.emit.emit_functions import number
from lego_mlir.tracing.emit.emit_module import KernelEmitter, emit_module
from lego_mlir.tracing.spread.multiplication import multiplied_type
from lego_mlir.tracing.spread.open_layouts import TileWord
from lego_mlir.tracing.spread.strided_tiles import strides
from lego_mlir.tracing.trace.dtypes import DType, i1, index
from lego_mlir.tracing.trace.marks import KeptTile
from lego_mlir.tracing.trace.symbols import symbols
from lego_mlir.tracing.trace.trace import (
    Assume,
    Buffer,
    Compose,
    Compute,
    Constant,
    Convert,
    For,
    FromCondition,
    FromIndex,
    If,
    KernelTrace,
    Lane,
    MlirOperation,
    Read,
    Register,
    Statement,
    ToIndex,
    Value,
    While,
    Write,
)
from lego_mlir.tracing.words.control import Cell
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.engine.layout_choice import LayoutChoice

IDENTITIES: Final[dict[str, Callable[[DType], float]]] = {
    "add": lambda dtype: 0,
    "mul": lambda dtype: 1,
    "maximum": lambda dtype: float("-inf") if dtype.is_float else dtype.span[0],
    "minimum": lambda dtype: float("inf") if dtype.is_float else dtype.span[1],
}
"""What leaves the other operand of a reduction as it is."""


Simple = Constant | Compute | Convert
"""Statements that are operations on whole tensors."""
OfThreads: Final = (
    *(Constant, Compute, Convert, FromIndex, ToIndex, FromCondition, Assume, Lane, Compose, MlirOperation),
    *(Read, Write, For, While, If),
)
"""Statements on numbers and registers, which every thread executes between the tiles."""


def spread_attribute(layout: LinearLayout, shape: Sequence[int] | None = None) -> str:
    """The encoding of a tensor in this layout, whose sizes may be less than those of the layout.

    >>> print(spread_attribute(LinearLayout({"register": [(0, 1)], "lane": [(1, 0)], "warp": [(0, 0)]},
    ...                                     {"dim0": 2, "dim1": 2})))
    #lego.spread<register = [[0, 1]], lane = [[1, 0]], warp = [[0, 0]], copies = 2>
    """
    bases = ", ".join(f"{name} = {[list(basis) for basis in layout.bases[name]]}" for name in layout.bases)
    copies = 1 << (len(layout.columns) - rank(layout.columns))
    box = "" if shape is None or tuple(shape) == padded(shape) else f", box = {[*shape]}"
    return f"#lego.spread<{bases}{f', copies = {copies}' if copies > 1 else ''}{box}>"


@dataclass(frozen=True, slots=True)
class SpreadValue(Value):
    """A value of a tile's element type, as the tile."""

    shape: tuple[int, ...] = ()
    encoding: str = ""

    @classmethod
    def of(cls, element: Value, shape: Sequence[int], layout: LinearLayout) -> SpreadValue:
        """The tile whose elements are like this one."""
        return cls(element.number, element.dtype, prod(shape), tuple(shape), spread_attribute(layout, shape))

    def _of(self, element: str) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{element}, {self.encoding}>"


class SpreadEmitter(KernelEmitter):
    """Emits a kernel of tile operations, and of the numbers, loops and branches between them."""

    def __init__(self, trace: KernelTrace, words: Sequence[TileWord], choice: LayoutChoice) -> None:
        super().__init__(trace, "arith")
        self.kept, self.choice = words, choice
        self.words = {word.node: word for word in words}
        self._tiles: dict[tuple[TileNode, LinearLayout], Emitted] = {}
        self._variables: dict[Register, str] = {}
        """The types of variables that are tiles."""

    def memref_of(self, buffer: Buffer) -> str:
        """The type of a tensor in memory: its axes, in row-major order."""
        dims = buffer.layout.dims()
        if not all(isinstance(n, int) for n in dims) or strides(buffer.layout) != strides(Row(*dims)):
            raise LayoutError(f"{buffer.name}: a tile of the lego dialect is in a tensor Row(..) of constant sizes")
        return f"memref<{'x'.join(map(str, dims))}x{buffer.dtype.in_memory}>"

    def symbols_used(self) -> Collection[Symbol]:
        """The symbols of statements and of the indices at which tiles begin."""
        ats = {symbol for word in self.kept for i in word.at for symbol in as_expr(i).free_symbols}
        inner = (tuple(s for s in word.statements) for word in self.kept)
        return {*ats, *super().symbols_used(), *(symbol for body in inner for symbol in symbols(body))}

    def _emit(self, statement: Statement) -> None:
        if not isinstance(statement, OfThreads):
            raise LayoutError(
                f"{statement.source}: {type(statement).__name__.lower()} is a statement of single threads, which has "
                "no form on tiles of the lego dialect; give the kernel tile operations only"
            )
        super()._emit(statement)

    def _emit_if(self, branch: If) -> None:
        if not isinstance(branch.mark, KeptTile):
            super()._emit_if(branch)
            return
        word = self.kept[branch.mark.number]
        if word.node in self.choice.values:
            self._emit_word(word.node, word)

    def _register_type(self, register: Register) -> str:
        return self._variables.get(register) or super()._register_type(register)

    def _emit_word(self, node: TileNode, word: TileWord) -> None:
        chosen = self.choice.values[node]
        if isinstance(node.operation, ReadTile | AssignTile):
            self._emit_variable(node, word)
        for (state, result), needed in zip(chosen.computed, chosen.needed, strict=True):
            if isinstance(node.operation, ReadTile | AssignTile):
                break
            given = [self._fetched(u, layout) for u, layout in zip(node.operands, needed, strict=True)]
            match node.operation:
                case LoadTile(memory=memory) if memory is not None and word.memory is not None:
                    made = self._loaded(node, word, memory.masked, result)
                case StoreTile(memory=memory) if memory is not None and word.memory is not None:
                    self._stored(node, word, memory.masked, given[0], state)
                    continue
                case MapTile():
                    made = self._mapped(node, word, given, state)
                case ReduceTile(axis) if word.statements and not node.has_no_layout:
                    made = self._reduced(node, word, given[0], axis, result)
                case MultiplyTiles():
                    made = self._multiplied(node, given, needed, result)
                case TileState() if isinstance(word.element, Cell):
                    register, made = word.element.register, given[0]
                    self._registers[register], self._variables[register] = made, self._type(node, result)
                case LoadTile() | StoreTile():
                    raise self._refused(node, "of packed numbers")
                case _:
                    raise self._refused(node, "another word")
            self._tiles[node, result] = made
        for source, target in chosen.moved:
            given = [self._tiles[node, source]]
            self._tiles[node, target] = self.printer.build.value("lego.convert", given, self._type(node, target))

    def _emit_variable(self, node: TileNode, word: TileWord) -> None:
        """A variable read, or set to another tile."""
        chosen, cell = self.choice.values[node], word.elements[0]
        ((_, result),), (needed,) = chosen.computed, chosen.needed
        assert isinstance(cell, Cell)
        if isinstance(node.operation, ReadTile):
            self._tiles[node, result] = self._registers[cell.register]
        else:
            self._registers[cell.register] = self._fetched(node.operands[1], needed[1])

    def _refused(self, node: TileNode, what: str) -> LayoutError:
        return LayoutError(
            f"{node!r} is {what}, and has no form on tiles of the lego dialect; emit the kernel as mlir, of threads"
        )

    def _type(self, node: TileNode, layout: LinearLayout) -> str:
        return _tensor(node.shape, node.element, layout)

    # -- memory, products

    def _place(self, node: TileNode, word: TileWord) -> list[Emitted]:
        """The memory of a tile and the index of its first element."""
        view = word.memory
        assert view is not None
        if len(view.dims()) != len(word.node.shape):
            raise self._refused(node, f"in a tensor of {len(view.dims())} axes")
        buffer, ends = view.buffer, view.boundary in (None, "zero")
        if buffer.space != "global" or view.layout is not buffer.layout or not ends:
            raise self._refused(node, "of another view than a whole tensor")
        at = [self.printer.value(as_expr(i), "index") for i in (word.at or (0,) * len(view.dims()))]
        return [self._memrefs[buffer.name], *at]

    def _loaded(self, node: TileNode, word: TileWord, masked: Sequence[int], result: LinearLayout) -> Emitted:
        place, kind = self._place(node, word), self._type(node, result)
        instead = []
        if masked:
            instead = [self._mask(node.shape, word, place, masked, result), self._other(node, word)]
        segments = f"array<i32: 1, {len(place) - 1}, {len(instead) // 2}, {len(instead) // 2}>"
        return self.printer.build.value("lego.tile_load", (*place, *instead), kind, {"operandSegmentSizes": segments})

    def _stored(
        self, node: TileNode, word: TileWord, masked: Sequence[int], given: Emitted, state: LinearLayout
    ) -> None:
        place = self._place(node, word)
        mask = [self._mask(node.operands[0].shape, word, place, masked, state)] if masked else []
        segments = f"array<i32: 1, 1, {len(place) - 1}, {len(mask)}>"
        self.printer.build.operation("lego.tile_store", (given, *place, *mask), (), {"operandSegmentSizes": segments})

    def _other(self, node: TileNode, word: TileWord) -> Emitted:
        """The number that a load gives outside of memory."""
        other = word.other
        if isinstance(other, Scalar) and other.dtype == node.element and other.width is None:
            return self._values[other.entry.number]
        if isinstance(other, int | float):
            return number(self.printer.build, other, Value(0, node.element))
        raise self._refused(node, f"a load whose other= is not a number of {node.element}")

    def _mask(
        self,
        shape: Sequence[int],
        word: TileWord,
        place: Sequence[Emitted],
        masked: Sequence[int],
        layout: LinearLayout,
    ) -> Emitted:
        """Which elements of a tile are inside of memory: along axes that may end, first + index < size, unsigned."""
        assert word.memory is not None
        build, indices, conditions = self.printer.build, _tensor(shape, index, layout), _tensor(shape, i1, layout)
        found: Emitted = None
        for axis in masked:
            along = build.value("lego.tile_index", (), indices, {"axis": f"{axis} : i64"})
            first = build.value("tensor.splat", (place[1 + axis],), indices)
            size = self.printer.value(as_expr(word.memory.dims()[axis]), "index")
            end, at = build.value("tensor.splat", (size,), indices), build.value("arith.addi", (first, along), indices)
            inside = build.value("arith.cmpi", (at, end), conditions, {"predicate": "6 : i64"})
            found = inside if found is None else build.value("arith.andi", (found, inside), conditions)
        return found

    def _multiplied(
        self, node: TileNode, given: Sequence[Emitted], needed: Sequence[LinearLayout], result: LinearLayout
    ) -> Emitted:
        """A product of two tiles, in the type of the instruction."""
        if len(given) != 3 or any(map(is_shared, needed)):
            raise self._refused(node, "a product with an operand in shared memory")
        operands = node.operands[:2]
        dtype = multiplied_type(operands[0].element, operands[1].element)
        if dtype is None or any(x.packed for x in operands):
            raise self._refused(node, "a product of packed numbers")
        multiplied = []
        for x, tile, layout in zip(operands, given, needed, strict=False):
            before, after = (SpreadValue.of(Value(0, kind), x.shape, layout) for kind in (x.element, dtype))
            multiplied.append(tile if x.element == dtype else self.compute.convert(tile, before, after))
        return self.printer.build.value("lego.mma", (*multiplied, given[2]), self._type(node, result))

    # -- functions of elements

    def _mapped(self, node: TileNode, word: TileWord, given: Sequence[Emitted], state: LinearLayout) -> Emitted:
        """The element's statements on tensors, or for each element where they are more than functions of tiles."""
        elements = (word.element, *word.elements)
        if not all(isinstance(e, Scalar) for e in elements) or not all(isinstance(s, Simple) for s in word.statements):
            return self._by_element(node, word, given, state)
        for element, tile in zip(word.elements, given, strict=True):
            self._values[element.entry.number] = tile
        for statement in word.statements:
            if isinstance(statement, Constant):
                self._emit(statement)
                continue
            assert isinstance(statement, Compute | Convert)
            operands = statement.operands if isinstance(statement, Compute) else (statement.operand,)
            tiles = [self._repeated(o, node, state) for o in operands]
            like = [SpreadValue.of(o, node.shape, state) for o in (*operands, statement.result)]
            if isinstance(statement, Compute):
                made = self.compute.compute(statement.operation, like[:-1], tiles, like[-1])
            else:
                made = self.compute.convert(tiles[0], like[0], like[-1])
            self._values[statement.result.number] = made
        return self._repeated(word.element.entry, node, state)

    def _by_element(self, node: TileNode, word: TileWord, given: Sequence[Emitted], state: LinearLayout) -> Emitted:
        """The element's statements in a region, on the elements of tiles and of indices."""
        build, kind = self.printer.build, self._type(node, state)
        indices: dict[Symbol, Emitted] = {}
        for operand in node.operands:
            indices |= self._indices(operand, state)
        data = [(e.entry, x) for e, x in zip(word.elements, given, strict=True) if isinstance(e, Scalar)]
        inputs = [*(x for _, x in data), *indices.values()]
        made = build.operation("linalg.map", (*inputs, build.value("tensor.empty", (), kind)), (kind,), {}, 1)
        elements = [*(e.mlir for e, _ in data), *["index"] * len(indices), node.element.mlir]
        kinds = [build.type(element) for element in elements]
        block = made.regions[0].blocks.append(*kinds, arg_locs=[self.ir.Location.current] * len(kinds))
        before = dict(self._values)
        with self.ir.InsertionPoint(block), self.printer.scope():
            for (value, _), argument in zip(data, block.arguments, strict=False):
                self._values[value.number] = argument
            for symbol, argument in zip(indices, list(block.arguments)[len(data) :], strict=False):
                self.printer.bind(symbol, argument)
            self._emit_body(word.statements)
            build.operation("linalg.yield", (self._element(word.element),))
        self._values = before
        return made.results[0]

    def _element(self, element: object) -> Emitted:
        match element:
            case Scalar():
                return self._values[element.entry.number]
            case Condition():
                return self.printer.condition(element.expr)
            case _:
                return self.printer.value(as_expr(element), "index")

    def _indices(self, node: TileNode, layout: LinearLayout) -> Mapping[Symbol, Emitted]:
        """The tiles of indices, by their symbols, of which a tile is a function, under its labels."""
        if isinstance(node.operation, RELABELS):
            inner = self._indices(node.operands[0], label_back(node, layout))
            return {symbol: self._relabelled(node, x, layout, index) for symbol, x in inner.items()}
        if not isinstance(node.operation, FreeTile):
            return {}
        word, found = self.words[node], dict[Symbol, Emitted]()
        if word.axis is not None and isinstance(word.element, Index):
            (symbol,) = word.element.expr.free_symbols
            kind = _tensor(node.shape, index, layout)
            return {symbol: self.printer.build.value("lego.tile_index", (), kind, {"axis": f"{word.axis} : i64"})}
        for operand in node.operands:
            found |= self._indices(operand, layout)
        return found

    def _repeated(self, value: Value, node: TileNode, layout: LinearLayout) -> Emitted:
        """A value as a tile: one of single threads is the same everywhere."""
        found = self._values[value.number]
        if str(found.type).startswith("tensor<"):
            return found
        return self.printer.build.value("tensor.splat", (found,), _tensor(node.shape, value.dtype, layout))

    def _reduced(self, node: TileNode, word: TileWord, given: Emitted, axis: int, result: LinearLayout) -> Emitted:
        combined = next((s for s in word.statements if isinstance(s, Compute)), None)
        if combined is None or len(word.statements) > 1 or combined.operation not in IDENTITIES:
            raise self._refused(node, "a reduction by more than one operation")
        like, build = combined.result, self.printer.build
        least = number(build, IDENTITIES[combined.operation](like.dtype), like)
        start = build.value("tensor.splat", (least,), self._type(node, result))
        made = build.operation(
            "linalg.reduce", (given, start), (self._type(node, result),), {"dimensions": f"array<i64: {axis}>"}, 1
        )

        def body(a: Emitted, b: Emitted) -> Emitted:
            return self.compute.compute(combined.operation, combined.operands, (a, b), like)

        self._region_of(made, like.mlir, body)
        return made.results[0]

    def _region_of(self, operation: Any, element: str, body: Callable[[Emitted, Emitted], Emitted]) -> None:
        """The region of a linalg operation, on an element of the operand and one of the result."""
        kind = self.printer.build.type(element)
        block = operation.regions[0].blocks.append(kind, kind, arg_locs=[self.ir.Location.current] * 2)
        with self.ir.InsertionPoint(block):
            self.printer.build.operation("linalg.yield", (body(*block.arguments),))

    # -- other labels

    def _fetched(self, node: TileNode, layout: LinearLayout) -> Emitted:
        """The value of a node in a layout; of a tile that any thread can make, made where it is used."""
        if isinstance(node.operation, RELABELS):
            x = self._fetched(node.operands[0], label_back(node, layout))
            return self._relabelled(node, x, layout, node.element)
        if not isinstance(node.operation, FreeTile):
            return self._tiles[node, layout]
        word = self.words[node]
        if word.axis is not None:
            return next(iter(self._indices(node, layout).values()))
        return self._mapped(node, word, [self._fetched(x, layout) for x in node.operands], layout)

    def _relabelled(self, node: TileNode, x: Emitted, layout: LinearLayout, dtype: DType) -> Emitted:
        """The operand of a node, of elements of a type, under the node's labels."""
        (operand,) = node.operands
        before, collapse = label_back(node, layout), partial(self._collapsed, dtype=dtype)
        match node.operation:
            case TransposeTile(order):
                return self._into("linalg.transpose", x, node, layout, dtype, {"permutation": _integers(order)})
            case NewAxis(axis):
                kept = [k for k in range(len(node.shape)) if k != axis]
                return self._expanded(x, _joined([axis], kept), node, layout, dtype)
            case GrowTile():
                axes = [k for k, (a, b) in enumerate(zip(operand.shape, node.shape, strict=True)) if a != b]
                kept = [k for k in range(len(node.shape)) if k not in axes]
                x = collapse(x, _joined(axes, kept), [node.shape[k] for k in kept], _without(before, axes))
                return self._into("linalg.broadcast", x, node, layout, dtype, {"dimensions": _integers(axes)})
            case ReshapeTile():
                count = prod(node.shape)
                x = collapse(x, [range(len(operand.shape))], [count], shape_ops.reshape(before, (count,)))
                return self._expanded(x, [range(len(node.shape))], node, layout, dtype)
            case _:
                raise self._refused(node, "one of several results")

    def _collapsed(
        self, x: Emitted, groups: Sequence[Sequence[int]], shape: Sequence[int], layout: LinearLayout, dtype: DType
    ) -> Emitted:
        """The tile with each group of axes merged into one."""
        if len(groups) == len(layout.outs) == sum(map(len, groups)):
            return x
        attributes = {"reassociation": _nested(groups)}
        return self.printer.build.value("tensor.collapse_shape", (x,), _tensor(shape, dtype, layout), attributes)

    def _expanded(
        self, x: Emitted, groups: Sequence[Sequence[int]], node: TileNode, layout: LinearLayout, dtype: DType
    ) -> Emitted:
        """The tile of a node, of which each group of axes was merged into one."""
        attributes = {"reassociation": _nested(groups), "static_output_shape": _integers(node.shape)}
        return self.printer.build.value("tensor.expand_shape", (x,), _tensor(node.shape, dtype, layout), attributes)

    def _into(
        self, name: str, x: Emitted, node: TileNode, layout: LinearLayout, dtype: DType, attributes: dict[str, str]
    ) -> Emitted:
        """A linalg operation that copies each element to another place."""
        build, kind = self.printer.build, _tensor(node.shape, dtype, layout)
        made = build.operation(name, (x, build.value("tensor.empty", (), kind)), (kind,), attributes, 1)
        self._region_of(made, dtype.mlir, lambda a, _: a)
        return made.results[0]


def emitted_tiles(trace: KernelTrace, words: Sequence[TileWord], choice: LayoutChoice) -> Any:
    """The module of a kernel of tiles, in the current context. Raises LayoutError for words without an operation."""
    return emit_module(trace, emitter=SpreadEmitter(trace, words, choice))


def _tensor(shape: Sequence[int], dtype: DType, layout: LinearLayout) -> str:
    return SpreadValue.of(Value(0, dtype), shape, layout).mlir


def _without(layout: LinearLayout, axes: Sequence[int]) -> LinearLayout:
    """A layout without axes of size 1."""
    kept = [k for k in range(len(layout.outs)) if k not in axes]
    bases = {name: [tuple(basis[k] for k in kept) for basis in each] for name, each in layout.bases.items()}
    sizes = list(layout.out_sizes.values())
    return LinearLayout(bases, {f"dim{d}": sizes[k] for d, k in enumerate(kept)})


def _joined(axes: Sequence[int], kept: Sequence[int]) -> list[list[int]]:
    """The axes that are kept, each with those of size 1 that follow it; the first ones join the first.

    >>> _joined([1], [0, 2]), _joined([0, 2], [1])
    ([[0, 1], [2]], [[0, 1, 2]])
    """
    groups = [[k] for k in kept]
    for axis in axes:
        if groups:
            groups[max(0, sum(k < axis for k in kept) - 1)].append(axis)
    return [sorted(group) for group in groups]


def _integers(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _nested(groups: Sequence[Sequence[int]]) -> str:
    listed = (", ".join(f"{k} : i64" for k in group) for group in groups)
    return f"[{', '.join(f'[{each}]' for each in listed)}]"
