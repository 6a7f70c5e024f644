"""Random kernels with roles, rings, clusters and data: as kernels, and as what each warp does, event by event.

A drawn kernel has a role that copies tiles into stages and one or two that read them, or one role that does both, in a
loop whose rounds are a size, a number, or read from memory; perhaps in another loop, with the number of the use kept as
a number or as a stage and a parity, with the first or the last round different, under a branch on data, in clusters of
two blocks, with a trip count that lanes pass on by a shuffle; or those that read take the uses in turns. Up to two
faults are planted. `kernel_of` calls the words
of the language; `programs_of` follows the same description in plain Python, with sizes and memory as numbers.
"""

from dataclasses import dataclass, field, replace

from ring_oracle import OracleRing

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof

HEIGHT, WIDTH, MOST = 8, 32, 6
PARTS = 2


@dataclass
class Drawn:
    """A kernel's description; `bodies` are a round's words of each role: (kind, ring, offset), ("when", ..)."""

    stages: int
    bodies: list
    warps: list
    trips: str
    nested: bool
    registers: bool
    cluster: bool
    more: list  # rounds more in each role
    expected: dict = field(default_factory=dict)
    other_index: int = 0  # of the first role's trip count in memory
    blocks: int = 1  # of a cluster
    mask: tuple = (1, 1)  # how many blocks copy for each other, and how far apart their ranks are
    part: tuple = (1, 1)  # the same, for the numbers of the parts that they copy; the mask's if right
    turns: int = 1  # roles that take the rounds in turns, all but the first
    whole: int = 1  # of which number the rounds are a multiple

    def rounds(self, number, trip):
        """Where the rounds of a role begin and end, and the step."""
        return (number - 1, trip, self.turns) if number and self.turns > 1 else (0, trip, 1)

    def group(self, block):
        """The blocks to which a block copies its part, and the number of its part."""
        count, distance = self.mask
        number = block // distance % count
        return [block + (k - number) * distance for k in range(count)], block // self.part[1] % self.part[0]


def bodies_of(choose, stages):
    """The right words of a round."""
    copying = [("wait", "empty", -stages), ("copy", "full", 0), ("arrive", "full", 0)]
    reading = [("wait", "full", 0), ("read", None, 0), ("arrive", "empty", 0)]
    if choose.random() < 0.15:
        return [[*copying, *reading]]
    if stages > 1 and choose.random() < 0.3:  # the stage of the round before is released, the last one after the loop
        reading = [("wait", "full", 0), ("read", None, 0), ("when", "not first", [("arrive", "empty", -1)])]
        reading.append(("after", [("arrive", "empty", -1)]))
    return [copying, *(list(reading) for _ in range(choose.choice((1, 1, 2))))]


def spoil(choose, bodies, stages):
    for _ in range(choose.choice((0, 0, 0, 1, 1, 2))):
        body = choose.choice([b for b in bodies if b])
        i, j = choose.randrange(len(body)), choose.randrange(len(body))
        match choose.choice(("drop", "swap", "move", "twice", "when")):
            case "drop":
                body.pop(i)
            case "swap":
                body[i], body[j] = body[j], body[i]
            case "move" if body[i][0] in ("wait", "arrive", "copy", "read"):
                body[i] = (*body[i][:-1], body[i][-1] + choose.choice((-1, 1, -stages, stages, 2 * stages)))
            case "twice":
                body.insert(i, body[j])
            case "when" if body[i][0] in ("wait", "arrive", "copy", "read"):
                body[i] = ("when", choose.choice(("not first", "not last", "flag")), [body[i]])
            case _:
                pass
    for body in bodies:  # words after the loop come last
        body.sort(key=lambda word: word[0] == "after")


def drawn(choose):
    stages = choose.choice((1, 2, 2, 3, 4))
    bodies = bodies_of(choose, stages)
    warps = [choose.choice((1, 1, 2)) for _ in bodies]
    cluster = choose.random() < 0.2
    both = len(bodies) == 1
    arrive = {"full": warps[0], "empty": warps[0] if both else sum(warps[1:])}
    expected = {ring: n * (2 if cluster else 1) for ring, n in arrive.items()}
    if choose.random() < 0.06:
        expected[choose.choice(("full", "empty"))] += choose.choice((-1, 1))
    if choose.random() < 0.1:  # the whole round is under a condition
        bodies = [
            [("when", "flag", [w for w in b if w[0] != "after"]), *(w for w in b if w[0] == "after")] for b in bodies
        ]
    spoil(choose, bodies, stages)
    more = [choose.choice((0,) * 24 + (1, -1)) for _ in bodies]
    trips = choose.choice(("size", "number", "memory", "memory", "indirect", "shuffle"))
    other = int(choose.random() < 0.04)
    found = Drawn(stages, bodies, warps, trips, choose.random() < 0.45, choose.random() < 0.35, cluster, more,
                  {ring: max(1, n) for ring, n in expected.items()}, other)  # fmt: skip
    return found if not cluster else replace(found, blocks=2, mask=(2, 1), part=(2, 1))


