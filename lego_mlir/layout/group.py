"""Layouts as a group: composition, inverse, and logical views that do not move any element.

A layout without padding is a bijection of its logical box, numbered in row-major order, onto its positions: an element
of the symmetric group of `numel()` elements. So layouts compose and invert, and the algebra is closed under both: the
orderings of the factors are concatenated, or inverted one by one in reverse order.

`A @ B` applies `B` first: position `B.apply(i)` becomes a logical index of `A` in row-major order. A worked 2 x 3 case,
with the position of each logical index:

    B = Col(2, 3)    A = gallery.reverse(2, 3)    A @ B
    0 2 4            5 4 3                        5 3 1
    1 3 5            2 1 0                        4 2 0

>>> from lego_mlir import Col, Row, gallery
>>> product = gallery.reverse(2, 3) @ Col(2, 3)
>>> [[product.apply(i, j) for j in range(3)] for i in range(2)]
[[5, 3, 1], [4, 2, 0]]
>>> Col(2, 3).inverse(), (Col(2, 3).inverse() @ Col(2, 3)).equivalent(Row(2, 3))
(OrderBy(Col(3, 2)).GroupBy([6]), Proved(by='enumeration of 6 elements'))

`reshape`, `transpose` and `tile_by` change only the logical index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Refuted, Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, flatten, unflatten
from lego_mlir.layout.chain import GroupBy, OrderBy, TileBy, as_layout, same_number
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.tiled import Tiled
from lego_mlir.layout.transposed import Transposed
from lego_mlir.layout.values import show

Levels = tuple[tuple[Size, ...], ...]


def chain_of(layout: Layout, what: str) -> tuple[tuple[OrderBy, ...], Levels]:
    """A layout as reorderings and the levels of its view.

    Raises LayoutError, naming the operation `what`, for a layout with padding or partial tiles, which is not a
    bijection onto all of its positions.
    """
    match layout:
        case GroupBy():
            return layout.orders, layout.levels
        case RegP() | GenP():
            return (OrderBy(layout),), (layout.dims(),)
        case OrderBy():
            return (layout,), (layout.dims(),)
        case Tiled() if layout.is_exact:
            orders, _ = chain_of(layout.inner, what)
            return (*orders, *TileBy(*layout.levels).orders), layout.levels
    raise LayoutError(
        f"{what} needs a layout that fills its positions, got {layout!r}, which leaves some unused; "
        "apply it to the layout inside, and pad or tile the result"
    )


def compose(outer: Layout, inner: Layout) -> Layout:
    """`outer @ inner`: the position that `inner` gives is a logical index of `outer`, in row-major order.

    `inner` may be padded or have partial tiles; `outer` must fill its positions. Raises LayoutError if `outer`
    does not have as many elements as `inner` has positions.
    """
    outer, inner = as_layout(outer), as_layout(inner)
    orders, _ = chain_of(outer, "A @ B: its left side")
    if isinstance(same_number(outer.numel(), inner.physical_size()), Refuted):
        raise LayoutError(
            f"A @ B: {outer!r} has {outer.numel()!r} elements, and {inner!r} has {inner.physical_size()!r} positions; "
            "they must be the same number"
        )
    match inner:
        case Padded():
            return Padded(compose(outer, inner.inner), inner.dims())
        case Tiled() if not inner.is_exact:
            return Tiled(compose(outer, inner.inner), inner.levels)
    right, levels = chain_of(inner, "A @ B: its right side")
    return GroupBy(*levels, orders=(*orders, *right))


def inverse(layout: Layout) -> GroupBy:
    """The one-axis layout whose `apply(p)` is the row-major number of the logical index `layout.inv(p)`.

    Raises LayoutError for a layout that leaves positions unused.
    """
    orders, _ = chain_of(as_layout(layout), "inverse")
    inverted = tuple(OrderBy(*(_inverse_of(perm) for perm in order.perms)) for order in reversed(orders))
    return GroupBy([layout.numel()], orders=inverted)


def _inverse_of(perm: RegP | GenP) -> RegP | GenP:
    """The permutation with position and row-major logical index of `perm` interchanged."""
    if isinstance(perm, InverseP):
        return perm.perm
    if isinstance(perm, GenP):
        return InverseP(perm)
    dims = perm.dims()
    return RegP([dims[axis - 1] for axis in perm.sigma], inverse_order(perm.sigma))


def inverse_order(sigma: Sequence[int]) -> tuple[int, ...]:
    """The inverse of a 1-based order of axes."""
    return tuple(sigma.index(axis) + 1 for axis in range(1, len(sigma) + 1))


class InverseP(GenP):
    """The inverse of a general permutation: its two functions interchanged, over one axis. It shares the verdict."""

    __slots__ = ("perm",)
    perm: GenP

    def __init__(self, perm: GenP) -> None:
        dims = perm.dims()
        self._set(perm=perm)
        super().__init__(
            [perm.numel()],
            lambda p: flatten(perm._inv(p), dims),
            lambda i: (perm._apply(unflatten(i, dims)),),
            text=f"InverseP({perm!r})",
            identity=("inverse", perm),
            made=(InverseP, (perm,)),
        )

    def check(self) -> Verdict:
        return self.perm.check()


def reshape(layout: Layout, *dims: SizeLike | Sequence[SizeLike]) -> Layout:
    """The same memory viewed as another logical box of equal size, in the same row-major order.

    `reshape(4, 6)` and `reshape([4, 6])` are the same. Raises LayoutError for a different number of elements, or
    for a layout that leaves positions unused.
    """
    orders, _ = chain_of(as_layout(layout), "reshape")
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    sizes = as_sizes("reshape", given)
    if isinstance(same_number(GroupBy(sizes).numel(), layout.numel()), Refuted):
        raise LayoutError(
            f"reshape: {show(sizes)} has {GroupBy(sizes).numel()!r} elements and {layout!r} has {layout.numel()!r}"
        )
    return GroupBy(sizes, orders=orders)


def transpose(layout: Layout, *axes: Any) -> Layout:
    """The same memory with its logical axes reordered: axis k of the result is axis `axes[k]` of the layout, 1-based.

    Without arguments the axes are reversed. The levels of a tiling become axes. Raises LayoutError for an
    invalid order.
    """
    layout = as_layout(layout)
    dims = layout.dims()
    # RegP checks the order, and explains that it is 1-based.
    order = RegP(dims, axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes or _reversed(dims))
    sizes = [dims[axis - 1] for axis in order.sigma]
    if isinstance(layout, Padded):
        return Padded(transpose(layout.inner, *order.sigma), sizes)
    if isinstance(layout, Tiled) and not layout.is_exact and len(dims) == 2:
        return layout if order.sigma == (1, 2) else Transposed(layout)
    if isinstance(layout, Transposed):
        return layout if order.sigma == (1, 2) else layout.inner
    orders, _ = chain_of(layout, "transpose")
    return GroupBy(sizes, orders=(*orders, OrderBy(RegP(sizes, inverse_order(order.sigma)))))


def _reversed(dims: Sequence[Size]) -> range:
    return range(len(dims), 0, -1)
