"""What the tensor copy unit needs for a tile copy: a tensor map derived from the two layouts, or why there is none.

The tensor's sizes and strides are those of its layout, which must be proved affine; the boxes and the swizzle are found
from the bytes of the tile's elements at every place that the tile can be at, such as the slots of a ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import sympy

from lego_mlir.aliases import Array, Expr, Symbol
from lego_mlir.errors import LayoutError
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Eq
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.tensor_boxes import BoxedTile, derive_boxes, dimensions_of
from lego_mlir.hardware.tensor_maps import TensorMap
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.trace import KernelTrace, TileCopy

MOST_STARTS = 512
"""Places of a tile that are compared."""


@dataclass(frozen=True, slots=True)
class CopyUnit:
    """The tensor map of a copy, its dimensions innermost first as axes of the view, and its boxes."""

    tensor_map: TensorMap
    axes: tuple[int, ...]
    boxes: BoxedTile
    contiguous: int


def copy_unit(trace: KernelTrace, copy: TileCopy) -> CopyUnit:
    """The unit's form of a copy. Raises LayoutError, with the reason, where it has none."""
    element = copy.tensor.dtype.bytes
    sizes, strides = _affine(copy.layout)
    axes = dimensions_of(strides, sizes)
    rank = len(sizes)
    if axes[0] < rank - 2:
        raise LayoutError(f"adjacent elements are along axis {axes[0]}, and the tile spans the last two of {rank}")
    contiguous = axes[0] - (rank - 2)
    offsets = _offsets(trace, copy) * element
    boxes = derive_boxes(offsets if contiguous == 1 else offsets.swapaxes(1, 2), element)
    extents = {axes[0]: boxes.box[0], (2 * rank - 3) - axes[0]: boxes.box[1]}
    tensor_map = TensorMap(
        copy.tensor.dtype.name,
        tuple(sizes[axis] for axis in axes),
        tuple(strides[axis] * element for axis in axes[1:]),
        tuple(extents.get(axis, 1) for axis in axes),
        boxes.swizzle,
    )
    return CopyUnit(tensor_map, axes, boxes, contiguous)


def _affine(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides of a layout. Raises LayoutError for one that has none."""
    sizes = _static(layout)
    origin = int(layout.apply(*(0 for _ in sizes)))
    ends = [tuple(int(a == axis) for a in range(len(sizes))) for axis in range(len(sizes))]
    strides = tuple(int(layout.apply(*e)) - origin if n > 1 else _past(sizes) for e, n in zip(ends, sizes, strict=True))
    index = [sympy.Symbol(f"i{axis}", integer=True) for axis in range(len(sizes))]
    ranges = {symbol: Range(0, n) for symbol, n in zip(index, sizes, strict=True)}
    affine = sum((i * s for i, s in zip(index, strides, strict=True)), sympy.Integer(0))
    if origin or not isinstance(prove(Eq(sympy.sympify(layout.apply(*index)), affine), ranges), Proved):
        raise LayoutError(f"{layout!r} is not proved to be strides: position = {affine}")
    return sizes, strides


def _static(layout: Layout) -> tuple[int, ...]:
    """The sizes of a layout. Raises LayoutError where one is symbolic."""
    sizes = tuple(n for n in layout.dims() if isinstance(n, int))
    if len(sizes) != len(layout.dims()):
        raise LayoutError(f"a tensor map is made for sizes that are ints, and {layout!r} has {list(layout.dims())}")
    return sizes


def _past(sizes: tuple[int, ...]) -> int:
    """A stride for an axis of one element, which is never taken: a multiple of 16 bytes."""
    return -(-int(np.prod(sizes)) // 16) * 16


def _offsets(trace: KernelTrace, copy: TileCopy) -> Array:
    """The positions, [start, row, column], of the tile's elements at each place where it can be."""
    rows, columns = copy.shape
    whole = _static(copy.tile_layout)
    positions = np.asarray(copy.tile_layout.apply(*np.indices(whole)))
    starts = list(
        product(*(_starts(trace.ranges, i, n - s) for i, n, s in zip(copy.into, whole, copy.shape, strict=True)))
    )
    if len(starts) > MOST_STARTS:
        raise LayoutError(
            f"the tile may begin at {len(starts)} places of {copy.tile.name}, more than {MOST_STARTS}; begin it at "
            "multiples of its height, such as (k % stages) * rows"
        )
    return np.stack([positions[r : r + rows, c : c + columns] for r, c in starts])


def _starts(ranges: Mapping[Symbol, Range], index: Expr, most: int) -> range:
    """The values that an index of the tile's start may have, up to `most`."""
    expr = sympy.sympify(index)
    known = bounds(expr, {s: ranges[s] for s in expr.free_symbols if s in ranges})
    low = 0 if known.lo is None else max(0, int(known.lo))
    high = most if known.hi is None else min(most, int(known.hi))
    if low == high:
        return range(low, low + 1)
    step = max(1, known.multiple_of)
    return range(-(-low // step) * step, high + 1, step)
