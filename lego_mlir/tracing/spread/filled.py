"""Spread values that are not loaded: one number everywhere, and the index of each element.

    lego.full(f32, layout, -1.0)        a tile of -1
    lego.zeros(f32, layout)
    lego.arange(layout, axis=1)         the index of each element along an axis

`arange` gives indices: in `lego.where(lego.arange(layout, 1) <= row, x, 0.0)` a comparison that holds for all threads
takes no instruction, and the others share the part that all registers have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from lego_mlir.aliases import Operand
from lego_mlir.errors import LayoutError
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import shape_of
from lego_mlir.tracing.spread.coordinates import ThreadElements
from lego_mlir.tracing.spread.distributed import Spread, checked_layout, each_element
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.scalar import convert


def full(dtype: DType, layout: LinearLayout | Sequence[int], value: Operand) -> Spread:
    """A tile with one value everywhere: a number, an index or data of this thread that is the same in all threads.

    A shape in place of a layout leaves the layout to the engine, as in `lego.load`.
    """
    current("lego.full")
    if is_shape(layout):
        from lego_mlir.tracing.spread.open_tiles import full as open_full

        return open_full(dtype, layout, value)
    layout = checked_layout(layout)
    return Spread(layout, dtype, [convert(value, dtype)] * layout.in_sizes["register"])


def zeros(dtype: DType, layout: LinearLayout | Sequence[int]) -> Spread:
    """A tile of zeros."""
    return full(dtype, layout, 0)


def arange(layout: LinearLayout | Sequence[int], axis: int = 0) -> Spread:
    """The index of each element along an axis, as a tile of indices; `.to(lego.i32)` makes numbers of them."""
    tracer = current("lego.arange")
    if is_shape(layout):
        from lego_mlir.tracing.spread.open_tiles import arange as open_arange

        return open_arange(layout, axis)
    layout = checked_layout(layout)
    axis = require_axis("lego.arange", shape_of(layout), axis)
    elements = ThreadElements(tracer, layout)
    return each_element(layout, lambda register: elements.of_register(register)[axis])


def require_axis(called: str, shape: Sequence[int], axis: object) -> int:
    """The axis counted from 0; a negative one counts from the last. Raises LayoutError for any other."""
    if type(axis) is not int or not -len(shape) <= axis < len(shape):
        raise current(called).error(
            f"{called}: a tile of shape {list(shape)} has the axes 0..{len(shape) - 1}, got {axis!r}", LayoutError
        )
    return axis % len(shape)


def is_shape(layout: object) -> TypeGuard[Sequence[int]]:
    """Whether a shape was given in place of a layout."""
    return isinstance(layout, tuple | list)
