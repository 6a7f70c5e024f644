"""`affine`: maps become closures over index arrays; loops and branches reuse those of `scf`, with maps as bounds."""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import Attribute
from lego_mlir.interp import memory, values
from lego_mlir.interp.dialects.memref import load_step, store_step
from lego_mlir.interp.dialects.scf import assign, branch, loop
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array
from lego_mlir.printers.affine import affine_function

Compute = Callable[[Sequence[Array]], Array]


def map_results(map_: Attribute) -> list[Compute]:
    return [affine_function(result, map_.n_dims, values.uniform) for result in map_.results]


def affine_map(attribute: Attribute) -> Attribute:
    return attribute.value if hasattr(attribute, "value") else attribute


@implements("affine.apply")
def apply(op: Operation) -> Step:
    (compute,) = map_results(affine_map(op.attribute("map")))
    result, operands = op.result, op.operands

    def step(m: Machine) -> None:
        v = m.values
        v[result] = compute([v[slot] for slot in operands])

    return step


@implements("affine.min", "affine.max")
def extreme(op: Operation) -> Step:
    computes = map_results(affine_map(op.attribute("map")))
    pick = np.minimum if op.name == "affine.min" else np.maximum
    return op.elementwise(lambda *inputs: reduce(pick, [compute(inputs) for compute in computes]))


@implements("affine.load")
def load(op: Operation) -> Step:
    op.touches(0, read=True)
    return load_step(op, op.operands[0], _indices(op, op.operands[1:]))


@implements("affine.store")
def store(op: Operation) -> Step:
    op.touches(1, written=True)
    return store_step(op, op.operands[0], op.operands[1], _indices(op, op.operands[2:]))


@implements("affine.vector_load")
def vector_load(op: Operation) -> Step:
    op.touches(0, read=True)
    return load_step(op, op.operands[0], _indices(op, op.operands[1:]), values.vector_shape(op.result_type())[-1])


@implements("affine.vector_store")
def vector_store(op: Operation) -> Step:
    op.touches(1, written=True)
    run = values.vector_shape(op.operand_type(0))[-1]
    return store_step(op, op.operands[0], op.operands[1], _indices(op, op.operands[2:]), run)


def _indices(op: Operation, slots: Sequence[int]) -> Callable[[Machine], list[Array]]:
    computes = map_results(affine_map(op.attribute("map")))

    def indices(m: Machine) -> list[Array]:
        inputs = [m.values[slot] for slot in slots]
        return [compute(inputs) for compute in computes]

    return indices


@implements("affine.for")
def for_(op: Operation) -> Step:
    lower_map, upper_map = affine_map(op.attribute("lowerBoundMap")), affine_map(op.attribute("upperBoundMap"))
    lowers, uppers = map_results(lower_map), map_results(upper_map)
    lower_in, upper_in, carried = op.segments()
    stride = values.uniform(op.integer("step"))
    results, body, place = op.results, op.body(), op.place

    def step(m: Machine) -> None:
        v = m.values
        low = reduce(np.maximum, [compute([v[slot] for slot in lower_in]) for compute in lowers])
        high = reduce(np.minimum, [compute([v[slot] for slot in upper_in]) for compute in uppers])
        assign(m, results, loop(m, low, high, stride, body, [v[slot] for slot in carried], place))

    return step


def integer_set(attribute: Attribute) -> Compute:
    """The condition of an `affine.if`, parsed from the attribute's text: the bindings do not expose its parts."""
    ir = bindings.load().ir
    found = re.fullmatch(r"affine_set<(\([^)]*\)(?:\[[^\]]*\])?) : \((.*)\)>", str(attribute))
    if found is None:
        raise AssertionError(f"unexpected spelling of an integer set: {attribute}")
    space, constraints = found[1], found[2]
    tests: list[tuple[Compute, bool]] = []
    for constraint in filter(None, re.split(r",\s*(?![^(]*\))", constraints)):
        left, relation, _ = re.split(r"\s*(>=|==)\s*", constraint)
        map_ = ir.Attribute.parse(f"affine_map<{space} -> ({left})>", attribute.context).value
        tests.append((map_results(map_)[0], relation == "=="))

    def holds(inputs: Sequence[Array]) -> Array:
        out = values.uniform(True, np.bool_)
        for compute, is_equality in tests:
            value = compute(inputs)
            out = out & ((value == 0) if is_equality else (value >= 0))
        return out

    return holds


@implements("affine.if")
def if_(op: Operation) -> Step:
    holds = integer_set(op.attribute("condition"))
    operands, results = op.operands, op.results
    yes, no = op.body(0), op.body(1) if op.has_region(1) else None

    def step(m: Machine) -> None:
        branch(m, holds([m.values[slot] for slot in operands]), yes, no, results)

    return step


@implements("affine.delinearize_index")
def delinearize(op: Operation) -> Step:
    """The digits of an index in a mixed-radix basis; without an outer bound the first digit is unlimited."""
    linear, *dynamic = op.operands
    static, results = op.integers("static_basis"), op.results

    def step(m: Machine) -> None:
        basis = list(mixed(m, static, dynamic))
        rest = m.values[linear]
        digits: list[Array] = []
        while len(digits) < len(results) - 1:
            size = basis.pop()
            digits.append(rest % size)
            rest = rest // size
        assign(m, results, [rest, *reversed(digits)])

    return step


@implements("affine.linearize_index")
def linearize(op: Operation) -> Step:
    indices, dynamic = op.segments()
    static, result = op.integers("static_basis"), op.result

    def step(m: Machine) -> None:
        basis = list(mixed(m, static, dynamic))
        basis = basis[len(basis) - len(indices) + 1 :]
        total = m.values[indices[0]]
        for slot, size in zip(indices[1:], basis, strict=True):
            total = total * size + m.values[slot]
        m.values[result] = total

    return step


def mixed(m: Machine, static: Sequence[int], dynamic: Sequence[int]) -> list[int | Array]:
    """Static numbers, with dynamic ones in place of MLIR's marker."""
    pending = list(dynamic)
    return [m.values[pending.pop(0)] if n == DYNAMIC else n for n in static]


DYNAMIC = memory.DYNAMIC