def drawn_in_turns(choose):
    """A description in which two or three roles read, each with stages of its own, which one role fills."""
    turns = choose.choice((2, 2, 3))
    stages = turns * choose.choice((1, 1, 2))
    copying = [("wait", "empty", -stages), ("copy", "full", 0), ("arrive", "full", 0)]
    reading = [("wait", "full", 0), ("read", None, 0), ("arrive", "empty", 0)]
    bodies, warps = [copying, *(list(reading) for _ in range(turns))], [1] * (turns + 1)
    spoil(choose, bodies, stages)
    more = [choose.choice((0,) * 24 + (1, -1)) for _ in bodies]
    trips, whole = choose.choice(("size", "number", "memory", "claimed")), choose.choice((1, turns))
    return Drawn(stages, bodies, warps, trips, choose.random() < 0.4, False, False, more, {"full": 1, "empty": 1},
                 turns=turns, whole=whole)  # fmt: skip


def drawn_in_two_dimensions(choose):
    """A description with clusters of 2 x 2 blocks, of which those of a row, or of a column, copy for each other."""
    found = drawn(choose)
    while found.cluster or len(found.bodies) == 1:
        found = drawn(choose)
    mask = (2, choose.choice((1, 2)))
    part = mask if choose.random() < 0.8 else (2, 3 - mask[1])
    expected = {ring: 4 * n for ring, n in found.expected.items()}
    return replace(found, cluster=True, blocks=4, mask=mask, part=part, expected=expected)


# -- as a kernel


def kernel_of(d):
    """The description as a kernel; `steps`, `order` and `flags` are read, rows of `a` copied, `y` written."""
    size = lego.size("N", min=1, max=MOST)
    threads = 32 * sum(d.warps)

    @lego.kernel(grid=d.blocks, block=threads, cluster=d.blocks)
    def kernel(
        a: lego.Tensor(f32, Row(HEIGHT * 64, WIDTH)),
        steps: lego.Tensor(i32, Row(4), range=(0, MOST)),
        order: lego.Tensor(i32, Row(4), range=(0, 4)),
        flags: lego.Tensor(i32, Row(4), range=(0, 2)),
        sized: lego.Tensor(f32, Row(size)),
        y: lego.Tensor(f32, Row(1024, 256)),
    ):
        tile = lego.shared(f32, Row(d.stages * HEIGHT, WIDTH), "tile")
        rings = {name: lego.barriers(d.stages, arrivals=d.expected[name]) for name in ("full", "empty")}
        if d.cluster:
            lego.cluster_barrier()
        first = 0
        for number, (body, warps) in enumerate(zip(d.bodies, d.warps, strict=True)):
            with lego.warps(first, first + warps):
                _role(d, number, body, (a, steps, order, flags, sized, y), tile, rings, size)
            first += warps
        if d.cluster:
            lego.cluster_barrier()

    return kernel


