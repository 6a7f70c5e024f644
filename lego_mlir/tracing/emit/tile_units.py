"""Needs of the tensor copy unit for a tile copy: a tensor map from the two layouts, or why there is none.

The tensor's sizes and strides are those of its layout, which must be proved affine; the boxes and the swizzle are found
from the bytes of the tile's elements at every place that the tile can be at, such as the slots of a ring.

A box that reaches outside is slow where many blocks copy such boxes. So a tile that begins at a multiple of its box has
a `CopyEdge`: once its stage holds zeros outside, the unit copies what is inside of the tensor by a second map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import sympy

from lego_mlir.aliases import Array, Expr, Symbol
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.tensor_boxes import BoxedTile, derive_boxes, dimensions_of
from lego_mlir.hardware.tensor_map_forms import MapExtent, SizeTerm, TensorMapForm
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.trace.marks import TileCopy
from lego_mlir.tracing.trace.trace import KernelTrace

MOST_STARTS = 512
"""Places of a tile that are compared."""
MOST_FACTORS = 2
"""Sizes whose product is an extent of a tensor map."""


@dataclass(frozen=True, slots=True)
class CopyEdge:
    """The size of the tensor along the rows of a box, where the tile begins there that blocks copy together, and the
    steps since it began, less the stages of its ring.
    """

    size: Expr
    begin: Expr
    since: Expr


@dataclass(frozen=True, slots=True)
class CopyUnit:
    """The tensor map of a copy, its dimensions innermost first as axes of the view, its boxes, and its edge."""

    tensor_map: TensorMapForm
    axes: tuple[int, ...]
    boxes: BoxedTile
    contiguous: int
    edge: CopyEdge | None


def copy_unit(trace: KernelTrace, copy: TileCopy) -> CopyUnit:
    """The unit's form of a copy. Raises LayoutError, with the reason, where it has none."""
    element = copy.tensor.dtype.bytes
    sizes, strides = _affine(copy.layout)
    axes = dimensions_of([1 if s == 1 else 0 for s in strides], [1 if n == 1 else 2 for n in sizes])
    rank = len(sizes)
    if axes[0] < rank - 2:
        raise LayoutError(f"adjacent elements are along axis {axes[0]}, and the tile spans the last two of {rank}")
    contiguous = axes[0] - (rank - 2)
    offsets = _offsets(trace, copy) * element
    boxes = derive_boxes(offsets if contiguous == 1 else offsets.swapaxes(1, 2), element)
    across = (2 * rank - 3) - axes[0]
    extents = {axes[0]: boxes.box[0], across: boxes.box[1]}
    edge = _edge(trace, copy, boxes, across, sizes[across])
    form = TensorMapForm(
        "tf32" if copy.rounded else "u8" if copy.tensor.dtype.bits == 8 else copy.tensor.dtype.name,  # no f8, no i8
        tuple(_term(trace, sizes[axis]) for axis in axes),
        tuple(_term(trace, strides[axis] * element) for axis in axes[1:]),
        tuple(extents.get(axis, 1) for axis in axes),
        boxes.swizzle,
        None if edge is None else axes.index(across),
    )
    if form.is_fixed:
        form.at(())  # the unit's limits
    return CopyUnit(form, axes, boxes, contiguous, edge)


def _edge(trace: KernelTrace, copy: TileCopy, boxes: BoxedTile, axis: int, size: Expr) -> CopyEdge | None:
    """The edge of a copy to shared memory, whose boxes begin at multiples of their rows; None without one.

    All boxes of the tile have the same rows, and blocks that copy parts for each other divide them.
    """
    start, rows = as_expr(copy.at[axis]), boxes.box[1]
    divided = copy.blocks is not None and (copy.mutual == 0 or copy.begin is None)
    turned, several = axis != len(copy.at) - 2, any(other for (_, other), _ in boxes.places)
    if copy.since is None or copy.stores or divided or turned or several or rows == 1:
        return None
    known = {s: trace.ranges[s] for s in (start.free_symbols | size.free_symbols) if s in trace.ranges}
    whole, multiple = (isinstance(prove(Eq(FloorMod(n, rows), 0), known), Proved) for n in (size, start))
    if whole or not multiple:
        return None
    return CopyEdge(size, start if copy.blocks is None else as_expr(copy.begin), as_expr(copy.since))


def _affine(layout: Layout) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The sizes and strides of a layout, over the kernel's sizes. Raises LayoutError for one that has none."""
    sizes = tuple(as_expr(n) for n in layout.dims())
    index = [sympy.Symbol(f"i{axis}", integer=True) for axis in range(len(sizes))]
    ranges = {symbol: Range(0, n) for symbol, n in zip(index, sizes, strict=True)}
    position = sympy.expand(as_expr(layout.apply(*map(Index, index))))
    origin = position.xreplace(dict.fromkeys(index, sympy.Integer(0)))
    strides = []
    for axis, n in enumerate(sizes):
        at = {symbol: sympy.Integer(int(number == axis)) for number, symbol in enumerate(index)}
        strides.append(sympy.expand(position.xreplace(at) - origin) if n != 1 else _past(sizes))
    affine = sum((i * s for i, s, n in zip(index, strides, sizes, strict=True) if n != 1), sympy.Integer(0))
    same = sympy.expand(position - affine) == 0 or isinstance(prove(Eq(position, affine), ranges), Proved)
    if origin != 0 or not same:
        raise LayoutError(f"{layout!r} is not proved to be strides: position = {affine}")
    return sizes, tuple(strides)


def _term(trace: KernelTrace, extent: Expr) -> MapExtent:
    """A number, or a multiple or quotient of one size of the kernel, or of two. Raises LayoutError for another one."""
    known = {s: trace.ranges[s] for s in extent.free_symbols if s in trace.ranges}
    divided = (d for d in extent.atoms(FloorDiv) if isinstance(prove(Eq(FloorMod(*d.args), 0), known), Proved))
    extent = sympy.expand(extent.xreplace({d: d.args[0] / d.args[1] for d in divided}))  # bytes of packed numbers
    if extent.is_Integer:
        return int(extent)
    factor, rest = extent.as_coeff_Mul()
    found = [rest] if rest in trace.sizes else list(rest.args) if rest.is_Mul else []
    if not 1 <= len(found) <= MOST_FACTORS or any(size not in trace.sizes for size in found):
        raise LayoutError(
            f"a tensor map's extents are ints or multiples of one size or of two, and this tensor has {extent}; make "
            "all but its first two or three sizes ints"
        )
    size, *by = (trace.sizes.index(one) for one in found)
    return SizeTerm(size, int(factor.p), int(factor.q), *by)


def _static(layout: Layout) -> tuple[int, ...]:
    """The sizes of a shared tile."""
    return tuple(int(n) for n in layout.dims())


def _past(sizes: Sequence[Expr]) -> Expr:
    """A stride for an axis of one element, which is never taken: a multiple of 16 bytes."""
    known = int(np.prod([int(n) for n in sizes if n.is_Integer]))
    return sympy.Integer(-(-known // 16) * 16)


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
