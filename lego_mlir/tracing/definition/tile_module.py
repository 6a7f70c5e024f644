"""A kernel of tiles as a module of the lego dialect, whose types have the layouts that the engine chose.

    %x = "lego.tile_load"(%a, %i, %j) : (memref<64x512xf32>, index, index) -> tensor<4x512xf32, #lego.spread<..>>
    %m = linalg.reduce ins(%x ..) outs(%least ..) dimensions = [1] ..

| word | operation |
|---|---|
| `lego.load`, `x.store` | `lego.tile_load`, `lego.tile_store` of a tensor in row-major order |
| functions of elements | those of `arith` and `math` on tensors; other operands are repeated by `tensor.splat` |
| `x.T`, `x[:, None]`, `x.reshape`, broadcasts | `linalg.transpose`, `linalg.broadcast`, `tensor.expand_shape`, .. |
| reductions by one operation | `linalg.reduce` |
| conversions of the choice | `lego.convert` |

The passes of the plugin lower it for each thread (docs/reference/dialect.md). Other words have no operation there:
index tiles, masks, products, scans, loops, statements of single threads. LayoutError names the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Symbol
from lego_mlir.aliases import Value as Emitted
from lego_mlir.engine.tile_graph import (
    RELABELS,
    FreeTile,
    GrowTile,
    LoadTile,
    MapTile,
    NewAxis,
    ReduceTile,
    ReshapeTile,
    StoreTile,
    TileNode,
    TransposeTile,
    label_back,
)
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_expr
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import rank
from lego_mlir.layout.permutations import Row
from lego_mlir.tracing.emit.emit_functions import number
from lego_mlir.tracing.emit.emit_module import KernelEmitter, emit_module, location_of
from lego_mlir.tracing.spread.open_layouts import TileWord
from lego_mlir.tracing.spread.strided_tiles import strides
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import (
    Buffer,
    Compute,
    Constant,
    Convert,
    KernelTrace,
    Statement,
    Value,
)
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


def spread_attribute(layout: LinearLayout) -> str:
    """The encoding of a tensor in this layout.

    >>> print(spread_attribute(LinearLayout({"register": [(0, 1)], "lane": [(1, 0)], "warp": [(0, 0)]},
    ...                                     {"dim0": 2, "dim1": 2})))
    #lego.spread<register = [[0, 1]], lane = [[1, 0]], warp = [[0, 0]], copies = 2>
    """
    bases = ", ".join(f"{name} = {[list(basis) for basis in layout.bases[name]]}" for name in layout.bases)
    copies = 1 << (len(layout.columns) - rank(layout.columns))
    return f"#lego.spread<{bases}{f', copies = {copies}' if copies > 1 else ''}>"


@dataclass(frozen=True, slots=True)
class SpreadValue(Value):
    """A value of a tile's element type, as the tile."""

    shape: tuple[int, ...] = ()
    encoding: str = ""

    @classmethod
    def of(cls, element: Value, shape: Sequence[int], layout: LinearLayout) -> SpreadValue:
        """The tile whose elements are like this one."""
        return cls(element.number, element.dtype, prod(shape), tuple(shape), spread_attribute(layout))

    def _of(self, element: str) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{element}, {self.encoding}>"


