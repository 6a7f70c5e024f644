"""Rings of barriers run by brute force, warp by warp in drawn orders: an oracle that shares nothing with the proofs.

A program is a list of operations; counters begin at 0, and `("next", counter)` advances the one of this name. Rings and
tiles are used by the counter that the last letter of their names is:

    ("loop", (size, more), body)            `sizes[size] + more` rounds
    ("if", body)                            where the size P is not 1
    ("wait", ring, offset)                  for the use counter + offset
    ("arrive", ring, offset)
    ("copy", tile, stages, ring, offset)    into the stage of the use, completing on the ring's barrier of it
    ("read", tile, stages, None, offset)    also "write"; the warps of one program do not race for one use
    ("issue", tile, stages, None, offset)   a product reads the stage until it lands
    ("land", count)                         all products but the `count` newest ones have landed

Before the offset of an access there may be a range, its rows; without, it is of all.

Each warp has a vector clock, which barriers pass on; an access that does not know of an earlier one of the same stage,
one of the two a write, is a race. So a race is found in any order of the steps, whether or not the values show it.
"""

import math
import random
from dataclasses import dataclass

EVERY_ROW = range(10**6)


@dataclass(frozen=True)
class OracleRing:
    stages: int
    expected: int


def flat(program, sizes):
    """The operations of a program in order, with the numbers of their uses: (kind, name, use, ..)."""
    counters, found = {}, []

    def run(body):
        for operation in body:
            match operation:
                case ("loop", (size, more), inner):
                    for _ in range(sizes[size] + more):
                        run(inner)
                case ("if", inner):
                    if sizes["P"] > 1:
                        run(inner)
                case ("land", count):
                    found.append(("land", "", count))
                case ("next", name):
                    counters[name] = counters.get(name, 0) + 1
                case (kind, name, *rest, offset):
                    found.append((kind, name, counters.get(name[-1], 0) + offset, *rest))

    run(program)
    return found


class Execution:
    """One order: places of warps, phases of barriers, copies in flight, and what each warp knows of the others."""

    def __init__(self, warps, rings, agents=None):
        count = len(warps)
        self.warps, self.rings = warps, rings
        self.agents = list(range(count)) if agents is None else agents  # warps of one number run one program
        self.products = [[] for _ in warps]  # accesses of those that have not landed, the oldest first
        self.at = [0] * count
        self.phase = {(name, slot): 0 for name, ring in rings.items() for slot in range(ring.stages)}
        self.missing = {(name, slot): rings[name].expected for name, slot in self.phase}
        self.copies = []  # (barrier, number)
        self.clock = [[0] * count for _ in warps]
        self.gathered = {barrier: [0] * count for barrier in self.phase}  # clocks of those that arrived
        self.passed_on = {barrier: [0] * count for barrier in self.phase}  # those of the last complete phase
        self.landed = {}  # by warp, or by what a barrier gathers and passes on: numbers of copies known to be complete
        self.accesses = {}  # by stage
        self.race = None

    def barrier(self, ring, use):
        return ring, use % self.rings[ring].stages

    def may_step(self, warp):
        if self.at[warp] == len(self.warps[warp]):
            return False
        kind, name, use = self.warps[warp][self.at[warp]][:3]
        return kind != "wait" or self.phase[self.barrier(name, use)] % 2 != use // self.rings[name].stages % 2

    def step(self, warp):
        kind, name, use, *rest = self.warps[warp][self.at[warp]]
        self.at[warp] += 1
        self.clock[warp][warp] += 1
        match kind:
            case "wait":
                barrier = self.barrier(name, use)
                self.clock[warp] = list(map(max, self.clock[warp], self.passed_on[barrier]))
                self.landed.setdefault(warp, set()).update(self.landed.get(("passed on", barrier), ()))
            case "arrive":
                barrier = self.barrier(name, use)
                self.gathered[barrier] = list(map(max, self.gathered[barrier], self.clock[warp]))
                self.landed.setdefault(("gathered", barrier), set()).update(self.landed.get(warp, ()))
                self.missing[barrier] -= 1
                self.complete(barrier)
            case "copy":
                number = warp, self.at[warp]
                self.access(warp, (name, use % self.rings[rest[1]].stages), kind, number, use, *rest[2:])
                self.copies.append((self.barrier(rest[1], use), number))
            case "issue":
                read = self.access(warp, (name, use % rest[0]), "read", None, use, *rest[2:])
                read[2] = math.inf
                self.products[warp].append(read)
            case "land":
                while len(self.products[warp]) > use:
                    self.products[warp].pop(0)[2] = self.clock[warp][warp]
            case _:
                self.access(warp, (name, use % rest[0]), kind, None, use, *rest[2:])

    def complete(self, barrier):
        """Begin the barrier's next phase, if all warps have arrived and all copies have landed."""
        if self.missing[barrier] > 0 or any(of == barrier for of, _ in self.copies):
            return
        self.phase[barrier] += 1
        self.missing[barrier] += self.rings[barrier[0]].expected
        self.passed_on[barrier] = list(self.gathered[barrier])
        self.landed["passed on", barrier] = set(self.landed.get(("gathered", barrier), ()))

    def land(self, index):
        barrier, number = self.copies.pop(index)
        self.landed.setdefault(("gathered", barrier), set()).add(number)
        self.complete(barrier)

    def access(self, warp, stage, kind, number, use, rows=EVERY_ROW):
        for other, who, clock, copy, of, others in self.accesses.get(stage, []):
            if (
                (kind == other == "read")
                or (who == warp and other != "copy" and clock < math.inf)
                or (kind == other == "copy" and use == of)
                or (self.agents[who] == self.agents[warp] and use == of and "copy" not in (kind, other))
                or max(rows.start, others.start) >= min(rows.stop, others.stop)
            ):
                continue
            known = copy in self.landed.get(warp, ()) if other == "copy" else self.clock[warp][who] >= clock
            if not known:
                self.race = f"{kind} at {stage} by warp {warp} and {other} by warp {who}"
        made = [kind, warp, self.clock[warp][warp], number, use, rows]
        self.accesses.setdefault(stage, []).append(made)
        return made


def find_fault(programs, rings, sizes, seed, orders=12):
    """A fault that some order has: a race, or warps that wait for ever; None if none was found.

    `programs` are pairs of a number of warps and their program.
    """
    agents = [agent for agent, (count, _) in enumerate(programs) for _ in range(count)]
    warps = [flat(program, sizes) for count, program in programs for _ in range(count)]
    return fault_of(warps, rings, seed, orders, agents)


def fault_of(warps, rings, seed, orders=12, agents=None):
    """As `find_fault`, of the operations of each warp, and the number of its program."""
    choose = random.Random(seed)
    for order in range(orders):
        run = Execution(warps, rings, agents)
        weights = [choose.choice((1, 1, 20)) for _ in warps]
        lazy = choose.random()
        while True:
            ready = [warp for warp in range(len(warps)) if run.may_step(warp)]
            if run.copies and (not ready or choose.random() > lazy):
                run.land(choose.randrange(len(run.copies)) if choose.random() < 0.7 else 0)
                continue
            if not ready:
                break
            run.step(choose.choices(ready, [weights[warp] for warp in ready])[0])
            if run.race:
                return run.race
        if any(at < len(program) for at, program in zip(run.at, warps, strict=True)):
            return f"deadlock in order {order}"
    return None
