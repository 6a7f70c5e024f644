"""Tiles without a layout: the class `OpenTile`, a spread value whose layout the layout engine chooses.

    x = lego.load(a, (64, 128), at=(row, 0))       a shape in place of a layout
    y = lego.exp2(x - x.max(axis=1)[:, None])      operations find their layouts, and convert where they must
    y.store(b, at=(row, 0))

Words are those of spread values, and both meet in one expression: a value with a layout is an anchor of the choice, and
`lego.convert(x, to=layout)` gives a tile one. `open_layouts` records the tiles, and fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import cast

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.engine.shared_placements import contiguous_axis, is_shared
from lego_mlir.engine.tile_graph import (
    RELABELS,
    AssignTile,
    FreeTile,
    GrowTile,
    HalfTile,
    JoinTiles,
    LoadTile,
    MapTile,
    MultiplyTiles,
    NewAxis,
    PinTile,
    ReadTile,
    ReduceTile,
    ReshapeTile,
    StoreTile,
    TileNode,
    TileOperation,
    TileState,
    TransposeTile,
    VoteTile,
)
from lego_mlir.errors import LayoutError, LegoError, brief
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import linear, padded, shape_of_box
from lego_mlir.f2.fibers import Combine
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical
from lego_mlir.f2.shape_ops import shape_of
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.tracing.spread import accesses, filled
from lego_mlir.tracing.spread import multiplication as products
from lego_mlir.tracing.spread.conversion import convert
from lego_mlir.tracing.spread.coordinates import ThreadElements
from lego_mlir.tracing.spread.distributed import Spread, checked_layout
from lego_mlir.tracing.spread.open_layouts import OpenLayouts, layouts_of, name_of, slots_of, warps_of_block
from lego_mlir.tracing.spread.staged_tiles import may_be_staged, multiplied_in_place, staged
from lego_mlir.tracing.spread.variables import SpreadVariable, tile_variable
from lego_mlir.tracing.trace.dtypes import DType, i1, u32
from lego_mlir.tracing.trace.trace import Load
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.wgmma_products import UNITS, takes_columns
from lego_mlir.tracing.words import control, scalar
from lego_mlir.tracing.words.cache_hints import Cache, Evict
from lego_mlir.tracing.words.in_place import SetInPlace
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.packed_values import PackedNumbers
from lego_mlir.tracing.words.packed_views import PackedView
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View


class OpenTile(Spread):
    """A tile of one element type whose layout is open. Immutable.

    `sample` is the element that represents all while the graph is recorded.
    """

    __slots__ = ("layouts", "node", "sample")
    is_open = True

    def __init__(self, layouts: OpenLayouts, node: TileNode, dtype: DType, sample: Operand) -> None:
        self.layouts, self.node, self.sample = layouts, node, sample
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the tile."""
        return self.node.shape

    def get(self) -> OpenTile:
        """This tile; of a variable, the current one."""
        return self

    @property
    def value(self) -> OpenTile:
        """What `get()` returns."""
        return self.get()

    def __repr__(self) -> str:
        return f"<{' x '.join(map(str, self.shape))} {self.dtype}, its layout open>"

    @property
    def layout(self) -> LinearLayout:  # type: ignore[override]
        """No layout is known yet. Raises LayoutError."""
        raise self._unknown("its layout is")

    @property
    def registers(self) -> Sequence[Operand]:  # type: ignore[override]
        """No registers are known yet. Raises LayoutError."""
        raise self._unknown("its registers are")

    def _unknown(self, what: str) -> LegoError:
        return current("a tile").error(
            f"{what} asked for of {self!r}, which is chosen when the kernel is complete; give the tile a layout, such "
            "as lego.convert(x, to=layout)",
            LayoutError,
        )

    # -- elements

    def map(self, function: Callable[..., object], *operands: object) -> OpenTile:
        """The function of the operands, element by element; axes of size 1 grow to the others' size."""

        def on_spread(*xs: object) -> Spread:
            first = next(x for x in xs if isinstance(x, Spread))
            return first.map(function, *xs)

        return self._combined(on_spread, function, operands)

    def _combined(
        self, on_spread: Callable[..., Operand], on_element: Callable[..., object], operands: Sequence[object]
    ) -> OpenTile:
        values = [o.get() if isinstance(o, Spread | control.Cell) else o for o in operands]
        tiles, filled_in = replaceable(self.layouts, values)
        counted: list[float] = []

        def sample() -> Operand:
            with self.layouts.tracer.recorded() as statements:
                found = on_element(*filled_in([tile.sample for tile in tiles]))
            counted.append(max(0.5, slots_of(statements)))
            self.layouts.statements = statements
            return found

        word, shape = getattr(on_element, "__name__", "map").replace("<lambda>", "map"), tiles[0].shape
        if all(_is_free(tile.node) for tile in tiles):

            def axis_of(element: Operand) -> int | None:
                """The axis along which the one operand counts, to which a number is added for all elements."""
                own = tiles[0].sample
                if len(tiles) > 1 or not isinstance(element, Index) or not isinstance(own, Index):
                    return None
                first = current(word).simplified((element - own).expr)
                return None if first.free_symbols & own.expr.free_symbols else tiles[0].counted_axis()

            return self.layouts.free(tiles, shape, sample, lambda _, given: on_spread(*filled_in(given)), word, axis_of)
        return self.layouts.tile(
            lambda: MapTile(counted[0]), tiles, shape, sample, lambda given, _: on_spread(*filled_in(given)), word
        )

    def to(self, dtype: DType) -> OpenTile:
        """The tile in another element type."""
        if dtype == self.dtype:
            return self.get()
        return self._combined(lambda x: x.to(dtype), lambda element: scalar.convert(element, dtype), [self])

    def compared(self, function: Callable[..., object], *operands: object) -> OpenTile:
        """A comparison, which of indices shares the part that registers have in common."""
        return self._combined(function, function, operands)

    # -- memory, layouts

    def store(
        self,
        target: View | Part | PackedView,
        at: Sequence[Operand] | None = None,
        cache: Cache | None = None,
        evict: Evict | None = None,
        pin: LinearLayout | None = None,
    ) -> None:
        """Store the tile with its first element at the index `at`: `Spread.store`."""
        x = self.get()
        tracer = x.layouts.tracer
        view = target.view if isinstance(target, Part) else target
        if isinstance(view, View | PackedView) and view.dtype != x.dtype:
            raise tracer.error(
                f"a tile of {x.dtype} is stored into {view.buffer.name} of {view.dtype}; convert it with "
                f".to(lego.{view.dtype})"
            )

        fixed = _pinned(tracer, "a store", x.shape, pin)

        def operation() -> StoreTile:
            count = warps_of_block(tracer)
            memory, _ = accesses.first_access("a store", target, x.shape, at, count, stored=True)
            if memory.divides_bytes(memory.vectors()[0]):
                raise tracer.error(
                    f"a tile without a layout is stored into {view.buffer.name} of {view.dtype} at an index that is "
                    "not proved to begin a byte, which two threads would write; begin the tile at a whole byte",
                    LayoutError,
                )
            return StoreTile(memory, fixed)

        def compute(given: Sequence[Spread], _: LinearLayout) -> None:
            accesses.store(target, given[0], at, cache, evict)

        name = name_of(view) if isinstance(view, View | PackedView) else "?"
        x.layouts.tile(operation, [x], x.shape, lambda: None, compute, f"store into {name}", x.dtype, (target, at))

    def pinned(self, layout: LinearLayout) -> Spread:
        """The tile in a layout that a person gives, from here on: `lego.convert`."""
        x = self.get()
        layout = checked_layout(layout)
        count = layout.in_sizes["register"]

        def compute(given: Sequence[Spread], _: LinearLayout) -> Spread:
            return convert(given[0], layout)

        operation = PinTile(canonical(linear(layout)))
        found = x.layouts.tile(lambda: operation, [x], x.shape, lambda: x.sample, compute, "lego.convert", x.dtype)
        return Spread(layout, x.dtype, [found] * count) if x.layouts.is_recording else found

    def variable(self) -> OpenVariable:
        """A variable that holds this tile first: `lego.register`."""
        x = self.get()

        def compute(given: Sequence[Spread], _: LinearLayout) -> Spread:
            return tile_variable(given[0])

        made = x.layouts.tile(
            TileState,
            [x],
            x.shape,
            lambda: control.register(x.dtype, scalar.convert(x.sample, x.dtype)),
            compute,
            "lego.register",
            x.dtype,
        )
        return OpenVariable(made.layouts, made.node, made.dtype, made.sample)

    # -- shape

    def transpose(self, order: Sequence[int]) -> OpenTile:
        """The tile whose axis k is axis `order[k]` of this one."""
        x = self.get()
        order = tuple(order)
        if sorted(order) != list(range(len(x.shape))):
            raise x.layouts.tracer.error(
                f"transpose: the order names each of the axes 0..{len(x.shape) - 1} once, got {list(order)}",
                LayoutError,
            )
        return x._labelled(TransposeTile(order), [x.shape[k] for k in order], "transpose")

    def reshape(self, *shape: int) -> OpenTile:
        """The same elements in row-major order under another shape of as many elements."""
        x = self.get()
        if padded(x.shape) != x.shape or padded(shape) != tuple(shape) or prod(x.shape) != prod(shape):
            raise x.layouts.tracer.error(
                f"a tile of {list(x.shape)} is reshaped to {list(shape)}; both have as many elements, and sizes "
                "that are powers of two",
                LayoutError,
            )
        return x._labelled(ReshapeTile(), shape, "reshape")

    def expand_dims(self, axis: int) -> OpenTile:
        """The tile with a new axis of size 1."""
        x = self.get()
        if type(axis) is not int or not 0 <= axis <= len(x.shape):
            raise x.layouts.tracer.error(f"expand_dims: axis {axis!r} is outside 0..{len(x.shape)}", LayoutError)
        return x._labelled(NewAxis(axis), [*x.shape[:axis], 1, *x.shape[axis:]], "new axis")

    def broadcast_to(self, layout: LinearLayout | Sequence[int]) -> Spread:
        """The tile with axes of size 1 grown to a shape; to a layout it is a spread value in that layout."""
        if isinstance(layout, LinearLayout):
            return self.get().grown_to(shape_of(layout)).pinned(layout)
        return self.get().grown_to(tuple(layout))

    def grown_to(self, shape: tuple[int, ...]) -> OpenTile:
        """Axes of size 1 grown to a shape. Raises LayoutError for one that does not fit."""
        if shape == self.shape:
            return self
        if len(shape) != len(self.shape) or any(a not in (1, b) for a, b in zip(self.shape, shape, strict=True)):
            raise self.layouts.tracer.error(
                f"a tile of shape {list(self.shape)} cannot be broadcast to {list(shape)}", LayoutError
            )
        return self._labelled(GrowTile(), shape, "broadcast")

    def _labelled(self, operation: TileOperation, shape: Sequence[int], word: str) -> OpenTile:
        return self.layouts.relabelled(operation, self, shape, word)

    def join(self, other: Spread) -> OpenTile:
        """A tile with a new last axis of size 2: this one at 0, `other` at 1."""
        return self.joined(other, first=True)

    def joined(self, other: object, *, first: bool) -> OpenTile:
        """The two tiles joined, this one at 0 if it is the first."""
        if not isinstance(other, Spread) or other.shape != self.shape or other.dtype != self.dtype:
            raise self.layouts.tracer.error(
                f"join takes two tiles of one shape and type, got {self!r} and {brief(repr(other))}", LayoutError
            )
        mine, theirs = self.get(), self.layouts.as_open(other)
        pair = (mine, theirs) if first else (theirs, mine)
        return self.layouts.tile(
            JoinTiles,
            pair,
            (*self.shape, 2),
            lambda: mine.sample,
            lambda given, _: given[0].join(given[1]),
            "join",
            self.dtype,
        )

    def split(self) -> tuple[Spread, Spread]:
        """The halves of a last axis of size 2."""
        x = self.get()
        if x.shape[-1] != 2:
            raise x.layouts.tracer.error(f"split takes a tile with a last axis of size 2, got {x!r}", LayoutError)
        first, second = (x._labelled(HalfTile(half), x.shape[:-1], "split") for half in (0, 1))
        return first, second

    # -- reductions, indices

    def reduced(
        self,
        others: Sequence[Spread],
        axis: int,
        fold: Callable[[Sequence[Spread]], Operand],
        by_warp: str,
        combine: Combine,
    ) -> Operand:
        """This tile and others reduced together along an axis by `fold`; the result is that of the last one.

        `by_warp` is the instruction that reduces a warp, if there is one; `fold` combines two elements by `combine`.
        """
        tiles = [self.get(), *(self.layouts.as_open(x) for x in others)]
        shape = self.shape if len(self.shape) == 1 else (*self.shape[:axis], *self.shape[axis + 1 :])
        last = tiles[-1]
        tracer = self.layouts.tracer

        def sample() -> Operand:
            found = Scalar(tracer.value(last.dtype))
            if self.layouts.words is not None and len(tiles) == 1:
                with tracer.recorded() as self.layouts.statements:
                    combine((last.sample,), (found,))
            return found

        return self.layouts.tile(
            lambda: ReduceTile(axis, len(tiles), bool(by_warp)),
            tiles,
            shape,
            sample,
            lambda given, _: fold(given),
            "reduction",
        )

    def vote(self, kind: str) -> Scalar:
        """Whether a condition holds for "any" or "all" of the elements that the warp holds, as they are placed."""
        x = self.get()
        if kind not in ("any", "all") or x.dtype.family != "bool":
            return super().vote(kind)

        def compute(given: Sequence[Spread], _: LinearLayout) -> Scalar:
            return given[0].vote(kind)

        def sample() -> Scalar:
            return Scalar(x.layouts.tracer.value(i1))

        found: Scalar = x.layouts.tile(VoteTile, [x], x.shape, sample, compute, f"lego.warp_{kind}", i1)
        return found

    def index(self, axis: int) -> OpenTile:
        """The index of each element along an axis."""
        return arange(self.shape, axis)

    def counted_axis(self) -> int | None:
        """The axis along which this tile is n, n + 1, ..: of `lego.arange`, with new axes and grown ones."""
        node, axes = self.node, list(range(len(self.shape)))
        while isinstance(node.operation, NewAxis | GrowTile):
            if isinstance(node.operation, NewAxis):
                del axes[node.operation.axis]
            node = node.operands[0]
        operation = node.operation
        counted = operation.counted if isinstance(operation, FreeTile) else None
        return None if counted is None else axes[counted]


