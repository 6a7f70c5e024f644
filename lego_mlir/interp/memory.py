"""GPU memory: global buffers, a shared buffer for each block, a local buffer for each thread.

A `DeviceBuffer` is a matrix of bytes with one row for each owner; a `MemRef` is a strided window on it, as in MLIR,
counted in elements; a `Touch` is one access by all lanes at once: its elements and its active lanes. Every touch is
checked against the window's sizes and against the buffer itself before a byte moves, so a fault never crashes the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.errors import InterpreterError
from lego_mlir.interp import shadow, values
from lego_mlir.interp.report import Kind
from lego_mlir.interp.values import Array, DType

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess
    from lego_mlir.interp.machine import Machine

DYNAMIC = -(2**63)
"""MLIR's marker for a size, offset or stride that is an operand (`ShapedType::kDynamic`)."""


class Space(Enum):
    """The memory space of a buffer: shared by the launch, shared by a block, or private to a thread."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"


class DeviceBuffer:
    """Storage with one row of bytes for each owner: 1 (global), the batch's blocks (shared) or its lanes (local).

    `granule` is the resolution of the shadow memory in bytes: the element size, or for raw bytes that of the smallest
    element type as which the kernel views them. A `clustered` buffer is the shared memory of the blocks of a cluster,
    a row for each rank, of which a machine runs one.
    """

    def __init__(
        self,
        space: Space,
        storage: Array,
        name: str,
        granule: int,
        *,
        argument: int | None = None,
        tracked: bool = True,
        clustered: bool = False,
    ) -> None:
        self.space = space
        self.is_global, self.is_shared, self.is_local = (space is s for s in (Space.GLOBAL, Space.SHARED, Space.LOCAL))
        self.storage = storage
        self.name = name
        self.granule = granule
        self.argument = argument
        self.reads_tracked = tracked
        self.clustered = clustered
        self._raw: dict[int, Array] = {}

    @property
    def bytes(self) -> int:
        return int(self.storage.shape[1])

    @cached_property
    def shadow(self) -> shadow.Shadow:
        return shadow.Shadow(self.storage.shape[0], self.bytes // self.granule)

    def raw(self, item: int) -> Array:
        """The storage as unsigned integers of `item` bytes, (rows, elements)."""
        found = self._raw.get(item)
        if found is None:
            whole = self.bytes // item * item
            found = self._raw[item] = self.storage[:, :whole].view(values.UNSIGNED[item])
        return found

    def rows(self, m: Machine) -> Array | None:
        """Each lane's row, or None if all lanes share one row."""
        match self.space:
            case Space.GLOBAL:
                return None
            case Space.SHARED:
                first = m.rank if self.clustered else 0
                return np.arange(first, first + m.blocks, dtype=np.int64).reshape(-1, 1)
            case Space.LOCAL:
                return np.arange(m.blocks * m.threads, dtype=np.int64).reshape(m.lanes)


@dataclass(frozen=True)
class MemRef:
    """A strided window on a buffer. Offset, sizes and strides count elements and may differ from lane to lane.

    The offset is relative to the base, as in MLIR: a subview adds to the offset, a `memref.view` sets a new base, and a
    `reinterpret_cast` replaces the offset and keeps the base.
    """

    buffer: DeviceBuffer
    dtype: np.dtype[Any]
    offset: int | Array
    sizes: tuple[int | Array, ...]
    strides: tuple[int | Array, ...]
    base: int | Array = 0
    tile: str | None = None  # the name of the shared tile that the window shows
    in_block: Array | None = None  # the block of the cluster whose memory it is, if not the lane's

    @property
    def name(self) -> str:
        """The name in reports: the tile's, or the buffer's."""
        return self.tile or self.buffer.name

    @cached_property
    def inside(self) -> bool:
        """Whether all lanes have the same window, inside its buffer: indices within it need no second check."""
        numbers = (self.base, self.offset, *self.sizes, *self.strides)
        if not all(isinstance(n, int) for n in numbers) or any(n <= 0 for n in self.sizes):
            return False
        reaches = [(n - 1) * stride for n, stride in zip(self.sizes, self.strides, strict=True)]
        low = self.start + sum(r for r in reaches if r < 0)
        high = self.start + sum(r for r in reaches if r > 0)
        return bool(low >= 0 and (high + 1) * self.dtype.itemsize <= self.buffer.bytes)

    @property
    def start(self) -> int | Array:
        """The first element of the window in its buffer."""
        return self.base + self.offset

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def merged(self, condition: Array, other: MemRef) -> MemRef:
        """Per lane this window or the other one; both must be windows of the same buffer."""
        if other.buffer is not self.buffer:
            raise InterpreterError(
                f"lanes select memrefs of two buffers, {self.buffer.name} and {other.buffer.name}; "
                "the interpreter supports a selection between windows of one buffer only"
            )

        def pick(a: int | Array, b: int | Array) -> int | Array:
            return a if a is b else np.where(condition, a, b)

        return replace(
            self,
            base=pick(self.base, other.base),
            offset=pick(self.offset, other.offset),
            sizes=tuple(map(pick, self.sizes, other.sizes)),
            strides=tuple(map(pick, self.strides, other.strides)),
        )


