"""Memory with a layout, indexed by logical indices.

`Tensor(dtype, layout)` annotates a kernel's parameter, `shared(dtype, layout)` makes a tile that a block's threads
share. Inside the kernel both are a `View`: `a[i, j]` loads and `a[i, j] = x` stores, wherever the layout puts that
element, and `tile_by` re-tiles the logical space without touching memory. Where tiles do not divide the sizes, an
access has a mask: where it is false, a load gives 0, or `other`, and a store does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, PerElement
from lego_mlir.layout import Row, as_layout
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import BOUNDARIES, Boundary
from lego_mlir.tracing.trace.dtypes import DType, element_type, u8
from lego_mlir.tracing.trace.trace import Buffer, Load, Store
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.atomics import AtomicAccess
from lego_mlir.tracing.words.cache_hints import Cache, Evict, hinted
from lego_mlir.tracing.words.places import Place
from lego_mlir.tracing.words.scalar import Scalar, as_value
from lego_mlir.tracing.words.warps import group_of_role

if TYPE_CHECKING:
    from lego_mlir.tracing.words.mma import Part
    from lego_mlir.tracing.words.repeated_views import RepeatedView


class ElementAccess(AtomicAccess, Uncompared):
    """Loads and stores of elements by their logical indices; `place` gives the address of one."""

    __slots__ = ()
    _instead = "compare elements, such as x[i] == y[i]"
    _tracer: Tracer
    buffer: Buffer

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def place(self, *index: IndexLike, stored: bool = False) -> Place:
        """The address of an index, before its width is chosen."""
        raise NotImplementedError  # every subclass defines it

    def __getitem__(self, index: IndexLike) -> Operand:
        return self.load(*_indices(index))

    def __setitem__(self, index: IndexLike, value: Operand) -> None:
        self.store(value, *_indices(index))

    def load(
        self,
        *index: IndexLike,
        width: int | None = 1,
        other: Any = 0,
        cache: Cache | None = None,
        evict: Evict | None = None,
        mask: Operand = None,
    ) -> Operand:
        """The element at a logical index, or a vector of `width` along the last dimension.

        `width=None` takes the widest that is proved. Where the access is masked off the result is `other`. `cache` and
        `evict` are hints: see `tracing.words.cache_hints`. Of a tile of indices the result is a tile, `other` where
        `mask`, conditions of its shape, does not hold: see `tracing.spread.indexed_accesses`.
        """
        tracer = self._inside_kernel()
        if self._is_tiled(tracer, index, mask, width):
            from lego_mlir.tracing.spread.indexed_accesses import load_each

            return load_each(self, index, mask, other, lambda access: hinted(tracer, "load", access, cache, evict))
        place = self.place(*index)
        access = hinted(tracer, "load", place.access(place.widest() if width is None else width), cache, evict)
        lanes = None if access.width == 1 else access.width
        instead = as_value(other, self.dtype, lanes) if access.is_masked else None
        result = tracer.value(self.dtype, lanes)
        tracer.append(Load(result, access, instead, access.source))
        return Scalar(result)

    def store(
        self,
        value: Operand,
        *index: IndexLike,
        width: int | None = None,
        cache: Cache | None = None,
        evict: Evict | None = None,
        mask: Operand = None,
    ) -> None:
        """Store a value at a logical index, or a vector along the last dimension.

        `width` broadcasts a single number over `width` elements. `cache` and `evict` are hints.
        With a tile of indices the value is a tile of that shape, or the same for all; `mask` is as in `load`.
        """
        tracer = self._inside_kernel()
        if self._is_tiled(tracer, index, mask, width):
            from lego_mlir.tracing.spread.indexed_accesses import store_each

            store_each(self, value, index, mask, lambda access: hinted(tracer, "store", access, cache, evict))
            return
        lanes = value.width if isinstance(value, Scalar) and value.width is not None else width or 1
        access = hinted(tracer, "store", self.place(*index, stored=True).access(lanes), cache, evict)
        stored = as_value(value, self.dtype, None if lanes == 1 else lanes)
        tracer.append(Store(stored, access, access.source))

    def _is_tiled(self, tracer: Tracer, index: Sequence[Operand], mask: Operand, width: int | None) -> bool:
        """Whether an index is a tile. Raises TraceError for words that belong to one kind of index."""
        tiled = any(isinstance(one, PerElement) for one in index)
        if tiled and width not in (None, 1):
            raise tracer.error(f"{self.buffer.name}: a tile of indices is accessed in the widest way; leave out width")
        if not tiled and mask is not None:
            raise tracer.error(f"{self.buffer.name}: mask is of a tile of indices; write `with lego.when(condition):`")
        return tiled

    def widest(self, *index: IndexLike) -> int:
        """The largest width that is proved for an access at this index."""
        return self.place(*index).widest()

    def _inside_kernel(self) -> Tracer:
        tracer = current(self.buffer.name)
        if tracer is not self._tracer:
            raise tracer.error(f"{self.buffer.name} belongs to another kernel, {self._tracer.name}")
        return tracer


class View(ElementAccess):
    """Memory inside a kernel, indexed through a layout."""

    __slots__ = ("_tracer", "boundary", "buffer", "layout")

    def __init__(self, tracer: Tracer, buffer: Buffer, layout: Layout, boundary: Boundary | None = None) -> None:
        self._tracer, self.buffer, self.layout, self.boundary = tracer, buffer, layout, boundary

    def dims(self) -> tuple[Any, ...]:
        """The logical sizes."""
        return self.layout.dims()

    def __repr__(self) -> str:
        return f"<{self.buffer.name}: {self.dtype}, {self.layout!r}>"

    def tile_by(self, *levels: Sequence[Any]) -> View:
        """The same memory under a tiled index: `tile_by([M // T, N // T], [T, T])`. Indices past the end are masked."""
        return View(self._tracer, self.buffer, self.layout.tile_by(*levels), self.boundary)

    def flat(self) -> View:
        """The same memory in memory order: one index, the position of an element, whatever the layout.

        Vectors of a flat view may cross the rows of a matrix whose rows are not aligned.
        """
        return View(self._tracer, self.buffer, Row(self.layout.physical_size()))

    def halo(self, boundary: Boundary = "zero") -> View:
        """The same memory with indices that may be outside: `x.halo("clamp")[i - 1, j]`.

        There a load gives 0 (`"zero"`), or the element that `"clamp"`, `"mirror"` or `"wrap"` maps the index to. A
        store outside does nothing, and is refused for a boundary that maps: see `tracing.trace.halos`. Raises
        TraceError for another boundary.
        """
        if boundary not in BOUNDARIES:
            raise self._inside_kernel().error(
                f"{self.buffer.name}.halo: the boundary is one of {', '.join(BOUNDARIES)}, got {boundary!r}"
            )
        return View(self._tracer, self.buffer, self.layout, boundary)

    def place(self, *index: IndexLike, stored: bool = False) -> Place:
        """The address of an index in this view, before its width is chosen."""
        tracer = self._inside_kernel()
        if stored and self.boundary not in (None, "zero"):
            raise tracer.error(
                f"a store through {self.buffer.name}.halo({self.boundary!r}) would let several threads write one "
                f'element; store through {self.buffer.name} itself, or through halo("zero"), which masks'
            )
        return Place(tracer, self.buffer, self.layout, index, self.boundary)

    @property
    def T(self) -> View:
        """The same memory with the two indices interchanged."""
        from lego_mlir.layout.transposed import Transposed

        own = self.layout
        turned = own.inner if isinstance(own, Transposed) else Transposed(own)
        return View(self._tracer, self.buffer, turned, self.boundary)

    def repeat(self, *counts: int) -> RepeatedView:
        """Each element for a block of `counts` indices: `s.repeat(1, 32)[i, j]` is `s[i, j // 32]`, a scale of 32."""
        from lego_mlir.tracing.words.repeated_views import RepeatedView

        return RepeatedView(self, counts)

    def part(self, at: Sequence[IndexLike], shape: Sequence[int]) -> Part:
        """A rectangle of a shared tile, for `lego.mma`: `tile.part((m, 0), (64, 32))`."""
        from lego_mlir.tracing.words.mma import part

        return part(self, at, shape)

    def of_block(self, rank: IndexLike) -> ElementAccess:
        """This shared tile in the memory of another block of the cluster: `total.of_block(1)[0]`.

        The block is alive, and has written the elements, only after a barrier that it takes part in: see
        `tracing.words.clustered_blocks`. Raises LayoutError for a rank that is not proved to be one of the cluster's.
        """
        from lego_mlir.tracing.words.clustered_blocks import tile_of_block

        return tile_of_block(self, rank)


def shared(dtype: DType, layout: Any, name: str | None = None) -> View:
    """A tile in the shared memory of a block; its sizes are ints. Of a packed type it is a `PackedView`.

    Reports call it `name`: `analyze`, races, bank conflicts, also after transform scripts. Without one it is shared0,
    shared1, ..; a second tile of the same name, from a function that runs twice, gets a number.

    The tiles of a kernel must fit a block together. A kernel of `lego.mma` is exempt while it is traced: its transform
    script places the tiles, or replaces them, and is refused there if the result does not fit.
    """
    tracer = current("lego.shared")
    if len(tracer.path) or tracer.depth:
        where = "loop or branch" if tracer.role is None else "role"
        raise tracer.error(f"lego.shared inside a {where}: allocate the tile before it, since every thread shares it")
    tile = as_layout(layout)
    tile.require()
    size = tile.physical_size()
    if not isinstance(size, int):
        raise tracer.error(f"lego.shared needs sizes that are ints, got {tile!r} of {size!r} elements", LayoutError)
    element = element_type(dtype, "lego.shared")
    if element.is_packed:
        from lego_mlir.tracing.words.packed_views import Packing

        packed = Packing.of(element, tile)
        return cast(View, packed.view(tracer, declare_tile(tracer, u8, packed.bytes, name).buffer))
    return declare_tile(tracer, element, tile, name)


def declare_tile(tracer: Tracer, element: DType, tile: Layout, name: str | None, *, scratch: bool = False) -> View:
    """A shared tile of this layout; in a loop its memory is the same in every iteration."""
    named = tracer.shared_name(name)
    buffer = Buffer(
        named, element, tile, "workgroup", tile.physical_size(), tracer.here(), named=name is not None, scratch=scratch
    )
    tracer.shared.append(buffer)
    return View(tracer, buffer, tile)


def declare_scratch(tracer: Tracer, element: DType, elements: int) -> tuple[View, Index | int]:
    """A shared tile of `elements` for each group of the role, and the first element of this thread's group.

    All groups run the same statements at the same time, so that one tile would be shared by all of them.
    """
    groups = 1 if tracer.role is None else tracer.role.groups
    view = declare_tile(tracer, element, as_layout(Row(groups * elements)), None, scratch=True)
    return view, group_of_role(tracer) * elements if groups > 1 else 0


def _indices(index: IndexLike) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)
