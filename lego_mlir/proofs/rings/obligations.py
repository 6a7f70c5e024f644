"""Obligations of rings of barriers, for all uses, and whether the order of their agents shows them.

| obligation | holds if |
|---|---|
| uses follow each other | the n-th arrival is for use n (mod S), the n-th wait for use n + shift (mod 2 S) |
| an arrival counts for its phase | every agent that arrives has arrived for the use S before |
| parity | the barrier is never two phases ahead of a wait |
| number of arrivals | the warps that arrive for a use are those that the barrier expects |
| totals | every wait is for a use at which all arrive |
| no deadlock | around each circle of agents that wait for each other, the uses would have to shrink |
| a copy is in its phase | its agent arrives for that use after it, and the phase before is complete |
| a place is in its stage | the rows of an access are those of the stage of a use near its agent's counts |
| order | of a write of use x and an access of use y at the same time, y - x is no multiple of S |

S is the number of stages. An obligation that is not shown is a `Problem`, and proves nothing either way. Rings that are
used in their first turn alone need no phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.expr.nodes import Le, Lt, Select
from lego_mlir.proofs.rings.agents import ARRIVE, WAIT, Counter, RingWord, StageAccess
from lego_mlir.proofs.rings.counts import EventSite
from lego_mlir.proofs.rings.order import NEVER, RingOrder, StagedBuffer
from lego_mlir.proofs.rings.turns import OuterTurns
from lego_mlir.proofs.rings.values import holds, is_possible, shortened_name

ALWAYS: Final = 10**6
"""The weight of a wait that may hang whatever the uses are."""
ONE_EACH: Final = "let the n-th word of a role on a ring be for use n + c, each use once"
NEAR: Final = 4
"""Turns of a ring between two accesses that are told apart; those further away have to be ordered by bounds."""
AgentAccess = tuple[int, StageAccess, EventSite]


@dataclass(frozen=True, slots=True)
class RingProblem:
    """An obligation that is not shown: the ring or buffer that it is about, and the reason."""

    about: str
    reason: str


def problems(order: RingOrder) -> list[RingProblem]:
    """The obligations that are not shown; none if the rings are proved."""
    check = Obligations(order)
    steps = (check.uses, check.arrivals, check.phases, check.totals, check.deadlock, check.accesses)
    for step in steps:  # the cheap ones first: one that is not shown leaves all open
        step()
        if check.problems:
            break
    return check.problems


@dataclass
class Obligations:
    """The obligations of an order; each method adds what it cannot show to `problems`."""

    order: RingOrder
    problems: list[RingProblem] = field(default_factory=list)
    _positive: dict[Expr, bool] = field(default_factory=dict)
    _waits: dict[int, dict[str, tuple[Expr, Expr]]] = field(default_factory=dict)

    def _fail(self, about: str, reason: str) -> None:
        self.problems.append(RingProblem(about, reason))

    def _words(self) -> Iterator[tuple[int, RingWord, EventSite]]:
        for k in range(len(self.order.agents)):
            for word, site in self.order.words(k):
                yield k, word, site

    def uses(self) -> None:
        """Uses follow each other; the shift of each agent's waits is found on the way."""
        order = self.order
        for k, word, site in self._words():
            found = order.residue(word, site)
            if found is None:
                self._fail(
                    word.ring, f"{word.place}: the uses of this {word.kind} do not follow each other: {ONE_EACH}"
                )
            elif word.kind == ARRIVE and found:
                self._fail(word.ring, f"{word.place}: the first arrival is not for use 0 but {found}")
            elif word.kind == WAIT:
                shift = found - 2 * order.rings[word.ring].stages if found else 0
                if order.shift.setdefault((k, word.ring), shift) != shift:
                    agent = order.agents[k].name
                    self._fail(word.ring, f"{word.place}: {agent} skips a use, or waits for one twice")

    # -- phases

    def phases(self) -> None:
        """Arrivals count for their phase, and no barrier is two phases ahead of a wait."""
        order = self.order
        for k, word, site in self._words():
            if not order.arrivers[word.ring]:
                waits = order.walks[k].totals[word.counter]
                if not holds(Le(waits + order.shift.get((k, word.ring), 0), 0), order.ranges):
                    self._fail(word.ring, f"{word.place}: nobody arrives at this ring")
            elif word.kind == ARRIVE:
                self._arrival(k, word, site)
            else:
                self._wait(k, word, site)

    def _arrival(self, k: int, word: RingWord, site: EventSite) -> None:
        order, n, stages = self.order, site.counts[word.counter], self.order.rings[word.ring].stages
        known = order.known(order.own(k, site, n), stages, k)
        behind = [b for b, counter in order.arrivers[word.ring] if known.get((b, counter), NEVER) < 1 - stages]
        if behind and not order.is_first_turn(n, stages):
            one, other = order.agents[k].name, order.agents[behind[0]].name
            reason = f"{one} may arrive for use u + {stages} before {other} has for use u: nothing makes it wait"
            self._fail(word.ring, f"{word.place}: {reason}")

    def _wait(self, k: int, word: RingWord, site: EventSite) -> None:
        order, n, stages = self.order, site.counts[word.counter], self.order.rings[word.ring].stages
        shift = order.shift[k, word.ring]
        for arrival in order.arrivers[word.ring]:
            passed = order.known({arrival: 0}, 1).get((k, word.counter), NEVER)
            if passed + stages + shift >= 0:
                return
        ends = (order.walks[b].totals[counter] for b, counter in order.arrivers[word.ring])
        if not any(order.is_first_turn(end - 1 - n - shift, stages) for end in ends):
            self._fail(word.ring, f"{word.place}: the barrier may be two phases ahead of this wait (parity)")

    def arrivals(self) -> None:
        """As many arrivals for each use as the barrier expects."""
        order = self.order
        for name, ring in order.rings.items():
            parts = [order.agents[k].warps * (1 if c[2] is None else order.blocks) for k, c in order.arrivers[name]]
            if sum(parts) not in (0, ring.expected):
                self._fail(name, f"a use has {sum(parts)} arrivals, and the barrier expects {ring.expected}")

    def totals(self) -> None:
        """Every wait is for a use at which all arrive."""
        order = self.order
        for k, walk in enumerate(order.walks):
            for counter, waits in walk.totals.items():
                for b, arrival in order.arrivers[counter[1]] if counter[0] == WAIT else ():
                    arrivals = order.walks[b].totals[arrival]
                    more = sympy.expand(arrivals - waits - order.shift.get((k, counter[1]), 0))
                    if not (more >= 0 if more.is_Integer else holds(Le(0, more), order.ranges)):
                        one, other = order.agents[k].name, order.agents[b].name
                        much, many = (shortened_name(str(count)) for count in (waits, arrivals))
                        self._fail(counter[1], f"{one} waits {much} times and {other} arrives {many} times")

    # -- deadlock

    def deadlock(self) -> None:
        """No circle of waits, each of which may hang because the next one does: in it the uses would have to shrink.

        Where that is not shown, waits that would have to hang in an earlier turn of outer loops are left out.
        """
        waits = [(k, word, site) for k, word, site in self._words() if word.kind == WAIT]
        edges: list[tuple[int, int, int, Counter]] = []
        for i, (k, word, site) in enumerate(waits):
            for j, (b, other, there) in enumerate(waits):
                for _, arrival in (a for a in self.order.arrivers[word.ring] if a[0] == b):
                    weight = self._hanging(k, word, site, b, other, there, arrival)
                    if weight is not None:
                        edges.append((i, j, weight * (len(waits) + 1) + 1, arrival))
        if not _has_circle(len(waits), edges) or not _has_circle(len(waits), self._in_one_turn(waits, edges)):
            return
        for ring, place in {waits[edge[1]][1].ring: waits[edge[1]][1].place for edge in edges}.items():
            self._fail(ring, f"{place}: not shown that agents do not wait for each other in a circle")

    def _in_one_turn(
        self, waits: Sequence[tuple[int, RingWord, EventSite]], edges: Sequence[tuple[int, int, int, Counter]]
    ) -> list[tuple[int, int, int, Counter]]:
        """The edges that may stay in one turn of outer loops, if none leads to a later turn; else all."""
        turns = OuterTurns(self.order, [(k, site) for k, _, site in waits])
        found = []
        for edge in edges if turns.shared else ():
            i, j, _, arrival = edge
            (k, word, site), (b, _, there) = waits[i], waits[j]
            use = sympy.expand(site.counts[word.counter] + self.order.shift[k, word.ring])
            if not turns.is_never_later(k, site, use, b, arrival):
                return list(edges)
            if not turns.is_earlier(k, site, use, there, arrival):
                found.append(edge)
        return found if turns.shared else list(edges)

    def _hanging(
        self, k: int, word: RingWord, site: EventSite, b: int, other: RingWord, there: EventSite, arrival: Counter
    ) -> int | None:
        """A bound d with m <= n + d, if the wait for n may hang because the other agent hangs in its wait for m."""
        order, n = self.order, site.counts[word.counter]
        m, done = there.counts[other.counter], there.counts[arrival]
        shift = order.shift[k, word.ring]
        if shift < 0 and self._is_positive(sympy.expand(-n - shift)):
            return None  # before the first use no wait hangs
        if sympy.expand(done - _taken(order.walks[b].totals[arrival], there)) == 0:
            return None  # the other agent has made all its arrivals, and no wait is for a use after them (`totals`)
        if n.is_Integer and self._is_positive(sympy.expand(done - n - shift)):
            return None  # the other agent has arrived for this use
        least = order.low(done - m)
        return shift - least if least > NEVER else ALWAYS

    def _is_positive(self, count: Expr) -> bool:
        if count not in self._positive:
            claim = Lt(0, count)
            self._positive[count] = is_possible(claim, self.order.ranges) and holds(claim, self.order.ranges)
        return self._positive[count]

    # -- accesses of stages

    def accesses(self) -> None:
        """Each access is in the stage of a use, and no write of one use meets an access of another in its stage."""
        order = self.order
        found: list[AgentAccess] = [
            (k, site.event, site)
            for k, walk in enumerate(order.walks)
            for site in walk.sites
            if isinstance(site.event, StageAccess) and site.event.buffer in order.buffers
        ]
        placed: list[tuple[AgentAccess, Expr]] = []
        for k, access, site in found:
            use = self.use_of(access, site)
            if use is None:
                self._fail(
                    access.buffer,
                    f"{access.place}: not shown which use's stage this {access.kind} touches, of those that its waits "
                    "and arrivals allow",
                )
                continue
            placed.append(((k, access, site), use))
            if access.on is not None:
                self._in_phase(k, access, site)
        alike = dict[tuple[object, ...], tuple[Expr, list[AgentAccess]]]()
        for one, use in placed:
            alike.setdefault((use, *_facts(one)), (use, []))[1].append(one)
        for (x, ones), (y, others) in product(alike.values(), repeat=2):
            write, access = ones[0][1], others[0][1]
            if write.buffer != access.buffer or write.kind == "read" or not self._may_meet(ones[0], x, others[0], y):
                continue
            if not all(self._in_other_rows(one, x, other, y) for (_, one, _), (_, other, _) in product(ones, others)):
                what = f"{access.place}: the {access.kind} of use u may come while {write.place} writes it"
                self._fail(write.buffer, what)

    def use_of(self, access: StageAccess, site: EventSite) -> Expr | None:
        """The use whose stage an access is in, among those near its agent's counts; None if none is shown.

        The waits on the buffer's own ring come first: any use that is right modulo the stages passes, and the nearest
        one orders the most.
        """
        buffer = self.order.buffers[access.buffer]
        for use, counted in self._uses_near(access, site, buffer):
            offset, size = buffer.offset(access, use)
            if self.order.is_inside(offset, access.rows, size):
                return counted
        return None

    def _uses_near(self, access: StageAccess, site: EventSite, buffer: StagedBuffer) -> Iterator[tuple[Expr, Expr]]:
        """Uses that an access may be of, as they are written and as they are counted."""
        if access.use is not None:
            yield access.use, access.use
        if (wait := self._last_wait(site, buffer.ring)) is not None:
            yield wait
        near = sorted(site.counts, key=lambda c: (c[:2] != (WAIT, buffer.ring), c[1] != buffer.ring))
        backs = sorted(range(-2, buffer.stages + 1), key=lambda back: abs(back - 1))
        for use in (sympy.expand(site.counts[counter] - back) for counter in near for back in backs):
            yield use, use

    def _last_wait(self, site: EventSite, ring: str) -> tuple[Expr, Expr] | None:
        """The use of an agent's last wait on a ring, as its program has it, and as its number: equal modulo 2 S."""
        if not self._waits:
            for k, walk in enumerate(self.order.walks):
                last: dict[str, tuple[Expr, Expr]] = {}
                for at in walk.sites:
                    if isinstance(word := at.event, RingWord) and word.kind == WAIT:
                        number = at.counts[word.counter] + self.order.shift[k, word.ring]
                        last = {**last, word.ring: (word.use, sympy.expand(number))}
                    self._waits[id(at)] = last
        return self._waits[id(site)].get(ring)

    def _in_phase(self, k: int, copy: StageAccess, site: EventSite) -> None:
        """A copy completes on the phase that its barrier is in: that of its use, before an own arrival."""
        order, ring, use = self.order, copy.on or "", copy.use if copy.use is not None else sympy.Integer(0)
        stages = order.rings[ring].stages
        mine = [counter for b, counter in order.arrivers[ring] if b == k]
        if not mine or any(order.low(use - site.counts[counter]) < 0 for counter in mine):
            reason = "the phase may be complete before this copy: it arrives there before, or never"
            self._fail(ring, f"{copy.place}: {reason}")
        known = order.known(order.own(k, site, use), stages, k)
        behind = any(known.get(arrival, NEVER) < 1 - stages for arrival in order.arrivers[ring])
        if behind and not order.is_first_turn(use, stages):
            self._fail(ring, f"{copy.place}: the barrier may be a phase behind this copy")

    def _may_meet(self, one: AgentAccess, x: Expr, other: AgentAccess, y: Expr) -> bool:
        """Whether a write of use x may meet an access of y = x: it does for low <= y - x <= high only.

        It must not for another multiple of the stages, nor by chance of an order that is not known.
        """
        (k, write, _), (b, access, _) = one, other
        stages = self.order.buffers[write.buffer].stages
        once = x.is_Integer and y.is_Integer and 0 <= x < stages and 0 <= y < stages
        low, high = self._meeting(one, x, other, y, stages)
        what = f"{access.place}: the {access.kind} of {write.buffer} for use u"
        goes_on = " goes on" if access.late else ""
        for step in () if once else range(-NEAR * stages, NEAR * stages + 1, stages):
            if low <= step <= high and step != 0:
                of_access, of_write = (f" + {step}", "") if step > 0 else ("", f" + {-step}")
                self._fail(write.buffer, f"{what}{of_access}{goes_on} while {write.place} may write use u{of_write}")
                return False
        if (low < -NEAR * stages or high > NEAR * stages) and not once:
            reason = f"nothing orders this {access.kind} and the {write.kind} in {write.place}"
            self._fail(write.buffer, f"{access.place}: {reason}")
        # what threads of one agent write into the stage of one use is compared pair by pair, with all that they do
        return low <= 0 <= high and (k != b or (write.on is not None and access.kind == "read"))

    def _in_other_rows(self, write: StageAccess, x: Expr, access: StageAccess, y: Expr) -> bool:
        """Whether two accesses of one stage are in rows below each other, whichever threads run."""
        buffer = self.order.buffers[write.buffer]
        if write.by_position or access.by_position or not (write.is_flat and access.is_flat):
            return False
        (a, _), (b, _) = buffer.offset(write, x), buffer.offset(access, y)
        low = self.order.low  # each alone: a symbol of threads stands for others in the other access
        return bool(-low(-a) + write.rows <= low(b) or -low(-b) + access.rows <= low(a))

    def _meeting(self, one: AgentAccess, x: Expr, other: AgentAccess, y: Expr, stages: int) -> tuple[int, int]:
        """The least and the greatest y - x of a write and an access that may be at the same time.

        What the writer knows at least of the other agent's counts, less what these are at most, is the least; backwards
        the greatest.
        A copy goes on until its phase completes, so the waits for that count.
        """
        order, (k, write, at), (b, _, there) = self.order, one, other
        known, most = order.known(order.own(k, at, x), stages, k), order.most(b, there, y)
        low = max((known[count] - most[count] for count in most if count in known), default=NEVER)
        own = order.own(b, there, y)
        back = order.known(own, stages, b)
        if write.on is None:
            mine = order.most(k, at, x)
            passed = [back[count] - mine[count] for count in mine if count in back]
        else:
            waits = [count for count in {**back, **own} if count[1][:2] == (WAIT, write.on)]
            certain = [c for c in waits if c in back or c[0] == b]
            passed = [
                max(back.get(c, NEVER), own.get(c, NEVER)) + order.shift.get((c[0], write.on), 0) for c in certain
            ]
        return low, -max(passed, default=NEVER)


def _has_circle(count: int, edges: Sequence[tuple[int, int, int, Counter]]) -> bool:
    """Whether some circle of edges between `count` places has a sum that is not negative."""
    longest = [0] * count
    for _ in range(count + 1):
        longer = [(j, longest[i] + weight) for i, j, weight, _ in edges if longest[i] + weight > longest[j]]
        if not longer:
            return False
        for j, length in longer:
            longest[j] = max(longest[j], length)
    return True


def _taken(total: Expr, site: EventSite) -> Expr:
    """A total of an agent that is in the branches around a site."""
    choices = (choice for choice in total.atoms(Select) if choice.args[0] in site.facts)
    return total.xreplace({choice: choice.args[1] for choice in choices})


def _facts(placed: AgentAccess) -> tuple[object, ...]:
    """What decides how an access is ordered; a read that goes on after an arrival has the line of the one before it."""
    k, access, site = placed
    counts = frozenset(site.counts.items())
    return k, access.kind, access.buffer, access.on, access.late, access.place, counts
