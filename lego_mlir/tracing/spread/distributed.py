"""A tile spread over the threads of a block: the class `Spread`.

A linear layout maps register, lane and warp to an element of the tile. Entry r of `registers` is the element that this
thread holds in register r: traced data, or an index or condition for what is computed from `lego.index_along`. Python
runs once for all threads, so an operator on two tiles is one operation for each register:

    layout = f2.Blocked((1, 4), (8, 4), (4, 1), order=(1, 0)).layout((32, 16))     # 4 registers, 32 lanes, 4 warps
    x = lego.load(a, layout, at=(row, 0))
    y = lego.exp2(x * 0.5) + 1.0                                                  # 4 products, 4 exp2, 4 sums

Registers that hold copies of one element (dependent bases of the layout) share their operations.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, cast

from lego_mlir.aliases import Operand
from lego_mlir.errors import LayoutError, SymbolicBranchError, brief
from lego_mlir.expr.index import Condition, Index, PerElement
from lego_mlir.f2.boxed import boxed, is_inside, misfit, shape_of_box
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine
from lego_mlir.f2.shape_ops import shape_of, standard_dims, without_zero_registers
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import scalar, warps
from lego_mlir.tracing.words.control import Cell
from lego_mlir.tracing.words.packed_values import PackedNumbers
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.tracing.spread.open_tiles import OpenTile
    from lego_mlir.tracing.words.cache_hints import Cache, Evict
    from lego_mlir.tracing.words.mma import Part
    from lego_mlir.tracing.words.packed_views import PackedView
    from lego_mlir.tracing.words.tensor import View

V = TypeVar("V")

PLACES: Final = ("register", "lane", "warp")
"""The inputs of the layout of a spread value, the minor one first."""


def _forward(function: Callable[..., object]) -> Callable[[Spread, object], Spread]:
    return lambda self, other: self.map(function, self, other)


def _reflected(function: Callable[..., object]) -> Callable[[Spread, object], Spread]:
    return lambda self, other: self.map(function, other, self)


def _comparison(function: Callable[..., object]) -> Callable[[Spread, object], Spread]:
    def compare(self: Spread, other: object) -> Spread:
        if (tile := open_tile(self, other)) is not None:
            return tile.compared(function, self, other)
        if self.dtype.family == "index":
            from lego_mlir.tracing.spread.index_comparisons import compare_indices

            return compare_indices(function, self, other)
        return self.map(function, self, other)

    return compare


class Spread(PerElement):
    """A tile of one element type in the registers of a block's threads. Immutable.

    `layout` has the inputs register, lane and warp and the outputs dim0, dim1, ..; `registers` has one value of this
    thread for each register. Raises LayoutError for a layout that does not fit the threads of the kernel's block.
    """

    __slots__ = ("dtype", "layout", "registers")
    __array_ufunc__ = None
    layout: LinearLayout
    dtype: DType
    registers: Sequence[Operand]
    is_open = False
    """Whether the layout is open until the layout engine chooses it: `spread.open_tiles`."""

    def __init__(self, layout: LinearLayout, dtype: DType, registers: Sequence[Operand]) -> None:
        self.layout = checked_layout(layout)
        if len(registers) != self.layout.in_sizes["register"]:
            raise current("a spread value").error(
                f"a spread value has one value for each of the {self.layout.in_sizes['register']} registers of its "
                f"layout, got {len(registers)}"
            )
        for register, value in enumerate(registers):
            if not is_inside(self.layout, register):
                continue  # never made
            if dtype_of(value) != dtype:
                raise current("a spread value").error(
                    f"register {register} of a spread value of {dtype} is {brief(repr(value))}; convert it with "
                    f"lego.{dtype}(..)"
                )
        made = [v if is_inside(self.layout, r) else None for r, v in enumerate(registers)]
        self.dtype, self.registers = dtype, self._held(made)

    def _held(self, registers: Sequence[Operand]) -> Sequence[Operand]:
        """The values, where they are variables as they are now; copies are read once."""
        read = {id(v): v.get() for v in registers if isinstance(v, Cell)}
        return [read.get(id(v), v) for v in registers]

    def get(self) -> Spread:
        """This tile; of a variable, the current one."""
        return self

    @property
    def value(self) -> Spread:
        """What `get()` returns."""
        return self.get()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the tile."""
        return shape_of(self.layout)

    def __repr__(self) -> str:
        each = sum(v is not None for v in self.registers)
        return f"<{' x '.join(map(str, self.shape))} {self.dtype} spread over threads, {each} each>"

    def to(self, dtype: DType) -> Spread:
        """The tile in another element type."""
        if self.dtype.is_packed != dtype.is_packed and not self.is_open:
            from lego_mlir.tracing.spread.packed_tiles import packed_up, unpacked

            return (unpacked if self.dtype.is_packed else packed_up)(self.get(), dtype)
        if self.dtype.family == "index" and dtype.is_float and not self.is_open:
            from lego_mlir.tracing.spread.index_comparisons import index_numbers

            return index_numbers(self.get(), dtype)
        return self.map(lambda value: scalar.convert(value, dtype), self)

    def store(
        self,
        target: View | Part | PackedView,
        at: Sequence[Operand] | None = None,
        cache: Cache | None = None,
        evict: Evict | None = None,
        pin: LinearLayout | None = None,
    ) -> None:
        """Store the tile with its first element at the index `at` of a tensor or shared tile, in this element type.

        `at` has one index for each dimension of the target; without it the tile starts at the first element. Elements
        outside the target are not stored, and an element that several threads hold is stored by one of them. `cache`
        and `evict` are hints: see `tracing.words.cache_hints`. `pin` is the layout of the store, of a tile without one.
        """
        from lego_mlir.tracing.spread.accesses import store

        if pin is not None:
            raise current("a store").error(
                f"a store of {self!r}: pin is for a tile whose layout is open, and this one has a layout; use "
                "lego.convert(x, to=layout)",
                LayoutError,
            )
        store(target, self, at, cache, evict)

    def copy_out(self, target: View, at: Sequence[Operand], through: View | Part, *, again: bool = True) -> None:
        """Store the tile with its first element at the index `at` of a tensor, by tile copies through shared buffers.

        `through` has buffers of the tile's rows and at most its columns below each other: `copied_stores.buffers`.
        All threads of the block or of the role take part. The value is converted to the tensor's type.
        """
        from lego_mlir.tracing.spread.copied_stores import copy_out

        copy_out(self, target, at, through, again=again)

    # -- shape: `spread.reshaping`

    def __getitem__(self, index: object) -> Spread:
        """`x[:, None]`: a colon for each axis, None for a new axis of size 1."""
        from lego_mlir.tracing.spread.reshaping import with_new_axes

        return with_new_axes(self, index)

    @property
    def T(self) -> Spread:
        """The tile with its axes in reverse order."""
        return self.transpose(range(len(self.shape))[::-1])

    def transpose(self, order: Sequence[int]) -> Spread:
        """The tile whose axis k is axis `order[k]` of this one, without movement."""
        from lego_mlir.tracing.spread.reshaping import transpose

        return transpose(self, order)

    def reshape(self, *shape: int) -> Spread:
        """The same elements in row-major order under another shape, without movement."""
        from lego_mlir.tracing.spread.reshaping import reshape

        return reshape(self, shape)

    def expand_dims(self, axis: int) -> Spread:
        """The tile with a new axis of size 1."""
        from lego_mlir.tracing.spread.reshaping import expand_dims

        return expand_dims(self, axis)

    def broadcast_to(self, layout: LinearLayout) -> Spread:
        """The tile with axes of size 1 grown to the sizes of a layout, without movement between threads.

        Raises LayoutError where a thread would need elements of another thread.
        """
        from lego_mlir.tracing.spread.reshaping import broadcast_to

        return broadcast_to(self, layout)

    def join(self, other: Spread) -> Spread:
        """A tile with a new last axis of size 2: this one at 0, `other`, of the same layout, at 1."""
        from lego_mlir.tracing.spread.reshaping import join

        return join(self, other)

    def split(self) -> tuple[Spread, Spread]:
        """The halves of a last axis of size 2. Raises LayoutError unless each thread holds both of a pair."""
        from lego_mlir.tracing.spread.reshaping import split

        return split(self)

    # -- reductions: `spread.folds`

    def sum(self, axis: int | None = None) -> Operand:
        """The sum along an axis, in this element type; of all elements without one.

        The result is a tile without that axis, and data where no axis is left. The block's threads all take part.
        """
        return self._folded("sum", axis)

    def prod(self, axis: int | None = None) -> Operand:
        """The product along an axis, as `sum`."""
        return self._folded("prod", axis)

    def min(self, axis: int | None = None) -> Operand:
        """The least element along an axis, as `sum`; NaN if one is NaN."""
        return self._folded("min", axis)

    def max(self, axis: int | None = None) -> Operand:
        """The greatest element along an axis, as `sum`; NaN if one is NaN."""
        return self._folded("max", axis)

    def any(self, axis: int | None = None) -> Operand:
        """Whether a condition holds somewhere along an axis, as `sum`."""
        return self._folded("any", axis)

    def all(self, axis: int | None = None) -> Operand:
        """Whether a condition holds everywhere along an axis, as `sum`."""
        return self._folded("all", axis)

    def argmin(self, axis: int | None = None) -> Operand:
        """The first index of the least element along an axis, an i32; of NaNs the first."""
        return self._folded("argmin", axis)

    def argmax(self, axis: int | None = None) -> Operand:
        """The first index of the greatest element along an axis, an i32; of NaNs the first."""
        return self._folded("argmax", axis)

    def reduce(self, axis: int | None, combine: Callable[..., object]) -> Operand:
        """The elements along an axis combined by a function of two numbers, which is associative and commutative."""
        return self._folded("reduce", axis, combine)

    def _folded(self, called: str, axis: int | None, combine: Callable[..., object] | None = None) -> Operand:
        from lego_mlir.tracing.spread.folds import folded

        return folded(called, self, axis, combine)

    # -- orders along an axis: `spread.scans`, `spread.sorts`, `spread.axis_exchange`, `spread.histograms`

    def cumsum(self, axis: int = -1, reverse: bool = False) -> Spread:
        """The sums of the elements up to each one along an axis; from each one on where `reverse`."""
        from lego_mlir.tracing.spread.scans import cumulated

        return cumulated("cumsum", self, axis, reverse)

    def cumprod(self, axis: int = -1, reverse: bool = False) -> Spread:
        """The products, as `cumsum`."""
        from lego_mlir.tracing.spread.scans import cumulated

        return cumulated("cumprod", self, axis, reverse)

    def flip(self, axis: int = -1) -> Spread:
        """The tile in reverse order along an axis, in the same layout."""
        from lego_mlir.tracing.spread.axis_exchange import flip

        return flip(self, axis)

    def sort(self, axis: int = -1, descending: bool = False) -> Spread:
        """The elements in order along an axis: see `lego.sort`."""
        from lego_mlir.tracing.spread.sorts import sort

        found = sort(self, axis, descending)
        assert isinstance(found, Spread)
        return found

    def argsort(self, axis: int = -1, descending: bool = False) -> Spread:
        """The indices along an axis that order the elements, an i32 each; equal ones keep their order."""
        from lego_mlir.tracing.spread.sorts import argsort

        return argsort(self, axis, descending)

    def topk(self, k: int, axis: int = -1) -> tuple[Spread, Spread]:
        """The k greatest elements along an axis, from the greatest on, and their indices; k is a power of two.

        Equal ones are in the order of their indices, and NaN comes first. The axis has k elements, whose layout is that
        of the first k of this tile.
        """
        from lego_mlir.tracing.spread.sorts import topk

        return topk(self, k, axis)

    def histogram(self, bins: int, mask: Spread | None = None, layout: LinearLayout | None = None) -> Spread:
        """How many elements are 0, 1, .. bins - 1, a tile of i32 in `layout`; others, and those without `mask`, are not
        counted. `bins` is a power of two; all threads of the block take part.
        """
        from lego_mlir.tracing.spread.histograms import histogram

        return histogram(self, bins, mask, layout)

    def index(self, axis: int) -> Spread:
        """The index of each element along an axis, as `lego.arange(x.layout, axis)`."""
        from lego_mlir.tracing.spread.filled import arange

        return arange(self.layout, axis)

    def vote(self, kind: str) -> Scalar:
        """Whether a condition holds for "any" or "all" of the elements that the warp holds: `lego.warp_any`."""
        if kind not in ("any", "all") or self.dtype.family != "bool":
            raise current(f"lego.warp_{kind}").error(
                f"lego.warp_{kind} takes {'a condition' if kind == 'ballot' else 'conditions'} of a thread, got "
                f"{self!r}; compare a tile first, for lego.warp_any or lego.warp_all"
            )
        made = {id(v): v for v in self.get().registers if v is not None}.values()
        joined = functools.reduce(operator.or_ if kind == "any" else operator.and_, made)
        return (warps.warp_any if kind == "any" else warps.warp_all)(joined)

    # -- operators

    def map(self, function: Callable[..., object], *operands: object) -> Spread:
        """The function of the operands, register by register; a number, data or an index is the same for all.

        Tiles of one shape have one layout; axes of size 1 grow to the others' size. Raises LayoutError for different
        layouts, with the conversion to write.
        """
        tiles = [o for o in operands if isinstance(o, Spread)]
        if (tile := open_tile(*tiles)) is not None:
            return tile.map(function, *operands)
        layout = common_layout(tiles)
        aligned = [o.broadcast_to(layout) if isinstance(o, Spread) else o for o in operands]

        def of_register(register: int) -> object:
            return function(*(o.registers[register] if isinstance(o, Spread) else o for o in aligned))

        return each_element(layout, of_register)

    def __bool__(self) -> NoReturn:
        raise current("the truth of a spread value").error(
            "the truth of a spread value is known only when the kernel runs, for each element; use lego.where, &, |, "
            "~, lego.minimum and lego.maximum"
        )

    def __hash__(self) -> NoReturn:
        raise current("a spread value in a set or dict").error(
            f"{self!r} is known only when the kernel runs, so it cannot be in a set or a key of a dict",
            SymbolicBranchError,
        )

    __add__, __radd__ = _forward(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _forward(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _forward(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _forward(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _forward(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _forward(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _forward(operator.pow), _reflected(operator.pow)
    __and__, __rand__ = _forward(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _forward(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _forward(operator.xor), _reflected(operator.xor)
    __lshift__, __rlshift__ = _forward(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _forward(operator.rshift), _reflected(operator.rshift)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)

    def __eq__(self, other: object) -> Spread:  # type: ignore[override]
        return _comparison(operator.eq)(self, other)

    def __ne__(self, other: object) -> Spread:  # type: ignore[override]
        return _comparison(operator.ne)(self, other)

    def __neg__(self) -> Spread:
        return self.map(operator.neg, self)

    def __pos__(self) -> Spread:
        return self.get()

    def __abs__(self) -> Spread:
        return self.map(abs, self)

    def __invert__(self) -> Spread:
        return self.map(operator.invert, self)


def open_tile(*values: object) -> OpenTile | None:
    """The first of some values that is a tile without a layout."""
    return next((cast("OpenTile", x) for x in values if isinstance(x, Spread) and x.is_open), None)


def dtype_of(value: object) -> DType | None:
    """The element type of one register's value; None for anything but data, an index or a condition."""
    if isinstance(value, Scalar | PackedNumbers):
        return None if value.width is not None else value.dtype
    return dtypes.index if isinstance(value, Index) else dtypes.i1 if isinstance(value, Condition) else None


def each_element(layout: LinearLayout, compute: Callable[[int], object]) -> Spread:
    """A tile of this layout from a function of the register, called once for registers with copies of an element."""
    registers = once_each(layout, compute)
    dtype = dtype_of(registers[0])  # register 0 is inside of every box
    if dtype is None:
        raise current("a spread value").error(f"{registers[0]!r} cannot be an element of a spread value")
    return Spread(layout, dtype, registers)


def once_each(layout: LinearLayout, compute: Callable[[int], V]) -> list[V | None]:
    """A function's result for each register, computed once for registers with copies of an element.

    It is None for registers outside of the layout's box, which are never made.
    """
    columns, known = layout.columns_of("register"), dict[int, V]()
    registers: list[V | None] = []
    for register in range(1 << len(columns)):
        element = combine(columns, register)
        if not is_inside(layout, register):
            registers.append(None)
            continue
        if element not in known:
            known[element] = compute(register)
        registers.append(known[element])
    return registers


def checked_layout(layout: object) -> LinearLayout:
    """The layout with the inputs register, lane, warp and the outputs dim0, dim1, .., for the block of this kernel.

    Raises LayoutError for other labels, and for other numbers of lanes and warps than the block has.
    """
    tracer = current("a spread value")
    if not isinstance(layout, LinearLayout):
        raise tracer.error(
            f"the layout of a spread value is an f2.LinearLayout, got {brief(repr(layout))}; an encoding becomes one "
            "for a shape, such as f2.Blocked(..).layout((64, 64)); a tuple of sizes, such as (64, 64), leaves the "
            "layout to the engine",
            LayoutError,
        )
    sizes = layout.in_sizes
    if set(sizes) - {*PLACES, "block"} or sizes.get("block", 1) != 1:
        raise tracer.error(
            f"the layout of a spread value has the inputs register, lane and warp, got {sizes}; rename the inputs; a "
            "tile belongs to one block of the grid",
            LayoutError,
        )
    names = standard_dims(len(layout.outs))
    if set(layout.out_sizes) != set(names):
        raise tracer.error(
            f"the layout of a spread value has the outputs {list(names)}, got {list(layout.out_sizes)}; use rename",
            LayoutError,
        )
    threads, held = warps.threads(tracer), sizes.get("lane", 1) * sizes.get("warp", 1)
    whole = isinstance(threads, int) and not threads % WARP and held // 2 < threads <= held
    if sizes.get("lane", 1) != WARP or not isinstance(threads, int) or not whole:
        shown = f"{threads} threads" if isinstance(threads, int) else f"a symbolic number of threads, {threads!r}"
        raise tracer.error(
            f"the layout places a tile on {sizes.get('warp', 1)} warps of {sizes.get('lane', 1)} lanes, and the block "
            f"of {tracer.name} has {shown}; use block={WARP * sizes.get('warp', 1)}, or a layout with {WARP} lanes and "
            "as many warps as the block has",
            LayoutError,
        )
    if not layout.is_surjective():
        raise tracer.error(
            f"the layout of a spread value must place every element, and {layout!r} does not: it is not surjective",
            LayoutError,
        )
    bits, box = dict(layout.ins), dict(zip(layout.out_sizes, shape_of_box(layout), strict=True))
    checked = (
        layout.sublayout([p for p in PLACES if p in bits], names)
        .with_ins(tuple((p, bits.get(p, 0)) for p in PLACES))
        .transpose_outs(names)
    )
    made = boxed(checked, [box[name] for name in names])
    if why := misfit(made, threads // WARP):
        raise tracer.error(
            f"the layout places a tile on {sizes.get('warp', 1)} warps, and the block of {tracer.name} has "
            f"{threads // WARP}: {why}; use block={held}, or leave the layout to the engine",
            LayoutError,
        )
    return made


def common_layout(tiles: Sequence[Spread]) -> LinearLayout:
    """The layout of the largest tile. Raises LayoutError for shapes that do not fit, and where two layouts differ.

    They may differ in registers with copies, which the result of a reduction does not have.
    """
    tracer = current("a spread value")
    shapes = [tile.shape for tile in tiles]
    shown = " and ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
    if len({len(shape) for shape in shapes}) > 1:
        raise tracer.error(
            f"spread values of the shapes {shown} are combined; give both the same number of axes, such as x[:, None]",
            LayoutError,
        )
    grown = tuple(map(max, zip(*shapes, strict=True)))
    if any(n not in (1, most) for shape in shapes for n, most in zip(shape, grown, strict=True)):
        raise tracer.error(f"spread values of the shapes {shown} cannot be combined", LayoutError)
    largest = [tile for tile in tiles if tile.shape == grown]
    if not largest:
        raise tracer.error(
            f"spread values of the shapes {shown} are combined to {list(grown)}, and none has this shape, whose layout "
            "the result would have; write x.broadcast_to(layout) for one of them",
            LayoutError,
        )
    first = largest[0].layout
    for tile in largest[1:]:
        if without_zero_registers(tile.layout) != without_zero_registers(first):
            raise tracer.error(
                "two spread values of different layouts are combined: "
                f"{getattr(first.equivalent(tile.layout), 'explanation', '')}; convert one, such as "
                "lego.convert(y, to=x.layout)",
                LayoutError,
            )
    return first
