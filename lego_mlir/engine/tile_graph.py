"""The graph of a tile program whose layouts are open, and the transfer functions of its operations.

A node is the value of one operation. Its *state* is the layout in which the operation computes: that of the result, or,
where the result has fewer elements or none (reductions, halves, stores), that of the operand. `required(node, state)`
are the layouts of the operands for which nothing moves, `result_of(node, state)` is that of the result, and
`forward(node, layout)` are those of the result for which an operand stays where it is. All layouts are canonical
(`f2.queries.canonical`) and padded to powers of two; the shape of a node is that of its tile.

>>> graph = TileGraph(warps=1)
>>> x = graph.add(LoadTile(None), (), (8, 8), 32)
>>> y = graph.add(TransposeTile((1, 0)), (x,), (8, 8), 32)
>>> rows = LinearLayout({"register": [(0, 1)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)], "warp": []},
...                     {"dim0": 8, "dim1": 8})
>>> required(y, rows)[0].bases["register"], forward(y, rows)[0].bases["register"]
([(1, 0)], [(1, 0)])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

from lego_mlir.engine.shared_placements import is_shared
from lego_mlir.engine.tile_memory import TileMemory
from lego_mlir.errors import LayoutError
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.axis_bits import resized
from lego_mlir.f2.boxed import boxed, linear, misfit, padded
from lego_mlir.f2.encodings import Encoding, MmaOperand, MmaSync
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical


@dataclass(frozen=True, slots=True)
class LoadTile:
    """A tile from memory, in a layout that a person may have pinned; `staged` if shared memory may hold a copy."""

    memory: TileMemory | None
    pinned: LinearLayout | None = None
    staged: bool = False


@dataclass(frozen=True, slots=True)
class StoreTile:
    """A tile into memory, in a layout that a person may have pinned."""

    memory: TileMemory | None
    pinned: LinearLayout | None = None


@dataclass(frozen=True, slots=True)
class GivenTile:
    """A tile whose layout a person gave."""

    layout: LinearLayout


@dataclass(frozen=True, slots=True)
class FreeTile:
    """A tile that any thread can make without others: one value everywhere, indices, and functions of such tiles.

    Along the axis `counted`, if that is known, its elements are a number and those that follow it.
    """

    counted: int | None = None


@dataclass(frozen=True, slots=True)
class MapTile:
    """A function of the elements of tiles of one shape, and its instructions for an element."""

    slots: float


@dataclass(frozen=True, slots=True)
class ReduceTile:
    """Elements combined along an axis; `values` is the number of values that travel together: 2 with an index.

    `by_warp` tells whether one instruction combines the lanes of a warp.
    """

    axis: int
    values: int = 1
    by_warp: bool = False


@dataclass(frozen=True, slots=True)
class AlongTile:
    """A "scan", "sort" or "flip" along an axis of `values` tiles together, placed as they are.

    With a `size` the result is the first elements of the axis.
    """

    kind: str
    axis: int
    values: int = 1
    size: int | None = None


@dataclass(frozen=True, slots=True)
class GatherTile:
    """Elements of the first operand selected along an axis by the second one, placed as the indices are."""

    axis: int


@dataclass(frozen=True, slots=True)
class PartOfTiles:
    """One of several tiles that an operation makes together."""

    number: int


@dataclass(frozen=True, slots=True)
class IndexedTile:
    """Elements of memory loaded at tiles of indices, its operands; contiguous along one axis, or anywhere: None."""

    memory: TileMemory | None


@dataclass(frozen=True, slots=True)
class ScatterTile:
    """Elements of memory stored or updated at indices, contiguous along one axis, or anywhere: None.

    Operands are all tiles that take part.
    """

    memory: TileMemory | None = None


@dataclass(frozen=True, slots=True)
class NewAxis:
    """A new axis of size 1."""

    axis: int


@dataclass(frozen=True, slots=True)
class GrowTile:
    """Axes of size 1 grown to the shape of the node."""


@dataclass(frozen=True, slots=True)
class TransposeTile:
    """Axis k is axis `order[k]` of the operand."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReshapeTile:
    """The elements in row-major order under the shape of the node."""


@dataclass(frozen=True, slots=True)
class JoinTiles:
    """Two tiles along a new last axis of size 2."""


@dataclass(frozen=True, slots=True)
class HalfTile:
    """One half of a last axis of size 2."""

    half: int


@dataclass(frozen=True, slots=True)
class MultiplyTiles:
    """`acc + a @ b`: a is (M, K), b is (K, N); `tiles` are the operands that are tiles, then acc.

    The other operands are in shared memory. `bits` are those of an element of a and b, `multiplied` those of the type
    of `mma.sync`, to which narrower operands are converted. A thread may hold as many `neighbours` along K of its
    operands together, the usual number first. `by_groups` if `wgmma` multiplies the types.
    """

    depth: int
    tiles: tuple[int, ...]
    neighbours: tuple[int, ...]
    bits: tuple[int, int]
    multiplied: int
    by_groups: bool = False


