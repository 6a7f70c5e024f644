"""`vector`: memory accesses. One touch moves a vector of every lane and is counted as the GPU would issue it.

A rank-1 access to contiguous elements is one wide instruction; any other access is one instruction for each element. If
all lanes of a warp have the same address in an access of rank 2 or more, it is a *warp's* access, as in a kernel whose
vectors are not yet distributed over the lanes (`convert-vector-to-gpu`): the warp performs it once, by its first lane.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lego_mlir.aliases import Type
from lego_mlir.interp import memory, values
from lego_mlir.interp.access import MemoryAccess
from lego_mlir.interp.counters import leaders, same_in_warp
from lego_mlir.interp.dialects.memref import load_step, plain, store_step, touch_run
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import MemRef, Touch
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array


@implements("vector.load")
def load(op: Operation) -> Step:
    op.touches(0, read=True)
    shape = values.vector_shape(op.result_type())
    if len(shape) != 1:
        return _rectangle_load(op, shape)
    return load_step(op, op.operands[0], plain(op.operands[1:]), shape[0])


@implements("vector.store")
def store(op: Operation) -> Step:
    op.touches(1, written=True)
    shape = values.vector_shape(op.operand_type(0))
    if len(shape) != 1:
        return _rectangle_store(op, shape)
    return store_step(op, op.operands[0], op.operands[1], plain(op.operands[2:]), shape[0])


def _rectangle_load(op: Operation, shape: tuple[int, ...]) -> Step:
    access, result, ref, indices = op.access("read"), op.result, op.operands[0], op.operands[1:]

    def step(m: Machine) -> None:
        window = m.values[ref]
        touch = rectangle(m, access, window, [m.values[s] for s in indices], _minor(window.rank, shape), shape, None)
        m.values[result] = memory.read(m, access, touch, window.dtype)

    return step


def _rectangle_store(op: Operation, shape: tuple[int, ...]) -> Step:
    access, value, ref, indices = op.access("write"), op.operands[0], op.operands[1], op.operands[2:]

    def step(m: Machine) -> None:
        window = m.values[ref]
        touch = rectangle(m, access, window, [m.values[s] for s in indices], _minor(window.rank, shape), shape, None)
        memory.write(m, access, touch, m.values[value])

    return step


def _minor(rank: int, shape: Sequence[int]) -> list[int | None]:
    return list(range(rank - len(shape), rank))


def rectangle(
    m: Machine,
    access: MemoryAccess,
    window: MemRef,
    indices: Sequence[Array],
    axes: Sequence[int | None],
    shape: Sequence[int],
    ok: Array | None,
) -> Touch:
    """The touch of a vector whose axis k runs along the memref's axis `axes[k]` (None: the same element again)."""
    by_warp = len(shape) > 1 and all(same_in_warp(m, index) for index in indices)
    if by_warp:
        warp = values.like_vector(leaders(m), 2 + len(shape))
        ok = warp if ok is None else ok & warp
    spread = [values.like_vector(index, 2 + len(shape)) for index in indices]
    for k, axis in enumerate(axes):
        if axis is not None:
            own = [1] * len(shape)
            own[k] = shape[k]
            spread[axis] = spread[axis] + np.arange(shape[k], dtype=np.int64).reshape(1, 1, *own)
    touch = memory.address(m, access, window, spread, ok=ok)
    touch.by_warp = by_warp
    return touch


class Transfer:
    """Common part of `transfer_read` and `transfer_write`: permutation map, bounds, mask, fast path."""

    def __init__(self, op: Operation, kind: str, vector_type: Type, ref: int, indices: Sequence[int]) -> None:
        self.access = op.access(kind)
        self.shape = values.vector_shape(vector_type)
        self.ref, self.indices = ref, tuple(indices)
        results = [e.maybe_downcast() for e in op.attribute("permutation_map").value.results]
        self.axes: list[int | None] = [getattr(e, "position", None) for e in results]
        bounds = op.attribute("in_bounds") if op.has("in_bounds") else [None] * len(self.shape)
        self.in_bounds = [str(b) == "true" for b in bounds]
        rank = len(self.indices)
        self.is_run = len(self.shape) == 1 < self.shape[0] and self.axes == [rank - 1]

    def order_mask(self, mask: Array) -> Array:
        """Transpose a mask from the memref's axis order to the vector's."""
        named = sorted(axis for axis in self.axes if axis is not None)
        transposed = mask.transpose(0, 1, *[2 + named.index(axis) for axis in self.axes if axis is not None])
        index: list[Any] = [slice(None), slice(None)]
        index += [None if axis is None else slice(None) for axis in self.axes]
        return transposed[tuple(index)]

    def inside(self, window: MemRef, indices: Sequence[Array]) -> Array | None:
        """The elements within bounds, along the axes that may exceed the memref; None if all are."""
        out: Array | None = None
        for k, (axis, sure) in enumerate(zip(self.axes, self.in_bounds, strict=True)):
            if axis is None or sure:
                continue
            own = [1] * len(self.shape)
            own[k] = self.shape[k]
            at = values.like_vector(indices[axis], 2 + len(self.shape)) + np.arange(self.shape[k]).reshape(1, 1, *own)
            size = window.sizes[axis]
            size = size if isinstance(size, int) else values.like_vector(size, at.ndim)
            here = at < size
            if not here.all():
                out = here if out is None else out & here
        return out

    def touch(self, m: Machine, mask: Array | None) -> tuple[Touch, Array | None]:
        """The touch, and which elements of the vector come from memory (None: all)."""
        window: MemRef = m.values[self.ref]
        indices = [m.values[slot] for slot in self.indices]
        present = self.inside(window, indices)
        if mask is not None:
            mask = self.order_mask(mask)
            present = mask if present is None else present & mask
        if present is None and self.is_run:
            touch = touch_run(m, self.access, window, indices, self.shape[0])
        else:
            touch = rectangle(m, self.access, window, indices, self.axes, self.shape, present)
        return touch, present


