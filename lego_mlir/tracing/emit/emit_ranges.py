"""Ranges of sizes, and what they bound, as attributes of a kernel, for the narrowing of its indices.

A kernel whose sizes have declared maxima describes them, the elements of its tensors and the extents of its grid:

    gpu.func @k(%x: memref<?xf32> {lego.largest = 4096 : i64}, %N: index {lego.range = array<i64: 1, 4096>}) kernel
        attributes {lego.largest_grid = array<i64: 16, 1, 1>}

A launch checks the sizes before it starts, and derives the other two from them.
"""

from __future__ import annotations

from typing import Any

from lego_mlir import bindings
from lego_mlir.aliases import Attribute
from lego_mlir.expr.intervals import bounds
from lego_mlir.hardware.limits import LARGEST_GRID
from lego_mlir.tracing.trace.trace import Buffer, KernelTrace
from lego_mlir.transforms.kernel_facts import LARGEST_GRID_ATTRIBUTE, LARGEST_TENSOR_ATTRIBUTE, RANGE_ATTRIBUTE


def range_attributes(trace: KernelTrace) -> dict[str, Attribute]:
    """The attributes; none where no size has a maximum."""
    if all(size.max is None for size in trace.sizes):
        return {}
    ir = bindings.load().ir
    described: list[dict[str, Any]] = []
    for parameter in trace.parameters:
        largest = None
        if isinstance(parameter, Buffer) and not parameter.is_static:
            largest = bounds(parameter.size, trace.ranges).hi
        known = {} if largest is None else {LARGEST_TENSOR_ATTRIBUTE: ir.Attribute.parse(f"{largest} : i64")}
        described.append(known)
    for size in trace.sizes:
        known = {} if size.max is None else {RANGE_ATTRIBUTE: ir.DenseI64ArrayAttr.get([size.least, size.max])}
        described.append(known)
    found = {"arg_attrs": ir.ArrayAttr.get([ir.DictAttr.get(each) for each in described])}
    if not all(isinstance(extent, int) for extent in trace.grid):
        tops = [bounds(extent, trace.ranges).hi for extent in trace.grid]
        extents = [limit if top is None else min(top, limit) for top, limit in zip(tops, LARGEST_GRID, strict=False)]
        found[LARGEST_GRID_ATTRIBUTE] = ir.DenseI64ArrayAttr.get([*extents, 1, 1][:3])
    return found