@dataclass(frozen=True, slots=True)
class VoteTile:
    """Whether a condition holds for any or for all elements that a warp holds."""


@dataclass(frozen=True, slots=True)
class PinTile:
    """The operand in a layout that a person gave."""

    layout: LinearLayout


@dataclass(frozen=True, slots=True)
class TileState:
    """A variable of the kernel that holds a tile, in one layout from its first value on."""


@dataclass(frozen=True, slots=True)
class AssignTile:
    """A new value of a variable: operands are the variable and the value."""


@dataclass(frozen=True, slots=True)
class ReadTile:
    """The value of a variable at this point."""


TileOperation: TypeAlias = (
    LoadTile
    | StoreTile
    | GivenTile
    | FreeTile
    | MapTile
    | ReduceTile
    | AlongTile
    | GatherTile
    | PartOfTiles
    | IndexedTile
    | ScatterTile
    | NewAxis
    | GrowTile
    | TransposeTile
    | ReshapeTile
    | JoinTiles
    | HalfTile
    | MultiplyTiles
    | VoteTile
    | PinTile
    | TileState
    | AssignTile
    | ReadTile
)
IN_PLACE: Final = (MapTile, IndexedTile, ReadTile, AssignTile, TileState, StoreTile, ScatterTile, VoteTile, PinTile)
"""Operations whose operands and result are placed alike, so that nothing is derived for them."""
RELABELS: Final = (NewAxis, GrowTile, TransposeTile, ReshapeTile, HalfTile, PartOfTiles)
"""Operations whose results are their operands under other labels; they take no instruction and are never chosen."""


@dataclass(eq=False, slots=True)
class TileNode:
    """One value: an operation, its operands, the shape of its tile, the bits of an element, its type in the program.

    `weight` is how often the operation runs, `uniform` whether all threads of the block reach it, `movable` whether its
    elements are data, `packed` whether they are several in a word. `path` are the conditions and loops under which it
    runs, `region` is the number of their statements. `source` is the line of the kernel, `word` what stands there.
    """

    operation: TileOperation
    operands: tuple[TileNode, ...]
    shape: tuple[int, ...]
    bits: int
    number: int
    weight: float = 1.0
    uniform: bool = True
    movable: bool = True
    packed: bool = False
    source: str = ""
    word: str = ""
    element: Any = None
    path: tuple[object, ...] = ()
    region: int = 0
    users: list[TileNode] = field(default_factory=list)

    def __repr__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        return f"{where}{self.word or type(self.operation).__name__}, {' x '.join(map(str, self.shape))}"

    @property
    def narrows(self) -> bool:
        """Whether the result has fewer elements than the operand, whose layout is the state."""
        return isinstance(self.operation, ReduceTile) or (
            isinstance(self.operation, AlongTile) and self.operation.size is not None
        )

    @property
    def given_layout(self) -> LinearLayout | None:
        """The layout that a person gave, in which alone the operation computes."""
        operation = self.operation
        if isinstance(operation, GivenTile | PinTile):
            return operation.layout
        return operation.pinned if isinstance(operation, LoadTile | StoreTile) else None

    @property
    def has_no_layout(self) -> bool:
        """Whether the result is no tile: an effect, or data."""
        to_data = isinstance(self.operation, ReduceTile) and len(self.operands[0].shape) == 1
        return to_data or isinstance(self.operation, StoreTile | ScatterTile | AssignTile | PinTile | VoteTile)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of the tile whose layout is the state."""
        of_operand = self.narrows or isinstance(self.operation, StoreTile | ScatterTile)
        return self.operands[0].shape if of_operand else self.shape

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape padded to powers of two."""
        return padded(self.shape)


class TileGraph:
    """The nodes of a tile program for a block of `warps` warps, in the order of the program.

    Operands of products may be staged in shared memory where a matrix `unit` is given: "mma.sync" or "wgmma".
    """

    def __init__(self, warps: int, unit: str | None = None) -> None:
        self.warps, self.unit = warps, unit
        self.nodes: list[TileNode] = []

    def add(
        self,
        operation: TileOperation,
        operands: Sequence[TileNode],
        shape: Sequence[int],
        bits: int,
        *,
        weight: float = 1.0,
        uniform: bool = True,
        movable: bool = True,
        packed: bool = False,
        source: str = "",
        word: str = "",
        element: object = None,
        path: tuple[object, ...] = (),
        region: int = 0,
    ) -> TileNode:
        """A further node."""
        node = TileNode(
            operation,
            tuple(operands),
            tuple(shape),
            bits,
            len(self.nodes),
            weight,
            uniform,
            movable,
            packed,
            source,
            word or type(operation).__name__,
            element,
            path,
            region,
        )
        self.nodes.append(node)
        for operand in dict.fromkeys(operands):
            operand.users.append(node)
        return node

    @cached_property
    def chosen(self) -> list[TileNode]:
        """The nodes whose layouts are chosen: all but those that are free anywhere, new labels, and unused values."""
        used = set[TileNode]()
        for n in reversed(self.nodes):  # users come after
            if n.has_no_layout or any(user in used for user in n.users):
                used.add(n)
        return [n for n in self.nodes if n in used and not isinstance(n.operation, (*RELABELS, FreeTile))]


