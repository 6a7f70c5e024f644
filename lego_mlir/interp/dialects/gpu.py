"""`gpu`: thread and block ids, barriers, shuffles and reductions within a warp, and what threads print.

Threads are numbered x fastest, and 32 consecutive threads form a warp, as on the hardware. They print statement by
statement, block by block, thread by thread.
"""
# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lego_mlir.errors import InterpreterError
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import extremes, memory, values
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import CompiledRegion, Operation, Step, implements
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.values import Array
from lego_mlir.interp.warp_shuffles import clamp_of, shuffle_source

AXES = {"x": 0, "y": 1, "z": 2}
WIDTHS = tuple(1 << k for k in range(WARP.bit_length()))
"""Lanes of the groups within which a shuffle exchanges."""


def identity(name: str, find: Callable[[Machine, int], Array]) -> None:
    """Define an operation that gives an id or extent along its dimension."""

    @implements(name)
    def build(op: Operation) -> Step:
        axis, result = AXES[op.keyword("dimension")], op.result

        def step(m: Machine) -> None:
            m.values[result] = find(m, axis)

        return step


identity("gpu.thread_id", lambda m, axis: m.thread_id(axis))
identity("gpu.block_id", lambda m, axis: m.block_id(axis))
identity("gpu.block_dim", lambda m, axis: values.uniform(m.block[axis]))
identity("gpu.grid_dim", lambda m, axis: values.uniform(m.grid[axis]))
identity("gpu.global_id", lambda m, axis: m.block_id(axis) * m.block[axis] + m.thread_id(axis))


@implements("gpu.lane_id")
def lane_id(op: Operation) -> Step:
    result = op.result

    def step(m: Machine) -> None:
        m.values[result] = m.linear_thread() % WARP

    return step


@implements("gpu.subgroup_id")
def subgroup_id(op: Operation) -> Step:
    result = op.result

    def step(m: Machine) -> None:
        m.values[result] = m.linear_thread() // WARP

    return step


@implements("gpu.num_subgroups")
def num_subgroups(op: Operation) -> Step:
    result = op.result

    def step(m: Machine) -> None:
        m.values[result] = values.uniform(m.warps)

    return step


@implements("gpu.subgroup_size")
def subgroup_size(op: Operation) -> Step:
    return op.constant(values.uniform(WARP))


@implements("gpu.barrier")
def barrier(op: Operation) -> Step:
    """A barrier of the block. It orders all memory unless `address_spaces` names the memory to order."""
    if op.has("scope") and op.keyword("scope") != "workgroup":
        op.fail(f"barriers of scope {op.keyword('scope')} are not supported; only barriers of the whole block are")
    if op.operands:
        op.fail("named barriers are not supported; only barriers of the whole block are")
    place = op.place
    fenced: tuple[bool, ...] = (False, True)
    if op.has("address_spaces"):
        named = str(op.attribute("address_spaces"))
        fenced = tuple(across for across, space in ((False, "workgroup"), (True, "global")) if space in named)

    def step(m: Machine) -> None:
        m.passed_barrier(place, fenced)

    return step


@implements("gpu.dynamic_shared_memory")
def dynamic_shared_memory(op: Operation) -> Step:
    result, compiler = op.result, op.compiler

    def step(m: Machine) -> None:
        if m.dynamic_shared is None:
            size = m.dynamic_shared_bytes
            if size < compiler.dynamic_bytes:
                raise InterpreterError(
                    f"{op.place}: the kernel views {compiler.dynamic_bytes} bytes of dynamic shared memory, "
                    f"the launch gives {size}; pass dynamic_shared={compiler.dynamic_bytes} or more"
                )
            byte = np.dtype(np.int8)
            ref = memory.allocate(m, memory.Space.SHARED, byte, [size], "dynamic shared memory", compiler.granule)
            m.dynamic_shared = ref.buffer
        size = m.dynamic_shared.bytes
        m.values[result] = memory.MemRef(m.dynamic_shared, np.dtype(np.int8), 0, (size,), (1,))

    return step


def by_warp(m: Machine, value: Array) -> Array:
    """A per-lane value as `(blocks, warps, 32, *vector)`; a partial last warp is padded with zeros."""
    full = np.broadcast_to(value, (value.shape[0], m.threads, *value.shape[2:]))
    short = m.warps * WARP - m.threads
    if short:
        full = np.concatenate([full, np.zeros((full.shape[0], short, *full.shape[2:]), full.dtype)], axis=1)
    return full.reshape(full.shape[0], m.warps, WARP, *full.shape[2:])


def from_warp(m: Machine, value: Array) -> Array:
    return value.reshape(value.shape[0], m.warps * WARP, *value.shape[3:])[:, : m.threads]


def active_by_warp(m: Machine) -> Array:
    return by_warp(m, values.uniform(True, np.bool_) if m.mask is None else m.mask)


