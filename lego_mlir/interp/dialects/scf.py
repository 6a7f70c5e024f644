"""`scf`: structured control flow with divergence.

A uniform branch runs one side. A divergent branch runs both sides under masks and merges the results lane by lane. A
loop whose bounds differ between lanes runs until its last lane is done; finished lanes are masked off and keep their
values.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.errors import InterpreterError
from lego_mlir.interp import values
from lego_mlir.interp.machine import Machine, merge
from lego_mlir.interp.program import CompiledRegion, Operation, Step, implements
from lego_mlir.interp.values import Array, DType, SlotValue
from lego_mlir.transforms.passes.lower_tile_copies import TILE_COPY

if TYPE_CHECKING:
    from lego_mlir.interp.report import SourceLocation


AT_ONCE = 4096
"""Values of a loop's index that are made together."""


def assign(m: Machine, slots: tuple[int, ...], found: list[SlotValue]) -> None:
    for slot, value in zip(slots, found, strict=True):
        m.values[slot] = value


def run_masked(m: Machine, body: CompiledRegion, mask: Array) -> None:
    """Run a body for some lanes."""
    outer = m.mask
    m.mask = None if outer is None and mask.all() else mask
    try:
        body.run(m)
    finally:
        m.mask = outer


def branch(
    m: Machine, condition: Array, yes: CompiledRegion, no: CompiledRegion | None, results: tuple[int, ...]
) -> None:
    """Take one side, or both under masks."""
    if not m.any_active():
        condition = values.uniform(False, np.bool_)
    if values.is_uniform(condition):
        side = yes if bool(condition.flat[0]) else no
        if side is not None:
            side.run(m)
            assign(m, results, side.results_in(m))
        return
    taken, other = m.narrow(condition), m.narrow(~condition)
    if taken.any():
        run_masked(m, yes, taken)
    elif no is not None:
        run_masked(m, no, other)
        assign(m, results, no.results_in(m))
        return
    if no is None:
        return
    found = yes.results_in(m)
    if not other.any():
        assign(m, results, found)
        return
    run_masked(m, no, other)
    assign(m, results, [merge(condition, a, b) for a, b in zip(found, no.results_in(m), strict=True)])


@implements("scf.if")
def if_(op: Operation) -> Step:
    (condition,) = op.operands
    results = op.results
    yes, no = op.body(0), op.body(1) if op.has_region(1) else None
    number = op.compiler.branch_number(op.operation)

    def step(m: Machine) -> None:
        taken = m.values[condition]
        if number is not None and m.counters is not None:
            m.counters.count_sunk(m, (number, 0), taken)
            m.counters.count_sunk(m, (number, 1), ~taken)
        branch(m, taken, yes, no, results)

    return step


def _positions(first: int, end: int, by: int, dtype: DType) -> Iterator[Array]:
    """The values of a loop's index, each as a uniform value."""
    for start in range(first, end, by * AT_ONCE):
        yield from np.arange(start, min(end, start + by * AT_ONCE), by).astype(dtype).reshape(-1, 1, 1)


def loop(
    m: Machine,
    lower: Array,
    upper: Array,
    stride: Array,
    body: CompiledRegion,
    carried: list[SlotValue],
    place: SourceLocation,
) -> list[SlotValue]:
    """Run `body(index, *carried)` from lower to upper; returns the carried values of the last iteration."""
    loops = m.faults.loops
    loops.append((place, 0))
    try:
        return _looped(m, lower, upper, stride, body, carried)
    finally:
        loops.pop()


def _looped(
    m: Machine, lower: Array, upper: Array, stride: Array, body: CompiledRegion, carried: list[SlotValue]
) -> list[SlotValue]:
    loops = m.faults.loops
    place = loops[-1][0]
    index, *arguments = body.arguments
    if values.is_uniform(lower) and values.is_uniform(upper) and values.is_uniform(stride):
        first, end, by = int(lower.flat[0]), int(upper.flat[0]), int(stride.flat[0])
        if by <= 0:
            raise InterpreterError(f"a loop's step must be positive, got {by}")
        if not m.any_active():
            return carried
        for number, position in enumerate(_positions(first, end, by, lower.dtype)):
            loops[-1] = place, number
            m.values[index] = position
            for slot, value in zip(arguments, carried, strict=True):
                m.values[slot] = value
            body.run(m)
            carried = body.results_in(m)
        return carried
    at = lower + np.zeros_like(upper)
    number = 0
    while True:
        loops[-1] = place, number
        going = m.narrow(at < upper)
        if not going.any():
            return carried
        m.values[index] = at
        assign(m, tuple(arguments), carried)
        run_masked(m, body, going)
        carried = [merge(going, new, old) for new, old in zip(body.results_in(m), carried, strict=True)]
        at, number = at + stride, number + 1


