"""Unrolled copies of an access as one access with a further variable, the number of the copy.

    tile[ty, tx], tile[ty + 8, tx], tile[ty + 16, tx], ..          tile[ty + 8*copy, tx] for copy in 0 .. 3

Copies come from one source line and differ in integers alone, which count up evenly. Those of nested loops count up in
several variables, one for each level. Proofs then need a few accesses instead of hundreds of pairs of them, and see
that the copies together cover an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.nodes import Table
from lego_mlir.expr.piecewise import is_condition
from lego_mlir.expr.ranges import Range

if TYPE_CHECKING:
    from lego_mlir.proofs.footprints import Footprint

Fresh = Callable[[str, Range], Symbol]


def rerolled(accesses: Sequence[Footprint], ranges: Mapping[Symbol, Range], fresh: Fresh) -> Iterator[Footprint]:
    """The accesses, with copies of one line merged where their numbers count up evenly."""
    groups: dict[Any, list[Footprint]] = {}
    for access in accesses:
        own = tuple(ranges[symbol] for symbol in access.own)  # each copy has variables of its own, of equal ranges
        key = (access.buffer.name, access.kind, access.source, own, len(access.conditions), access.by_warp)
        groups.setdefault(key, []).append(access)
    for group in groups.values():
        yield from _merged(group, fresh) if len(group) > 1 else group


def _merged(group: list[Footprint], fresh: Fresh) -> Iterator[Footprint]:
    first = group[0]
    aligned = [_as_sums(_aligned(access, first)) for access in group]
    first = aligned[0]
    distinct = list({(a.index, a.conditions): a for a in aligned}.values())
    order = min(a.order[0] for a in group), max(a.order[1] for a in group)
    if len(distinct) == 1:
        yield replace(first, order=order, repeated=True, copies=tuple(group))
        return
    levels = _levels(distinct)
    if levels is None:
        alike = list(_alike(group, aligned))
        for part in alike:
            yield from _merged(part, fresh) if 1 < len(part) < len(group) else part
        return
    copies = [fresh("copy", Range(0, count)) for count, _ in levels]
    steps = zip(*(steps for _, steps in levels), strict=True)  # of each part, its step at each level
    parts = [_moved(part, list(zip(of, copies, strict=True))) for part, of in zip(_parts(first), steps, strict=True)]
    n = len(first.index)
    yield replace(
        first,
        index=tuple(parts[:n]),
        position=None,
        conditions=tuple(parts[n:]),
        own=(*first.own, *copies),
        order=order,
        copies=tuple(group),
        repeated=first.repeated or len(distinct) < len(group),
    )


def _alike(group: list[Footprint], aligned: list[Footprint]) -> Iterator[list[Footprint]]:
    """The copies that differ in summands alone: of `a ^ 16` and `a ^ 32` at each of four rows, the rows."""
    found: dict[Any, list[Footprint]] = {}
    for access, same in zip(group, aligned, strict=True):
        found.setdefault(tuple(map(_without_summands, _parts(same))), []).append(access)
    yield from found.values()


def _without_summands(expr: Expr) -> Expr:
    if not expr.args or (isinstance(expr, Table) and expr.entries):
        return expr
    args = [_without_summands(arg) for arg in expr.args if not (expr.is_Add and arg.is_Integer)]
    return expr.func(*args)


def _aligned(access: Footprint, first: Footprint) -> Footprint:
    """An access with the variables of the first copy in place of its own."""
    names = {mine: other for mine, other in zip(access.own, first.own, strict=True) if mine is not other}
    if not names:
        return access
    return replace(
        access,
        index=tuple(i.xreplace(names) for i in access.index),
        position=None if access.position is None else access.position.xreplace(names),
        conditions=tuple(c.xreplace(names) for c in access.conditions),
        own=first.own,
    )


def _as_sums(access: Footprint) -> Footprint:
    """An access with its conditions multiplied out: 128*(n - 1) < S and 128*n - 120 < S differ in an integer."""
    return replace(access, conditions=tuple(map(_multiplied, access.conditions)))


def _multiplied(part: Expr) -> Expr:
    if not is_condition(part):
        terms = sympy.Add.make_args(part)
        return part if all(map(_is_product, terms)) else sympy.Add(*(term.expand(deep=False) for term in terms))
    if not part.args:
        return part
    return part.func(*map(_multiplied, part.args))


def _is_product(term: Expr) -> bool:
    return not (term.is_Mul and any(factor.is_Add for factor in term.args))


def _parts(access: Footprint) -> tuple[Any, ...]:
    return (*access.index, *access.conditions)


Steps = tuple[Any, ...]
"""For each part of an access, how it changes from one copy to the next: see `_step`."""


def _levels(copies: list[Footprint]) -> list[tuple[int, Steps]] | None:
    """The counts and steps of the loops that were unrolled, innermost first; None if the copies do not count evenly."""
    levels = []
    parts = [_parts(copy) for copy in copies]
    while len(parts) > 1:
        steps = _steps(parts[0], parts[1])
        if steps is None:
            return None
        count = 2
        while count < len(parts) and _reaches(parts[0], steps, count, parts[count]):
            count += 1
        if len(parts) % count:
            return None
        for first in range(0, len(parts), count):
            if not all(_reaches(parts[first], steps, k, parts[first + k]) for k in range(1, count)):
                return None
        levels.append((count, steps))
        parts = parts[::count]
    return levels


def _steps(first: Sequence[Expr], second: Sequence[Expr]) -> Steps | None:
    found = tuple(_step(a, b) for a, b in zip(first, second, strict=True))
    return None if None in found else found


def _step(a: Expr, b: Expr) -> Any:
    """How b differs from a: an int that is added, or the steps of the operands of an operation; None otherwise."""
    if a == b:
        return 0
    if is_condition(a) != is_condition(b):
        return None
    if not is_condition(a):
        difference = b - a
        if difference.is_Integer:
            return int(difference)
    if type(a) is not type(b) or len(a.args) != len(b.args) or not a.args or (isinstance(a, Table) and a.entries):
        return None
    if a.is_Add or a.is_Mul or isinstance(a, (sympy.And, sympy.Or)):  # the order of operands may differ
        return _step_of_unordered(a, b)
    steps = tuple(_step(x, y) for x, y in zip(a.args, b.args, strict=True))
    return None if None in steps else steps


def _step_of_unordered(a: Expr, b: Expr) -> Any:
    """The operands that differ are matched in their order; the step is by operand of `a`."""
    common = set(a.args) & set(b.args)
    mine, other = ([arg for arg in e.args if arg not in common] for e in (a, b))
    if len(mine) != len(other):
        return None
    steps = {x: _step(x, y) for x, y in zip(mine, other, strict=True)}
    if None in steps.values():
        return None
    return tuple(steps.get(arg, 0) for arg in a.args)


def _moved(part: Expr, moves: Sequence[tuple[Any, Any]]) -> Any:
    """A part after some steps of each level: `(step, times)`. Steps of operands are by operand of the part as it is."""
    nested = [(step, times) for step, times in moves if not isinstance(step, int)]
    offsets = [step * times for step, times in moves if isinstance(step, int) and step]
    if nested:
        moved = (_moved(arg, [(step[k], times) for step, times in nested]) for k, arg in enumerate(part.args))
        part = part.func(*moved)
    return sum(offsets, start=part) if offsets else part


def _fits(part: Expr, step: int | Steps) -> bool:
    """Whether a part has the form for which a step was found; its operands may be in another order."""
    if isinstance(step, int):
        return step == 0 or not is_condition(part)
    return len(part.args) == len(step) and all(map(_fits, part.args, step))


def _reaches(first: Sequence[Expr], steps: Steps, times: int, last: Sequence[Expr]) -> bool:
    return all(
        _fits(a, step) and _moved(a, [(step, times)]) == b for a, step, b in zip(first, steps, last, strict=True)
    )
