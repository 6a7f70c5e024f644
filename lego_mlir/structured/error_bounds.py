"""Error bounds of each element that an LL program computes, relative to NumPy: the formula of `runtime.tolerance`.

The steps of the lowered program give the number of roundings: a product of inner size k adds k multiply-adds to its
chain, a triangular solve or a factorisation of size n adds 3n operations. The reference gives the sensitivity: it is
rerun with random relative perturbations of each operand use and intermediate result, which exposes cancellation,
ill-conditioned triangles and growth inside a factorisation:

>>> from lego_mlir.structured.language import parse
>>> program = parse("A = Matrix(2, 2); B = Matrix(2, 2); C = Matrix(2, 2); A = B*C + 0.5*B;")
>>> rounded = roundings(program, "f64")["A"]
>>> rounded.before, rounded.last                                 # f16, bf16, f32, f64, f8; the reference rounds as well
((0, 0, 0, 7, 0, 0), (0, 0, 0, 1, 0, 0))
"""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError
from lego_mlir.runtime.tolerance import bound_of
from lego_mlir.structured import reference
from lego_mlir.structured.lower import Factorise, Solve, Step, Term, Update, buffer_name, lower
from lego_mlir.structured.syntax import Binary, Call, Expression, Negated, Number, Program, Transpose, operands_of
from lego_mlir.tracing.checks.roundings import UNIT, Roundings

PROBES: Final = 16
CHANGE: Final = {"f32": 2.0**-20, "f64": 2.0**-36}  # relative: above the rounding of the reference, and small
STEPS_PER_ROW: Final = 3  # of a solve or a factorisation: multiply-add, reciprocal or root, multiplication


def roundings(program: Program, element: str) -> dict[str, Roundings]:
    """For each written operand the longest chain of roundings, by rounding type."""
    chains: dict[str, int] = {}
    for step in lower(program).steps:
        chains[step.target.name] = _chain(step, chains, element)
    folded = _constants(program)
    return {name: _counted(chains.get(buffer_name(name), 0) + folded[name], element) for name in program.written}


def _constants(program: Program) -> dict[str, int]:
    """The number of inexact constants that reach each operand: lowering folds them, the reference may not.

    Powers of two are exact.
    """
    counts: dict[str, int] = {}
    for statement in program.statements:
        used = max((counts.get(operand.name, 0) for operand in operands_of(statement.value)), default=0)
        counts[statement.target.name] = used + _inexact(statement.value)
    return counts


def _inexact(expression: Expression) -> int:
    match expression:
        case Number(value):
            return int(abs(frexp(value)[0]) not in (0.0, 0.5))
        case Negated(argument) | Transpose(argument) | Call(_, argument):
            return _inexact(argument)
        case Binary(_, left, right):
            return _inexact(left) + _inexact(right)
    return 0


def _chain(step: Step, chains: Mapping[str, int], element: str) -> int:
    match step:
        case Update(_, terms):
            used = [leaf.name for t in terms for leaf in (*t.scalars, *(factor.leaf for factor in t.factors))]
            before = max((chains.get(name, 0) for name in used), default=0)
            return before + sum(_operations(term, element) for term in terms) + max(len(terms) - 1, 0)
        case Solve(target, triangle):
            before = max(chains.get(target.name, 0), chains.get(triangle.leaf.name, 0))
            return before + STEPS_PER_ROW * target.structure.rows
        case Factorise(target):
            return chains.get(target.name, 0) + STEPS_PER_ROW * target.structure.rows


def _operations(term: Term, element: str) -> int:
    """The roundings of one term: its sum, its scaling, and its constant if the type cannot represent it."""
    scaling = len(term.scalars) + (abs(term.number) != 1)
    constant = int(element == "f32" and float(np.float32(term.number)) != term.number)
    if len(term.factors) == 1:
        return scaling + constant
    first = term.factors[0]
    return scaling + constant + (first.leaf.structure.rows if first.transposed else first.leaf.structure.columns)


def _counted(chain: int, element: str) -> Roundings:
    """Equally many roundings in the kernel (its type) and the reference (f64); the kernel's last one is separate."""
    if not chain:
        return Roundings()
    before = {element: chain - 1}
    before["f64"] = before.get("f64", 0) + (chain if chain > 1 or element == "f32" else 0)
    return Roundings(tuple(before.get(name, 0) for name in UNIT), tuple(int(name == element) for name in UNIT))


def allowed(program: Program, arrays: Mapping[str, Array], element: str) -> dict[str, tuple[Array, Array]]:
    """For each written operand the expected matrix and the largest admissible error of each element.

    Raises UsageError where NumPy cannot compute the program on these arrays.
    """
    try:
        with np.errstate(all="ignore"):
            expected = reference.evaluate(program, arrays)
            moved = _sensitivity(program, arrays, expected, CHANGE[element])
    except np.linalg.LinAlgError as error:
        raise UsageError(f"NumPy cannot compute {program} on this random input: {error}; try another --seed") from error
    with np.errstate(all="ignore"):  # a constant may be beyond the largest float
        chains = roundings(program, element)
    bounds = {}
    for name, chain in chains.items():
        size = np.where(np.isfinite(expected[name]), expected[name], 0.0)
        bounds[name] = np.zeros(size.shape) if chain.exact else bound_of(chain, size, moved[name])
    return {name: (expected[name], bounds[name]) for name in chains}


def _sensitivity(
    program: Program, arrays: Mapping[str, Array], expected: Mapping[str, Array], relative: float
) -> dict[str, Array]:
    """Root-mean-square change of each element per unit of relative perturbation."""
    random = np.random.default_rng(1)

    def change(value: Array, size: Array) -> Array:
        changed: Array = value + relative * size * random.standard_normal(value.shape)
        return changed

    squares = {name: np.zeros(expected[name].shape) for name in program.written}
    for _ in range(PROBES):
        probed = reference.evaluate(program, arrays, change)
        for name, square in squares.items():
            moved = (probed[name] - expected[name]) / relative
            square += np.where(np.isfinite(moved), moved, 0.0) ** 2
    return {name: np.sqrt(square / PROBES) for name, square in squares.items()}
