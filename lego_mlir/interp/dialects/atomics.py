"""`memref`: atomic updates, one lane after the other: block by block in the grid's order, then thread by thread.

Atomic updates race with plain accesses but not with each other.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lego_mlir.interp import extremes, memory, shadow, values
from lego_mlir.interp.dialects.memref import plain
from lego_mlir.interp.dialects.scf import run_masked
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import MemRef, Touch
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array, DType

KINDS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "addf": np.add,
    "addi": np.add,
    "assign": lambda old, new: new,
    "maximumf": extremes.maximum,
    "maxs": np.maximum,
    "maxu": np.maximum,
    "minimumf": extremes.minimum,
    "mins": np.minimum,
    "minu": np.minimum,
    "mulf": np.multiply,
    "muli": np.multiply,
    "ori": np.bitwise_or,
    "andi": np.bitwise_and,
    "maxnumf": extremes.maxnum,
    "minnumf": extremes.minnum,
    "xori": np.bitwise_xor,
}


@implements("memref.atomic_rmw")
def atomic_rmw(op: Operation) -> Step:
    op.touches(1, read=True, written=True)
    access, result = op.access(shadow.ATOMIC_KIND), op.result
    value, ref, *indices = op.operands
    kind = _kind(op)
    compute = KINDS[kind]
    is_unsigned = kind in ("maxu", "minu")
    wanted = bool(list(op.operation.results[0].uses))

    def step(m: Machine) -> None:
        window: MemRef = m.values[ref]
        touch = memory.address(m, access, window, plain(indices)(m))
        memory.observe(m, access, touch)
        m.values[result] = update(m, touch, window.dtype, m.values[value], compute, wanted, is_unsigned)

    return step


def _kind(op: Operation) -> str:
    """The kind's name, from the operation's text: the attribute's integer differs between versions of MLIR."""
    found = re.search(r"memref\.atomic_rmw (\w+)", op.operation.get_asm())
    if found is None or found[1] not in KINDS:
        op.fail(f"unsupported kind; supported: {', '.join(KINDS)}")
    return found[1]


def update(
    m: Machine,
    touch: Touch,
    dtype: DType,
    operand: Array,
    compute: Callable[[Array, Array], Array],
    wanted: bool,
    is_unsigned: bool,
) -> Array:
    """Read, combine and write back, one lane after the other; returns the old values.

    If the old values are unused, NumPy's unbuffered `at` combines the lanes that update the same element.
    """
    flat, at, chosen = _flattened(m, touch)
    memory_view = flat if is_unsigned else flat.view(dtype)
    given = np.broadcast_to(operand, at.shape)
    if is_unsigned:
        given = values.unsigned(np.ascontiguousarray(given))
    old = np.zeros(at.shape, memory_view.dtype)
    where, what = at[chosen], given[chosen]
    if not wanted and isinstance(compute, np.ufunc) and memory_view.dtype.kind in "iuf":
        compute.at(memory_view, where, what)
        return old.view(dtype)
    found = np.zeros(where.shape, memory_view.dtype)
    for i, (element, new) in enumerate(zip(where.tolist(), what, strict=True)):
        found[i] = memory_view[element]
        memory_view[element] = compute(found[i], new)
    old[chosen] = found
    return old.view(dtype)


def _flattened(m: Machine, touch: Touch) -> tuple[Array, Array, Array]:
    """The buffer's storage as one axis, each lane's index into it, and the active lanes."""
    data = touch.buffer.raw(touch.item)
    rows = touch.buffer.rows(m)
    elem = touch.elem if rows is None else touch.elem + rows * data.shape[1]
    at = np.broadcast_to(elem, np.broadcast_shapes(elem.shape, m.lanes))
    chosen = np.ones(at.shape, bool) if touch.ok is None else np.broadcast_to(touch.ok, at.shape)
    return data.reshape(-1), at, chosen


@implements("llvm.fence")
def fence(op: Operation) -> Step:
    """Orders accesses; the interpreter runs them in order."""
    return lambda m: None


@implements("memref.generic_atomic_rmw")
def generic_atomic_rmw(op: Operation) -> Step:
    """The region maps the old value to the new one; lanes that update the same element run it in turn.

    The result is the old value, as upstream's lowering has it. A region that yields the old value is an atomic load.
    """
    is_load = _is_load(op)
    op.touches(0, read=True, written=not is_load)
    access, result = op.access(shadow.ATOMIC_KIND), op.result
    ref, *indices = op.operands
    body = op.body()

    def step(m: Machine) -> None:
        window: MemRef = m.values[ref]
        touch = memory.address(m, access, window, plain(indices)(m))
        memory.observe(m, access, touch)
        if is_load:
            m.values[result] = memory.gather(m, touch, window.dtype)
            return
        flat, at, waiting = _flattened(m, touch)
        waiting = waiting.copy()
        cells = flat.view(window.dtype)
        old = np.zeros(at.shape, window.dtype)
        while waiting.any():
            turn = np.zeros(at.size, bool)
            order = np.flatnonzero(waiting)
            turn[order[np.unique(at.reshape(-1)[order], return_index=True)[1]]] = True
            turn = turn.reshape(at.shape)
            old = np.where(turn, cells[np.where(turn, at, 0)], old)
            m.values[body.arguments[0]] = old
            run_masked(m, body, turn)
            (new,) = body.results_in(m)
            cells[at[turn]] = np.broadcast_to(new, at.shape)[turn]
            waiting &= ~turn
        m.values[result] = old

    return step


def _is_load(op: Operation) -> bool:
    block = op.operation.regions[0].blocks[0]
    return bool(list(block.operations)[-1].operands[0] == block.arguments[0])
