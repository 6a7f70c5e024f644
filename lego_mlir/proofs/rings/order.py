"""The order that rings of barriers make among agents: lower bounds of their counts, for all uses.

What an agent knows of the counts of others, at a place where its own counts are known:

    after n waits on a ring       every agent that arrives there has n + c arrivals; c = -S for waits for `ring[k - S]`
    when B has arrived n times    its other counts are at least n + least(count - n over the places of that arrival)

So a bound on one count is an edge to others, all that follows is a longest path, and its length is a constant for all
rounds and sizes. An agent's own arrivals say nothing of the other warps that run the same program, and start no path
unless it is one warp. A bound that passes a count that may be 0 there must not gain: "x + 1 arrivals" happen at no
moment if x = -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import FloorMod, Le, Lt
from lego_mlir.proofs.rings.agents import ARRIVE, WAIT, Agent, Counter, RingShape, RingWord, StageAccess
from lego_mlir.proofs.rings.counts import EventSite, ProgramWalk
from lego_mlir.proofs.rings.values import KnownRanges, abstracted, constant, holds, is_possible, residue

NEVER: Final = -(10**9)
"""Less than every bound."""
MOST_STEPS: Final = 2000
"""Steps of a search for the longest paths; more are a circle that gains."""
AgentCount = tuple[int, Counter]
"""The count of an agent, by its number."""
Bounds = dict[AgentCount, int]


@dataclass(frozen=True, slots=True)
class StagedBuffer:
    """A buffer whose rows are `stages` tiles of `height` rows, each of `elements`.

    Of a buffer that several rings guard in turn, this is every `every`-th stage from `first` on. It is `assumed` where
    threads store into it before they arrive at `ring`; then nothing else says that it has stages.
    """

    buffer: str
    stages: int
    height: int
    elements: int = 0
    every: int = 1
    first: int = 0
    ring: str = ""
    assumed: bool = False

    @property
    def width(self) -> int:
        """Elements of a row, 1 if the rows are not known to have any."""
        return max(1, self.elements // self.height)

    def offset(self, access: StageAccess, use: Expr) -> tuple[Expr, int]:
        """Where an access begins in the stage of a use, and the stage's size, in rows or positions."""
        size = self.elements if access.by_position else self.height
        slot = FloorMod(self.every * use + self.first, self.every * self.stages)
        return sympy.expand(access.row - size * slot), size


