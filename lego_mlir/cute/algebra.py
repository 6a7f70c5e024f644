"""The algebra of CuTe's layouts: composition, complement, divide, product, inverses, each proved or refused.

CuTe defines its operations by their result as functions, `R(c) = A(B(c))`, and computes them by rules on shapes and
strides whose conditions are not all checked. Here the function is evaluated, a layout is fitted to its values, and the
two are compared for every coordinate: a result is right, or there is none and the message names a coordinate.

>>> composition(CuteLayout("(6,2):(8,2)"), CuteLayout("(4,3):(3,1)"))
CuteLayout('((2,2),3):((24,2),8)')
>>> composition(CuteLayout("(6,2):(1,7)"), CuteLayout("(3,2):(2,3)"))
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: composition of (6,2):(1,7) with (3,2):(2,3): no shape:stride gives its offsets; at \
coordinate 5 the offset is 8, the strides of the modes give 7
>>> complement(CuteLayout("4:2"), 24), logical_divide(CuteLayout("16:1"), CuteLayout("4:4"))
(CuteLayout('(2,3):(1,8)'), CuteLayout('(4,4):(4,1)'))
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import IntArray
from lego_mlir.cute.layout import CuteLayout, IntTuple
from lego_mlir.errors import LayoutError

Tiler = CuteLayout | int | Sequence["CuteLayout | int"]
"""What divides a layout: a layout, a size, or one of them for each mode."""


def coalesce(layout: CuteLayout) -> CuteLayout:
    """The flat layout of least depth with the same offsets of flat indices."""
    merged: list[tuple[int, int]] = []
    for size, stride in layout.leaves():
        if size == 1:
            continue
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return _flat(merged, layout)


def composition(outer: CuteLayout, inner: CuteLayout) -> CuteLayout:
    """R with R(c) = outer(inner(c)) for every c; its modes refine those of the inner layout.

    A swizzle of the outer layout is kept. Raises LayoutError with a coordinate if no shape:stride has these offsets.
    """
    what = f"composition of {outer} with {inner}"
    if inner.swizzle is not None:
        raise LayoutError(f"{what}: the inner layout has a swizzle; its offsets are not a shape:stride")
    plain = outer.without_swizzle()
    offsets = _offsets_of(plain, inner.offsets())
    result = CuteLayout(*fitted(inner.shape, _unit_steps(inner, offsets), what))
    require_equal(result, offsets, what)
    return CuteLayout(result.shape, result.stride, outer.swizzle)


def complement(layout: CuteLayout, extent: int) -> CuteLayout:
    """The layout of the offsets that `layout` leaves out, so that both together count 0 .. at least extent - 1 once.

    Raises LayoutError with two coordinates of one offset, or where the strides leave no regular complement.
    """
    what = f"complement of {layout}"
    if type(extent) is not int or extent < 1:
        raise LayoutError(f"{what}: the extent must be an int >= 1, got {extent!r}")
    _require_injective(layout, what)
    rest: list[tuple[int, int]] = []
    current = 1
    for stride, size in sorted((d, n) for n, d in layout.leaves() if n > 1):
        if stride % current:
            raise LayoutError(
                f"{what}: stride {stride} is not a multiple of {current}, which the smaller strides cover"
            )
        rest.append((stride // current, current))
        current = stride * size
    rest.append((-(-extent // current), current))
    return coalesce(CuteLayout(tuple(n for n, _ in rest), tuple(d for _, d in rest)))


def right_inverse(layout: CuteLayout) -> CuteLayout:
    """The largest R with layout(R(i)) = i for all i below its size."""
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
    if layout.swizzle is None:
        return result
    raise LayoutError(f"right inverse of {layout}: invert the shape:stride; a swizzle is its own inverse")


def left_inverse(layout: CuteLayout) -> CuteLayout:
    """L with L(layout(i)) = i for every i. Raises LayoutError with two coordinates of one offset."""
    what = f"left inverse of {layout}"
    _require_injective(layout, what)
    result = right_inverse(CuteLayout.of([layout, complement(layout, layout.cosize())]))
    import numpy as np

    found = _offsets_of(result, layout.offsets())
    wrong = np.flatnonzero(found != np.arange(layout.size()))
    if wrong.size:
        raise LayoutError(f"{what}: no shape:stride inverts it; coordinate {wrong[0]} is not recovered")
    return result


def logical_divide(layout: CuteLayout, tiler: Tiler) -> CuteLayout:
    """(tile, rest): `layout` after (tiler, complement of tiler). A sequence of tilers divides mode by mode."""
    if not isinstance(tiler, (CuteLayout, int)):
        modes = layout.modes()
        if len(tiler) > len(modes):
            raise LayoutError(f"logical_divide: {len(tiler)} tilers for the {len(modes)} modes of {layout}")
        tiled = [logical_divide(mode, t) for mode, t in zip(modes, tiler, strict=False)]
        return CuteLayout.of([*tiled, *modes[len(tiled) :]])
    tile = CuteLayout(tiler) if isinstance(tiler, int) else tiler
    return composition(layout, CuteLayout.of([tile, complement(tile, layout.size())]))


def zipped_divide(layout: CuteLayout, tilers: Tiler) -> CuteLayout:
    """Like `logical_divide` mode by mode, with all tiles in the first mode and all rests in the second.

    With one tiler, a layout or a size, it is `logical_divide`.
    """
    if isinstance(tilers, (CuteLayout, int)):
        return logical_divide(layout, tilers)
    divided = logical_divide(layout, tilers).modes()
    parts = [mode.modes() for mode in divided[: len(tilers)]]
    return CuteLayout.of(
        [CuteLayout.of([p[0] for p in parts]), CuteLayout.of([*(p[1] for p in parts), *divided[len(tilers) :]])]
    )


def logical_product(layout: CuteLayout, tiler: CuteLayout) -> CuteLayout:
    """(layout, copies): copies of a layout placed by the tiler, in units of what the layout leaves out."""
    space = complement(layout, layout.size() * tiler.cosize())
    return CuteLayout.of([layout, composition(space, tiler)])


def _flat(modes: Sequence[tuple[int, int]], like: CuteLayout) -> CuteLayout:
    """A flat layout of (size, stride) modes; `1:0` without any."""
    if not modes:
        return CuteLayout(1, 0, like.swizzle)
    if len(modes) == 1:
        return CuteLayout(*modes[0], like.swizzle)
    return CuteLayout(tuple(n for n, _ in modes), tuple(d for _, d in modes), like.swizzle)


def _offsets_of(layout: CuteLayout, indices: IntArray) -> IntArray:
    """The offsets of an array of flat indices."""
    import numpy as np

    return np.broadcast_to(np.asarray(layout(indices)), indices.shape)


def _unit_steps(inner: CuteLayout, offsets: IntArray) -> list[IntArray]:
    """For each leaf of the inner layout the composed offsets along it, the other coordinates at 0."""
    found, at = [], 1
    for size, _ in inner.leaves():
        found.append(offsets[: at * size : at])
        at *= size
    return found


def fitted(shape: IntTuple, steps: list[IntArray], what: str) -> tuple[IntTuple, IntTuple]:
    """The shape with each leaf refined into the modes that give its offsets, and the strides."""
    if isinstance(shape, int):
        modes = _modes_of(steps.pop(0), what)
        if len(modes) == 1:
            return modes[0]
        return tuple(n for n, _ in modes), tuple(d for _, d in modes)
    parts = [fitted(part, steps, what) for part in shape]
    return tuple(s for s, _ in parts), tuple(d for _, d in parts)


def _modes_of(offsets: IntArray, what: str) -> list[tuple[int, int]]:
    """The (size, stride) modes whose colexicographic offsets these are. Raises LayoutError with a coordinate."""
    import numpy as np

    total, modes, block = len(offsets), [], 1
    if total == 1:
        return [(1, 0)]
    while block < total:
        stride = int(offsets[block])
        starts = offsets[::block]
        count = len(starts)
        differs = np.flatnonzero(starts != stride * np.arange(count))
        size = int(differs[0]) if differs.size else count
        expected = (offsets[:block][None, :] + stride * np.arange(size)[:, None]).ravel()
        if size < 2 or total // block % size or not np.array_equal(expected, offsets[: block * size]):
            raise LayoutError(
                f"{what}: no shape:stride gives its offsets {_some(offsets)}; size {total} is not divided by {size} "
                f"where the stride changes"
            )
        modes.append((size, stride))
        block *= size
    return modes


def _some(offsets: IntArray) -> str:
    shown = ", ".join(map(str, offsets[:12]))
    return f"[{shown}{', ..' if len(offsets) > 12 else ''}]"


def require_equal(layout: CuteLayout, offsets: IntArray, what: str) -> None:
    """Raise LayoutError with the first coordinate where a fitted layout differs."""
    import numpy as np

    found = layout.offsets()
    wrong = np.flatnonzero(found != offsets)
    if wrong.size:
        at = int(wrong[0])
        raise LayoutError(
            f"{what}: no shape:stride gives its offsets; at coordinate {at} the offset is {offsets[at]}, "
            f"the strides of the modes give {found[at]}"
        )


def _require_injective(layout: CuteLayout, what: str) -> None:
    """Raise LayoutError with two coordinates of one offset."""
    import numpy as np

    offsets = layout.offsets()
    order = np.argsort(offsets, kind="stable")
    equal = np.flatnonzero(np.diff(offsets[order]) == 0)
    if equal.size:
        a, b = sorted(int(order[equal[0] + k]) for k in (0, 1))
        raise LayoutError(f"{what}: coordinates {a} and {b} have the offset {offsets[a]}")
