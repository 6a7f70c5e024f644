"""The exact addresses of a kernel: what each task (x, y) reads and writes, one `TaskAccess` for each instruction.

An access is affine in its task: element (x + dx, y + dy) of an array, moved back inside at a boundary, at `base`. The
array is strided, or its layout gives the position of every element. A workload may instead be `recorded`: the requests
of every warp, as the interpreter saw them.

>>> blur = stencil(4096, 4096, 9)
>>> len(blur.accesses), blur.tasks, blur.bytes
(82, 16777216, 134217728)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lego_mlir.errors import UsageError
from lego_mlir.hardware.memory import LINE_BYTES

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

ALIGNMENT = 512
"""Bytes to which arrays are aligned; CUDA C++ Programming Guide, "Device Memory Accesses", promises at least 256."""


class Boundary(IntEnum):
    """What an access outside its array reads: `SKIP` reads nothing, `NONE` is never outside."""

    NONE = 0
    CLAMP = 1
    MIRROR = 2
    WRAP = 3
    SKIP = 4


class Positions(Protocol):
    """A layout, as far as addresses need it: the positions of rows and columns, in elements."""

    def apply(self, row: Array, column: Array, /) -> Array: ...


@dataclass(frozen=True, slots=True)
class TaskAccess:
    """One load or store of a task: bytes `base + across x + down y`, or `base + across position[y, x]` of a table.

    `width` and `height` are the array's extents in elements, which a boundary and a table need.
    """

    base: int
    across: int
    down: int
    dx: int = 0
    dy: int = 0
    width: int = 0
    height: int = 0
    boundary: Boundary = Boundary.NONE
    table: int = -1
    store: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """Requests of every warp: rows (line, mask, kind, last of its instruction); `starts` begins each warp's rows."""

    starts: Array
    rows: Array
    warps: int
    """Warps of a block."""

    def in_order(self, blocks: Array) -> Recorded:
        """The requests of a launch whose block t does the work of block blocks[t]."""
        warps = (np.asarray(blocks)[:, None] * self.warps + np.arange(self.warps)).ravel()
        lengths = self.starts[warps + 1] - self.starts[warps]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        index = np.arange(starts[-1]) + np.repeat(self.starts[warps] - starts[:-1], lengths)
        return Recorded(starts, np.ascontiguousarray(self.rows[index], np.int64), self.warps)


@dataclass(frozen=True, slots=True)
class Workload:
    """What a kernel's tasks access. `bytes` is the footprint; `together` instructions are issued without waiting."""

    name: str
    width: int
    height: int
    accesses: tuple[TaskAccess, ...]
    bytes: int
    element: int
    together: int = 1
    positions: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    recorded: Recorded | None = None

    @property
    def tasks(self) -> int:
        return self.width * self.height


def stencil(
    width: int,
    height: int,
    size: int = 9,
    *,
    element: int = 4,
    boundary: Boundary = Boundary.CLAMP,
    layout: Positions | None = None,
) -> Workload:
    """A `size` x `size` box stencil: each task reads its window row by row and writes one element.

    `layout` places the input; without it, rows are contiguous. Raises UsageError unless `size` is odd.
    """
    _require_extents("stencil", width=width, height=height, size=size)
    if size % 2 == 0:
        raise UsageError(f"stencil: the window has a centre, so its size is odd, got {size}")
    radius, source = size // 2, _aligned(width * height * element)
    table = -1 if layout is None else 0
    reads = tuple(
        TaskAccess(0, element, width * element, dx, dy, width, height, boundary, table)
        for dy in range(-radius, radius + 1)
        for dx in range(-radius, radius + 1)
    )
    write = TaskAccess(source, element, width * element, store=True)
    positions = np.zeros(0, np.int32) if layout is None else _positions(layout, width, height)
    return Workload(
        f"stencil {size}x{size} {width}x{height}", width, height, (*reads, write), 2 * source, element, size, positions
    )


def product(width: int, height: int, depth: int, *, element: int = 4) -> Workload:
    """C = A B: each task reads a row of A (height x depth) and a column of B (depth x width), and writes C."""
    _require_extents("product", width=width, height=height, depth=depth)
    b = _aligned(height * depth * element)
    c = b + _aligned(depth * width * element)
    loads: list[TaskAccess] = []
    for k in range(depth):
        loads.append(TaskAccess(k * element, 0, depth * element))
        loads.append(TaskAccess(b + k * width * element, element, 0))
    write = TaskAccess(c, element, width * element, store=True)
    total = c + _aligned(width * height * element)
    return Workload(f"product {width}x{height}x{depth}", width, height, (*loads, write), total, element, 8)


def dense(
    name: str, width: int, height: int, accesses: Sequence[TaskAccess], *, element: int, together: int = 1
) -> Workload:
    """Any other kernel of width x height tasks whose accesses are affine in the task."""
    _require_extents("dense", width=width, height=height, together=together)
    if not accesses:
        raise UsageError(f"dense: {name} needs at least one access, got none")
    last = 0
    for a in accesses:
        w, h = (a.width, a.height) if a.boundary else (width + abs(a.dx), height + abs(a.dy))
        first = a.base if a.boundary else a.base + min(a.dx, 0) * a.across + min(a.dy, 0) * a.down
        if first < 0 or a.across < 0 or a.down < 0:
            raise UsageError(f"dense: {a} reaches below address 0; addresses and steps are at least 0")
        last = max(last, a.base + (w - 1) * a.across + (h - 1) * a.down + element)
    return Workload(name, width, height, tuple(accesses), _aligned(last), element, together)


def addresses(workload: Workload, access: TaskAccess, x: Array, y: Array) -> tuple[Array, Array]:
    """The byte addresses of an access for tasks (x, y), and where there is one: not for x < 0, nor where it skips."""
    real = x >= 0
    column, row = x + access.dx, y + access.dy
    for value, extent in ((column, access.width), (row, access.height)):
        match access.boundary:
            case Boundary.CLAMP:
                np.clip(value, 0, extent - 1, out=value)
            case Boundary.MIRROR:
                value %= max(2 * extent - 2, 1)
                np.minimum(value, 2 * extent - 2 - value, out=value, where=value >= extent)
            case Boundary.WRAP:
                value %= extent
            case Boundary.SKIP:
                real = real & (value >= 0) & (value < extent)
    if access.table >= 0:
        place = np.where(real, access.table + row * access.width + column, 0)
        return access.base + access.across * workload.positions[place].astype(np.int64), real
    return access.base + access.across * column + access.down * row, real


def _positions(layout: Positions, width: int, height: int) -> Array:
    """Where each element (y, x) lies, in elements."""
    rows, columns = np.divmod(np.arange(width * height, dtype=np.int64), width)
    return np.ascontiguousarray(layout.apply(rows, columns), np.int32)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _require_extents(what: str, **values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise UsageError(f"{what}: {name} must be at least 1, got {value}")


assert ALIGNMENT % LINE_BYTES == 0
