"""Subjects that can be drawn as positions over a grid: a layout of any algebra, with its name and logical sizes.

More than two dimensions are drawn in two: the last is across, the others are counted together downwards. A layout of
more cells than can be read is sampled: each drawn cell is the first element of an equal block.

>>> from lego_mlir.layout import Row
>>> subject_of(Row(2, 3)).sample()[0]
array([[0, 1, 2],
       [3, 4, 5]])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Drawable
from lego_mlir.cute.layout import CuteLayout
from lego_mlir.errors import UsageError
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.mixed import MixedLayout
from lego_mlir.hardware.banks import Array
from lego_mlir.layout.base import Layout

MOST_CELLS: Final = 64
"""Cells along one side of a drawing."""


@dataclass(frozen=True, slots=True)
class Subject:
    """`position` maps one NumPy array of indices a dimension to positions, in elements."""

    name: str
    dims: tuple[int, ...]
    position: Callable[..., Array]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the whole drawing."""
        return math.prod(self.dims[:-1]), self.dims[-1]

    def at(self, row: Array, column: Array) -> Array:
        """The positions of cells of the grid."""
        index = [*np.unravel_index(row, self.dims[:-1]), column] if len(self.dims) > 1 else [column]
        return np.asarray(self.position(*index), np.int64)

    def sample(self) -> tuple[Array, tuple[int, int]]:
        """The positions of the drawn cells, and the block of elements for which each of them stands."""
        rows, columns = self.grid
        block = math.ceil(rows / MOST_CELLS), math.ceil(columns / MOST_CELLS)
        row, column = np.meshgrid(np.arange(0, rows, block[0]), np.arange(0, columns, block[1]), indexing="ij")
        return self.at(row, column), block

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """The logical index of a cell."""
        outer = tuple(int(i) for i in np.unravel_index(row, self.dims[:-1])) if len(self.dims) > 1 else ()
        return (*outer, column)


def subject_of(drawn: Drawable) -> Subject:
    """The positions of a bijection, a CuTe layout, or a linear layout with one output or from offsets in memory.

    Raises UsageError for symbolic sizes and for anything else.
    """
    if isinstance(drawn, Layout):
        return _of_bijection(drawn)
    if isinstance(drawn, CuteLayout):
        return _of_cute(drawn)
    if isinstance(drawn, (LinearLayout, MixedLayout)) and has_positions(drawn):
        return _of_linear(drawn) if len(drawn.out_sizes) == 1 else _of_memory(drawn)
    raise UsageError(
        f"{drawn!r} has no positions to draw; give a layout, a CuTe layout, or a linear layout with one output"
    )


def _of_bijection(layout: Layout) -> Subject:
    dims = layout.dims()
    if not all(isinstance(n, int) for n in dims):
        symbolic = ", ".join(f"{n}=64" for n in dims if not isinstance(n, int))
        raise UsageError(f"{layout!r} has symbolic sizes; draw it for some of them, with .subs({symbolic})")

    def position(*index: Array) -> Array:
        return np.broadcast_to(
            np.asarray(layout.apply(*index), np.int64), np.broadcast_shapes(*(i.shape for i in index))
        )

    return Subject(repr(layout), tuple(int(n) for n in dims), position)


def _of_cute(layout: CuteLayout) -> Subject:
    """The top-level modes are the dimensions; within one, the coordinate counts colexicographically, as in CuTe."""
    dims = tuple(mode.size() for mode in layout.modes())
    plain = layout.without_swizzle()
    steps = [mode.offsets() for mode in plain.modes()]

    def position(*index: Array) -> Array:
        offset = sum((step[i] for step, i in zip(steps, index, strict=True)), np.int64(0))
        return np.asarray(layout.swizzle(offset) if layout.swizzle is not None else offset, np.int64)

    return Subject(str(layout), dims, position)


def has_positions(layout: LinearLayout | MixedLayout) -> bool:
    """Whether a layout of bits has one output, the position, or maps offsets in memory to elements."""
    if len(layout.out_sizes) == 1:
        return bool(layout.in_sizes)
    return isinstance(layout, LinearLayout) and "offset" in layout.in_sizes and layout.is_invertible()


def _of_memory(layout: LinearLayout | MixedLayout) -> Subject:
    """A layout from offsets in shared memory to the elements of a tile: each element has its offset."""
    assert isinstance(layout, LinearLayout)
    inverse = layout.inverse()

    def position(*index: Array) -> Array:
        return np.asarray(inverse.apply(*index)["offset"], np.int64)

    return Subject(repr(layout), tuple(layout.out_sizes.values()), position)


def _of_linear(layout: LinearLayout | MixedLayout) -> Subject:
    (output,) = layout.out_sizes

    def position(*index: Array) -> Array:
        return np.asarray(layout.apply(**dict(zip(layout.in_sizes, index, strict=True)))[output], np.int64)

    return Subject(repr(layout), tuple(layout.in_sizes.values()), position)
