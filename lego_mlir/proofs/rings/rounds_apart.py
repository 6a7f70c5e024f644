"""Loops whose first or last round differs, as that round and a loop: waits and arrivals have a branch there.

for k in lo .. hi:                       if lo < hi:
    wait full[k]                             wait full[lo]
    if k > lo:                   -->         for k in lo + 1 .. hi:
        arrive empty[k - 1]                      wait full[k]
                                                 arrive empty[k - 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.nodes import Eq, Le, Lt, Ne
from lego_mlir.proofs.rings.agents import ProgramPart, RingBranch, RingLoop, has_words, symbols_given


def round_apart(loop: RingLoop) -> tuple[RingLoop, RingLoop] | None:
    """The loop as two, where a branch with waits or arrivals differs in its first or its last round: one has one round.

    Both are followed only where the loop has rounds.
    """
    if sympy.expand(loop.hi - loop.lo - loop.step) == 0:
        return None
    given = {loop.symbol, *symbols_given(loop.body)}
    for condition in _conditions(loop.body):
        turn = _turn(condition, loop, given)
        if turn is None:
            continue
        first, last = sympy.expand(turn - loop.lo), sympy.expand(loop.hi - turn)
        if first.is_Integer and loop.step.is_Integer and 0 < first <= loop.step:
            return _cut(loop, sympy.expand(loop.lo + loop.step))
        if last.is_Integer and loop.step == 1 and last == 1:
            return _cut(loop, turn)
    return None


def _cut(loop: RingLoop, at: Expr) -> tuple[RingLoop, RingLoop]:
    return replace(loop, hi=at), replace(loop, lo=at)


def _conditions(parts: Sequence[ProgramPart]) -> Iterator[Cond]:
    for part in parts:
        match part:
            case RingBranch(condition=condition, then=then, otherwise=otherwise):
                if has_words((part,)):
                    yield condition
                yield from _conditions((*then, *otherwise))
            case RingLoop(body=body):
                yield from _conditions(body)
            case _:
                pass


def _turn(condition: Cond, loop: RingLoop, given: set[Symbol]) -> Expr | None:
    """The value of the variable from which on a condition is another than before; None if there is no such one."""
    match condition:
        case sympy.Not(args=(inner,)):
            return _turn(inner, loop, given)
        case Lt(args=(a, b)) | Le(args=(a, b)) | Eq(args=(a, b)) | Ne(args=(a, b)):
            pass
        case _:
            return None
    distance = sympy.expand(b - a)
    rest = sympy.expand(distance - loop.symbol)
    sign = 1
    if rest.free_symbols & given:
        rest, sign = sympy.expand(distance + loop.symbol), -1
    if rest.free_symbols & given:
        return None
    if isinstance(condition, Eq | Ne):  # differs in one round, the first or the last
        place = -sign * rest
        return sympy.expand(place + loop.step if place == loop.lo else place)
    if sign == 1:  # k + rest > 0, or >= 0
        return sympy.expand(-rest + (1 if isinstance(condition, Lt) else 0))
    return sympy.expand(rest + (0 if isinstance(condition, Lt) else 1))