class OpenVariable(SetInPlace, OpenTile):
    """A mutable tile whose layout is open: in an expression it is read at that point."""

    __slots__ = ()

    def get(self) -> OpenTile:
        """The current tile."""
        return self.layouts.tile(
            ReadTile, [self], self.shape, lambda: self.sample.get(), lambda given, _: given[0].get(), "read", self.dtype
        )

    def set(self, value: object) -> None:
        """Replace the tile: by one of this shape and element type, or by one number everywhere."""
        if not isinstance(value, Spread):
            value = full(self.dtype, self.shape, value)
        given = self.layouts.as_open(value).grown_to(self.shape)
        if given.dtype != self.dtype:
            raise self.layouts.tracer.error(
                f"a variable of {self.dtype} is set to a tile of {given.dtype}; convert it with .to(lego.{self.dtype})"
            )

        def sample() -> None:
            self.sample.set(given.sample)

        def compute(values: Sequence[Spread], _: LinearLayout) -> None:
            if values[1] is not values[0]:  # a product in place is there already
                cast(SpreadVariable, values[0]).set(values[1])

        self.layouts.tile(AssignTile, [self, given], self.shape, sample, compute, "set", self.dtype)


def load(
    source: View | Part | PackedView,
    shape: Sequence[int],
    at: Sequence[IndexLike] | None,
    other: Operand,
    cache: Cache | None,
    evict: Evict | None,
    pin: LinearLayout | None,
) -> OpenTile:
    """The tile of `source` of this shape, whose first element is at the index `at`: `lego.load`."""
    tracer = current("lego.load")
    shape, layouts = _checked(tracer, "lego.load", shape), layouts_of(tracer)
    count = warps_of_block(tracer)
    found = accesses.first_access("lego.load", source, shape, at, count) if layouts.has_elements else None
    view, fixed = source.view if isinstance(source, Part) else source, _pinned(tracer, "lego.load", shape, pin)

    def sample() -> Operand:
        assert found is not None
        access = found[1]
        if access is None:
            return PackedNumbers(view.dtype, [(Scalar(tracer.value(u32)), 0)], None)
        result = Scalar(tracer.value(view.dtype, None if access.width == 1 else access.width))
        with tracer.recorded():
            tracer.append(Load(result.entry, access, None, access.source))
            return result if access.width == 1 else result[0]

    def operation() -> LoadTile:
        memory = None if found is None else found[0]
        plain = type(other) is int and other == 0 and not (cache or evict) and isinstance(source, View)
        if memory is None or not isinstance(view, View) or len(shape) != 2 or not plain:
            return LoadTile(memory, fixed)
        if view.boundary not in (None, "zero"):
            return LoadTile(memory, fixed)
        return LoadTile(memory, fixed, may_be_staged(view, shape, memory))

    def compute(_: Sequence[Spread], layout: LinearLayout) -> Spread | View:
        if not is_shared(layout):
            return accesses.load(source, layout, at, other, cache, evict)
        assert isinstance(view, View)
        return staged(view, (0,) * len(view.dims()) if at is None else at, shape, contiguous_axis(layout), count)

    word = f"load of {name_of(view)}"
    return layouts.tile(operation, (), shape, sample, compute, word, view.dtype, (source, at), other)