@dataclass
class RingOrder:
    """Agents, the rings at which they meet, and the buffers whose stages these guard.

    With `blocks` there is each agent in every block of a cluster; `ranks` has the values of the block's ids by the
    number of a block in its cluster. `shift` is what a wait's use is ahead of its number:
    the n-th wait of an agent on a ring is for use n + shift. `cuts` are where outer loops are split, by their bounds.
    """

    rings: Mapping[str, RingShape]
    buffers: Mapping[str, StagedBuffer]
    agents: Sequence[Agent]
    ranges: KnownRanges
    blocks: int = 1
    uniform: Callable[[Expr], bool] = lambda expr: True
    ranks: Sequence[Mapping[Symbol, Expr]] = ()
    shift: dict[tuple[int, str], int] = field(default_factory=dict)
    cuts: dict[tuple[Expr, ...], Expr] = field(default_factory=dict)
    _least: dict[tuple[int, Counter, Counter], int] = field(default_factory=dict)
    _low: dict[Expr, int] = field(default_factory=dict)
    _inside: dict[tuple[Expr, int, int], bool] = field(default_factory=dict)

    @cached_property
    def walks(self) -> list[ProgramWalk]:
        """Each agent's program followed. Raises NotFollowedError."""
        stages = {name: ring.stages for name, ring in self.rings.items()}
        while True:
            found, named = list[ProgramWalk](), dict[object, list[Expr]]()
            for agent in self.agents:
                walk = ProgramWalk(self.ranges, self.uniform, stages, agent.name, named, self.cuts)
                walk.follow(agent.program)
                found.append(walk)
            if not any(walk.whole & set(self.cuts) for walk in found):
                return found

    @cached_property
    def arrivers(self) -> dict[str, list[AgentCount]]:
        """The counts of arrivals at each ring."""
        found: dict[str, list[AgentCount]] = {name: [] for name in self.rings}
        for k, walk in enumerate(self.walks):
            for counter in walk.totals:
                if counter[0] == ARRIVE:
                    found[counter[1]].append((k, counter))
        return found

    def words(self, k: int) -> Iterator[tuple[RingWord, EventSite]]:
        """The waits and arrivals of an agent, with their sites."""
        for site in self.walks[k].sites:
            if isinstance(site.event, RingWord):
                yield site.event, site

    def residue(self, word: RingWord, site: EventSite) -> int | None:
        """A word's use less its number, modulo the stages of an arrival's ring, twice those of a wait's."""
        stages = self.rings[word.ring].stages
        return residue(word.use, site.counts[word.counter], stages * (2 if word.kind == WAIT else 1), self.ranges)

    def is_first_turn(self, use: Expr, stages: int) -> bool:
        """Whether a use is in the first turn of a ring, or before it: no stage is used again."""
        use = sympy.expand(use)
        if use.is_Integer:
            return bool(use < stages)
        return is_possible(Lt(use, stages), self.ranges) and holds(Lt(use, stages), self.ranges)

    def low(self, difference: Expr) -> int:
        """A lower bound of a difference, NEVER if there is none."""
        self.ranges.count_question()
        difference = sympy.expand(difference)
        if difference not in self._low:
            value = constant(difference, self.ranges)
            least = bounds(abstracted(difference, self.ranges), self.ranges).lo if value is None else value
            self._low[difference] = NEVER if least is None else int(least)
        return self._low[difference]

    def is_inside(self, offset: Expr, rows: int, size: int) -> bool:
        """Whether rows from an offset on are in a stage; products read the same places at several of their sites."""
        key = offset, rows, size
        if key not in self._inside:
            left, right = Le(0, offset), Le(offset + rows, size)
            self._inside[key] = (
                is_possible(left, self.ranges) and is_possible(right, self.ranges) and holds(left & right, self.ranges)
            )
        return self._inside[key]

    def own(self, k: int, site: EventSite, x: Expr) -> Bounds:
        """An agent's own counts at a place, relative to x."""
        found = {(k, counter): self.low(count - x) for counter, count in site.counts.items()}
        return {count: value for count, value in found.items() if value > NEVER}

    def most(self, k: int, site: EventSite, x: Expr) -> Bounds:
        """Upper bounds of an agent's own counts at a place, relative to x."""
        found = {(k, counter): self.low(x - count) for counter, count in site.counts.items()}
        return {count: -value for count, value in found.items() if value > NEVER}

    def known(self, start: Bounds, first: int, own: int | None = None) -> Bounds:
        """Lower bounds of the counts of all agents, relative to a number x >= `first`, from those of `start`.

        `start` are an agent's own counts if `own` is its number: they bound the counts of no other of its warps.
        """
        is_everywhere = own is None or not self._has_several_warps(own)
        best: Bounds = dict(start) if is_everywhere else {}
        pending = [(count, value, is_everywhere) for count, value in start.items()]
        for _ in range(MOST_STEPS):
            if not pending:
                return best
            for reached, bound in self._implied(*pending.pop(0), first):
                if bound > best.get(reached, NEVER):
                    best[reached] = bound
                    pending.append((reached, bound, True))
        return {}

    def _implied(
        self, count: AgentCount, value: int, is_everywhere: bool, first: int
    ) -> Iterator[tuple[AgentCount, int]]:
        k, counter = count
        if counter[0] == WAIT:
            shift = self.shift.get((k, counter[1]), 0)
            yield from ((arrival, value + shift) for arrival in self.arrivers[counter[1]])
        elif is_everywhere:
            for other in self.walks[k].totals:
                gain = self._least_of(k, other, counter)
                if gain > NEVER:
                    yield (k, other), value + (gain if value + first >= 1 else min(gain, 0))

    def _has_several_warps(self, k: int) -> bool:
        return self.agents[k].warps > 1 or self.blocks > 1

    def _least_of(self, k: int, of: Counter, given: Counter) -> int:
        """The least of `of` minus n, over the places where agent k has just counted `given` to n."""
        if of == given:
            return 0
        key = (k, of, given)
        if key not in self._least:
            sites = [site for word, site in self.words(k) if word.counter == given]
            found = (self.low(site.counts[of] - site.counts[given] - 1) for site in sites)
            self._least[key] = min(found, default=NEVER)
        return self._least[key]