def lanes_and_active(m: Machine, value: Array) -> tuple[Array, Array]:
    """A value by (block, warp, lane) and the active lanes, for the blocks in which either of them differs."""
    source, active = by_warp(m, value), active_by_warp(m)
    blocks = max(source.shape[0], active.shape[0])
    source = np.broadcast_to(source, (blocks, *source.shape[1:]))
    return source, np.broadcast_to(active, source.shape[:3])


def require_whole_warps(m: Machine, what: str, place: SourceLocation) -> None:
    """Report warps of which only some lanes are active; a collective operation of a warp needs all of them."""
    if m.mask is None:
        return
    active = active_by_warp(m)
    there = by_warp(m, np.ones((1, m.threads), bool))
    partial = active.any(axis=2) & (there & ~active).any(axis=2)
    if partial.any():
        row, warp = np.unravel_index(int(np.flatnonzero(partial)[0]), partial.shape)
        lanes, some = int(there[0, warp].sum()), int(active[row, warp].sum())
        block, thread = m.name_lane(int(row), int(warp * WARP + np.flatnonzero(active[row, warp])[0]))
        text = f"{some} of the {lanes} lanes of a warp reach this {what}; all must, or it is undefined"
        m.faults.add(Kind.SHUFFLE, text, place, block, thread, count=int(partial.sum()))


SHUFFLE_MODES = ("xor", "down", "up", "idx")
"""In the order of their numbers in MLIR."""


@implements("gpu.shuffle")
def shuffle(op: Operation) -> Step:
    """Each lane reads another lane's value; a read from an inactive lane is undefined, so it is a fault."""
    value, offset, width = op.operands
    result, valid = op.results
    mode, place = _shuffle_mode(op), op.place

    def step(m: Machine) -> None:
        source, active = lanes_and_active(m, m.values[value])
        distance, span = by_warp(m, m.values[offset]), by_warp(m, m.values[width])
        wrong = ~np.isin(span, WIDTHS)
        if (wrong & active).any():
            some = int(np.broadcast_to(span, np.broadcast_shapes(span.shape, active.shape))[wrong & active][0])
            op.fail(f"groups of {some} lanes; they have 1, 2, 4, 8, 16 or {WARP}")
        width_of = np.where(wrong, WARP, span).astype(np.int64)  # lanes past the block's end have no width
        partner, inside = shuffle_source(mode, np.asarray(distance, np.int64), clamp_of(mode, width_of))
        shape = np.broadcast_shapes(partner.shape, active.shape)
        partner = np.broadcast_to(partner, shape).astype(np.int64)
        active = np.broadcast_to(active, shape)
        absent = active & ~np.take_along_axis(active, partner, axis=2)
        if not absent.any():
            require_whole_warps(m, f"shuffle {mode}", place)
        else:
            row, warp, at = np.unravel_index(int(np.flatnonzero(absent)[0]), absent.shape)
            block, thread = m.name_lane(int(row), min(int(warp * WARP + at), m.threads - 1))
            text = f"shuffle {mode} reads lane {int(partner[row, warp, at])} of its warp, which is inactive"
            m.faults.add(Kind.SHUFFLE, text, place, block, thread, count=int(absent.sum()))
        source = np.broadcast_to(source, (*shape, *source.shape[3:]))
        index = values.like_vector(partner, source.ndim)
        m.values[result] = from_warp(m, np.take_along_axis(source, index, axis=2))
        m.values[valid] = from_warp(m, np.broadcast_to(inside, shape))

    return step


@implements("gpu.rotate")
def rotate(op: Operation) -> Step:
    """Each lane reads the lane at distance `offset`, modulo its group of `width` lanes."""
    (value,) = op.operands
    result, valid = op.results
    offset, width = op.integer("offset"), op.integer("width")

    def step(m: Machine) -> None:
        source = by_warp(m, m.values[value])
        lane = np.arange(WARP)
        partner = lane // width * width + (lane % width + offset) % width
        m.values[result] = from_warp(m, source[:, :, partner])
        m.values[valid] = values.uniform(True, np.bool_)

    return step


def _shuffle_mode(op: Operation) -> str:
    text = str(op.attribute("mode"))
    return SHUFFLE_MODES[int(text.split(":")[0])] if text[0].isdigit() else op.keyword("mode")


REDUCTIONS: dict[str, tuple[Callable[..., Any], bool]] = {
    "add": (np.add, False),
    "mul": (np.multiply, False),
    "minui": (np.minimum, True),
    "minsi": (np.minimum, False),
    "minnumf": (extremes.minnum, False),
    "maxui": (np.maximum, True),
    "maxsi": (np.maximum, False),
    "maxnumf": (extremes.maxnum, False),
    "and": (np.bitwise_and, False),
    "or": (np.bitwise_or, False),
    "xor": (np.bitwise_xor, False),
    "minimumf": (extremes.minimum, False),
    "maximumf": (extremes.maximum, False),
}