def full(dtype: DType, shape: Sequence[int], value: Operand) -> OpenTile:
    """A tile with one value everywhere: `lego.full`."""
    tracer = current("lego.full")
    shape = _checked(tracer, "lego.full", shape)
    value = scalar.convert(value.get() if isinstance(value, control.Cell) else value, dtype)
    return layouts_of(tracer).free(
        (), shape, lambda: value, lambda layout, _: filled.full(dtype, layout, value), "lego.full"
    )


def arange(shape: Sequence[int], axis: int) -> OpenTile:
    """The index of each element along an axis: `lego.arange`."""
    tracer = current("lego.arange")
    shape = _checked(tracer, "lego.arange", shape)
    axis = filled.require_axis("lego.arange", shape, axis)

    def sample() -> Operand:
        lanes = min(WARP, padded(shape)[axis])
        unit = [0] * len(shape)
        places = [tuple(1 << k if d == axis else v for d, v in enumerate(unit)) for k in range(lanes.bit_length() - 1)]
        zeros = [tuple(unit)] * (5 - len(places) + (warps_of_block(tracer) - 1).bit_length())
        threads = [*places, *zeros]
        names = {f"dim{k}": n for k, n in enumerate(padded(shape))}
        layout = LinearLayout({"register": [], "lane": threads[:5], "warp": threads[5:]}, names)
        return ThreadElements(tracer, layout).of_register(0)[axis]

    counted = axis if padded(shape) == shape else None
    return layouts_of(tracer).free(
        (), shape, sample, lambda layout, _: filled.arange(layout, axis), "lego.arange", lambda _: counted, axis
    )