@implements("scf.for")
def for_(op: Operation) -> Step:
    lower, upper, stride, *carried = op.operands
    results, body, place = op.results, op.body(), op.place

    def step(m: Machine) -> None:
        v = m.values
        assign(m, results, loop(m, v[lower], v[upper], v[stride], body, [v[slot] for slot in carried], place))

    return step


SPINS: Final = 10_000
"""Rounds of a loop after which it is checked that it still changes a value; threads wait for others in vain here."""


def _equal(a: SlotValue, b: SlotValue) -> bool:
    return a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and bool(np.array_equal(a, b)))


@implements("scf.while")
def while_(op: Operation) -> Step:
    start, results = op.operands, op.results
    before, after = op.body(0), op.body(1)
    condition, passed, place = before.results[0], before.results[1:], op.place

    def step(m: Machine) -> None:
        carried = [m.values[slot] for slot in start]
        found: list[Any] | None = None
        rounds, outer, going = 0, m.mask, m.mask
        if not m.any_active():
            # No lane is active, but the slots of the results need a value of the right shape.
            assign(m, before.arguments, carried)
            run_masked(m, before, values.uniform(False, np.bool_))
            assign(m, results, [m.values[slot] for slot in passed])
            return
        loops = m.faults.loops
        loops.append((place, 0))
        try:
            while True:
                loops[-1] = place, rounds
                m.mask = going
                assign(m, before.arguments, carried)
                before.run(m)
                holds = m.values[condition]
                leaving = [m.values[slot] for slot in passed]
                active = values.uniform(True, np.bool_) if going is None else going
                found = leaving if found is None else [merge(active, a, b) for a, b in zip(leaving, found, strict=True)]
                narrowed = active & holds
                if not narrowed.any():
                    break
                going = None if going is None and narrowed.all() else narrowed
                m.mask = going
                assign(m, after.arguments, leaving)
                after.run(m)
                after_body = [merge(narrowed, a, b) for a, b in zip(after.results_in(m), carried, strict=True)]
                rounds += 1
                if rounds % SPINS == 0 and all(map(_equal, after_body, carried)):
                    op.fail(f"the loop spins: in round {rounds} no thread that is still in it changes a value")
                carried = after_body
        finally:
            m.mask = outer
            loops.pop()
        assign(m, results, found)

    return step


@implements("scf.index_switch")
def index_switch(op: Operation) -> Step:
    """The first region is the default; the others follow the cases."""
    (argument,) = op.operands
    results, cases = op.results, op.integers("cases")
    default, *bodies = [op.body(i) for i in range(len(cases) + 1)]

    def step(m: Machine) -> None:
        chosen = m.values[argument]
        found: list[Any] | None = None
        rest = np.ones(chosen.shape, bool)
        arms = [*zip([chosen == case for case in cases], bodies, strict=True)]
        for condition, body in [*arms, (None, default)]:
            condition = rest if condition is None else condition
            if m.narrow(condition).any():
                run_masked(m, body, m.narrow(condition))
                new = body.results_in(m)
                found = new if found is None else [merge(condition, a, b) for a, b in zip(new, found, strict=True)]
            rest = rest & ~condition
        if found is not None:
            assign(m, results, found)

    return step


@implements("scf.execute_region")
def execute_region(op: Operation) -> Step:
    body, results, is_copy = op.body(), op.results, op.has(TILE_COPY)

    def step(m: Machine) -> None:
        with m.copies_apart() if is_copy else nullcontext():
            body.run(m)
        assign(m, results, body.results_in(m))

    return step
