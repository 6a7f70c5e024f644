"""Sums as factors: `(L0 + L1) * S` without a temporary for L0 + L1.

A step that only adds matrices into a temporary, which one product then reads, is left out: the product reads the parts,
and adds an element of each where it is multiplied. Each column panel of the result adds them again, so that this is
done for results of one panel, whose sums are added once, as with the temporary, and never stored. A sum without
structural zeros, or of one vector a row, is added by few whole vectors, and its temporary is as fast or faster; in
rolled code by up to 3 times (tiles of 4 x 3 vectors, n = 12).

>>> from lego_mlir.structured.lower import lower
>>> from lego_mlir.structured.language import parse
>>> program = parse('''A = Matrix(6, 6); L0 = LowerTriangular(6); L1 = LowerTriangular(6); S = Symmetric(L, 6);
...     A = (L0 + L1) * S;''')
>>> steps = lower(program).steps
>>> [str(step) for step in steps]
['t0 = L0 + L1', 'A = t0 * S']
>>> {name: [(number, str(factor)) for number, factor in parts] for name, parts in fused_sums(steps, 4, 8).items()}
{'t0': [(1.0, 'L0'), (1.0, 'L1')]}
>>> fused_sums(steps, 4, 4)
{}

LGen, section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lego_mlir.structured.lower import Factor, Leaf, Solve, Step, Term, Update
from lego_mlir.structured.structures import ZERO

Parts: TypeAlias = tuple[tuple[float, Factor], ...]
"""Factors with the numbers 1 or -1, added up; the first number is 1."""


def fused_sums(steps: Sequence[Step], width: int, panel: int) -> dict[str, Parts]:
    """The temporaries that products read as their parts, by name, for `width` and `panel` columns at a time."""
    uses = Counter(leaf.name for step in steps for leaf in _read(step))
    found: dict[str, Parts] = {}
    for at, step in enumerate(steps):
        parts = _parts(step, width)
        if parts is None or uses[step.target.name] != 1:
            continue
        user = next(n for n, other in enumerate(steps) if step.target.name in {leaf.name for leaf in _read(other)})
        written = {other.target.name for other in steps[at + 1 : user + 1]}
        if written.isdisjoint(factor.leaf.name for _, factor in parts) and _takes(
            steps[user], step.target, panel, found
        ):
            found[step.target.name] = parts
    return found


def _parts(step: Step, width: int) -> Parts | None:
    """The parts of a temporary that is a plain sum of several matrices, with zeros and rows of several vectors."""
    if not isinstance(step, Update) or not step.target.temporary or len(step.terms) < 2:
        return None
    kinds = step.target.structure.kinds
    if min(kinds.shape) <= width or not (kinds == ZERO).any():
        return None
    if any(len(t.factors) != 1 or t.scalars or abs(t.number) != 1 for t in step.terms):
        return None
    parts = sorted(((term.number, term.factors[0]) for term in step.terms), key=lambda part: -part[0])
    return tuple(parts) if parts[0][0] == 1 else None


def _takes(step: Step, summed: Leaf, panel: int, found: Mapping[str, Parts]) -> bool:
    """Whether a step multiplies by the sum from the left of a result of one panel, or from the right of a transposed.

    The sums of one step are on one side, since its result is written along rows or along columns.
    """
    if not isinstance(step, Update) or any(leaf.name == summed.name for t in step.terms for leaf in t.scalars):
        return False
    shape = step.target.structure
    sides = {side for term in step.terms for side in range(2) if _is_sum(term, side, {summed.name, *found})}
    if len(sides) != 1 or min(shape.rows, shape.columns) == 1:
        return False
    (side,) = sides
    return (shape.columns if side == 0 else shape.rows) <= panel and not (side == 1 and step.target.temporary)


def _is_sum(term: Term, side: int, names: set[str]) -> bool:
    return len(term.factors) == 2 and term.factors[side].leaf.name in names


def _read(step: Step) -> list[Leaf]:
    """The leaves that a step reads, once for each use."""
    if isinstance(step, Update):
        return [leaf for t in step.terms for leaf in (*t.scalars, *(factor.leaf for factor in t.factors))]
    return [step.target, step.triangle.leaf] if isinstance(step, Solve) else [step.target]
