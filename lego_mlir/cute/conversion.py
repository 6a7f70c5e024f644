"""Layouts of the algebra of bijections as CuTe's, and back.

CuTe counts its first mode fastest and ours the last, so coordinates, not flat indices, are carried over: leaf k of a
CuTe layout is dimension k of ours. A CuTe layout whose offsets are a permutation becomes a `RegP`, with a swizzle a
composition; ours becomes a shape:stride if its positions are sums over its dimensions, with a `Swizzle` if they are
after one.

>>> from lego_mlir.layout import Col, Row, gallery
>>> from_layout(Row(4, 8)), to_layout(CuteLayout("(4,8):(8,1)"))
(CuteLayout('(4,8):(8,1)'), Row(4, 8))
>>> from_layout(gallery.xor_swizzle(8, 64, vec=8))
CuteLayout('Sw<3,3,3> o _0 o (8,64):(64,1)')
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from lego_mlir.aliases import Array, IndexLike, IntArray
from lego_mlir.cute.algebra import coalesce
from lego_mlir.cute.fitting import fitted, require_equal, sample
from lego_mlir.cute.layout import CuteLayout, CuteSwizzle, require_layouts
from lego_mlir.errors import LayoutError
from lego_mlir.f2.bijections import from_layout as linear_of
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.layout.base import Layout
from lego_mlir.layout.enumeration_limit import ENUMERATED
from lego_mlir.layout.permutations import GenP, RegP

MOST_BITS = 24


def to_layout(layout: CuteLayout) -> Layout:
    """The bijection with one dimension for each leaf. Raises LayoutError for offsets that are not 0 .. size - 1."""
    require_layouts("to_layout", layout)
    steps = [(stride, size, axis) for axis, (size, stride) in enumerate(layout.leaves(), 1)]
    current = 1
    for stride, size, _ in sorted(s for s in steps if s[1] > 1):
        if stride != current:
            raise LayoutError(
                f"{layout} is not a permutation of 0..{layout.size() - 1}: no mode has stride {current}, the next is "
                f"{stride}"
            )
        current *= size
    slowest_first = sorted(steps, key=lambda s: (s[1] > 1, s[0]), reverse=True)
    plain = RegP([size for size, _ in layout.leaves()], [axis for _, _, axis in slowest_first])
    result = plain if layout.swizzle is None else _swizzle_layout(layout.swizzle, layout.size()) @ plain
    at = sample(layout.size())
    require_equal(_positions(result, _leaf_coordinates(layout, at)), layout.at(at), f"{layout} as a bijection", at)
    return result


def _positions(layout: Layout, coordinates: Iterator[Array]) -> Array:
    """The positions at arrays of coordinates, which may hold Python's ints."""
    index = tuple(coordinates)
    if index[0].dtype != object:
        return np.asarray(layout.apply(*index))
    return np.array([layout.apply(*one) for one in zip(*index, strict=True)], dtype=object)


def _leaf_coordinates(layout: CuteLayout, index: Array) -> Iterator[Array]:
    """The coordinate along each leaf of flat indices."""
    for size, _ in layout.leaves():
        yield index % size
        index = index // size


def _swizzle_layout(swizzle: CuteSwizzle, size: int) -> GenP:
    """A swizzle as a permutation of offsets. Raises LayoutError if it leaves the offsets."""
    reach = 1 << swizzle.base + swizzle.bits + abs(swizzle.shift)
    if size % reach:
        raise LayoutError(
            f"{swizzle!r} permutes blocks of {reach} offsets, which do not divide the {size} of the layout"
        )

    def f_inv(position: IndexLike) -> tuple[IndexLike, ...]:
        return (swizzle(position),)

    return GenP([size], swizzle, f_inv, text=f"cute.{swizzle!r}({size})", made=(_swizzle_layout, (swizzle, size)))


def from_layout(layout: Layout) -> CuteLayout:
    """CuTe's layout with one mode for each dimension of ours.

    Raises LayoutError, with the first refusal, if the positions are neither a shape:stride nor one after a swizzle.
    """
    dims = tuple(n for n in layout.dims() if isinstance(n, int))
    if len(dims) < len(layout.dims()):
        raise LayoutError(f"{layout!r} has symbolic sizes; CuTe's text has ints")
    what = f"{layout!r} as shape:stride"
    offsets = _offsets(layout, what)
    try:
        found = fitted(dims, offsets, [None], what)
    except LayoutError as refused:
        swizzled = _swizzled(layout)
        if swizzled is None:
            raise refused
        require_equal(swizzled.offsets(), offsets, what)
        return swizzled
    return found if len(dims) > 1 else coalesce(found)


def _offsets(layout: Layout, what: str) -> IntArray:
    """The positions of all indices, the first coordinate counted fastest."""
    dims = tuple(int(n) for n in layout.dims())
    if prod(dims) > ENUMERATED:
        raise LayoutError(f"{what} has {prod(dims)} elements; conversions are proved for up to {ENUMERATED}")
    index = np.unravel_index(np.arange(prod(dims)), dims, order="F")
    return np.broadcast_to(np.asarray(layout.apply(*index)), index[0].shape)


def _swizzled(layout: Layout) -> CuteLayout | None:
    """The layout as `Swizzle o shape:stride`, by trying the swizzles of its size; None if there is none."""
    try:
        linear = linear_of(layout)
    except LayoutError:
        return None
    bits = linear.out_bits
    for b in range(1, min(bits, MOST_BITS) + 1):
        for base in range(bits - b + 1):
            for shift in range(b, bits - base - b + 1):
                swizzle = CuteSwizzle(b, base, shift)
                undone = LinearLayout.of(linear.ins, linear.outs, [swizzle(c) for c in linear.columns])
                if all(c and c & (c - 1) == 0 for c in undone.columns):
                    plain = _of_unit_columns(undone)
                    return CuteLayout(plain.shape, plain.stride, swizzle)
    return None


def _of_unit_columns(linear: LinearLayout) -> CuteLayout:
    """The shape:stride of a linear layout whose bases are single bits."""
    modes = []
    for name, _ in linear.ins:
        columns = linear.columns_of(name)
        modes.append(coalesce(CuteLayout(tuple(2 for _ in columns), columns)) if columns else CuteLayout(1, 0))
    return CuteLayout.of(modes) if len(modes) > 1 else modes[0]