def accumulators(shape: Sequence[int], warps: int) -> dict[LinearLayout, MmaSync]:
    """The layouts of an accumulator, one for each division of the warps, with their encodings.

    Where no division of all warps fits the tile, as of 48 x 48 by 4 warps, it is divided by half of them, and so on;
    the others hold copies. Three warps are the first three of four, whose last one is outside the tile.
    """
    return _accumulators(tuple(shape), warps)


@lru_cache(maxsize=256)
def _accumulators(shape: tuple[int, ...], warps: int) -> dict[LinearLayout, MmaSync]:
    found: dict[LinearLayout, MmaSync] = {}
    dividing = 1 << (warps - 1).bit_length()
    while dividing and not found:
        for k in range(dividing.bit_length()):
            parent = MmaSync((dividing >> k, 1 << k))
            try:
                layout = placed(parent, shape, warps)
            except LayoutError:
                continue  # the tile ends inside a piece
            if fits(layout, shape, warps):
                found.setdefault(layout, parent)
        dividing //= 2
    return found


def placed(encoding: Encoding, shape: Sequence[int], warps: int) -> LinearLayout:
    """The canonical layout of an encoding in a block of `warps` warps, which hold copies if it has fewer.

    Raises LayoutError for a tile that ends inside a piece.
    """
    layout = canonical(linear(encoding.layout(tuple(shape))))
    bases = layout.bases
    bases["warp"] = [*bases["warp"], *[(0,) * len(shape)] * ((warps - 1).bit_length() - len(bases["warp"]))]
    return LinearLayout(bases, layout.out_sizes)


def required(node: TileNode, state: LinearLayout, warps: int = 0) -> tuple[LinearLayout, ...] | None:
    """The layouts of the operands for a state; None where the operation has no such state.

    `warps` is the number of the block's warps, which products divide.
    """
    try:
        return _required(node, state, warps)
    except LayoutError:
        return None


def _required(node: TileNode, state: LinearLayout, warps: int) -> tuple[LinearLayout, ...] | None:
    if isinstance(node.operation, IN_PLACE):
        return (state,) * len(node.operands)
    match node.operation:
        case LoadTile() | GivenTile() | FreeTile():
            return ()
        case MultiplyTiles() as product:
            return next(iter(multiplied_in(node, product, state, warps)), None)
        case GatherTile(axis):
            return (canonical(resized(state, axis, node.operands[0].padded[axis])), state)
        case _ if node.narrows:
            return (state,) * len(node.operands)
        case _:
            return (canonical(carried_back(node, state)),) * len(node.operands)


def carried_back(node: TileNode, layout: LinearLayout) -> LinearLayout:
    """The operands' layout from the result's, registers in their order. Raises LayoutError where there is none."""
    return _carried_back(node.operation, node.operands[0].padded, layout)


@lru_cache(maxsize=16384)
def _carried_back(operation: TileOperation, shape: tuple[int, ...], layout: LinearLayout) -> LinearLayout:
    match operation:
        case NewAxis(axis):
            return shape_ops.expand_dims_backward(layout, axis)
        case GrowTile():
            return shape_ops.broadcast_backward(layout, shape)
        case TransposeTile(order):
            return shape_ops.trans_backward(layout, order)
        case ReshapeTile():
            return shape_ops.reshape(layout, shape)
        case JoinTiles():
            return shape_ops.join_backward(layout)
        case HalfTile():
            return shape_ops.join_tensors(layout)
        case _:
            return layout


def carried(node: TileNode, layout: LinearLayout) -> LinearLayout:
    """The result's layout from an operand's, registers in their order. Raises LayoutError where there is none."""
    return _carried(node.operation, node.padded, layout)


