"""Layouts that are open while a kernel is recorded, and filled in when it is recorded again.

The function of a kernel that has tiles without a layout runs twice. The first run records the graph of its tile
operations for `lego_mlir.engine`; of each tile one element represents all, so that ranges, types and the instructions
of an element are known, and the statements are dropped. The engine chooses. In the second run the same words meet the
same nodes of the graph, and make spread values in the chosen layouts at once, with the conversions after them.

Every word is one call of `OpenLayouts.tile` or `relabelled`: a node, a function for the element that represents all,
and a function from the operands' spread values to the result's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.engine.layout_choice import LayoutChoice
from lego_mlir.engine.operand_places import added_in_place, ordered_operands
from lego_mlir.engine.shared_placements import bytes_of, is_shared
from lego_mlir.engine.tile_graph import (
    RELABELS,
    FreeTile,
    GivenTile,
    GrowTile,
    HalfTile,
    IndexedTile,
    LoadTile,
    MultiplyTiles,
    NewAxis,
    PartOfTiles,
    ReadTile,
    ReshapeTile,
    TileGraph,
    TileNode,
    TileOperation,
    TransposeTile,
    label_back,
)
from lego_mlir.errors import LayoutError, LegoError, TraceError
from lego_mlir.expr.index import Index
from lego_mlir.expr.intervals import bounds
from lego_mlir.f2.boxed import boxed, linear
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, REGISTERS_PER_SM, WARP
from lego_mlir.tracing.spread.conversion import convert, converted_together
from lego_mlir.tracing.spread.distributed import Spread, dtype_of
from lego_mlir.tracing.spread.variables import SpreadVariable
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.launch_bounds import NO_BOUNDS, LaunchBounds
from lego_mlir.tracing.trace.marks import KeptTile
from lego_mlir.tracing.trace.trace import Compute, Constant, If, Statement
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words import warps
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.reductions import require_uniform
from lego_mlir.tracing.words.tensor import View

if TYPE_CHECKING:
    from lego_mlir.tracing.spread.open_tiles import OpenTile
    from lego_mlir.tracing.words.packed_views import PackedView
    from lego_mlir.tracing.words.tensor import ElementAccess

ASSUMED_TRIPS: Final = 16
"""Iterations of a loop whose number is not known while tracing."""
COUNTED_TRIPS: Final = 1 << 16
"""Iterations from which the range of a loop's variable tells of the type of its bounds, not of how often it runs."""
INSTRUCTIONS: Final = {"truediv": 8.0, "exp": 3.0, "exp2": 2.0, "log": 4.0, "rsqrt": 4.0, "sqrt": 6.0, "tanh": 8.0}
"""Instructions of operations on f32 that are more than one, about; PTX of sm_80."""
TOGETHER_BYTES: Final = 3 << 10
"""Shared memory of a warp at which a multiprocessor, of 64 warps and 228 KiB, has room for all its warps."""
LOADED_BYTES: Final = 3 * TOGETHER_BYTES
"""The same for what is loaded, whose loads are then under way together, with a third of the warps."""
FEWEST_REGISTERS: Final = 64
"""Registers of a thread with which 32 warps share a multiprocessor, which is enough of them."""
OTHER_REGISTERS: Final = 16
"""Registers of a thread besides those of its values: of bench/layout_free.py and 45 random programs none spills."""
Made: TypeAlias = Any
"""A spread value, or a tuple of those that one operation makes."""
TileFunction: TypeAlias = Callable[[Sequence[Spread], LinearLayout], Operand]


@dataclass(frozen=True, slots=True)
class TileWord:
    """A tile operation of a run that keeps them whole: its node, the element that represents its result, and memory.

    `statements` make the element from those of the operands, `elements`; of a reduction it is two of them combined.
    `other` is what a load gives outside of memory, `axis` that of a tile of indices, whose element is a symbol.
    """

    node: TileNode
    element: Operand
    elements: Sequence[Operand] = ()
    statements: Sequence[Statement] = ()
    memory: View | None = None
    at: Sequence[IndexLike] = ()
    other: Operand = 0
    axis: int | None = None


