"""`nvgpu`: asynchronous copies that complete at their wait, ldmatrix, and the tensor core's mma.sync.

`mma_fragments` has the rows and columns of registers. Products are exact in the accumulator's type and summed there;
the hardware's order of additions is undocumented and not reproduced.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import memory, rounding, shadow, values
from lego_mlir.interp.dialects.gpu import active_by_warp, by_warp, from_warp
from lego_mlir.interp.dialects.vector import wide
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import MemRef, Touch
from lego_mlir.interp.mma_fragments import ascending, kept_columns, left_places, right_places, spread_out, sum_places
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.values import Array

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess

TILE = 8
"""Rows of an ldmatrix tile; each is 16 bytes, four 32-bit registers wide."""


@implements("nvgpu.device_async_copy")
def device_async_copy(op: Operation) -> Step:
    """Read now and write at the wait; accesses to the destination in between are faults.

    The optional operand is the number of elements to read; the rest of the destination is filled with zeros.
    """
    (target,), target_at, (source,), source_at, limit = op.segments()
    op.touches(len(target_at) + 1, read=True)
    op.touches(0, written=True)
    reading, writing = op.access("read"), op.access(shadow.ASYNC_KIND)
    count, result, again = op.integer("dstElements"), op.result, op.has("lego.again")

    def step(m: Machine) -> None:
        v = m.values
        counters = m.counters
        if again:
            m.counters = None  # the request that reads these elements is counted already
        value = _copied(m, reading, v[source], [v[s] for s in source_at], count, v[limit[0]] if limit else None)
        m.counters = counters
        touch = memory.address(m, writing, v[target], [v[s] for s in target_at], run=count)
        memory.check_alignment(m, writing, touch)
        memory.observe(m, writing, touch)
        m.issue(lambda landed: _land(m, writing, touch, value, landed))
        v[result] = None

    return step


def _copied(
    m: Machine, access: MemoryAccess, source: MemRef, at: list[Array], count: int, limit: Array | None
) -> Array:
    """The elements that a copy reads, (blocks, threads, count), or (blocks, threads) for a single one."""
    if limit is None or (limit == count).all():
        touch = memory.address(m, access, source, at, run=count)
        memory.check_alignment(m, access, touch)
        return memory.read(m, access, touch, source.dtype)
    full, some = limit >= count, (limit > 0) & (limit < count)
    wanted = full if count == 1 else np.arange(count) < limit[..., None]
    if some.any():
        spread = [values.like_vector(index, 3) for index in at]
        spread[-1] = spread[-1] + np.arange(count, dtype=np.int64)
        touch = memory.address(m, access, source, spread, ok=wanted)
    else:
        touch = memory.address(m, access, source, at, run=count, ok=full)
        memory.check_alignment(m, access, touch)
    return np.where(wanted, memory.read(m, access, touch, source.dtype), np.zeros((), source.dtype))


def _land(m: Machine, access: MemoryAccess, touch: Touch, value: Array, landed: Array | None) -> None:
    if landed is not None:
        touch = replace(touch, ok=landed if touch.ok is None else touch.ok & landed)
    memory.scatter(m, touch, value)
    if m.checks:
        shadow.land(m, access, touch)


@implements("nvgpu.device_async_create_group")
def device_async_create_group(op: Operation) -> Step:
    result = op.result

    def step(m: Machine) -> None:
        m.commit_copies()
        m.values[result] = None

    return step


@implements("nvgpu.device_async_wait")
def device_async_wait(op: Operation) -> Step:
    """Wait until at most `numGroups` of the thread's newest groups are in flight; without it, for all."""
    pending = op.integer("numGroups", 0)

    def step(m: Machine) -> None:
        m.wait_copies(pending)

    return step


