"""Nested tiles, chains of reorderings, and their logical view (LEGO, figures 5 to 7).

An `OrderBy` is a hierarchy: its first permutation orders the outermost tiles, the next one the tiles inside each, and
so on. A `Chain` is a sequence of reorderings, and a `GroupBy` gives a chain its logical index space. The dotted
notation reads from memory towards the program: in `O1.O2.GroupBy(dims)`, `apply` flattens the logical index, runs O2,
then O1. Figure 9 of the paper, a 6x6 matrix in 3x3 blocks, the grid of blocks transposed and each block laid out along
its anti-diagonals:

>>> from lego_mlir.layout import RegP, gallery
>>> L = OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6])
>>> L.apply(4, 2), L.inv(15)
(15, (4, 2))
>>> L
OrderBy(Col(2, 2), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6])
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.layout.base import Layout, all_of, key_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, flatten, is_static, product, unflatten
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.values import show

Permutation = RegP | GenP


class OrderBy(Layout):
    """A hierarchy of permutations, outermost first; the tiles may differ in rank."""

    __slots__ = ("perms",)
    perms: tuple[Permutation, ...]

    def __init__(self, *perms: Permutation) -> None:
        if not perms:
            raise LayoutError("OrderBy needs at least one permutation, such as OrderBy(RegP([4, 6], [2, 1]))")
        for perm in perms:
            if not isinstance(perm, (RegP, GenP)):
                raise LayoutError(
                    f"OrderBy takes permutations (RegP, GenP, Row, Col, gallery.*), got {type(perm).__name__}: {perm!r}"
                )
        self._set(perms=perms)

    def _arguments(self) -> tuple[object, ...]:
        return self.perms

    def dims(self) -> tuple[Size, ...]:
        return tuple(n for perm in self.perms for n in perm.dims())

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        position: IndexLike = None
        for perm in self.perms:
            rank = len(perm.dims())
            here, index = perm._apply(index[:rank]), index[rank:]
            position = here if position is None else position * perm.numel() + here
        return position

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        offsets = unflatten(position, [perm.numel() for perm in self.perms])
        return tuple(i for perm, here in zip(self.perms, offsets, strict=True) for i in perm._inv(here))

    def _regular(self) -> bool:
        return all(perm._regular() for perm in self.perms)

    def check(self) -> Verdict:
        return all_of([perm.check() for perm in self.perms])

    def _key(self) -> tuple[Hashable, ...]:
        return ("OrderBy", *self.perms)

    def __repr__(self) -> str:
        return f"OrderBy({', '.join(map(repr, self.perms))})"

    def OrderBy(self, *perms: Permutation) -> Chain:
        """Append a reordering on the program's side."""
        return Chain((self,)).OrderBy(*perms)

    def TileOrderBy(self, *perms: Permutation) -> Chain:
        """Append a `TileOrderBy` on the program's side."""
        return Chain((self,)).TileOrderBy(*perms)

    def GroupBy(self, *levels: Sequence[SizeLike]) -> View:
        """The logical view."""
        return Chain((self,)).GroupBy(*levels)

    def TileBy(self, *levels: Sequence[SizeLike]) -> View:
        """The logical view as nested tiles."""
        return Chain((self,)).TileBy(*levels)


class Chain(Frozen):
    """A sequence of reorderings, `O1.O2.O3`, without a logical view yet."""

    __slots__ = ("orders",)
    orders: tuple[OrderBy, ...]

    def __init__(self, orders: tuple[OrderBy, ...]) -> None:
        self._set(orders=tuple(orders))

    def _arguments(self) -> tuple[object, ...]:
        return (self.orders,)

    def OrderBy(self, *perms: Permutation) -> Chain:
        """Append a reordering on the program's side."""
        return Chain((*self.orders, OrderBy(*perms)))

    def TileOrderBy(self, *perms: Permutation) -> Chain:
        """Append a reordering by hierarchical tiles."""
        return Chain((*self.orders, *TileOrderBy(*perms).orders))

    def GroupBy(self, *levels: Sequence[SizeLike]) -> View:
        """The logical view: `GroupBy([6, 6])`, or one list of sizes per level, `GroupBy([2, 2], [3, 3])`."""
        return GroupBy(*levels, orders=self.orders)

    def TileBy(self, *levels: Sequence[SizeLike]) -> View:
        """The logical view as nested tiles of a row-major box."""
        tiled = TileBy(*levels)
        return GroupBy(*tiled.levels, orders=(*self.orders, *tiled.orders))

    def __repr__(self) -> str:
        return ".".join(map(repr, self.orders))


