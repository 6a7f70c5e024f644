"""`lego.load` and `x.store`: tiles between memory and the registers of a block's threads.

    x = lego.load(a, layout, at=(row, 0))        the tile of a whose first element is a[row, 0]
    x.store(b, at=(row, 0))

The layout gives the shape. Each thread accesses its own elements, several at once where its registers are contiguous in
memory and alignment is proved, up to 16 bytes. Where the tile reaches past the end of the tensor, elements are masked:
a load gives `other` there, and a store does nothing. An element that several threads hold is stored by one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeAlias

import sympy

from lego_mlir.aliases import Cond, IndexLike, Operand
from lego_mlir.engine.anchors import anchors, inside_first
from lego_mlir.engine.tile_memory import TileMemory
from lego_mlir.errors import LayoutError, brief
from lego_mlir.expr.index import Condition, Index
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.boxed import boxed, is_inside, padded, whole_bits
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import Echelon
from lego_mlir.f2.shape_ops import shape_of
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.tracing.spread.bit_tiles import BitTile
from lego_mlir.tracing.spread.coordinates import ThreadElements, thread_ids
from lego_mlir.tracing.spread.distributed import Spread, checked_layout
from lego_mlir.tracing.spread.strided_tiles import StridedTile, selected, strides
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.marks import MatrixStores
from lego_mlir.tracing.trace.trace import Load, Store, TensorAccess, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import control
from lego_mlir.tracing.words.cache_hints import Cache, Evict, hinted
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.packed_views import PackedView
from lego_mlir.tracing.words.repeated_views import RepeatedView
from lego_mlir.tracing.words.scalar import Scalar, as_value, vector
from lego_mlir.tracing.words.tensor import View

STORED_BITS: Final = 16
"""Bits of the elements that `stmatrix` stores."""
Group: TypeAlias = tuple[list[int], TensorAccess]
"""Registers that are accessed at once, in order."""


def load(
    source: View | Part | PackedView | RepeatedView,
    layout: LinearLayout | Sequence[int],
    at: Sequence[IndexLike] | None = None,
    other: Operand = 0,
    cache: Cache | None = None,
    evict: Evict | None = None,
    pin: LinearLayout | None = None,
) -> Spread:
    """The tile of `source` whose first element is at the index `at`, spread over the threads of the block by `layout`.

    `at` has one index for each dimension of the view; without it the tile starts at the first element. A layout of
    fewer dimensions spans the last ones. Elements outside the tensor are `other`. `cache` and `evict` are hints: see
    `tracing.words.cache_hints`. A shape in place of a layout leaves it to the engine, to which `pin` gives the layout
    of the load alone: see docs/reference/layout-engine.md.
    """
    tracer = current("lego.load")
    if isinstance(source, RepeatedView):
        from lego_mlir.tracing.spread.repeated_tiles import load_repeated

        return load_repeated(source, checked_layout(layout), at, other, cache, evict)
    if isinstance(source, PackedView) and not (type(other) is int and other == 0):
        raise tracer.error(
            f"lego.load: elements outside of a tensor of {source.dtype} are codes of 0; leave other= out, and choose "
            "behind a conversion: lego.where(inside, x.to(lego.f32), other)"
        )
    if isinstance(layout, tuple | list):
        from lego_mlir.tracing.spread.open_tiles import load as open_load

        return open_load(source, layout, at, other, cache, evict, pin)
    if isinstance(source, PackedView):
        from lego_mlir.tracing.spread.packed_tiles import load_packed

        return load_packed(source, checked_layout(layout), at, cache, evict)
    if pin is not None:
        raise tracer.error(
            "lego.load: pin is for a tile whose layout is open, and this one has a layout; leave one of them out",
            LayoutError,
        )
    layout = checked_layout(layout)
    tile = _Tile.located(tracer, "lego.load", source, layout, at)
    found: dict[int, Scalar] = {}
    accesses = ((r, hinted(tracer, "load", a, cache, evict)) for r, a in tile.accesses(distinct(layout)))
    for registers, loaded in _loaded(tracer, accesses, tile.view.dtype, other):
        for lane, register in enumerate(registers):
            found[tile.elements.offset(register)] = loaded if len(registers) == 1 else loaded[lane]
    count = layout.in_sizes["register"]
    return Spread(layout, tile.view.dtype, [found.get(tile.elements.offset(register)) for register in range(count)])


def _loaded(
    tracer: Tracer, accesses: Iterable[Group], dtype: DType, other: Operand
) -> Iterator[tuple[list[int], Scalar]]:
    """The registers of each access with the loaded number or vector; accesses under one mask share its branch."""

    def load_one(access: TensorAccess, instead: Value | None) -> Scalar:
        result = tracer.value(dtype, _lanes(access))
        tracer.append(Load(result, access, instead, access.source))
        return Scalar(result)

    for mask, groups in _by_mask(accesses).items():
        if mask == True:  # noqa: E712  SymPy's true is not Python's
            yield from ((registers, load_one(access, None)) for registers, access in groups)
        elif len(groups) == 1:
            ((registers, access),) = groups
            yield registers, load_one(access, as_value(other, dtype, _lanes(access)))
        else:
            cells = [control.register(dtype, other, _lanes(access)) for _, access in groups]
            with control.when(Condition(mask)):
                for cell, (_, access) in zip(cells, groups, strict=True):
                    cell.set(load_one(replace(access, mask=sympy.true), None))
            yield from ((registers, cell.get()) for cell, (registers, _) in zip(cells, groups, strict=True))


def store(
    target: View | Part | PackedView,
    value: Spread,
    at: Sequence[IndexLike] | None = None,
    cache: Cache | None = None,
    evict: Evict | None = None,
) -> None:
    """Store a tile with its first element at the index `at` of `target`: the method `Spread.store`.

    Raises TraceError for a tile of another element type.
    """
    tracer = current("the store of a spread value")
    if isinstance(target, PackedView):
        from lego_mlir.tracing.spread.packed_tiles import store_packed

        store_packed(target, value, at, cache, evict)
        return
    tile = _Tile.located(tracer, "the store of a spread value", target, value.layout, at)
    if value.dtype != tile.view.dtype:
        raise tracer.error(
            f"a spread value of {value.dtype} is stored into {tile.view.buffer.name} of {tile.view.dtype}; convert it "
            f"with .to(lego.{tile.view.dtype})"
        )
    storing = owners(tracer, value.layout)
    accesses = tile.accesses(distinct(value.layout), stored=True)
    by_mask = _by_mask((r, hinted(tracer, "store", a, cache, evict)) for r, a in accesses)
    matrices = _matrices(tracer, tile, value) if storing is None and [*by_mask] == [sympy.true] else None
    if matrices is not None:
        with tracer.word(matrices):
            _store_all(tracer, by_mask, value)
        return
    with nullcontext() if storing is None else control.when(storing):
        _store_all(tracer, by_mask, value)


def _store_all(tracer: Tracer, by_mask: dict[Cond, list[Group]], value: Spread) -> None:
    """Stores of a thread's registers; those under one mask share its branch."""
    for mask, groups in by_mask.items():
        with nullcontext() if mask == True or len(groups) == 1 else control.when(Condition(mask)):  # noqa: E712
            for registers, access in groups:
                values = [Scalar(as_value(value.registers[r], value.dtype)) for r in registers]
                stored = as_value(values[0] if len(values) == 1 else vector(*values), value.dtype, _lanes(access))
                alone = access if len(groups) == 1 else replace(access, mask=sympy.true)
                tracer.append(Store(stored, alone, access.source))


