"""Random programs with rings of barriers: for the brute force of `ring_oracle`, and as agents for the proofs."""

from dataclasses import replace

import sympy
from ring_oracle import OracleRing

from lego_mlir.expr.nodes import FloorMod, Lt, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.proofs.rings.agents import Agent, Let, RingBranch, RingLoop, RingShape, RingWord, StageAccess
from lego_mlir.proofs.rings.order import RingOrder, StagedBuffer
from lego_mlir.proofs.rings.strides import divided
from lego_mlir.proofs.rings.values import KnownRanges

COUNTS = {name: sympy.Symbol(f"count {name}", integer=True) for name in "kqh"}
THREAD = sympy.Symbol("thread", integer=True)
"""The number of a thread in its agent; two agents have the same symbol, and other threads."""
HEIGHT = 8
SIZES = {name: Size(name, min=1, max=1000) for name in ("N", "P")}


def bodies_of(stages, readers):
    """The right body of a round of the agent that copies, and of each that reads."""
    copying = [("wait", "empty k", -stages), ("copy", "tile k", stages, "full k", 0), ("arrive", "full k", 0)]
    reading = [("wait", "full k", 0), ("read", "tile k", stages, None, 0), ("arrive", "empty k", 0)]
    return [copying, *(list(reading) for _ in range(readers))]


def body_of_both(stages):
    """The right body of a round of an agent that copies and reads."""
    return [
        ("wait", "empty k", -stages), ("copy", "tile k", stages, "full k", 0), ("arrive", "full k", 0),
        ("wait", "full k", 0), ("read", "tile k", stages, None, 0), ("arrive", "empty k", 0),
    ]  # fmt: skip


def spoilt(choose, bodies, stages):
    """Up to two faults planted: a word left out, moved, repeated, or for another use."""
    for _ in range(choose.choice((0, 0, 1, 1, 2))):
        body = choose.choice([b for b in bodies if b])
        i, j = choose.randrange(len(body)), choose.randrange(len(body))
        match choose.choice(("drop", "swap", "move", "twice")):
            case "drop":
                body.pop(i)
            case "swap":
                body[i], body[j] = body[j], body[i]
            case "move":
                body[i] = (*body[i][:-1], body[i][-1] + choose.choice((-1, 1, -stages, stages, 2 * stages)))
            case "twice":
                body.insert(i, body[j])


def around(choose, stages, copies):
    """What a role does with a tile of each part, before and after the rounds of the part."""
    if copies:
        return [("wait", "empty q", -stages), ("copy", "tile q", stages, "full q", 0), ("arrive", "full q", 0)], []
    wait, read, arrive = ("wait", "full q", 0), ("read", "tile q", stages, None, 0), ("arrive", "empty q", 0)
    return ([wait, read, arrive], []) if choose.random() < 0.3 else ([wait, read], [read, arrive])


def in_parts(choose, bodies, stages, mores):
    """Bodies of rounds in a loop over parts, each with a tile of its own on rings of a second rate."""
    found = []
    for number, (body, more) in enumerate(zip(bodies, mores, strict=True)):
        before, after = around(choose, stages, copies=number == 0)
        if choose.random() < 0.2:
            spoilt(choose, [before], stages)
        rounds = ("loop", ("N", more), [*body, ("next", "k")])
        found.append([("loop", ("P", 0), [*before, rounds, *after, ("next", "q")])])
    return found


def in_loops(body, shape, more=0):
    """A round's body in one loop, in two after each other, or in a loop inside another."""
    loop = ("loop", ("N", more), [*body, ("next", "k")])
    match shape:
        case "one":
            return [loop]
        case "two":
            return [loop, ("loop", ("P", 0), [*body, ("next", "k")])]
    return [("loop", ("P", 0), [loop])]


def drawn(choose):
    """Programs of one agent that copies and some that read, their rings, and the number of stages."""
    stages, readers = choose.choice((1, 2, 2, 3)), choose.choice((1, 1, 2))
    copying, reading = (choose.choice((1, 1, 2)) for _ in range(2))
    bodies = bodies_of(stages, readers)
    if choose.random() < 0.25:
        bodies, readers, reading = [body_of_both(stages)], 1, copying
    spoilt(choose, bodies, stages)
    shape = choose.choice(("one", "two", "nested", "parts"))
    mores = [choose.choice((0,) * 20 + (-1, 1)) for _ in bodies]
    rings = rings_of(stages, copying, readers * reading)
    if shape == "parts" and len(bodies) > 1:
        loops = in_parts(choose, bodies, stages, mores)
        rings |= {name.replace("k", "q"): ring for name, ring in rings.items()}
    else:
        loops = [in_loops(body, shape.replace("parts", "one"), more) for body, more in zip(bodies, mores, strict=True)]
    programs = [(reading if number else copying, loop) for number, loop in enumerate(loops)]
    return programs, rings, stages


def rings_of(stages, copying, reading):
    return {"full k": OracleRing(stages, copying), "empty k": OracleRing(stages, reading)}


def parts_of(program):
    """A program as the proofs have it."""
    for number, operation in enumerate(program):
        match operation:
            case ("loop", (name, more), body):
                symbol = sympy.Symbol(f"k{number} {len(str(body))}", integer=True)
                yield RingLoop(symbol, sympy.Integer(0), SIZES[name] + more, sympy.Integer(1), tuple(parts_of(body)))
            case ("if", body):
                yield RingBranch(Lt(1, SIZES["P"]), tuple(parts_of(body)))
            case ("next", name):
                yield Let(COUNTS[name], COUNTS[name] + 1)
            case ("copy" | "read" | "write" as kind, tile, stages, ring, *rows, offset):
                count = COUNTS[tile[-1]] + offset
                row, use = HEIGHT * FloorMod(count, stages), None if ring is None else count
                yield _in_rows(StageAccess(kind, tile, row, HEIGHT, str(operation), ring, use), *rows)
            case (kind, ring, offset):
                yield RingWord(kind, ring, COUNTS[ring[-1]] + offset, str(operation))


def _in_rows(access, rows=range(HEIGHT)):
    """An access of some rows of its stage: of threads one row each, or two in a vector; copies have all at once."""
    row = access.row + rows.start
    if access.kind == "copy" or len(rows) == HEIGHT:
        return replace(access, row=row, rows=len(rows))
    if len(rows) == 2:
        return replace(access, row=row, rows=1, is_flat=False)
    return replace(access, row=row + FloorMod(THREAD, len(rows)), rows=1)


def order_of(programs, rings, stages, tiles=None):
    """The order of such programs; `tiles` has the stages and the ring of each. Raises NotFollowedError."""
    start = tuple(Let(count, sympy.Integer(0)) for count in COUNTS.values())
    agents = [Agent(str(k), warps, (*start, *parts_of(p)), k) for k, (warps, p) in enumerate(programs)]
    shapes = {name: RingShape(name, ring.stages, ring.expected) for name, ring in rings.items()}
    if tiles is None:
        tiles = {f"tile {c}": (stages, f"full {c}") for c in "kq" if f"full {c}" in rings}
    buffers = {name: StagedBuffer(name, stages, HEIGHT, ring=ring) for name, (stages, ring) in tiles.items()}
    return divided(RingOrder(shapes, buffers, agents, KnownRanges({THREAD: Range(0, 64)})))