@dataclass(slots=True)
class OpenLayouts:
    """The tiles of a kernel without a layout: their graph, and in the second run their values.

    `choice` is None while the graph is recorded. A run for the `lego` dialect keeps `words` in place of values.
    """

    tracer: Tracer
    graph: TileGraph | None = None
    choice: LayoutChoice | None = None
    words: list[TileWord] | None = None
    statements: Sequence[Statement] = ()
    """Those that made the last element of a function."""
    _next: int = 0
    _region: tuple[int, list[Statement] | None] = (0, None)
    _moves: list[tuple[TileNode, LinearLayout, LinearLayout]] = field(default_factory=list)
    _makers: dict[TileNode, Callable[[LinearLayout], Spread]] = field(default_factory=dict)
    _values: dict[TileNode, dict[LinearLayout, Spread]] = field(default_factory=dict)
    _ordered: dict[tuple[TileNode, LinearLayout], LinearLayout] = field(default_factory=dict)
    """Layouts of operands of products with registers in the order in which these take them."""

    @classmethod
    def filled(cls, tracer: Tracer, choice: LayoutChoice) -> OpenLayouts:
        """The layouts of the second run."""
        layouts = cls(tracer, choice.alternatives.graph, choice)
        for node, value in choice.values.items():
            if isinstance(product := node.operation, MultiplyTiles):
                for needed in value.needed:
                    layouts._ordered |= ordered_operands(node, product, needed)
        return layouts

    @property
    def is_recording(self) -> bool:
        """Whether this is the first run."""
        return self.choice is None

    @property
    def has_elements(self) -> bool:
        """Whether one element of each tile represents all, in place of values."""
        return self.choice is None or self.words is not None

    def bounds(self) -> LaunchBounds:
        """As many blocks as registers, by the values of a thread, and shared memory have room for; none where loops
        multiply.

        Without a bound ptxas keeps registers for further blocks, and waits for a load before it issues the next one.
        With it the loads of a region are issued together. Blocks that the values leave no room for would spill them.
        """
        if self.choice is None or self.graph is None or WARP * self.graph.warps != prod(self.tracer.block):
            return NO_BOUNDS
        operations = [(n.operation, n.weight) for n in self.choice.values]
        loads = any(isinstance(o, LoadTile | IndexedTile) for o, _ in operations)
        if not loads or any(isinstance(o, MultiplyTiles) and weight > 1 for o, weight in operations):
            return NO_BOUNDS
        registers = max(FEWEST_REGISTERS, self.choice.most_words() + OTHER_REGISTERS)
        blocks = int(REGISTERS_PER_SM / (registers * WARP * self.graph.warps))
        shared = sum(buffer.size * buffer.dtype.bytes for buffer in self.tracer.shared)
        return LaunchBounds(min_blocks=max(1, min(blocks, LARGEST_SHARED_BYTES // max(1, shared))))

    # -- nodes

    def node(
        self, operation: TileOperation, operands: Sequence[TileNode], shape: Sequence[int], dtype: DType, word: str
    ) -> TileNode:
        """The node of the next word; in the second run that of the first. Raises TraceError where the runs differ."""
        tracer = self.tracer
        if not self.is_recording:
            return self._met(word, tuple(shape))
        count = warps_of_block(tracer)
        if self.graph is None:
            self.graph = TileGraph(count, tracer.unit)
        if self.graph.warps != count:
            raise tracer.error(
                f"tiles without a layout are in roles of {self.graph.warps} and of {count} warps; give those of one "
                "role their layouts",
                LayoutError,
            )
        return self.graph.add(
            operation,
            operands,
            shape,
            max(8, dtype.bits),
            element=dtype,
            weight=self._trips(),
            uniform=self._is_uniform(),
            movable=dtype.family != "index",
            packed=dtype.is_packed,
            source=str(tracer.here()),
            word=word,
            path=(*tracer.path, *(symbol for symbol, *_ in tracer.loops)),
            region=self._region_number(),
        )

    def _region_number(self) -> int:
        """The number of the innermost region; a new one if it was left in between."""
        number, region = self._region
        if region is not self.tracer.innermost:
            self._region = number + 1, self.tracer.innermost
        return self._region[0]

    def _met(self, word: str, shape: tuple[int, ...]) -> TileNode:
        nodes = self.graph.nodes if self.graph is not None else []
        found = nodes[self._next] if self._next < len(nodes) else None
        if found is None or found.word != word or found.shape != shape:
            raise self.tracer.error(
                f"{self.tracer.name} has tiles without a layout and is traced twice, and its function did something "
                f"else the second time: {word} of {list(shape)} where {found!r} was; a kernel's function must not "
                "change what it reads from outside",
                TraceError,
            )
        self._next += 1
        return found

    def _trips(self) -> float:
        """The approximate number of times that the innermost region runs."""
        product = 1.0
        for symbol, *ends, step in self.tracer.loops:
            known = self.tracer.ranges[symbol]
            low, high = known.lo, known.hi
            stride = bounds(step, self.tracer.ranges).lo or 1
            fixed = isinstance(low, int) and isinstance(high, int) and high - low < COUNTED_TRIPS * stride
            trips = max(1.0, (high - low) / stride) if fixed else ASSUMED_TRIPS
            loaded = any(end.free_symbols & self.tracer.from_data for end in ends)
            product *= min(trips, ASSUMED_TRIPS) if loaded else trips
        return product

    def _is_uniform(self) -> bool:
        """Whether all threads of the block certainly reach this point: under no condition of threads or of data."""
        tracer = self.tracer
        try:
            require_uniform(tracer, "a tile")
        except LegoError:
            return False
        loops, from_data = {symbol for symbol, *_ in tracer.loops}, set(tracer.from_data)
        under = [condition.free_symbols for condition in tracer.path[tracer.path_of_role :]]
        return not any(symbols & from_data and not symbols & loops for symbols in under)

    # -- values

    def tile(
        self,
        operation: Callable[[], TileOperation],
        operands: Sequence[OpenTile],
        shape: Sequence[int],
        sample: Callable[[], Operand],
        compute: TileFunction,
        word: str,
        dtype: DType | None = None,
        memory: tuple[View | Part | PackedView, Sequence[IndexLike] | None] | None = None,
        other: Operand = 0,
    ) -> Operand:
        """The tile of one operation. `sample` makes the element that represents all, `compute` the spread value.

        The result of a reduction of one axis to none is data, that of a store or an assignment None. `memory` is that
        of a load or a store, with the index of its first element; outside of it a load gives `other`.
        """
        from lego_mlir.tracing.spread.open_tiles import OpenTile

        nodes = [x.node for x in operands]
        if self.words is not None:
            return self._kept(operands, shape, sample, word, memory, other)
        if self.is_recording:
            element = sample()
            node = self.node(operation(), nodes, shape, dtype or _type_of(element), word)
            return element if node.has_no_layout else OpenTile(self, node, node.element, element)
        node = self._met(word, tuple(shape))
        found = self._computed(node, compute)
        if node.has_no_layout:
            return found
        return OpenTile(self, node, node.element, None)

    def _kept(
        self,
        operands: Sequence[OpenTile],
        shape: Sequence[int],
        sample: Callable[[], Operand],
        word: str,
        memory: tuple[View | Part | PackedView, Sequence[IndexLike] | None] | None,
        other: Operand,
    ) -> Operand:
        """The tile of one operation in a run that keeps words."""
        from lego_mlir.tracing.spread.open_tiles import OpenTile

        assert self.words is not None
        self.statements = ()
        node = self._met(word, tuple(shape))
        given, at = memory or (None, None)
        view, at = (given.view, given.at) if isinstance(given, Part) else (given, at)
        samples = [x.sample for x in operands]
        with self.tracer.word(KeptTile(len(self.words))):
            element = sample()
        whole = view if isinstance(view, View) else None
        self.words.append(TileWord(node, element, samples, self.statements, whole, at or (), other))
        return element if node.has_no_layout else OpenTile(self, node, node.element, element)

    def _computed(self, node: TileNode, compute: TileFunction) -> Operand:
        """The spread values of a node in all of its chosen layouts; the result of one without any.

        What nothing uses is not computed.
        """
        assert self.choice is not None and self.graph is not None
        if node not in self.choice.values:
            return None
        chosen, values = self.choice.values[node], self._values.setdefault(node, {})
        for (state, result), needed in zip(chosen.computed, chosen.needed, strict=True):
            given = [self._fetched(u, layout) for u, layout in zip(node.operands, needed, strict=True)]
            if isinstance(node.operation, ReadTile) and self.graph.unit and _is_added_to(node):
                values[result] = given[0]  # the variable itself, which the product changes
                continue
            made = compute(given, state if is_shared(state) else boxed(state, node.state_shape))
            if node.has_no_layout:
                return made
            as_it_is = is_shared(state) or isinstance(made, SpreadVariable)
            values[result] = made if as_it_is else _as(made, result, node.shape)
        self._moves += [(node, source, target) for source, target in chosen.moved]
        if not self._precedes_load(node):
            self._move()
        return None

    def _precedes_load(self, node: TileNode) -> bool:
        """Whether the next operation is a load after a load: their conversions follow both, with the same barriers."""
        later = self.graph.nodes[node.number + 1 :] if self.graph is not None else []
        following = next((n for n in later if self.choice is not None and n in self.choice.values), None)
        loads = [n for n in (node, following) if n is not None and isinstance(n.operation, LoadTile)]
        return len(loads) == 2 and loads[0].region == loads[1].region

    def _move(self) -> None:
        """The conversions that were put off, those of loads and of one small value between the same barriers."""
        moves, self._moves = self._moves, []
        most = LOADED_BYTES if all(isinstance(node.operation, LoadTile) for node, _, _ in moves) else TOGETHER_BYTES
        held = sum(bytes_of(node.shape, node.bits) for node, _, _ in moves)
        if self.graph is not None and held <= most * self.graph.warps:
            self._move_together(moves)
        else:
            for move in moves:
                self._move_together([move])

    def _move_together(self, moves: Sequence[tuple[TileNode, LinearLayout, LinearLayout]]) -> None:
        """Conversions between the same barriers, operands of products in the order in which these take registers."""
        moved, pairs, in_order = [], [], []
        for node, source, target in moves:
            value: Made = self._values[node][source]
            if isinstance(value, tuple):
                self._values[node][target] = _as(value, target, node.shape)
                continue
            ordered = self._ordered.get((node, target))
            moved.append((node, target))
            pairs.append((value, boxed(ordered or target, node.shape)))
            in_order += [pairs[-1][1]] if ordered else []
        for (node, target), made in zip(moved, converted_together(pairs, in_order), strict=True):
            self._values[node][target] = _as(made, target, node.shape)

    def _fetched(self, node: TileNode, layout: LinearLayout) -> Spread:
        """The value of a node in a layout that was chosen for it, below new labels where it is no value itself."""
        operation = node.operation
        if isinstance(operation, FreeTile):
            return _as(self._makers[node](layout), layout, node.shape)
        if not isinstance(operation, RELABELS):
            return self._values[node][layout]
        (operand,) = node.operands
        x = self._fetched(operand, label_back(node, layout))
        if is_shared(layout):
            return x.T
        return _as(_labelled(operation, x, layout, node.shape), layout, node.shape)

    def free(
        self,
        operands: Sequence[OpenTile],
        shape: Sequence[int],
        sample: Callable[[], Operand],
        make: Callable[[LinearLayout, Sequence[Spread]], Spread],
        word: str,
        counted: Callable[[Operand], int | None] = lambda element: None,
        axis: int | None = None,
    ) -> OpenTile:
        """A tile that is made where it is used, in any layout, from operands in the same one.

        `counted` gives the axis, if any, along which elements are consecutive numbers, by one of them.
        A tile of the indices along an `axis` has a symbol as its element in a run that keeps words.
        """
        from lego_mlir.tracing.spread.open_tiles import OpenTile

        self.statements = ()
        counts = self.words is not None and axis is not None
        element = (self._symbol(shape[axis or 0]) if counts else sample()) if self.has_elements else None
        if not self.is_recording:
            node = self._met(word, tuple(shape))
        else:
            node = self.node(FreeTile(counted(element)), [x.node for x in operands], shape, _type_of(element), word)
        if self.words is not None:
            samples = [x.sample for x in operands]
            self.words.append(TileWord(node, element, samples, self.statements, axis=axis))
        self._makers[node] = lambda layout: make(
            boxed(layout, node.shape), [self._fetched(x.node, layout) for x in operands]
        )
        return OpenTile(self, node, node.element, element)

    def _symbol(self, size: int) -> Index:
        """An index below `size`, defined in the innermost region."""
        symbol, _ = self.tracer.loop_symbol(sympy.Integer(0), sympy.Integer(size), sympy.Integer(1))
        self.tracer.define_symbol(symbol)
        return Index(symbol)

    def relabelled(self, operation: TileOperation, x: OpenTile, shape: Sequence[int], word: str) -> OpenTile:
        """The same elements under other labels."""
        from lego_mlir.tracing.spread.open_tiles import OpenTile

        return OpenTile(self, self.node(operation, [x.node], shape, x.dtype, word), x.dtype, x.sample)

    def as_open(self, x: Spread) -> OpenTile:
        """A tile of the graph for a spread value, whether its layout is open or given."""
        from lego_mlir.tracing.spread.open_tiles import OpenTile

        return x.get() if isinstance(x, OpenTile) else self.given(x.get())

    def given(self, x: Spread) -> OpenTile:
        """A spread value whose layout a person gave, as a tile of the graph."""
        from lego_mlir.tracing.spread.open_tiles import OpenTile

        layout = canonical(linear(x.layout))
        node = self.node(GivenTile(layout), (), x.shape, x.dtype, "a tile with a layout")
        if self.choice is not None and node in self.choice.values:
            values = self._values.setdefault(node, {layout: _as(x, layout, node.shape)})
            for source, target in self.choice.values[node].moved:
                values[target] = _as(values[source], target, node.shape)
        return OpenTile(self, node, x.dtype, x.registers[0])


def warps_of_block(tracer: Tracer) -> int:
    """The warps of the block, or of the role's group. Raises LayoutError for threads that are no whole warps."""
    threads = warps.threads(tracer)
    if not isinstance(threads, int) or threads % WARP:
        raise tracer.error(
            f"a tile without a layout is spread over whole warps, and {tracer.name} has {threads!r} threads; give the "
            f"block a multiple of {WARP} threads",
            LayoutError,
        )
    return threads // WARP


def name_of(memory: ElementAccess | PackedView) -> str:
    """The memory's name in a word: the number of an unnamed tile counts those of conversions, which differ by run."""
    return memory.buffer.name if memory.buffer.named else "a shared tile"


def layouts_of(tracer: Tracer) -> OpenLayouts:
    """The open layouts of the kernel that is traced."""
    if tracer.open_layouts is None:
        tracer.open_layouts = OpenLayouts(tracer)
    return tracer.open_layouts


def slots_of(statements: Sequence[Statement]) -> float:
    """The approximate number of instructions of statements."""
    total = 0.0
    for statement in statements:
        if isinstance(statement, If):
            total += slots_of(statement.then) + slots_of(statement.otherwise)
        elif isinstance(statement, Compute):
            total += INSTRUCTIONS.get(statement.operation, 1.0)
        elif not isinstance(statement, Constant):
            total += 1.0
    return total


def _as(x: Made, layout: LinearLayout, shape: tuple[int, ...]) -> Made:
    """A spread value, or several, in a canonical layout, moved only where elements leave their threads."""
    if isinstance(x, tuple):
        return tuple(_as(each, layout, shape) for each in x)
    return convert(x, boxed(layout, shape))


def _labelled(operation: TileOperation, x: Spread, layout: LinearLayout, shape: tuple[int, ...]) -> Spread:
    match operation:
        case NewAxis(axis):
            return x.expand_dims(axis)
        case TransposeTile(order):
            return x.transpose(order)
        case ReshapeTile():
            return x.reshape(*shape)
        case HalfTile(half):
            return x.split()[half]
        case PartOfTiles(number):
            return x[number]
        case GrowTile():
            return x.broadcast_to(boxed(layout, shape))
    raise AssertionError(f"{operation!r} changes more than labels")


def _type_of(element: Operand) -> DType:
    found = dtype_of(element)
    if found is None:
        raise TraceError(f"{element!r} cannot be an element of a tile")
    return found


def _is_added_to(node: TileNode) -> bool:
    """Whether a variable is read as the sums that a product adds to, in place; its other operands are copies."""
    return bool(node.users) and node.users[0].operands[-1] is node and added_in_place(node.users[0]) is not None