def _matrices(tracer: Tracer, tile: _Tile, value: Spread) -> MatrixStores | None:
    """The store as `stmatrix`, where registers and lanes have its structure; the addresses are those of the layout."""
    from lego_mlir.tracing.spread.fragments import RowPositions, matrix_loads, memory_of

    view, bits = tile.view, value.dtype.bits
    if view.buffer.space != "workgroup" or bits != STORED_BITS or len(tile.at) != 2 or len(value.shape) != 2:
        return None
    memory = memory_of(tracer, Part(View(tracer, view.buffer, view.layout), (tile.at[0], tile.at[1]), value.shape))
    accesses = None if memory is None else matrix_loads(value.layout, memory[0], bits)
    if memory is None or accesses is None or not all(isinstance(v, Scalar) for v in value.registers if v is not None):
        return None
    each, rows = [], RowPositions(tracer, accesses)
    for access in accesses.each:
        words = [[value.registers[element[0]] for element in word] for word in access.registers]
        made = [tuple(v.entry.number for v in word) for word in words if word[0] is not None]
        if (
            made
            and len(made) & (len(made) - 1) == 0
            and all(v is not None for word in words[: len(made)] for v in word)
        ):
            each.append((tracer.derive(memory[1] + rows.of(access)).expr, tuple(made)))
        elif made:
            return None
    return MatrixStores(view.buffer, value.dtype, tuple(each), accesses.transposed)