def multiplied(
    a: Spread | Part | View, b: Spread | Part | View, acc: Spread, kind: products.MmaInstruction, warpgroups: bool
) -> OpenTile:
    """`acc + a @ b` where a, b or acc has no layout: `lego.mma`, whose shapes and types were checked."""
    layouts = layouts_of(current("lego.mma"))
    tiles = [index for index, x in enumerate((a, b)) if isinstance(x, Spread)]
    operands = [layouts.as_open(x) for x in (a, b, acc) if isinstance(x, Spread)]
    depth = (a.dims() if isinstance(a, View) else tuple(a.shape))[1]
    dtypes = [x.view.dtype if isinstance(x, Part) else x.dtype for x in (a, b)]
    bits, columns = (dtypes[0].bits, dtypes[1].bits), acc.shape[1]
    most = WIDEST_ACCESS * 8 // kind.multiplied.bits // kind.neighbours if len(tiles) == 2 else 1  # a vector's
    parts = [count for count in (1, 2, 4) if count <= max(1, most) and depth % (kind.depth * count) == 0]
    neighbours = tuple(kind.neighbours * count for count in parts)
    by_groups = warpgroups and dtypes[0] == dtypes[1] and dtypes[0] in UNITS and takes_columns(dtypes[0], columns)

    def compute(given: Sequence[Spread], _: LinearLayout) -> Spread:
        given = list(given)
        left, right = (given.pop(0) if isinstance(x, Spread) else x for x in (a, b))
        if any(isinstance(x, Spread) and isinstance(y, View) for x, y in ((a, left), (b, right))):
            control.barrier()  # staged tiles are whole
        (total,) = given
        if isinstance(total, SpreadVariable):
            return multiplied_in_place(left, right, total, warpgroups)
        return products.mma(left, right, total, warpgroups)

    return layouts.tile(
        lambda: MultiplyTiles(depth, tuple(tiles), neighbours, bits, kind.multiplied.bits, by_groups),
        operands,
        acc.shape,
        lambda: operands[-1].sample,
        compute,
        "lego.mma",
        acc.dtype,
    )