@implements("vector.transfer_read")
def transfer_read(op: Operation) -> Step:
    op.touches(0, read=True)
    (source,), indices, (padding,), masks = op.segments()
    transfer = Transfer(op, "read", op.result_type(), source, indices)
    result, shape = op.result, transfer.shape
    mask_slot = masks[0] if masks else op.mask

    def step(m: Machine) -> None:
        touch, present = transfer.touch(m, None if mask_slot is None else m.values[mask_slot])
        found = memory.read(m, transfer.access, touch, m.values[source].dtype)
        if present is not None:
            found = np.where(present, found, values.like_vector(m.values[padding], found.ndim))
        m.values[result] = np.broadcast_to(found, (*found.shape[:2], *shape))

    return step


@implements("vector.transfer_write")
def transfer_write(op: Operation) -> Step:
    op.touches(1, written=True)
    (value,), (target,), indices, masks = op.segments()
    transfer = Transfer(op, "write", op.operand_type(0), target, indices)
    mask_slot = masks[0] if masks else op.mask

    def step(m: Machine) -> None:
        touch, _ = transfer.touch(m, None if mask_slot is None else m.values[mask_slot])
        memory.write(m, transfer.access, touch, m.values[value])

    return step


Touching = Callable[[Machine, MemoryAccess, MemRef, Array], Touch]
"""The touch of the elements of a memref that a mask marks."""


def _masked_load(op: Operation, touching: Touching) -> Step:
    """Load the marked elements; the others are those of the last operand."""
    op.touches(0, read=True)
    ref, *_, mask_slot, other = op.operands
    access, result, outer = op.access("read"), op.result, op.mask

    def step(m: Machine) -> None:
        window, mask = m.values[ref], m.values[mask_slot]
        if outer is not None:
            mask = mask & m.values[outer]
        found = memory.read(m, access, touching(m, access, window, mask), window.dtype)
        m.values[result] = np.where(mask, found, m.values[other])

    return step


def _masked_store(op: Operation, touching: Touching) -> Step:
    """Store the marked elements."""
    op.touches(0, written=True)
    ref, *_, mask_slot, value = op.operands
    access = op.access("write")

    def step(m: Machine) -> None:
        touch = touching(m, access, m.values[ref], m.values[mask_slot])
        memory.write(m, access, touch, m.values[value])

    return step


def _consecutive(indices: Sequence[int], vector_type: Type) -> Touching:
    (size,) = values.vector_shape(vector_type)
    return lambda m, access, window, mask: rectangle(
        m, access, window, [m.values[s] for s in indices], [window.rank - 1], [size], mask
    )


def _scattered(base: Sequence[int], offsets: Callable[[Machine, Array], Array]) -> Touching:
    """Elements at offsets from the base along the last axis."""

    def touching(m: Machine, access: MemoryAccess, window: MemRef, mask: Array) -> Touch:
        at = offsets(m, mask)
        spread = [values.like_vector(m.values[index], at.ndim) for index in base]
        spread[-1] = spread[-1] + at.astype(np.int64)
        return memory.address(m, access, window, spread, ok=mask)

    return touching


def _packed(_: Machine, mask: Array) -> Array:
    """For each element, the number of active elements before it."""
    return np.cumsum(mask, axis=-1) - mask


@implements("vector.maskedload")
def maskedload(op: Operation) -> Step:
    return _masked_load(op, _consecutive(op.operands[1:-2], op.result_type()))


@implements("vector.maskedstore")
def maskedstore(op: Operation) -> Step:
    return _masked_store(op, _consecutive(op.operands[1:-2], op.operand_type(len(op.operands) - 1)))


@implements("vector.gather")
def gather(op: Operation) -> Step:
    *base, offsets = op.operands[1:-2]
    return _masked_load(op, _scattered(base, lambda m, _: m.values[offsets]))


@implements("vector.scatter")
def scatter(op: Operation) -> Step:
    *base, offsets = op.operands[1:-2]
    return _masked_store(op, _scattered(base, lambda m, _: m.values[offsets]))


@implements("vector.expandload")
def expandload(op: Operation) -> Step:
    return _masked_load(op, _scattered(op.operands[1:-2], _packed))


@implements("vector.compressstore")
def compressstore(op: Operation) -> Step:
    return _masked_store(op, _scattered(op.operands[1:-2], _packed))