def accesses_of(
    called: str, given: View | Part, layout: LinearLayout, at: Sequence[IndexLike] | None, *, stored: bool = False
) -> dict[tuple[int, ...], TensorAccess]:
    """The accesses of a tile by the registers that each one loads or stores, for copies without registers."""
    layout = checked_layout(layout)
    tile = _Tile.located(current(called), called, given, layout, at)
    return {tuple(registers): access for registers, access in tile.accesses(distinct(layout), stored=stored)}


def first_access(
    called: str,
    given: View | Part | PackedView,
    shape: Sequence[int],
    at: Sequence[IndexLike] | None,
    warps: int,
    *,
    stored: bool = False,
) -> tuple[TileMemory, TensorAccess | None]:
    """The memory of a tile without a layout, as the layout engine sees it, and an access of its first elements.

    Its width is what is proved of alignment and masks: in a layout whose registers have the low bits of the address.
    Packed numbers have no access of the tensor's elements, but of its bytes: None.
    """
    tracer = current(called)
    view = given.view if isinstance(given, Part) else given
    if not isinstance(view, View | PackedView):
        raise tracer.error(
            f"{called} takes a tensor, a shared tile or a part of one, got {brief(repr(given))}", LayoutError
        )
    steps = strides(view.layout)
    known = [int(s) if s.is_Integer else 0 for s in (steps or ())[-len(shape) :]] or [0] * len(shape)
    wide, bits = padded(shape), view.dtype.bits if isinstance(view, PackedView) else max(8, view.dtype.bits)
    masked = (
        tuple(k for k in range(len(shape)) if not _is_inside(tracer, view, shape, at, k))
        if at is not None or view is given
        else ()
    )
    offsets = _shared_offsets(tracer, given, shape, at)
    memory = TileMemory(wide, bits, tuple(known), WIDEST_ACCESS, view.buffer.space, masked, offsets)
    order = inside_first(memory, shape)
    layout = next(iter(anchors(shape, [order], memory.vectors(), warps)), None)
    if layout is None:
        raise tracer.error(
            f"{called}: no layout of a tile of {list(shape)} is known: it ends inside what lanes hold", LayoutError
        )
    layout = checked_layout(boxed(layout, shape))
    if isinstance(given, PackedView):
        from lego_mlir.tracing.spread.packed_tiles import first_numbers

        return replace(memory, widest=first_numbers(called, given, layout, at) * bits // 8), None
    tile = _Tile.located(tracer, called, given, layout, at)
    registers, access = next(iter(tile.accesses(distinct(layout), stored=stored)))
    return replace(memory, widest=len(registers) * view.dtype.bytes), access


def _shared_offsets(
    tracer: Tracer, given: View | Part | PackedView, shape: Sequence[int], at: Sequence[IndexLike] | None
) -> tuple[int, ...]:
    """The offset of each bit of an element in a shared tile; empty where it is not linear in them, or not known."""
    from lego_mlir.tracing.spread.fragments import offsets_of

    view, at = (given.view, given.at) if isinstance(given, Part) else (given, at)
    dims = view.dims()
    if view.buffer.space != "workgroup" or not len(shape) == len(dims) == 2:
        return ()
    found = offsets_of(tracer, view.layout, (0, 0) if at is None else at, (shape[0], shape[1]))
    bits = [n.bit_length() - 1 for n in padded(shape)]  # of a tile inside of the rows and columns that are known
    columns = [found.columns_of(name)[:n] for name, n in zip(found.in_sizes, bits, strict=True)] if found else []
    return tuple(chain(*columns)) if [*map(len, columns)] == bits else ()


def _is_inside(
    tracer: Tracer, view: View | PackedView, shape: Sequence[int], at: Sequence[IndexLike] | None, axis: int
) -> bool:
    """Whether a tile is proved to end inside a tensor along one of its axes."""
    dims = view.dims()
    first = (at,) if isinstance(at, int | Index) else (0,) * len(dims) if at is None else at
    size, start = dims[axis - len(shape)], tracer.index(first[axis - len(shape)])
    return isinstance(tracer.prove(sympy.And(Le(0, start), Lt(start + shape[axis] - 1, size))), Proved)


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile in memory: the view, the index of its first element, the elements that a thread holds."""

    tracer: Tracer
    view: View
    at: tuple[Index, ...]
    elements: ThreadElements

    @classmethod
    def located(
        cls,
        tracer: Tracer,
        called: str,
        given: View | Part,
        layout: LinearLayout,
        at: Sequence[IndexLike] | None,
    ) -> _Tile:
        """The tile at an index of a view, which is masked at its end. Raises LayoutError for another number of axes."""
        if isinstance(given, Part):
            if at is not None or tuple(given.shape) != shape_of(layout):
                raise tracer.error(
                    f"{called}: a part of shape {list(given.shape)} takes a layout of that shape and no `at`, got a "
                    f"layout of shape {list(shape_of(layout))}",
                    LayoutError,
                )
            at, given = given.at, given.view
        if not isinstance(given, View):
            raise tracer.error(
                f"{called} takes a tensor, a shared tile or a part of one, got {brief(repr(given))}", LayoutError
            )
        rank, dims = len(layout.outs), given.dims()
        alone = isinstance(at, int | Index)  # the index of a tensor of one dimension
        first = (at,) if alone else tuple(at) if at is not None else (0,) * len(dims)
        if len(first) != len(dims) or rank > len(dims):
            raise tracer.error(
                f"{called}: {given.buffer.name} has {len(dims)} dimensions, `at` has {len(first)} indices and the "
                f"layout {rank} dimensions; `at` has one index for each dimension, and the layout spans the last ones",
                LayoutError,
            )
        view = given if given.boundary is not None else given.halo("zero")
        return cls(tracer, view, tuple(map(Index, first)), ThreadElements(tracer, layout))

    def accesses(self, registers: Sequence[int], *, stored: bool = False) -> Iterator[Group]:
        """The registers in groups that are accessed at once, each with its access."""
        steps = strides(self.view.layout) if self.view.boundary == "zero" else None
        if steps is not None:
            yield from StridedTile(self.tracer, self.view, self.at, self.elements, steps).accesses(registers)
            return
        bits = BitTile.of(self.tracer, self.view, self.at, self.elements) if self.view.boundary == "zero" else None
        if bits is not None:
            yield from bits.accesses(registers)
            return
        run = self._run()
        order = [self.elements.offset(register) for register in registers]
        by_offset = dict(zip(order, registers, strict=True))
        for offset in by_offset:
            if not offset & sum(run):
                yield from self._divided([by_offset[offset | selected(i, run)] for i in range(1 << len(run))], stored)

    def _divided(self, group: list[int], stored: bool) -> Iterator[Group]:
        """One access for the group, or for each half if its width is not proved."""
        place = self.view.place(*self.elements.of_tensor(group[0], self.at), stored=stored)
        if len(group) == 1 or place.fits(len(group)):
            yield group, place.access(len(group))
            return
        half = len(group) // 2
        yield from self._divided(group[:half], stored)
        yield from self._divided(group[half:], stored)

    def _run(self) -> list[int]:
        """The bits of consecutive elements along the last axis that registers alone hold: 1, 2, 4, .. of that axis."""
        layout = self.elements.layout
        columns = set(layout.columns_of("register"))
        start = sum(bits for _, bits in layout.outs[:-1])
        run: list[int] = []
        whole = whole_bits(layout)
        while (bit := 1 << (start + len(run))) in columns and not bit & self.elements.support and bit & whole:
            if 1 << (len(run) + 1) > WIDEST_ACCESS // self.view.dtype.bytes:
                break
            run.append(bit)
        return run


def _by_mask(accesses: Iterable[Group]) -> dict[Cond, list[Group]]:
    groups: dict[Cond, list[Group]] = {}
    for registers, access in accesses:
        groups.setdefault(access.mask, []).append((registers, access))
    return groups


def _lanes(access: TensorAccess) -> int | None:
    return None if access.width == 1 else access.width


def distinct(layout: LinearLayout) -> list[int]:
    """The registers of a thread that hold distinct elements."""
    echelon, kept = Echelon(), [0]
    for bit, column in enumerate(layout.columns_of("register")):
        if not echelon.add(column):
            kept += [register | 1 << bit for register in kept]
    return [register for register in kept if is_inside(layout, register)]


def owners(tracer: Tracer, layout: LinearLayout) -> Condition | None:
    """The threads that store: of those that hold the same elements the first; None for all."""
    echelon = Echelon(layout.columns_of("register"))
    free = {
        place: sum(1 << bit for bit, column in enumerate(layout.columns_of(place)) if echelon.add(column))
        for place in ("lane", "warp")
    }
    if not any(free.values()):
        return None
    ids = thread_ids(tracer)
    if "thread" in ids:
        lanes = len(layout.columns_of("lane"))
        return (ids["thread"] & (free["lane"] | free["warp"] << lanes)) < 1
    return ((ids["lane"] & free["lane"]) < 1) & ((ids["warp"] & free["warp"]) < 1)