def reduced(kind: str, value: Array, active: Array, axis: int) -> Array:
    """The reduction along `axis` of the active entries; the axis is kept with length 1."""
    compute, is_unsigned = REDUCTIONS[kind]
    dtype = value.dtype
    if is_unsigned:
        value = values.unsigned(np.ascontiguousarray(value))
    order = np.moveaxis(value, axis, 0)
    mask = np.moveaxis(np.broadcast_to(values.like_vector(active, value.ndim), value.shape), axis, 0)
    total, started = order[0], mask[0]
    for entry, here in zip(order[1:], mask[1:], strict=True):
        both = started & here
        total = np.where(both, compute(total, entry), np.where(here, entry, total)).astype(value.dtype)
        started = started | here
    return np.expand_dims(total, axis).view(dtype)


@implements("gpu.subgroup_reduce")
def subgroup_reduce(op: Operation) -> Step:
    """Reduce over the active lanes of a warp, or of each cluster of lanes in it."""
    (value,) = op.operands
    result, kind = op.result, op.keyword("op")
    size, stride = op.integer("cluster_size", WARP), op.integer("cluster_stride", 1)

    def step(m: Machine) -> None:
        source, active = lanes_and_active(m, m.values[value])
        groups = WARP // (size * stride)
        split = (*source.shape[:2], groups, size, stride)
        parts = source.reshape(*split, *source.shape[3:])
        total = np.broadcast_to(reduced(kind, parts, active.reshape(split), 3), parts.shape)
        m.values[result] = from_warp(m, total.reshape(source.shape))

    return step


@implements("gpu.all_reduce")
def all_reduce(op: Operation) -> Step:
    """Reduce over all threads of a block, which must all be active. It does not order other accesses."""
    (value,) = op.operands
    result, place = op.result, op.place
    if op.has_region(0):
        return _reduced_by(op, op.body(), value)
    kind = op.keyword("op")

    def step(m: Machine) -> None:
        m.passed_barrier(place, ())
        source, active = m.values[value], values.uniform(True, np.bool_) if m.mask is None else m.mask
        source = np.broadcast_to(source, (max(source.shape[0], active.shape[0]), m.threads, *source.shape[2:]))
        active = np.broadcast_to(active, source.shape[:2])
        m.values[result] = reduced(kind, source, active, 1)

    return step


def _reduced_by(op: Operation, body: CompiledRegion, value: int) -> Step:
    """Reduce over a block by a region of two arguments: halves of the threads in each round, in no specified order."""
    result, place = op.result, op.place
    left, right = body.arguments

    def step(m: Machine) -> None:
        m.passed_barrier(place, ())
        source, outer = m.values[value], m.mask
        rest = np.broadcast_to(source, (source.shape[0], m.threads, *source.shape[2:]))
        m.mask = None
        try:
            while rest.shape[1] > 1:
                half = rest.shape[1] // 2
                m.values[left], m.values[right] = rest[:, :half], rest[:, half : 2 * half]
                body.run(m)
                (combined,) = body.results_in(m)
                rest = np.concatenate([combined, rest[:, 2 * half :]], axis=1)
        finally:
            m.mask = outer
        m.values[result] = rest

    return step


_CONVERSION: Final = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z)?([A-Za-z%])")
_PATTERNS: Final = "uxXo"  # conversions of the bits of an integer


@implements("gpu.printf")
def printf(op: Operation) -> Step:
    """Format the operands of every active lane as C does."""
    text, operands = str(op.attribute("format").value), op.operands
    kinds = [kind for _, kind in _CONVERSION.findall(text) if kind != "%"]
    if len(kinds) != len(operands) or set(kinds) - set("diuxXofFeEgGc"):
        op.fail(f"the text {text!r} does not fit {len(operands)} operands")
    shown = _CONVERSION.sub(lambda m: f"%{m[1]}{'d' if m[2] == 'u' else m[2]}", text)

    def step(m: Machine) -> None:
        lanes = m.lanes
        given = [
            _as_c(np.broadcast_to(m.values[slot], lanes), kind) for slot, kind in zip(operands, kinds, strict=True)
        ]
        active = np.ones(lanes, bool) if m.mask is None else np.broadcast_to(m.mask, lanes)
        for lane in zip(*active.nonzero(), strict=True):
            if not m.printed.add(shown % tuple(value[lane].item() for value in given)):
                break

    return step


def _as_c(value: values.Array, kind: str) -> values.Array:
    if kind in _PATTERNS and value.dtype.kind == "i":
        return values.unsigned(np.ascontiguousarray(value))
    return value.astype(np.float64) if values.is_float(value.dtype) else value
