"""Linear layouts as distributions and back: zero columns, and every dependence between columns, are copies.

A linear layout maps places to elements over F2. If it reaches every element, its places are elements x kernel: a right
inverse finds one place of each element, and adding a vector of the kernel another copy. Both together are an invertible
matrix, which is the bijection of the distribution.

>>> from lego_mlir.f2 import LinearLayout
>>> L = LinearLayout({"warp": [0], "lane": [1, 2], "register": [4]}, {"dim0": 8})
>>> D = from_linear(L)
>>> D.copies, D.apply(6)[1]
((CopyAxis(name='copy', size=2, combined=None),), {'warp': 1, 'lane': 2, 'register': 1})
>>> to_linear(D) == L
True
"""

from __future__ import annotations

from math import prod

from lego_mlir.distributions.base import Distribution, _shown
from lego_mlir.distributions.placed import PlacedLayout
from lego_mlir.errors import LayoutError
from lego_mlir.f2.bijections import COMPARED, to_layout
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims
from lego_mlir.layout.canonical import unflatten
from lego_mlir.layout.values import show


def from_linear(layout: LinearLayout) -> PlacedLayout:
    """The distribution with the layout's inputs as places and its outputs as the axes of the array.

    Raises LayoutError, naming the element, for one that no place holds.
    """
    kernel, found = layout.matrix.kernel(), layout.right_inverse()
    copies = (("copy", len(kernel)),) if kernel else ()
    places = LinearLayout.of((*copies, *layout.outs), layout.ins, (*kernel, *found.columns))
    outermost_last = places.transpose_outs([name for name, _ in reversed(layout.ins)])  # the first holds the low bits
    return PlacedLayout(to_layout(outermost_last), layout.in_sizes, {name: None for name, _ in copies})


def to_linear(distribution: Distribution) -> LinearLayout:
    """The linear layout from places to elements.

    Raises LayoutError for sizes that are no powers of two, places without elements, parts of sums and, naming the
    places that disagree, for a map that is not linear.
    """
    import numpy as np

    axes, shape = distribution.axes, distribution.shape
    sizes = [*axes.values(), *shape]
    if not all(isinstance(n, int) and n & (n - 1) == 0 for n in sizes):
        raise LayoutError(f"to_linear: the sizes {show(shape)} at {axes} must be powers of two")
    if any(c.combined for c in distribution.copies):
        raise LayoutError("to_linear: a linear layout has copies, and no parts of sums")
    places = prod(map(int, axes.values()))
    if places > COMPARED:
        raise LayoutError(f"to_linear: {places} places; linearity is compared for up to {COMPARED}")
    at = unflatten(np.arange(places), [*axes.values()])
    held = np.broadcast_to(distribution._holds(at), (places,))
    if not held.all():
        where = dict(zip(axes, (int(x[int(held.argmin())]) for x in at), strict=True))
        raise LayoutError(f"to_linear: {_shown(where)} holds no element; a linear layout has no such place")

    def element(place: dict[str, int]) -> tuple[int, ...]:
        return tuple(map(int, distribution._element(tuple(place.values()))[0]))

    origin = dict.fromkeys(axes, 0)
    if any(element(origin)):
        raise LayoutError(f"to_linear: {_shown(origin)} holds {show(element(origin))}, not the first element")
    bases = {
        name: [element(origin | {name: 1 << k}) for k in range(int(n).bit_length() - 1)] for name, n in axes.items()
    }
    linear = LinearLayout(bases, dict(zip(standard_dims(len(shape)), map(int, shape), strict=True)))
    expected = linear.apply(**dict(zip(axes, at, strict=True)))
    wrong = np.zeros(places, bool)
    for i, j in zip(distribution._element(at)[0], expected.values(), strict=True):
        wrong |= np.broadcast_to(i, wrong.shape) != j
    if wrong.any():
        # The first wrong number: every smaller one is right, so its highest bit and the rest disagree.
        number = int(wrong.argmax())
        top = 1 << (number.bit_length() - 1)
        a, b, both = (dict(zip(axes, unflatten(n, [*axes.values()]), strict=True)) for n in (top, number ^ top, number))
        raise LayoutError(
            f"to_linear: not linear: {_shown(a)} holds {show(element(a))}, {_shown(b)} holds {show(element(b))}, and "
            f"{_shown(both)}, their exclusive or, {show(element(both))}"
        )
    return linear
