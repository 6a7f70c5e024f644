"""Turns of outer loops that all agents share: a wait hangs for what agents do in the same turn, or in earlier ones.

    for part in ..:                              for part in ..:
        wait asked[part - 1];  copy queries          wait copied queries
        for k in rounds(part):                       for k in rounds(part):
            wait empty[..];  copy keys                   wait full[..];  multiply keys

Two rings that are used at different rates have no constant between their counts, so that bounds alone do not show that
agents never wait for each other in a circle. But an agent that waits in a turn has everything of the turns before: if
one that it waits for were in a later turn, it had arrived for all uses of this one. So a circle stays in one turn, and
where an agent would have to be in an earlier turn there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.nodes import Le
from lego_mlir.proofs.rings.agents import Counter
from lego_mlir.proofs.rings.counts import EventSite, OuterTurn
from lego_mlir.proofs.rings.order import RingOrder
from lego_mlir.proofs.rings.values import holds, is_possible


class OuterTurns:
    """The turns of agents; they are `shared` if all waits are in loops with the same bounds and conditions."""

    def __init__(self, order: RingOrder, waiting: Sequence[tuple[int, EventSite]]) -> None:
        self.order = order
        agents = sorted({k for k, _ in waiting})
        first = self._bounds(agents[0]) if agents else []
        self.shared = (
            bool(first)
            and all(site.turn is not None for _, site in waiting)
            and all(self._bounds(k) == first for k in agents)
        )
        self._shown: dict[tuple[Expr, tuple[Cond, ...]], bool] = {}

    def _bounds(self, k: int) -> list[tuple[object, ...]]:
        return [turn.bounds for turn in self.order.walks[k].turns]

    def is_never_later(self, k: int, site: EventSite, use: Expr, b: int, arrival: Counter) -> bool:
        """Whether agent b, in a later turn than agent k that waits for a use, has arrived for it."""
        turn = self._turn(b, site)
        return self._is_over(turn.counts[arrival], turn, use, site.facts)

    def is_earlier(self, k: int, site: EventSite, use: Expr, there: EventSite, arrival: Counter) -> bool:
        """Whether agent b, which is not in a later turn and has not arrived for the use, is in an earlier one."""
        if site.turn != there.turn:
            return True
        return self._is_over(there.counts[arrival], self._turn(k, site), use, (*site.facts, *there.facts))

    def _turn(self, k: int, site: EventSite) -> OuterTurn:
        assert site.turn is not None
        return self.order.walks[k].turns[site.turn]

    def _is_over(self, arrivals: Expr, turn: OuterTurn, use: Expr, facts: Sequence[Cond]) -> bool:
        """Whether a number of arrivals, in the same turn as a wait for a use, is that of a later use."""
        least, most = self._at_end(arrivals, turn, most=False), self._at_end(use, turn, most=True)
        if least is None or most is None:
            return False
        more = sympy.expand(least - most - 1)
        if more.is_Integer:
            return bool(more >= 0)
        alike = (f for f in facts if not self._numbers(f, turn))  # rounds of inner loops differ between the two places
        entered = (*alike, *(Le(1, self._rounds[n]) for n in self._numbers(use, turn)))
        if (more, entered) not in self._shown:
            possible = is_possible(sympy.Or(Le(0, more), *map(sympy.Not, entered)), self.order.ranges)
            self._shown[more, entered] = possible and holds(Le(0, more), self.order.ranges, facts=entered)
        return self._shown[more, entered]

    @property
    def _rounds(self) -> dict[Symbol, Expr]:
        found: dict[Symbol, Expr] = {}
        for walk in self.order.walks:
            found |= walk.rounds
        return found

    def _numbers(self, expr: Expr | Cond, turn: OuterTurn) -> list[Symbol]:
        """The numbers of rounds of inner loops in an expression."""
        return [s for s in sorted(expr.free_symbols, key=str) if s in self._rounds and s != turn.number]

    def _at_end(self, expr: Expr, turn: OuterTurn, *, most: bool) -> Expr | None:
        """The greatest, or the least value over the rounds of inner loops; None where it is not linear in them."""
        while numbers := self._numbers(expr, turn):
            number = numbers[-1]
            factor = expr.coeff(number, 1)
            rest = sympy.expand(expr - factor * number)
            if not factor.is_Integer or rest.has(number):
                return None
            end = self._rounds[number] - 1 if (factor > 0) == most else sympy.Integer(0)
            expr = sympy.expand(rest + factor * end)
        return expr