@implements("nvgpu.ldmatrix")
def ldmatrix(op: Operation) -> Step:
    """Tiles of 8 rows of 16 bytes; lane i of a tile's eight lanes holds the address of row i."""
    op.touches(0, read=True)
    access, result = op.access("read"), op.result
    ref, *indices = op.operands
    tiles, transposed, place = op.integer("numTiles"), op.flag("transpose"), op.place
    shape = values.vector_shape(op.result_type())
    dtype = values.element_dtype(op.result_type())
    row = 16 // dtype.itemsize

    def step(m: Machine) -> None:
        _whole_warps(m, place, "ldmatrix")
        giving = m.linear_thread() % WARP < TILE * tiles
        touch = memory.address(m, access, m.values[ref], [m.values[s] for s in indices], run=row, ok=giving)
        memory.check_alignment(m, access, touch)
        if m.checks:
            shadow.check(m, access, touch)
        if m.counters is not None:
            m.counters.count(m, access, touch)
        rows = by_warp(m, memory.gather(m, touch, dtype))
        matrix = rows[:, :, : TILE * tiles].reshape(*rows.shape[:2], tiles, TILE, row)
        if transposed:
            matrix = matrix.swapaxes(-1, -2)
        # Lane l holds, of each tile, the elements of register column l % 4 in row l // 4.
        spread = matrix.reshape(*matrix.shape[:3], TILE, 4, row // 4).reshape(*matrix.shape[:3], WARP, row // 4)
        m.values[result] = from_warp(m, np.moveaxis(spread, 3, 2).reshape(*rows.shape[:2], WARP, *shape))

    return step


def _whole_warps(m: Machine, place: SourceLocation, what: str) -> None:
    """A warp-wide instruction needs all 32 lanes."""
    if m.mask is None and m.threads % WARP == 0:
        return
    active = active_by_warp(m)
    partial = active.any(axis=-1) & ~active.all(axis=-1)
    if partial.any() and m.checks:
        row, warp = np.unravel_index(int(np.flatnonzero(partial)[0]), partial.shape)
        lane = int(np.flatnonzero(~active[row, warp])[0])
        block, thread = m.name_lane(int(row), min(int(warp) * WARP + lane, m.threads - 1))
        m.faults.add(Kind.SHUFFLE, f"{what} needs whole warps; lane {lane} is inactive", place, block, thread)


@cache
def fragment(which: str, rows: int, columns: int, registers: int, elements: int) -> Array:
    """The positions of a fragment's entries: (lane, register, element) -> row * columns + column."""
    places = {
        "a": left_places(rows, registers, elements),
        "b": right_places(registers, elements),
        "c": sum_places(rows),
    }
    row, column = places[which]
    place = np.moveaxis(row * columns + column, 0, 1)
    if not np.array_equal(np.sort(place.reshape(-1)), np.arange(rows * columns)):
        raise AssertionError(f"fragment {which} of {rows}x{columns} in {registers} registers of {elements}")
    return np.ascontiguousarray(place.reshape(WARP, registers * elements))


@cache
def inverse(which: str, rows: int, columns: int, registers: int, elements: int) -> Array:
    """For each matrix entry, in row-major order, the position among a warp's 32 x registers x elements entries."""
    return np.argsort(fragment(which, rows, columns, registers, elements).reshape(-1))


@implements("nvgpu.mma.sync")
def mma_sync(op: Operation) -> Step:
    """C + A B of a warp's fragments."""
    return _product(op, 1)


@implements("nvgpu.mma.sp.sync")
def mma_sp_sync(op: Operation) -> Step:
    """The same, where A has two of each four neighbours along K, at the places that the metadata names."""
    return _product(op, 2)


def _product(op: Operation, sparsity: int) -> Step:
    m_, n_, k_ = op.integers("mmaShape")
    shapes = [values.vector_shape(op.operand_type(i)) for i in range(3)]
    dtype = values.element_dtype(op.result_type())
    operand = values.element_dtype(op.operand_type(0))
    as_tf32 = operand == np.float32
    total_dtype = wide(dtype) if values.is_float(dtype) else np.dtype(np.int64)
    place = op.place
    extents = ((m_, k_ // sparsity), (k_, n_), (m_, n_))
    selector = op.integer("sparsitySelector") if sparsity > 1 else 0
    where = [inverse(w, *extent, *shape) for w, extent, shape in zip("abc", extents, shapes, strict=True)]
    back = fragment("c", m_, n_, *shapes[2])
    slots, result = op.operands, op.result

    def matrix(m: Machine, i: int) -> Array:
        warps = by_warp(m, m.values[slots[i]])
        flat = warps.reshape(*warps.shape[:2], -1)
        entries = flat.take(where[i], axis=-1)
        if i < 2 and as_tf32:
            entries = rounding.tf32(entries)
        return entries.astype(total_dtype).reshape(*flat.shape[:2], *extents[i])

    def step(m: Machine) -> None:
        _whole_warps(m, place, "mma.sync")
        left = matrix(m, 0)
        if sparsity > 1:
            given = np.ascontiguousarray(by_warp(m, m.values[slots[3]]).astype(np.uint16)).view(np.uint32)[..., 0]
            columns, valid = kept_columns(given, k_, operand.itemsize, selector)
            _require_ascending(m, valid & ascending(columns), place)
            left = spread_out(left, columns, k_)
        total = left @ matrix(m, 1) + matrix(m, 2)
        if values.is_float(dtype):
            total = rounding.narrow(total, dtype)
        else:  # upstream lowers integer products to .satfinite
            total = total.clip(np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
        entries = total.reshape(*total.shape[:2], -1).take(back, axis=-1)
        m.values[result] = from_warp(m, entries.reshape(*total.shape[:2], WARP, *shapes[2]))

    return step


def _require_ascending(m: Machine, ascend: Array, place: SourceLocation) -> None:
    """Report metadata whose places do not ascend: (blocks, warps, 16, depth / 2)."""
    wrong = ~ascend & np.asarray(active_by_warp(m).any(axis=-1))[:, :, None, None]
    if wrong.any() and m.checks:
        row, warp, line, _ = np.argwhere(wrong)[0]
        block, thread = m.name_lane(int(row), int(warp) * WARP + 4 * (int(line) % 8))
        what = f"the metadata of mma.sp names two places in no ascending order, in row {line} of A"
        m.faults.add(Kind.UNDEFINED, what, place, block, thread)