def row_major(sizes: Sequence[int | Array]) -> tuple[int | Array, ...]:
    """The strides of a dense window."""
    strides: list[int | Array] = []
    step: int | Array = 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


@dataclass(slots=True)
class Touch:
    """One access by all lanes: `elem`, shaped (blocks, threads, *vector), and `run` consecutive elements from each.

    `ok` selects those that are performed (active, not masked off, within bounds); None means all. `by_warp` marks an
    access that a warp performs once, by its first lane. `rank` is the block of the cluster whose memory it is.
    """

    buffer: DeviceBuffer
    item: int
    elem: Array
    run: int
    ok: Array | None
    by_warp: bool = False
    tile: str | None = None
    rank: Array | None = None

    def rows(self, m: Machine) -> Array | None:
        """Each lane's row of the buffer, or None if all lanes share one row."""
        return self.buffer.rows(m) if self.rank is None else self.rank

    @property
    def name(self) -> str:
        """The name in reports: the tile's, or the buffer's."""
        return self.tile or self.buffer.name

    def elements(self) -> Array:
        """All elements, the run expanded as a last axis."""
        if self.run == 1:
            return self.elem
        return self.elem[..., None] + np.arange(self.run, dtype=np.int64)

    def active(self, ndim: int) -> Array | None:
        return None if self.ok is None else values.like_vector(self.ok, ndim)

    @property
    def bytes_per_lane(self) -> int:
        return self.item * self.run


def address(
    m: Machine,
    access: MemoryAccess,
    ref: MemRef,
    indices: Sequence[Array],
    *,
    run: int = 1,
    ok: Array | None = None,
    item: int | None = None,
) -> Touch:
    """The touch of `ref[indices]`, bounds checked: lanes out of bounds are reported and masked off."""
    if run == 1 and (position := _uniform_position(ref, indices)) is not None:
        if m.mask is not None:
            ok = m.mask if ok is None else ok & values.like_vector(m.mask, ok.ndim)
        only = np.array(position, np.int64, ndmin=2)
        return Touch(
            ref.buffer, ref.dtype.itemsize if item is None else item, only, 1, ok, tile=ref.tile, rank=ref.in_block
        )
    ndim = max((i.ndim for i in indices), default=2)
    start = ref.start
    elem: Any = start if isinstance(start, int) else values.like_vector(start, ndim)
    outside: Array | None = None
    last = len(indices) - 1
    for axis, (index, size, stride) in enumerate(zip(indices, ref.sizes, ref.strides, strict=True)):
        index = values.like_vector(index, ndim)
        bound = size - (run - 1) if axis == last else size
        bad = _beyond(index, bound, ndim)
        if np.count_nonzero(bad):
            outside = bad if outside is None else outside | bad
        elem = elem + index * (stride if isinstance(stride, int) else values.like_vector(stride, ndim))
    elem = elem if isinstance(elem, np.ndarray) else values.uniform(elem)
    if m.mask is not None:
        mask = values.like_vector(m.mask, elem.ndim)
        ok = mask if ok is None else ok & mask
    item = ref.dtype.itemsize if item is None else item
    if outside is not None or not ref.inside or (run > 1 and ref.strides[-1] != 1):
        beyond = _beyond(elem, ref.buffer.bytes // item - (run - 1), elem.ndim)
        if np.count_nonzero(beyond):
            outside = beyond if outside is None else outside | beyond
    if outside is not None:
        outside = outside if ok is None else outside & ok
        if outside.any():
            _report_outside(m, access, ref, indices, outside, elem)
            ok = ~outside if ok is None else ok & ~outside
    return Touch(ref.buffer, item, elem, run, ok, tile=ref.tile, rank=ref.in_block)


def _uniform_position(ref: MemRef, indices: Sequence[Array]) -> int | None:
    """The element that all lanes access, if one number for each axis decides it and it is within bounds."""
    if not ref.inside:
        return None
    position: Any = ref.start
    for index, size, stride in zip(indices, ref.sizes, ref.strides, strict=True):
        if index.shape != (1, 1):
            return None
        i = index.item()
        if not 0 <= i < size:
            return None
        position += i * stride
    return int(position)


def _beyond(index: Array, bound: int | Array, ndim: int) -> Array:
    """Where an index is negative or at least the bound."""
    if isinstance(bound, int) and index.dtype == np.int64:
        return index.view(np.uint64) >= max(bound, 0)
    bound = values.like_vector(np.asarray(bound), ndim) if isinstance(bound, np.ndarray) else bound
    return (index < 0) | (index >= bound)


def _report_outside(
    m: Machine, access: MemoryAccess, ref: MemRef, indices: Sequence[Array], outside: Array, elem: Array
) -> None:
    shape = (*np.broadcast_shapes(outside.shape[:2], m.lanes), *outside.shape[2:])
    full = np.broadcast_to(outside, shape)
    first = np.unravel_index(int(np.flatnonzero(full)[0]), shape)

    def at(array: int | Array) -> int:
        if isinstance(array, int):
            return array
        array = values.like_vector(array, full.ndim)
        return int(np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))[first])

    index, sizes = tuple(at(i) for i in indices), tuple(at(s) for s in ref.sizes)
    block, thread = m.name_lane(int(first[0]), int(first[1]))
    m.faults.add(
        Kind.OUT_OF_BOUNDS,
        f"{access.kind} of index {index} outside {ref.name} of sizes {sizes}",
        access.place, block, thread, address=at(elem), buffer=ref.name, count=int(full.sum()),
    )  # fmt: skip