def _role(d, number, body, tensors, tile, rings, size):
    a, steps, order, flags, sized, y = tensors
    counter = None if d.registers else lego.register(i32, 0)
    slot, parity = (lego.register(i32, 0), lego.register(i32, 0)) if d.registers else (None, None)
    y[0, lego.thread_id.x] = sized[0]

    def one(part):
        at = (part + d.other_index) % 4 if number == 0 else part
        match d.trips:
            case "size":
                trip = size
            case "number":
                trip = 3
            case "memory":
                trip = lego.index(steps[at], range=(0, MOST))
            case "claimed":
                trip = lego.index(steps[at] - order[at], range=(0, MOST))
            case "indirect":
                trip = lego.index(steps[lego.index(order[at], range=(0, 4))], range=(0, MOST))
            case _:
                trip = lego.index(
                    lego.shuffle(steps[lego.lane_id % 4], at if isinstance(at, int) else 1), range=(0, MOST)
                )
        trip = trip * d.whole if d.whole > 1 else trip
        trip = trip + d.more[number] if d.more[number] else trip

        def use_now():
            if d.registers:
                return lego.index(slot.get(), range=(0, d.stages)) + d.stages * lego.index(parity.get(), range=(0, 2))
            return lego.index(counter.get(), range=(0, 2**20))

        def emit(words, k, use):
            for word in words:
                match word:
                    case ("wait", ring, offset):
                        rings[ring][use + offset].wait()
                    case ("arrive", ring, offset):
                        if d.cluster:
                            for block in range(d.blocks):
                                rings[ring][use + offset].arrive(block=block)
                        else:
                            rings[ring][use + offset].arrive()
                    case ("copy", ring, offset):
                        place = (use + offset + 2 * d.stages) % d.stages * HEIGHT
                        if d.cluster:
                            row = lego.cluster_rank // d.part[1] % d.part[0] * (HEIGHT // d.part[0])
                            part_ = tile.part((place + row, 0), (HEIGHT // d.part[0], WIDTH))
                            barrier = rings[ring][use + offset]
                            lego.copy_async(a, part_, at=(row, 0), barrier=barrier, blocks=_mask_of(d))
                        else:
                            part_ = tile.part((place, 0), (HEIGHT, WIDTH))
                            lego.copy_async(a, part_, at=(0, 0), barrier=rings[ring][use + offset])
                    case ("read", _, offset):
                        place = (use + offset + 2 * d.stages) % d.stages * HEIGHT
                        y[number + 1, lego.thread_id.x] = tile[place + lego.lane_id % HEIGHT, 0]
                    case ("when", condition, inner):
                        with _condition(condition, k):
                            emit(inner, k, use)
                    case ("after", _):
                        pass

        def _condition(condition, k):
            match condition:
                case "not first":
                    return lego.when(k > 0)
                case "not last":
                    return lego.when(k < trip - 1)
            return lego.when(flags[0] > 0)

        for k in lego.range(*d.rounds(number, trip)):
            emit(body, k, use_now() + k if d.turns > 1 else use_now())
            if d.turns > 1:
                continue
            if d.registers:
                wraps = slot.get() == d.stages - 1
                old = slot.get()
                parity.set(lego.where(wraps, 1 - parity.get(), parity.get()))
                slot.set(lego.where(wraps, 0, old + 1))
            else:
                counter.set(counter.get() + 1)
        if d.turns > 1:
            counter.set(counter.get() + lego.i32(trip))
        for word in body:
            if word[0] == "after":
                with lego.when(lego.index(trip) > 0) if not isinstance(trip, int) else lego.when(lego.thread_id.x >= 0):
                    use = use_now()
                    emit(word[1], None, use)

    if d.nested:
        for part in lego.range(PARTS):
            one(part)
    else:
        one(1)


def _mask_of(d):
    count, distance = d.mask
    if count == d.blocks:
        return "all"
    first = lego.cluster_rank - lego.cluster_rank // distance % count * distance
    return lego.index(sum(1 << k * distance for k in range(count))) << first


# -- as what warps do


def programs_of(d, n, memory):
    """Each warp's events (kind, name, use, ..) with numbers, one list a warp; `memory` has steps, order and flags."""
    blocks = d.blocks
    rings = {f"{ring}{b}": OracleRing(d.stages, d.expected[ring]) for ring in ("full", "empty") for b in range(blocks)}
    programs = [
        _events(d, number, block, n, memory)
        for block in range(blocks)
        for number, warps in enumerate(d.warps)
        for _ in range(warps)
    ]
    return programs, rings


def _events(d, number, block, n, memory):
    found, used = [], 0

    def add(words, k, trip, use):
        for word in words:
            match word:
                case ("wait", ring, offset):
                    found.append(("wait", f"{ring}{block}", use + offset))
                case ("arrive", ring, offset):
                    for b in range(d.blocks):
                        found.append(("arrive", f"{ring}{b}", use + offset))
                case ("copy", ring, offset):
                    for b in d.group(block)[0]:
                        found.append(("copy", f"tile{b}", use + offset, d.stages, f"{ring}{b}"))
                case ("read", _, offset):
                    found.append(("read", f"tile{block}", use + offset, d.stages, None))
                case ("when", condition, inner):
                    taken = {"not first": k > 0, "not last": k < trip - 1, "flag": memory["flags"][0] > 0}[condition]
                    add(inner if taken else (), k, trip, use)

    for part in range(PARTS) if d.nested else (1,):
        at = (part + d.other_index) % 4 if number == 0 else part
        trip = _rounds(d, at, n, memory) * d.whole + d.more[number]
        for k in range(*d.rounds(number, trip)):
            add(d.bodies[number], k, trip, used + k if d.turns > 1 else used)
            used += d.turns == 1
        used += trip if d.turns > 1 else 0
        for word in d.bodies[number]:
            if word[0] == "after" and trip > 0:
                add(word[1], 0, trip, used)
    return found


def _rounds(d, at, n, memory):
    steps = memory["steps"]
    match d.trips:
        case "size":
            return n
        case "number":
            return 3
        case "memory":
            return steps[at]
        case "claimed":
            return steps[at] - memory["order"][at]
        case "indirect":
            return steps[memory["order"][at]]
    return steps[1 if d.nested else at]


def verdict(kernel):
    """Of the claim about a kernel's rings."""
    trace = kernel.trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    return claim.verdict