@lru_cache(maxsize=16384)
def _carried(operation: TileOperation, shape: tuple[int, ...], layout: LinearLayout) -> LinearLayout:
    match operation:
        case ReduceTile(axis) if len(layout.outs) > 1:
            return shape_ops.reduced(layout, axis)
        case AlongTile(axis=axis, size=int(size)):
            return resized(layout, axis, size)
        case NewAxis(axis):
            return shape_ops.expand_dims(layout, axis)
        case GrowTile():
            return shape_ops.broadcast(layout, shape)
        case TransposeTile(order):
            return shape_ops.trans(layout, order)
        case ReshapeTile():
            return shape_ops.reshape(layout, shape)
        case JoinTiles():
            return shape_ops.join_tensors(layout)
        case HalfTile():
            return shape_ops.join_backward(layout)
        case _:
            return layout


def multiplied_in(
    node: TileNode, product: MultiplyTiles, state: LinearLayout, warps: int
) -> Iterator[tuple[LinearLayout, ...]]:
    """The layouts of the operands in registers, and of what is added to, for each number of neighbours along K."""
    parent = accumulators(node.shape, warps).get(state)
    if parent is None:
        return
    tiles = list(zip(product.tiles, node.operands, strict=False))
    for count in product.neighbours:
        try:
            operands = [placed(MmaOperand(index, parent, count), tile.shape, warps) for index, tile in tiles]
        except LayoutError:
            continue  # the tile ends inside a piece
        yield (*operands, state)


def result_of(node: TileNode, state: LinearLayout) -> LinearLayout:
    """The layout of the result for a state."""
    return canonical(carried(node, state)) if node.narrows else state


def forward(node: TileNode, given: LinearLayout) -> Sequence[LinearLayout]:
    """The layouts of the result for which an operand stays in the layout `given`; of products none."""
    if isinstance(node.operation, IN_PLACE):
        return [given]
    if isinstance(node.operation, MultiplyTiles) or _is_resizing(node):
        return []
    if isinstance(node.operation, GrowTile):
        return grown(given, node.padded)
    try:
        return [canonical(carried(node, given))]
    except LayoutError:
        return []


def backward(node: TileNode, layout: LinearLayout, warps: int) -> list[tuple[TileNode, LinearLayout]]:
    """The layouts of the operands, each with its operand, for a result in this layout."""
    if isinstance(node.operation, ReduceTile):
        shape = node.operands[0].padded
        if len(shape) == 1:
            return [(operand, layout) for operand in node.operands]
        wide = shape_ops.expand_dims(layout, node.operation.axis)
        return [(operand, new) for new in grown(wide, shape) for operand in node.operands]
    if isinstance(node.operation, MultiplyTiles) or node.narrows:
        return []
    return list(zip(node.operands, required(node, layout, warps) or (), strict=False))


def _is_resizing(node: TileNode) -> bool:
    """Whether a node gathers from an axis of another size, so that the values' layout is not that of the result."""
    return isinstance(node.operation, GatherTile) and node.operands[0].shape != node.shape


@lru_cache(maxsize=16384)
def grown(layout: LinearLayout, shape: tuple[int, ...]) -> tuple[LinearLayout, ...]:
    """Axes of size 1 grown: the new elements in registers, or first in the lanes and warps that hold copies."""
    old = shape_ops.shape_of(layout)
    new = [
        tuple(1 << k if d == axis else 0 for d in range(len(shape)))
        for axis in reversed(range(len(shape)))
        if old[axis] != shape[axis]
        for k in range(shape[axis].bit_length() - 1)
    ]
    bases, waiting = layout.bases, list(new)
    for place in ("lane", "warp"):
        bases[place] = [b if any(b) or not waiting else waiting.pop(0) for b in bases[place]]
    bases["register"] = [*bases["register"], *waiting]
    spread = canonical(LinearLayout(bases, dict(zip(layout.out_sizes, shape, strict=True))))
    return tuple(dict.fromkeys([canonical(shape_ops.broadcast(layout, shape)), spread]))


@lru_cache(maxsize=65536)
def fits(layout: LinearLayout, shape: tuple[int, ...], warps: int) -> bool:
    """Whether the tile of this shape in a padded layout ends between registers or warps: the rule of `f2.boxed`."""
    try:
        return not misfit(boxed(layout, shape), warps)
    except LayoutError:
        return False


def label_back(node: TileNode, layout: LinearLayout) -> LinearLayout:
    """The canonical layout, or the placement in shared memory, of the operand of new labels.

    Raises LayoutError where there is none.
    """
    found = carried_back(node, layout)
    return found if is_shared(found) else canonical(found)


def behind(node: TileNode, layout: LinearLayout) -> tuple[TileNode, LinearLayout] | None:
    """The node below new labels, and its layout for which they give `layout`; None for a tile free anywhere.

    Raises LayoutError where there is none.
    """
    while isinstance(node.operation, RELABELS):
        layout = label_back(node, layout)
        node = node.operands[0]
    return None if isinstance(node.operation, FreeTile) else (node, layout)
