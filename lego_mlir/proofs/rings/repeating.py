"""Registers that repeat, as functions of a number of steps: a stage and the parity of its phase.

    parity, slot = where(slot == 3, 1 - parity, parity), where(slot == 3, 0, slot + 1)        in each step

From (0, 0) on, step n finds slot = n mod 4 and parity = n div 4 mod 2. Such registers begin as constants and are
written together, from themselves alone, so they run through a few states in a circle. The states are listed, and
formulas are compared with all of them. The program then counts the steps, and has the formulas in place of the
registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any, Final

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Le, Select
from lego_mlir.proofs.rings.agents import (
    FromRoundBefore,
    Let,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingWord,
    StageAccess,
    Unfollowed,
)
from lego_mlir.proofs.rings.values import symbol_named

MOST_STATES: Final = 512
Effect = dict[Symbol, Any]
Loop = tuple[int, Effect, Any]
"""A depth, an effect, and the parts that have it."""
"""What symbols are after some statements, by what they were before."""


@dataclass(frozen=True, slots=True)
class Repeating:
    """Registers that take one step at a time: `steps` counts them, `formulas` has the register after n = `steps`.

    `runs` are the identities of the first statements of the steps.
    """

    steps: Symbol
    formulas: Mapping[Symbol, Expr]
    runs: frozenset[int]


def with_steps(program: Sequence[ProgramPart]) -> tuple[ProgramPart, ...]:
    """The program with the number of steps, and formulas of it, in place of registers that repeat."""
    effects = [(depth, _effect(run), run) for depth, run in _runs(program, 0)]
    found = [r for group in _groups(program, effects) if (r := _repeating(group, effects)) is not None]
    if not found:
        return tuple(program)
    begin = tuple(Let(r.steps, sympy.Integer(0)) for r in found)
    return begin + tuple(_rewritten(program, found))


# -- runs of statements that give values


def _runs(parts: Sequence[ProgramPart], depth: int) -> Iterator[tuple[int, tuple[Let, ...]]]:
    """The longest rows of adjacent `Let`s, in program order, with the number of loops and branches around them."""
    run: list[Let] = []
    for part in parts:
        if isinstance(part, Let):
            run.append(part)
            continue
        if run:
            yield depth, tuple(run)
            run = []
        match part:
            case RingLoop(body=body):
                yield from _runs(body, depth + 1)
            case RingBranch(then=then, otherwise=otherwise):
                yield from _runs(then, depth + 1)
                yield from _runs(otherwise, depth + 1)
            case _:
                pass
    if run:
        yield depth, tuple(run)


def _effect(run: Sequence[Let]) -> Effect:
    known: Effect = {}
    for part in run:
        known[part.symbol] = part.value.xreplace(known)
    return known


def _groups(program: Sequence[ProgramPart], effects: Sequence[Loop]) -> list[frozenset[Symbol]]:
    """The registers that are computed from each other and from nothing else."""
    times: dict[Symbol, int] = {}
    for _, _, run in effects:
        for part in run:
            times[part.symbol] = times.get(part.symbol, 0) + 1
    registers = {symbol for symbol, count in times.items() if count > 1} - set(_unfollowed(program))
    needs = {r: set().union(*(e[r].free_symbols for _, e, _ in effects if r in e)) for r in registers}
    groups: list[frozenset[Symbol]] = []
    for register in sorted(registers, key=str):
        if any(register in group for group in groups):
            continue
        group, pending = {register}, [register]
        while pending:
            one = pending.pop()
            linked = (needs[one] & registers) | {r for r in registers if one in needs[r]}
            pending += linked - group
            group |= linked
        if all(needs[r] <= group for r in group):
            groups.append(frozenset(group))
    return groups


def _unfollowed(parts: Sequence[ProgramPart]) -> Iterator[Symbol]:
    for part in parts:
        match part:
            case Unfollowed(registers=registers):
                yield from registers
            case RingLoop(body=body):
                yield from _unfollowed(body)
            case RingBranch(then=then, otherwise=otherwise):
                yield from _unfollowed((*then, *otherwise))
            case _:
                pass


# -- states


def _repeating(group: frozenset[Symbol], effects: Sequence[Loop]) -> Repeating | None:
    """The group by its steps; None unless it begins as constants and takes the same step wherever it is written."""
    state: dict[Symbol, Expr] = {}
    steps, runs = list[dict[Symbol, Expr]](), set[int]()
    for depth, effect, run in effects:
        given = {r: effect[r] for r in group if r in effect}
        if not given:
            continue
        if depth == 0 and not steps and not set(given) & set(state) and all(v.is_Integer for v in given.values()):
            state |= given
        elif set(state) != group or not _reads_first(run, group):
            return None
        else:
            steps.append({r: given.get(r, r) for r in group})
            runs.add(id(run[0]))
    if not steps or any(step != steps[0] for step in steps):
        return None
    found = _states(state, steps[0])
    if found is None:
        return None
    states, first = found
    count = symbol_named(f"steps of {min(map(str, group))}")
    formulas = {r: _formula([s[r] for s in states], first, count) for r in group}
    known = {r: formula for r, formula in formulas.items() if formula is not None}
    return Repeating(count, known, frozenset(runs)) if len(known) == len(formulas) else None


def _reads_first(run: Sequence[Let], group: frozenset[Symbol]) -> bool:
    """Whether no register of a step is read after it is written in it."""
    written: set[Symbol] = set()
    for part in run:
        if part.value.free_symbols & written:
            return False
        written |= {part.symbol} & group
    return True


def _states(state: dict[Symbol, Expr], step: Mapping[Symbol, Expr]) -> tuple[list[dict[Symbol, int]], int] | None:
    """All states from the first on, and the number of the one that follows the last; None if they are many."""
    seen: dict[tuple[int, ...], int] = {}
    states: list[dict[Symbol, int]] = []
    names = sorted(state, key=str)
    while len(states) < MOST_STATES:
        if not all(value.is_Integer for value in state.values()):
            return None
        key = tuple(int(state[name]) for name in names)
        if key in seen:
            return states, seen[key]
        seen[key] = len(states)
        states.append(dict(zip(names, key, strict=True)))
        state = {r: value.xreplace(state) for r, value in step.items()}
    return None


def _formula(values: Sequence[int], first: int, count: Symbol) -> Expr | None:
    """A register of these values after 0, 1, .. steps, the last followed by number `first`; None if none is found."""
    period = len(values) - first
    circle = values[first:]
    moduli = [m for m in range(1, period + 1) if period % m == 0]
    shifts = range(-first, period)
    guesses = (
        sympy.Integer(circle[0]),
        *(FloorMod(count + shift, m) for m in moduli for shift in shifts),
        *(FloorMod(FloorDiv(count + shift, m), 2) for m in moduli for shift in shifts if 2 * m <= period),
    )
    for guess in guesses:
        fits = [guess.xreplace({count: sympy.Integer(n)}) == value for n, value in enumerate(values)]
        if all(fits):
            return guess
        if all(fits[first:]) and len(set(values[:first])) == 1:
            return Select(Le(first, count), guess, sympy.Integer(values[0]))
    return None


# -- the program with steps


def _rewritten(parts: Sequence[ProgramPart], found: Sequence[Repeating]) -> Iterator[ProgramPart]:
    rule = {register: formula for r in found for register, formula in r.formulas.items()}
    run: list[Let] = []
    for part in (*parts, None):
        if isinstance(part, Let):
            run.append(part)
            continue
        yield from _stepped(run, found, rule)
        run = []
        if part is not None:
            yield _in_part(part, found, rule)


def _stepped(run: Sequence[Let], found: Sequence[Repeating], rule: Mapping[Symbol, Expr]) -> Iterator[Let]:
    """A row of values, those of the registers left out; where it is a step, the step is counted."""
    yield from (replace(part, value=part.value.xreplace(rule)) for part in run if part.symbol not in rule)
    yield from (Let(r.steps, r.steps + 1) for r in found if run and id(run[0]) in r.runs)


def _in_part(part: ProgramPart, found: Sequence[Repeating], rule: Mapping[Symbol, Expr]) -> ProgramPart:
    match part:
        case RingLoop(body=body):
            lo, hi, step = (end.xreplace(rule) for end in (part.lo, part.hi, part.step))
            return replace(part, lo=lo, hi=hi, step=step, body=tuple(_rewritten(body, found)))
        case RingBranch(condition=condition, then=then, otherwise=otherwise):
            then, otherwise = (tuple(_rewritten(side, found)) for side in (then, otherwise))
            return replace(part, condition=condition.xreplace(rule), then=then, otherwise=otherwise)
        case RingWord():
            return replace(part, use=part.use.xreplace(rule))
        case FromRoundBefore(access=access):
            return replace(part, access=_of_access(access, rule))
        case StageAccess():
            return _of_access(part, rule)
        case _:
            return part


def _of_access(access: StageAccess, rule: Mapping[Symbol, Expr]) -> StageAccess:
    return replace(access, row=access.row.xreplace(rule), use=None if access.use is None else access.use.xreplace(rule))


# -- uses without remainders


def unwound(use: Expr, modulus: int) -> Expr:
    """`n + c` in place of a use that is it modulo `modulus` for all n: `n mod 4 + 4 (n div 4 mod 2)` modulo 8 is n."""
    n = symbol_named("_n")
    numbers = {f.args[0] for f in use.atoms(FloorMod, FloorDiv) if f.args[1].is_Integer}
    for number in sorted(numbers, key=lambda e: (len(e.atoms(FloorMod, FloorDiv)), str(e))):  # the innermost first
        over = use.xreplace({number: n})
        period = _period(over, n, modulus) if over.free_symbols == {n} else None
        if period is None:
            continue
        rest = {(int(over.xreplace({n: sympy.Integer(i)})) - i) % modulus for i in range(lcm(period, modulus))}
        if len(rest) == 1:
            shift = rest.pop()
            return number + (shift if 2 * shift <= modulus else shift - modulus)
    return use


def _period(expr: Expr, n: Symbol, modulus: int) -> int | None:
    """A number P so that the expression at n + P is the one at n, modulo `modulus`; None if none is known."""
    match expr:
        case sympy.Integer():
            return 1
        case sympy.Symbol():
            return modulus if expr == n else None
        case FloorMod(args=(inner, sympy.Integer() as m)):
            return _period(inner, n, int(m))
        case FloorDiv(args=(inner, sympy.Integer() as m)):
            return _period(inner, n, modulus * int(m))
        case sympy.Mul(args=(sympy.Integer() as factor, inner)):
            return _period(inner, n, modulus // gcd(modulus, int(factor)))
        case sympy.Add():
            periods = [_period(term, n, modulus) for term in expr.args]
            return None if None in periods else lcm(*(p for p in periods if p is not None))
    return None