class GroupBy(Layout):
    """A logical view over a chain of reorderings (figure 7).

    `GroupBy([n..], [n..], ..)` takes one list of sizes per level, outermost first; the lists may differ in length. The
    number of elements must match that of every reordering; a refuted match is an error. `.OrderBy(..)` on a GroupBy
    adds a reordering on the memory's side, so `GroupBy(dims).OrderBy(O)` is `O.GroupBy(dims)`. A view of a single
    permutation with the same sizes compares and prints as that permutation.
    """

    __slots__ = ("_dims", "_sizes_verdict", "levels", "orders")
    levels: tuple[tuple[Size, ...], ...]
    orders: tuple[OrderBy, ...]
    _dims: tuple[Size, ...]
    _sizes_verdict: Verdict

    def __init__(self, *levels: Sequence[SizeLike], orders: tuple[OrderBy, ...] = ()) -> None:
        if not levels:
            raise LayoutError("GroupBy needs the logical sizes, such as GroupBy([6, 6])")
        if not all(isinstance(level, (list, tuple)) for level in levels):
            raise LayoutError(f"GroupBy takes one list of sizes per level, such as GroupBy([6, 6]), got {show(levels)}")
        checked = tuple(as_sizes("GroupBy", level) for level in levels)
        self._set(levels=checked, orders=tuple(orders), _dims=tuple(n for level in checked for n in level))
        self._set(_sizes_verdict=self._compare_sizes())

    def __reduce__(self) -> tuple[object, ...]:
        return partial(GroupBy, orders=self.orders), self.levels

    def _compare_sizes(self) -> Verdict:
        """Whether every reordering has as many elements as the view. Raises LayoutError if one is refuted."""
        mine = product(self._dims)
        verdicts = [same_number(mine, order.numel()) for order in self.orders]
        for order, verdict in zip(self.orders, verdicts, strict=True):
            if isinstance(verdict, Refuted):
                raise LayoutError(
                    f"GroupBy({show(self._dims)}) has {mine!r} elements but {order!r} has {order.numel()!r}; the sizes "
                    f"of a view and of its reorderings must multiply to the same number{_example(verdict)}"
                )
        return all_of(verdicts)

    def dims(self) -> tuple[Size, ...]:
        return self._dims

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        dims = self._dims
        for order in reversed(self.orders):
            if key_of(order.dims()) != key_of(dims):  # otherwise B and its inverse cancel
                index = unflatten(flatten(index, dims), order.dims())
            index, dims = (order._apply(index),), (order.numel(),)
        return flatten(index, dims)

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        for k, order in enumerate(self.orders):
            index, dims = order._inv(position), order.dims()
            if k + 1 == len(self.orders) and key_of(dims) == key_of(self._dims):
                return index
            position = flatten(index, dims)
        return unflatten(position, self._dims)

    def _regular(self) -> bool:
        return all(order._regular() for order in self.orders)

    def check(self) -> Verdict:
        return all_of([self._sizes_verdict, *(order.check() for order in self.orders)])

    def _permutation(self) -> Permutation | None:
        """The permutation p if this layout is `OrderBy(p).GroupBy(p.dims())`."""
        if len(self.orders) != 1 or len(self.orders[0].perms) != 1 or len(self.levels) != 1:
            return None
        perm = self.orders[0].perms[0]
        return perm if key_of(perm.dims()) == key_of(self._dims) else None

    def _key(self) -> tuple[Hashable, ...]:
        perm = self._permutation()
        return perm._key() if perm else ("GroupBy", tuple(map(key_of, self.levels)), self.orders)

    def OrderBy(self, *perms: Permutation) -> GroupBy:
        """Add a reordering on the memory's side."""
        return GroupBy(*self.levels, orders=(OrderBy(*perms), *self.orders))

    def __repr__(self) -> str:
        perm = self._permutation()
        if perm:
            return repr(perm)
        view = f"GroupBy({', '.join(map(show, self.levels))})"
        orders = self.orders
        if orders and len(self.levels) > 1 and len({len(level) for level in self.levels}) == 1:
            tiled = TileBy(*self.levels)
            if orders[-1] == tiled.orders[0]:
                view, orders = f"TileBy({', '.join(map(show, self.levels))})", orders[:-1]
        return ".".join([*map(repr, orders), view])