def read(m: Machine, access: MemoryAccess, touch: Touch, dtype: DType) -> Array:
    """The values that the lanes load; checks and counts the touch."""
    observe(m, access, touch)
    return gather(m, touch, dtype)


def write(m: Machine, access: MemoryAccess, touch: Touch, value: Array) -> None:
    """Store a value; checks and counts the touch."""
    observe(m, access, touch)
    scatter(m, touch, value)


def observe(m: Machine, access: MemoryAccess, touch: Touch) -> None:
    """Check one touch, then count it."""
    if touch.ok is not None and not touch.ok.any():
        return
    if m.checks:
        shadow.check(m, access, touch)
    if m.counters is not None:
        m.counters.count(m, access, touch)


def gather(m: Machine, touch: Touch, dtype: DType) -> Array:
    """The elements of a touch, shaped (blocks, threads, *vector); unspecified for inactive lanes."""
    data = touch.buffer.raw(touch.item)
    elem = touch.elements()
    rows = touch.rows(m)
    if rows is None:
        out = data[0].take(elem, mode="clip")
    elif touch.buffer.is_shared and not touch.buffer.clustered and elem.shape[0] == 1:
        out = data.take(elem[0], axis=1, mode="clip")
    else:
        out = data.reshape(-1).take(elem + values.like_vector(rows, elem.ndim) * data.shape[1], mode="clip")
    return out.view(dtype)


def scatter(m: Machine, touch: Touch, value: Array) -> None:
    """Store to the elements of a touch for the active lanes; if lanes collide, any one of them wins."""
    data = touch.buffer.raw(touch.item)
    elem = touch.elements()
    value = np.ascontiguousarray(value).view(data.dtype)
    value = value.reshape(value.shape + (1,) * (elem.ndim - value.ndim))
    rows = touch.rows(m)
    ok = touch.active(elem.ndim)
    if touch.buffer.is_shared and not touch.buffer.clustered and ok is None and elem.shape[0] == 1:
        full = np.broadcast_shapes(elem.shape[1:], value.shape[1:])
        data[:, values.spread(elem[0], full)] = value
        return
    if rows is not None:
        elem = elem + values.like_vector(rows, elem.ndim) * data.shape[1]
    full = np.broadcast_shapes(elem.shape, value.shape, () if ok is None else ok.shape)
    elem, value = values.spread(elem, full), values.spread(value, full)
    flat = data.reshape(-1)
    if ok is None:
        flat[elem] = value
    else:
        chosen = values.spread(ok, full)
        flat[elem[chosen]] = value[chosen]


def check_alignment(m: Machine, access: MemoryAccess, touch: Touch) -> None:
    """A vector access must start at a multiple of its size (of 16 bytes, the widest instruction, beyond that)."""
    size = touch.bytes_per_lane
    need = min(size & -size, 16)
    if not m.checks or need <= touch.item:
        return
    off = (touch.elem * touch.item) % need != 0
    if touch.ok is not None:
        off = off & touch.ok
    if not off.any():
        return
    full = np.broadcast_to(off, (*np.broadcast_shapes(off.shape[:2], m.lanes), *off.shape[2:]))
    first = np.unravel_index(int(np.flatnonzero(full)[0]), full.shape)
    block, thread = m.name_lane(int(first[0]), int(first[1]))
    element = int(np.broadcast_to(touch.elem, full.shape)[first])
    m.faults.add(
        Kind.MISALIGNED,
        f"{access.kind} of {size} bytes of {touch.name} at byte {element * touch.item}, "
        f"which is not a multiple of {need}",
        access.place, block, thread, address=element, buffer=touch.name, count=int(full.sum()),
    )  # fmt: skip


def allocate(
    m: Machine, space: Space, dtype: DType, sizes: Sequence[int | Array], name: str, granule: int | None = None
) -> MemRef:
    """The dense window on a new, uninitialised buffer."""
    elements = 1
    for size in sizes:
        elements *= size if isinstance(size, int) else values.only(size, f"the size of {name}")
    owners = {Space.GLOBAL: 1, Space.SHARED: m.blocks, Space.LOCAL: m.blocks * m.threads}[space]
    granule = granule or dtype.itemsize
    if space is Space.SHARED and m.cluster_blocks is not None:
        buffer = m.cluster_blocks.buffer(m, elements * dtype.itemsize, name, granule)
    else:
        buffer = DeviceBuffer(space, np.zeros((owners, elements * dtype.itemsize), np.uint8), name, granule)
    sizes = tuple(size if isinstance(size, int) else values.only(size, name) for size in sizes)
    return MemRef(buffer, dtype, 0, sizes, row_major(sizes))