class SpreadEmitter(KernelEmitter):
    """Emits a kernel of nothing but tile operations."""

    def __init__(self, trace: KernelTrace, words: Sequence[TileWord], choice: LayoutChoice) -> None:
        super().__init__(trace, "arith")
        self.words, self.choice = {word.node: word for word in words}, choice
        self._tiles: dict[tuple[TileNode, LinearLayout], Emitted] = {}

    def memref_of(self, buffer: Buffer) -> str:
        """The type of a tensor in memory: its axes, in row-major order."""
        dims = buffer.layout.dims()
        if not all(isinstance(n, int) for n in dims) or strides(buffer.layout) != strides(Row(*dims)):
            raise LayoutError(f"{buffer.name}: a tile of the lego dialect is in a tensor Row(..) of constant sizes")
        return f"memref<{'x'.join(map(str, dims))}x{buffer.dtype.in_memory}>"

    def symbols_used(self) -> Collection[Symbol]:
        """The symbols of the indices at which tiles begin."""
        return {symbol for word in self.words.values() for i in word.at for symbol in as_expr(i).free_symbols}

    def _emit_body(self, body: Sequence[Statement]) -> None:
        super()._emit_body([s for s in body if isinstance(s, Constant)])
        for node, word in self.words.items():
            if node in self.choice.values:
                with location_of(self.ir, self.trace.source):
                    self._emit_word(node, word)
        for statement in body:
            if not isinstance(statement, Constant):
                raise LayoutError(
                    f"{statement.source}: {type(statement).__name__.lower()} is a statement of single threads, which "
                    "has no form on tiles of the lego dialect; give the kernel tile operations only"
                )

    def _emit_word(self, node: TileNode, word: TileWord) -> None:
        chosen = self.choice.values[node]
        if node.path or node.shape != node.padded:
            raise self._refused(node, "in a loop or a branch" if node.path else "of sizes that are no powers of two")
        for (state, result), needed in zip(chosen.computed, chosen.needed, strict=True):
            given = [self._fetched(u, layout) for u, layout in zip(node.operands, needed, strict=True)]
            match node.operation:
                case LoadTile(memory=memory) if memory is not None and not memory.masked and word.memory is not None:
                    made = self.printer.build.value("lego.tile_load", self._place(word), self._type(node, result))
                case StoreTile(memory=memory) if memory is not None and not memory.masked and word.memory is not None:
                    self.printer.build.operation("lego.tile_store", (given[0], *self._place(word)))
                    continue
                case MapTile() if isinstance(word.element, Scalar):
                    made = self._mapped(node, word, given, state)
                case ReduceTile(axis) if word.statements and not node.has_no_layout:
                    made = self._reduced(node, word, given[0], axis, result)
                case LoadTile() | StoreTile():
                    raise self._refused(node, "masked, or of packed numbers")
                case _:
                    raise self._refused(node, "another word")
            self._tiles[node, result] = made
        for source, target in chosen.moved:
            given = [self._tiles[node, source]]
            self._tiles[node, target] = self.printer.build.value("lego.convert", given, self._type(node, target))

    def _refused(self, node: TileNode, what: str) -> LayoutError:
        return LayoutError(
            f"{node!r} is {what}, and has no form on tiles of the lego dialect; emit the kernel as mlir, of threads"
        )

    def _type(self, node: TileNode, layout: LinearLayout) -> str:
        return _tensor(node.shape, node.element, layout)

    def _place(self, word: TileWord) -> list[Emitted]:
        assert word.memory is not None
        rank_ = len(word.memory.dims())
        at = [self.printer.value(as_expr(i), "index") for i in (word.at or (0,) * rank_)]
        return [self._memrefs[word.memory.buffer.name], *at]

    # -- functions of elements

    def _mapped(self, node: TileNode, word: TileWord, given: Sequence[Emitted], state: LinearLayout) -> Emitted:
        """The element's statements on tensors."""
        for element, tile in zip(word.elements, given, strict=True):
            if not isinstance(element, Scalar):
                raise self._refused(node, "of indices")
            self._values[element.entry.number] = tile
        for statement in word.statements:
            if not isinstance(statement, Constant | Compute | Convert):
                raise self._refused(node, "more than a function of its operands")
            if isinstance(statement, Constant):
                self._emit(statement)
                continue
            operands = statement.operands if isinstance(statement, Compute) else (statement.operand,)
            tiles = [self._repeated(o, node, state) for o in operands]
            like = [SpreadValue.of(o, node.shape, state) for o in (*operands, statement.result)]
            if isinstance(statement, Compute):
                made = self.compute.compute(statement.operation, like[:-1], tiles, like[-1])
            else:
                made = self.compute.convert(tiles[0], like[0], like[-1])
            self._values[statement.result.number] = made
        return self._repeated(word.element.entry, node, state)

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
        """The value of a node in a layout."""
        operation = node.operation
        if isinstance(operation, FreeTile):
            word = self.words[node]
            if not isinstance(word.element, Scalar) or any(
                not isinstance(s, Constant | Compute | Convert) for s in word.statements
            ):
                raise self._refused(node, "of indices")
            if word.element.entry.number not in self._values:
                super()._emit_body(word.statements)
            return self._repeated(word.element.entry, node, layout)
        if not isinstance(operation, RELABELS):
            return self._tiles[node, layout]
        (operand,) = node.operands
        before = label_back(node, layout)
        x, collapse = self._fetched(operand, before), partial(self._collapsed, dtype=node.element)
        match operation:
            case TransposeTile(order):
                return self._into("linalg.transpose", x, node, layout, {"permutation": _integers(order)})
            case NewAxis(axis):
                kept = [k for k in range(len(node.shape)) if k != axis]
                return self._expanded(x, _joined([axis], kept), node, layout)
            case GrowTile():
                axes = [k for k, (a, b) in enumerate(zip(operand.shape, node.shape, strict=True)) if a != b]
                kept = [k for k in range(len(node.shape)) if k not in axes]
                x = collapse(x, _joined(axes, kept), [node.shape[k] for k in kept], _without(before, axes))
                return self._into("linalg.broadcast", x, node, layout, {"dimensions": _integers(axes)})
            case ReshapeTile():
                count = prod(node.shape)
                x = collapse(x, [range(len(operand.shape))], [count], shape_ops.reshape(before, (count,)))
                return self._expanded(x, [range(len(node.shape))], node, layout)
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

    def _expanded(self, x: Emitted, groups: Sequence[Sequence[int]], node: TileNode, layout: LinearLayout) -> Emitted:
        """The tile of a node, of which each group of axes was merged into one."""
        attributes = {"reassociation": _nested(groups), "static_output_shape": _integers(node.shape)}
        return self.printer.build.value("tensor.expand_shape", (x,), self._type(node, layout), attributes)

    def _into(self, name: str, x: Emitted, node: TileNode, layout: LinearLayout, attributes: dict[str, str]) -> Emitted:
        """A linalg operation that copies each element to another place."""
        build, kind = self.printer.build, self._type(node, layout)
        made = build.operation(name, (x, build.value("tensor.empty", (), kind)), (kind,), attributes, 1)
        self._region_of(made, node.element.mlir, lambda a, _: a)
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
