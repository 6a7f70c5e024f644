"""Accesses of memory by tiles of indices: `x[i]`, `x[rows[:, None], columns[None, :]]`, `y.atomic_add(v, i)`.

An index, or several, is a spread value of integers or indices; all grow to one shape, as operands do. Each thread
accesses the elements whose indices it holds:

    load     x.load(i, j, mask=m, other=0)     a tile placed as the indices are
    store    y.store(v, i, j, mask=m)          an element that several threads hold is stored by one of them
    update   y.atomic_add(v, i)                likewise; each element of the tile counts once

Registers whose last indices are consecutive, and whose other indices are equal, are one access of up to 16 bytes, where
that is proved as for any vector. `mask` is a condition, or a tile of conditions: elements without it are not accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import sympy

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import brief
from lego_mlir.expr.index import Condition, Index, as_expr
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.tracing.spread.accesses import distinct, owners
from lego_mlir.tracing.spread.distributed import Spread, common_layout, open_tile
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import Load, Store, TensorAccess
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import control
from lego_mlir.tracing.words.scalar import Scalar, as_value, vector

if TYPE_CHECKING:
    from lego_mlir.tracing.words.tensor import ElementAccess

_INTEGERS: Final = ("int", "index")


Hint: TypeAlias = Callable[[TensorAccess], TensorAccess]
"""Adds a hint to the caches to an access."""


def load_each(source: ElementAccess, index: Sequence[Operand], mask: Operand, other: Operand, hint: Hint) -> Spread:
    """The elements at the indices, `other` where the mask does not hold."""
    if open_tile(*index, mask) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.load_each(source, index, mask, lambda i, m: load_each(source, i, m, other, hint))
    tracer, tile = current("a tile of indices"), _Indexed.of(source, index, mask)
    found: dict[int, Scalar] = {}
    known: dict[int, tuple[TensorAccess, Scalar]] = {}
    for group, access in tile.accesses():
        lanes = None if access.width == 1 else access.width
        if id(access) not in known:
            instead = as_value(other, source.dtype, lanes) if access.is_masked else None
            result = tracer.value(source.dtype, lanes)
            tracer.append(Load(result, hint(access), instead, access.source))
            known[id(access)] = access, Scalar(result)
        _, loaded = known[id(access)]
        for lane, register in enumerate(group):
            found[tile.element(register)] = loaded if lanes is None else loaded[lane]
    return tile.spread(source.dtype, found)


def store_each(target: ElementAccess, value: Operand, index: Sequence[Operand], mask: Operand, hint: Hint) -> None:
    """Store a tile, or one value everywhere, at the indices."""
    if open_tile(value, *index, mask) is not None:
        from lego_mlir.tracing.spread import open_orders

        open_orders.store_each(target, (value,), index, mask, lambda v, i, m: store_each(target, v[0], i, m, hint))
        return
    tracer, tile = current("a tile of indices"), _Indexed.of(target, index, mask, value)
    with tile.owned():
        for group, access in tile.accesses(stored=True):
            values = [Scalar(as_value(tile.value(register), target.dtype)) for register in group]
            stored = as_value(values[0] if len(values) == 1 else vector(*values), target.dtype, _lanes(values))
            tracer.append(Store(stored, hint(access), access.source))


def update_each(
    target: ElementAccess,
    given: Sequence[Operand],
    index: Sequence[Operand],
    mask: Operand,
    update: Callable[..., Scalar],
) -> Spread | None:
    """Update the elements by `update(access, *given)`; the old ones, 0 without the mask, unless threads share some.

    Of tiles without a layout the old ones are not known.
    """
    if open_tile(*given, *index, mask) is not None:
        from lego_mlir.tracing.spread import open_orders

        open_orders.store_each(target, given, index, mask, lambda v, i, m: update_each(target, v, i, m, update))
        return None
    tile = _Indexed.of(target, index, mask, *given)
    found: dict[int, Scalar] = {}
    with tile.owned():
        for (register,), access in tile.accesses(stored=True, widest=1):
            values = [tile.value(register, number) for number in range(len(given))]
            found[tile.element(register)] = update(access, *values)
    return tile.spread(target.dtype, found) if tile.owners is None else None


def _lanes(values: Sequence[Scalar]) -> int | None:
    return None if len(values) == 1 else len(values)


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Tiles of indices, a mask and values of one layout; what is no tile is the same for all elements."""

    memory: ElementAccess
    layout: LinearLayout
    indices: tuple[Operand, ...]
    masks: Operand
    values: tuple[Operand, ...]
    owners: Condition | None

    @classmethod
    def of(cls, memory: ElementAccess, index: Sequence[Operand], mask: Operand, *values: Operand) -> _Indexed:
        """Raises TraceError for tiles of indices that are no integers, and masks that are no conditions."""
        tracer, name = current("a tile of indices"), memory.buffer.name
        for one in index:
            if isinstance(one, Spread) and one.dtype.family not in _INTEGERS:
                raise tracer.error(
                    f"{name}: a tile of indices has integers, got {brief(repr(one))}; convert it with .to(lego.i32)"
                )
        if isinstance(mask, Spread) and mask.dtype.family != "bool":
            raise tracer.error(f"{name}: a mask has conditions, such as i < n, got {brief(repr(mask))}")
        given = [o.get() if isinstance(o, Spread) else o for o in (*index, mask, *values)]
        layout = common_layout([o for o in given if isinstance(o, Spread)])
        grown = [o.broadcast_to(layout) if isinstance(o, Spread) else o for o in given]
        rank = len(index)
        indices, masks, rest = tuple(grown[:rank]), grown[rank], tuple(grown[rank + 1 :])
        return cls(memory, layout, indices, masks, rest, owners(tracer, layout))

    def owned(self) -> nullcontext[None] | control.Branch:
        """The branch of the threads that store."""
        return nullcontext() if self.owners is None else control.when(self.owners)

    def element(self, register: int) -> int:
        """The number of a thread's element, which copies in other registers share."""
        return combine(self.layout.columns_of("register"), register)

    def index(self, register: int) -> list[IndexLike]:
        return [_at(one, register) for one in self.indices]

    def mask(self, register: int) -> Operand | None:
        """The condition of an element; None where it always holds."""
        found = _at(self.masks, register)
        return None if found is None or found is True else found

    def value(self, register: int, number: int = 0) -> Operand:
        return _at(self.values[number], register)

    def spread(self, dtype: DType, found: Mapping[int, Scalar]) -> Spread:
        """The tile of values by the numbers of the elements."""
        count = self.layout.in_sizes["register"]
        return Spread(self.layout, dtype, [found.get(self.element(register)) for register in range(count)])

    def accesses(
        self, *, stored: bool = False, widest: int = WIDEST_ACCESS
    ) -> Iterator[tuple[list[int], TensorAccess]]:
        """The registers of each access, of up to `widest` bytes, in order; loads of equal indices are one access."""
        registers = distinct(self.layout)
        run = self._run(set(registers), widest // self.memory.dtype.bytes)
        made: dict[object, list[tuple[list[int], TensorAccess]]] = {}
        for register in registers:
            if not any(register & bit for bit in run):
                group = [register | combine(run, k) for k in range(1 << len(run))]
                key = register if stored else tuple(map(self._key, group))
                if key not in made:
                    made[key] = [([group.index(r) for r in each], x) for each, x in self._divided(group, stored)]
                yield from (([group[at] for at in places], access) for places, access in made[key])

    def _key(self, register: int) -> tuple[object, ...]:
        """What two registers with one element of memory have in common."""
        one = self.index(register)
        return id(self.mask(register)), *(x.entry.number if isinstance(x, Scalar) else as_expr(x) for x in one)

    def _run(self, registers: set[int], most: int) -> list[int]:
        """The bits of registers that hold the next 1, 2, 4, .. indices along the last axis, as register 0 has them."""
        run: list[int] = []
        while 1 << len(run) < most:
            bits = (1 << k for k in range(max(registers).bit_length()))
            found = next(
                (b for b in bits if b not in run and b in registers and self._next([0, b], 1 << len(run))), None
            )
            if found is None:
                break
            run.append(found)
        return run

    def _next(self, group: Sequence[int], step: int = 1) -> bool:
        """Whether the registers have indices in steps along the last axis, equal other ones and one mask."""
        first, masks = self.index(group[0]), {id(self.mask(r)) for r in group}
        if len(masks) > 1:
            return False
        return all(
            _distance(a, b) == (k * step if axis == len(first) - 1 else 0)
            for k, register in enumerate(group)
            for axis, (a, b) in enumerate(zip(first, self.index(register), strict=True))
        )

    def _divided(self, group: list[int], stored: bool) -> Iterator[tuple[list[int], TensorAccess]]:
        """The group as one access where its width is proved, else its halves."""
        if len(group) > 1 and not self._next(group):
            yield from self._halves(group, stored)
            return
        tracer, where = current("a tile of indices"), self.mask(group[0])
        index = [Index(tracer.index(one)) for one in self.index(group[0])]
        condition = None if where is None else tracer.condition(where)
        with nullcontext() if condition is None else tracer.region(condition):  # of claims: it has no statement
            place = self.memory.place(*index, stored=stored)
            access = place.access(len(group)) if len(group) == 1 or place.fits(len(group)) else None
        if access is None:
            yield from self._halves(group, stored)
        elif condition is None:
            yield group, access
        else:
            yield group, replace(access, mask=sympy.And(access.mask, condition))

    def _halves(self, group: list[int], stored: bool) -> Iterator[tuple[list[int], TensorAccess]]:
        half = len(group) // 2
        yield from self._divided(group[:half], stored)
        yield from self._divided(group[half:], stored)


def _at(operand: Operand, register: int) -> Operand:
    return operand.registers[register] if isinstance(operand, Spread) else operand


def _distance(a: Operand, b: Operand) -> int | None:
    """b - a of two indices of a thread, where it is known."""
    if a is b:
        return 0
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        same = isinstance(a, Scalar) and isinstance(b, Scalar) and a.entry.number == b.entry.number
        return 0 if same else None
    difference = sympy.expand(as_expr(cast(Index, b)) - as_expr(cast(Index, a)))
    return int(difference) if difference.is_Integer else None