def aligned(layouts: OpenLayouts, tiles: Sequence[Spread]) -> list[OpenTile]:
    """Tiles of one shape: axes of size 1 grow to the others' size. Raises LayoutError for shapes that do not fit."""
    shapes = list(dict.fromkeys(tile.shape for tile in tiles))
    if len({len(shape) for shape in shapes}) > 1:
        raise layouts.tracer.error(
            f"tiles of the shapes {' and '.join(str(list(s)) for s in shapes)} are combined; give both the same number "
            "of axes, such as x[:, None]",
            LayoutError,
        )
    grown = tuple(map(max, zip(*shapes, strict=True)))
    return [layouts.as_open(tile).grown_to(grown) for tile in tiles]


def replaceable(
    layouts: OpenLayouts, values: Sequence[Operand]
) -> tuple[list[OpenTile], Callable[[Sequence[Operand]], list[Operand]]]:
    """The tiles among values, in one shape, and the values with others in place of the tiles."""
    at = [k for k, v in enumerate(values) if isinstance(v, Spread)]

    def filled_in(replaced: Sequence[Operand]) -> list[Operand]:
        given = dict(zip(at, replaced, strict=True))
        return [given.get(k, v) for k, v in enumerate(values)]

    return aligned(layouts, [values[k] for k in at]), filled_in


def _is_free(node: TileNode) -> bool:
    """Whether a tile is made in any layout where it is used."""
    while isinstance(node.operation, RELABELS):
        node = node.operands[0]
    return isinstance(node.operation, FreeTile)


def _checked(tracer: Tracer, called: str, shape: Sequence[int]) -> tuple[int, ...]:
    if not shape or not all(type(n) is int and n > 0 for n in shape):
        raise tracer.error(f"{called}: the shape of a tile is a tuple of positive ints, got {shape!r}", LayoutError)
    return tuple(shape)


def _pinned(tracer: Tracer, called: str, shape: tuple[int, ...], layout: LinearLayout | None) -> LinearLayout | None:
    """The canonical layout that a person gave for an access. Raises LayoutError for that of another shape."""
    if layout is None:
        return None
    found = checked_layout(layout)
    if shape_of_box(found) != shape:
        raise tracer.error(
            f"{called}: pin is a layout of {list(shape_of_box(found))}, and the tile has the shape {list(shape)}",
            LayoutError,
        )
    return canonical(linear(found))