View = GroupBy
"""`GroupBy`, for annotations in classes with a method of that name."""


def same_number(a: Size, b: Size) -> Verdict:
    """Whether two numbers of elements are equal; symbolic ones by proof."""
    if is_static((a, b)):
        return Proved("equal sizes") if a == b else Refuted({}, f"{a} != {b}")
    if (a if isinstance(a, Index) else Index(a)).same(b):
        return Proved("equal sizes")
    from lego_mlir.expr.nodes import Eq
    from lego_mlir.expr.prove import prove

    return prove(Eq(as_expr(a), as_expr(b)), {})


def _example(verdict: Refuted) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in verdict.counter_example.items())
    return f" (they differ for {values})" if values else ""


def TileBy(*levels: Sequence[SizeLike]) -> GroupBy:
    """A row-major box viewed as nested tiles: q levels of d sizes each, outermost first.

    The paper's `TileBy` (section 3.2): `OrderBy(RegP([all sizes], sigma)).GroupBy(levels)`, where sigma brings
    the q sizes of each axis together. `TileBy([2, 2], [3, 3])` views a 6x6 matrix as a 2x2 grid of 3x3 blocks.
    """
    view = GroupBy(*levels)
    sigma = tile_sigma(_rank("TileBy", [len(level) for level in view.levels]), len(view.levels))
    return GroupBy(*view.levels, orders=(OrderBy(RegP(view.dims(), sigma)),))


def TileOrderBy(*perms: Permutation) -> Chain:
    """A row-major box reordered tile by tile: the permutations order its tiles, outermost first.

    The paper's `TileOrderBy` (section 3.2): `OrderBy(P1, .., Pq).OrderBy(RegP(sigma(dims), inverse of sigma))`.
    """
    hierarchy = OrderBy(*perms)
    rank = _rank("TileOrderBy", [len(perm.dims()) for perm in perms])
    sigma = tile_sigma(rank, len(perms))
    dims = hierarchy.dims()
    inverse = [sigma.index(axis + 1) + 1 for axis in range(len(sigma))]
    return Chain((hierarchy, OrderBy(RegP([dims[axis - 1] for axis in sigma], inverse))))


def tile_sigma(rank: int, levels: int) -> tuple[int, ...]:
    """The paper's sigma of d x q: entry (k, h) of a d-by-q table is k + 1 + d*h, read row by row.

    >>> tile_sigma(2, 3), tile_sigma(3, 2)
    ((1, 3, 5, 2, 4, 6), (1, 4, 2, 5, 3, 6))
    """
    return tuple(k + 1 + rank * h for k in range(rank) for h in range(levels))


def _rank(owner: str, ranks: list[int]) -> int:
    if len(set(ranks)) != 1:
        raise LayoutError(f"{owner}: all levels must have the same number of sizes, got levels of {show(ranks)}")
    return ranks[0]


def as_layout(value: object) -> Layout:
    """A layout as it is; a permutation `p` as `OrderBy(p).GroupBy(p.dims())`."""
    if isinstance(value, (RegP, GenP)):
        return OrderBy(value).GroupBy(value.dims())
    if isinstance(value, Layout):
        return value
    if isinstance(value, Chain):
        raise LayoutError(f"{value!r} has no logical view yet; end it with .GroupBy([...])")
    raise LayoutError(f"a layout is needed (Row(M, N), TileBy(...), OrderBy(...).GroupBy(...)), got {value!r}")
