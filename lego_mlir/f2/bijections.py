"""Linear layouts and layouts of the algebra of bijections: each recognised in the other, or refused with a witness.

A layout of power-of-two sizes is linear over F2 if its position is the exclusive or of the positions of its index bits.
`from_layout` checks that for every element, and names two indices for which it fails. `to_layout` makes a general
permutation of an invertible linear layout; its symbolic form are fields of bits.

>>> from lego_mlir.layout import Col, Row
>>> from_layout(Col(2, 4)).bases
{'dim0': [(1,)], 'dim1': [(2,), (4,)]}
>>> from_layout(Row(4, 4).tile_by([2, 2], [2, 2])).bases["dim2"]
[(4,)]
>>> to_layout(from_layout(Col(2, 4))).apply(1, 3)
7
"""

from __future__ import annotations

from math import prod

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims
from lego_mlir.layout.base import Layout
from lego_mlir.layout.permutations import GenP
from lego_mlir.layout.values import show

COMPARED = 2**24
"""Elements up to which a layout is compared with its bases one by one."""


def from_layout(layout: Layout, offset: str = "offset") -> LinearLayout:
    """The linear layout `dim0, dim1, .. -> offset` of a layout of power-of-two sizes.

    Raises LayoutError for other sizes, padding, more than 2**24 elements, and with two indices for which the layout is
    not linear.
    """
    dims = tuple(n for n in layout.dims() if isinstance(n, int))
    if len(dims) < len(layout.dims()) or any(n & (n - 1) for n in dims):
        raise LayoutError(f"{layout!r} has the sizes {show(layout.dims())}; a linear layout needs powers of two")
    elements, positions = prod(dims), layout.physical_size()
    if elements != positions:
        raise LayoutError(
            f"{layout!r} has {positions} positions for {elements} elements; a linear layout has no padding"
        )
    if elements > COMPARED:
        raise LayoutError(f"{layout!r} has {elements} elements; linearity is compared for up to {COMPARED}")
    zero = (0,) * len(dims)
    if start := layout.apply(*zero):
        raise LayoutError(f"{layout!r} is not linear: apply{zero} is {start}, not 0")
    names = standard_dims(len(dims))
    bases = {
        name: [layout.apply(*(1 << k if d == axis else 0 for d in range(len(dims)))) for k in range(n.bit_length() - 1)]
        for axis, (name, n) in enumerate(zip(names, dims, strict=True))
    }
    linear = LinearLayout(bases, {offset: elements})
    _require_equal(layout, linear, offset)
    return linear


def _require_equal(layout: Layout, linear: LinearLayout, offset: str) -> None:
    """Raise LayoutError with two indices whose exclusive or has another position than the layout's."""
    import numpy as np

    dims = tuple(map(int, layout.dims()))
    index = np.unravel_index(np.arange(prod(dims)), dims)
    found, expected = layout.apply(*index), linear.apply(*index)[offset]
    wrong = np.flatnonzero(np.asarray(found) != np.asarray(expected))
    if not wrong.size:
        return
    number = int(wrong[0])  # the first: every smaller number is right, so its highest bit and the rest disagree
    top = 1 << (number.bit_length() - 1)
    a, b, both = (tuple(int(i) for i in np.unravel_index(n, dims)) for n in (top, number ^ top, number))
    values = [layout.apply(*i) for i in (a, b, both)]
    raise LayoutError(
        f"{layout!r} is not linear: apply{_call(a)} ^ apply{_call(b)} is {values[0]} ^ {values[1]} = "
        f"{values[0] ^ values[1]}, and apply{_call(both)} is {values[2]}"
    )


def _call(index: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, index))})"


def to_layout(linear: LinearLayout) -> GenP:
    """The permutation of an invertible linear layout: its inputs are the logical dimensions, in their order.

    The position is the flat output, the first output in the low bits. Of a memory layout (offset to tensor), take the
    inverse first. Raises LayoutError with a witness if the layout is not invertible.
    """
    inverse = linear.inverse()
    flat, back = linear.flatten_outs("position"), inverse.flatten_ins("position")

    def f(*index: IndexLike) -> IndexLike:
        return flat.apply(*index)["position"]

    def f_inv(position: IndexLike) -> tuple[IndexLike, ...]:
        found = back.apply(position)
        return tuple(found[name] for name in linear.in_sizes)

    text = f"f2.to_layout({linear!r})"
    return GenP(list(linear.in_sizes.values()), f, f_inv, text=text, made=(to_layout, (linear,)))
