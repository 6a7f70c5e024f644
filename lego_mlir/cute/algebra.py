"""The algebra of CuTe's layouts: composition, complement, divide, product, inverses, each proved or refused.

CuTe defines its operations by their result as functions, `R(c) = A(B(c))`, and computes them by rules on shapes and
strides whose conditions are not all checked. Here the function is evaluated, a layout is fitted to its values, and the
two are compared, swizzles included: a result is right, or there is none and the message names a coordinate. Up to 2**20
elements every coordinate is compared. Of more, compositions with one layout and complements are still compared
everywhere, and refused above 2**24; results that are put together from parts (`coalesce`, products, divisions by mode,
the right inverse) are compared at a sample.

>>> composition(CuteLayout("(6,2):(8,2)"), CuteLayout("(4,3):(3,1)"))
CuteLayout('((2,2),3):((24,2),8)')
>>> composition(CuteLayout("(6,2):(1,7)"), CuteLayout("(3,2):(2,3)"))
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: composition of (6,2):(1,7) with (3,2):(2,3): no shape:stride gives its offsets; at \
coordinate 5 the offset is 8, the strides of the modes give 7
>>> complement(CuteLayout("4:2"), 24), logical_divide(CuteLayout("16:1"), CuteLayout("4:4"))
(CuteLayout('(2,3):(1,8)'), CuteLayout('(4,4):(4,1)'))
>>> zipped_divide(CuteLayout("Sw<1,0,3> o (8,8):(8,1)"), [4, 4])
CuteLayout('Sw<1,0,3> o _0 o ((4,4),(2,2)):((8,1),(32,4))')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from lego_mlir.aliases import IndexLike, IntArray
from lego_mlir.cute.fitting import fitted, modes_of, require_equal, require_same, size_of
from lego_mlir.cute.layout import CuteLayout, IntTuple, as_int, require_layouts
from lego_mlir.errors import LayoutError
from lego_mlir.layout.enumeration_limit import ENUMERATED

Tiler = CuteLayout | int | Sequence["Tiler"]
"""What divides a layout: a layout, a size, or one of them for each mode."""
_ByMode: TypeAlias = CuteLayout | tuple["_ByMode", ...]
"""What a layout is composed with: a layout of its flat indices, or one for each of its modes."""


def coalesce(layout: CuteLayout) -> CuteLayout:
    """The flat layout of least depth with the same offsets of flat indices."""
    require_layouts("coalesce", layout)
    merged: list[tuple[int, int]] = []
    for size, stride in layout.leaves():
        if size == 1:
            continue
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    result = _flat(merged, layout)
    require_same(result, layout.at, f"coalesce of {layout}")
    return result


def composition(outer: CuteLayout, inner: CuteLayout) -> CuteLayout:
    """R with R(c) = outer(inner(c)) for every c; its modes refine those of the inner layout.

    The swizzle of the outer layout is kept, or else that of the inner one. Raises LayoutError with a coordinate if no
    shape:stride has these offsets.
    """
    require_layouts("composition", outer, inner)
    return _composed(outer, inner, f"composition of {outer} with {inner}")


def _composed(outer: CuteLayout, inner: _ByMode, what: str) -> CuteLayout:
    """`outer` after a layout of its flat indices, or after one for each of its modes."""
    if isinstance(inner, tuple):
        modes = [_composed(mode, part, what) for mode, part in zip(outer.without_swizzle().modes(), inner, strict=True)]
        result = CuteLayout.of(modes).swizzled(outer.swizzle)
        require_same(result, lambda at: outer.at(_coordinates(inner, at)), what)
        return result
    offsets = np.broadcast_to(np.asarray(outer.at(inner.offsets())), (inner.size(),))
    return fitted(inner.shape, offsets, [outer.swizzle, inner.swizzle, None], what)


def _shape(inner: _ByMode) -> IntTuple:
    return inner.shape if isinstance(inner, CuteLayout) else tuple(map(_shape, inner))


def _coordinates(inner: _ByMode, index: IntArray) -> IndexLike:
    """What `inner` makes of flat indices: flat indices, or a coordinate for each mode."""
    if isinstance(inner, CuteLayout):
        return inner.at(index)
    found = []
    for part in inner:
        size = size_of(_shape(part))
        found.append(_coordinates(part, index % size))
        index = index // size
    return tuple(found)


def complement(layout: CuteLayout, extent: int) -> CuteLayout:
    """The layout of the offsets that `layout` leaves out, so that both together count 0 .. at least extent - 1 once.

    It depends on the set of offsets only; those of a layout with a swizzle are sorted first. Raises LayoutError with
    two coordinates of one offset, or where the strides leave no regular complement.
    """
    require_layouts("complement", layout)
    what = f"complement of {layout}"
    extent = as_int(f"{what}: the extent", extent, 1)
    offsets = _injective_offsets(layout, what)
    modes = layout.leaves() if layout.swizzle is None else modes_of(offsets, f"{what}, sorted")
    rest: list[tuple[int, int]] = []
    current = 1
    for stride, size in sorted((d, n) for n, d in modes if n > 1):
        if stride % current:
            raise LayoutError(
                f"{what}: stride {stride} is not a multiple of {current}, which the smaller strides cover"
            )
        rest.append((stride // current, current))
        current = stride * size
    if current <= ENUMERATED:  # the last mode repeats this period
        period = _flat(rest, layout.without_swizzle()).offsets()
        together = np.sort((offsets[None, :] + period[:, None]).ravel())
        require_equal(together, np.arange(current), what)
    rest.append((-(-extent // current), current))
    return coalesce(CuteLayout(tuple(n for n, _ in rest), tuple(d for _, d in rest)))


def right_inverse(layout: CuteLayout) -> CuteLayout:
    """The largest R with layout(R(i)) = i for all i below its size, by modes of the layout."""
    require_layouts("right_inverse", layout)
    what = f"right inverse of {layout}"
    _require_plain(layout, what)
    steps, at = [], 1
    for size, stride in layout.leaves():
        steps.append((stride, size, at))
        at *= size
    found: list[tuple[int, int]] = []
    current = 1
    for stride, size, place in sorted(s for s in steps if s[1] > 1):
        if stride == current:
            found.append((size, place))
            current *= size
    result = coalesce(_flat(found, layout))
    require_same(CuteLayout(result.size()), lambda at: layout.at(result.at(at)), what)
    return result


def left_inverse(layout: CuteLayout) -> CuteLayout:
    """L with L(layout(i)) = i for every i. Raises LayoutError with two coordinates of one offset."""
    require_layouts("left_inverse", layout)
    what = f"left inverse of {layout}"
    _require_plain(layout, what)
    _injective_offsets(layout, what)
    result = right_inverse(CuteLayout.of([layout, complement(layout, layout.cosize())]))
    found = np.broadcast_to(np.asarray(result.at(layout.offsets())), (layout.size(),))
    wrong = np.flatnonzero(found != np.arange(layout.size()))
    if wrong.size:
        raise LayoutError(f"{what}: no shape:stride inverts it; coordinate {wrong[0]} is not recovered")
    return result


def logical_divide(layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    """(tile, rest): `layout` after (tiler, complement of tiler). A sequence of tilers divides mode by mode.

    A swizzle of the layout is kept.
    """
    require_layouts("logical_divide", layout)
    return _composed(*_divided(layout, tiler), f"logical_divide of {layout} by {_tiler_text(tiler)}")


def _divided(layout: CuteLayout, tiler: Tiler) -> tuple[CuteLayout, _ByMode]:
    """The layout, with its modes in a tuple if the tilers are, and what it is composed with."""
    if isinstance(tiler, CuteLayout):
        return layout, CuteLayout.of([tiler, complement(tiler, layout.size())])
    if not isinstance(tiler, (list, tuple)):
        return _divided(layout, CuteLayout(as_int("logical_divide: a tiler", tiler, 1)))
    modes = layout.without_swizzle().modes()
    if len(tiler) > len(modes):
        raise LayoutError(f"logical_divide: {len(tiler)} tilers for the {len(modes)} modes of {layout}")
    parts = [_divided(mode, t) for mode, t in zip(modes, tiler, strict=False)]
    rest = modes[len(tiler) :]
    whole = CuteLayout.of([*(mode for mode, _ in parts), *rest])
    return whole.swizzled(layout.swizzle), (*(inner for _, inner in parts), *(CuteLayout(m.shape) for m in rest))


def _tiler_text(tiler: Tiler) -> str:
    return f"({', '.join(map(_tiler_text, tiler))})" if isinstance(tiler, (list, tuple)) else str(tiler)


def zipped_divide(layout: CuteLayout, tilers: Tiler) -> CuteLayout:
    """Like `logical_divide` mode by mode, with all tiles in the first mode and all rests in the second.

    With one tiler, a layout or a size, it is `logical_divide`. A swizzle of the layout is kept.
    """
    divided = logical_divide(layout, tilers)
    if not isinstance(tilers, (list, tuple)):
        return divided
    order = CuteLayout.of(_zipped(CuteLayout(divided.shape), tilers))
    result = CuteLayout.of(_zipped(divided.without_swizzle(), tilers)).swizzled(divided.swizzle)
    what = f"zipped_divide of {layout} by {_tiler_text(tilers)}"
    require_same(result, lambda at: divided.at(order.at(at)), what)
    return result


def _zipped(divided: CuteLayout, tiler: Tiler) -> tuple[CuteLayout, ...]:
    """The tiles of a divided layout as one layout, and the rests as another."""
    modes = divided.modes()
    if not isinstance(tiler, (list, tuple)):
        return modes
    parts = [_zipped(mode, t) for mode, t in zip(modes, tiler, strict=False)]
    return CuteLayout.of([p[0] for p in parts]), CuteLayout.of([*(p[1] for p in parts), *modes[len(tiler) :]])


def logical_product(layout: CuteLayout, tiler: CuteLayout) -> CuteLayout:
    """(layout, copies): copies of a layout placed by the tiler, in units of what the layout leaves out.

    A swizzle is that of the whole: R(c, k) = layout(c) + copies(k), or LayoutError where it moves other offsets.
    """
    require_layouts("logical_product", layout, tiler)
    space = complement(layout, layout.size() * tiler.cosize())
    copies = composition(space, tiler)
    result = CuteLayout.of([layout.without_swizzle(), copies]).swizzled(layout.swizzle)
    size = layout.size()
    what = f"logical_product of {layout} with {tiler}"
    require_same(result, lambda at: layout.at(at % size) + copies.at(at // size), what)
    return result


def _flat(modes: Sequence[tuple[int, int]], like: CuteLayout) -> CuteLayout:
    """A flat layout of (size, stride) modes; `1:0` without any."""
    if not modes:
        return CuteLayout(1, 0, like.swizzle)
    if len(modes) == 1:
        return CuteLayout(*modes[0], like.swizzle)
    return CuteLayout(tuple(n for n, _ in modes), tuple(d for _, d in modes), like.swizzle)


def _require_plain(layout: CuteLayout, what: str) -> None:
    if layout.swizzle is not None:
        raise LayoutError(f"{what}: invert layout.without_swizzle(); {layout.swizzle!r} is its own inverse")


def _injective_offsets(layout: CuteLayout, what: str) -> IntArray:
    """The offsets, sorted. Raises LayoutError with two coordinates of one offset."""
    offsets = layout.offsets()
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    equal = np.flatnonzero(np.diff(ordered) == 0)
    if equal.size:
        a, b = sorted(int(order[equal[0] + k]) for k in (0, 1))
        raise LayoutError(f"{what}: coordinates {a} and {b} have the offset {offsets[a]}")
    return ordered
