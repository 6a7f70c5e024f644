"""Tiles whose sizes are not powers of two: a linear layout of the padded sizes, and the box that is inside.

The result of `wgmma` with 192 columns lies in the registers of one with 256, of which those from column 192 on are
never made. Nothing else changes: register r, lane and warp hold the element that the linear layout says, so all of its
algebra stays, and code that iterates over registers skips those outside the box:

>>> from lego_mlir.f2.encodings import MmaSync
>>> layout = MmaSync((4, 1)).layout((64, 24))
>>> layout.out_sizes, shape_of_box(layout), [is_inside(layout, r) for r in range(16)].count(True)
({'dim0': 64, 'dim1': 32}, (64, 24), 12)

A box may cut an axis where only registers tell the elements apart, so that a register is inside for all threads or for
none; or where only warps do, so that a warp is. A block of three warps has the first three of four:

>>> layout = MmaSync((4, 1)).layout((48, 24))
>>> [misfit(layout, warps) for warps in (3, 4)]
['', 'warp 3 of the block is outside the tile of 48 x 24']

Other boxes are refused: a register would be inside for some threads of a warp, and needs a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.errors import LayoutError
from lego_mlir.f2.dims import join, split
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine


class BoxedLayout(LinearLayout):
    """A linear layout of which the first `box` elements along each dimension are a tile. Compared with its box."""

    __slots__ = ("box",)
    box: tuple[int, ...]

    def __init__(self, bases: object, outs: object, box: Sequence[int]) -> None:
        super().__init__(bases, outs)  # type: ignore[arg-type]
        self._set(box=tuple(box))

    def _arguments(self) -> tuple[object, ...]:
        return self.bases, self.out_sizes, self.box

    def _key(self) -> tuple[object, ...]:
        return *super()._key(), self.box


def boxed(layout: LinearLayout, box: Sequence[int]) -> LinearLayout:
    """The tile of these sizes in a padded layout; the layout itself where nothing is outside.

    Raises LayoutError for a box that cuts what lanes hold, or what warps and registers hold together.
    """
    sizes, plain = list(layout.out_sizes.values()), linear(layout)
    if len(box) != len(sizes) or any(not n // 2 < b <= n for b, n in zip(box, sizes, strict=True)):
        raise LayoutError(f"a box of {list(box)} in a layout of {sizes}: each size is more than half of the layout's")
    if list(box) == sizes:
        return plain
    for axis, (b, n) in enumerate(zip(box, sizes, strict=True)):
        reach = {name: max((basis[axis] for basis in bases), default=0) for name, bases in plain.bases.items()}
        cut = [name for name, value in reach.items() if b < n and value >= b & -b]
        if len(cut) > 1 or set(cut) - {"register", "warp"}:
            holder = max((name for name in cut if name != "register"), key=lambda name: reach[name])
            raise LayoutError(
                f"a tile of {b} along axis {axis} ends inside what {holder}s hold, which reaches to {reach[holder]}; "
                f"use a multiple of {1 << reach[holder].bit_length()}"
            )
    return BoxedLayout(plain.bases, plain.out_sizes, box)


def misfit(layout: LinearLayout, warps: int) -> str:
    """Why a block of `warps` warps does not hold exactly the elements of the tile; empty if it does.

    Those of its warps are inside the box, and further ones of the layout are outside, or hold copies: they differ from
    one of the block in zero bases.
    """
    size = layout.in_sizes.get("warp", 1)
    if size == warps and not isinstance(layout, BoxedLayout):
        return ""
    columns = layout.columns_of("warp") if size > 1 else ()
    if not size // 2 < warps <= size:
        return f"the layout has {size} warps"
    zeros = sum(1 << bit for bit, column in enumerate(columns) if not column)
    for warp in range(size):
        outside = isinstance(layout, BoxedLayout) and not _is_within(layout, combine(columns, warp))
        if warp < warps and outside:
            return f"warp {warp} of the block is outside the tile of {' x '.join(map(str, shape_of_box(layout)))}"
        if warp >= warps and not outside and warp & ~zeros >= warps:
            return f"the elements of warp {warp} are held by no warp of the block, which has {warps}"
    return ""


def is_cut_by_warps(layout: LinearLayout) -> bool:
    """Whether warps of the layout are outside the box."""
    if not isinstance(layout, BoxedLayout):
        return False
    columns = layout.columns_of("warp")
    return not all(_is_within(layout, combine(columns, warp)) for warp in range(1 << len(columns)))


def linear(layout: LinearLayout) -> LinearLayout:
    """The padded layout."""
    return LinearLayout.of(layout.ins, layout.outs, layout.columns) if isinstance(layout, BoxedLayout) else layout


def shape_of_box(layout: LinearLayout) -> tuple[int, ...]:
    """The sizes of the tile, in the order of the layout's outputs."""
    return layout.box if isinstance(layout, BoxedLayout) else tuple(layout.out_sizes.values())


def padded(shape: Sequence[int]) -> tuple[int, ...]:
    """The next powers of two."""
    return tuple(1 << (n - 1).bit_length() for n in shape)


def is_inside(layout: LinearLayout, register: int) -> bool:
    """Whether a register holds elements of the tile, for all threads."""
    if not isinstance(layout, BoxedLayout):
        return True
    return _is_within(layout, combine(layout.columns_of("register"), register))


def _is_within(layout: BoxedLayout, flat: int) -> bool:
    """Whether the elements of the tile whose high bits are those of a flat element are inside the box."""
    place = split(flat, layout.outs)
    return all(c & -(b & -b) < b for c, b in zip(place, layout.box, strict=True))


def registers_of(layout: LinearLayout) -> list[int]:
    """The registers that are made."""
    found = range(layout.in_sizes["register"])
    return [r for r in found if is_inside(layout, r)] if isinstance(layout, BoxedLayout) else list(found)


def whole_bits(layout: LinearLayout) -> int:
    """The flat bits of an element that change nothing about being inside: an access may extend along them alone."""
    box = shape_of_box(layout)
    sizes = list(layout.out_sizes.values())
    return join([n - 1 if b == n else (b & -b) - 1 for b, n in zip(box, sizes, strict=True)], layout.outs)
