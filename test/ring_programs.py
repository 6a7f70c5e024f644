"""Random programs with rings of barriers: for the brute force of `ring_oracle`, and as agents for the proofs."""

import sympy
from ring_oracle import OracleRing

from lego_mlir.expr.nodes import FloorMod, Size
from lego_mlir.proofs.rings.agents import Agent, Let, RingLoop, RingShape, RingWord, StageAccess
from lego_mlir.proofs.rings.order import RingOrder, StagedBuffer
from lego_mlir.proofs.rings.strides import divided

COUNT, HEIGHT = sympy.Symbol("count", integer=True), 8
SIZES = {name: Size(name, min=1, max=1000) for name in ("N", "P")}


def bodies_of(stages, readers):
    """The right body of a round of the agent that copies, and of each that reads."""
    copying = [("wait", "empty", -stages), ("copy", "t", stages, "full", 0), ("arrive", "full", 0)]
    reading = [("wait", "full", 0), ("read", "t", stages, None, 0), ("arrive", "empty", 0)]
    return [copying, *(list(reading) for _ in range(readers))]


def body_of_both(stages):
    """The right body of a round of an agent that copies and reads."""
    return [
        ("wait", "empty", -stages), ("copy", "t", stages, "full", 0), ("arrive", "full", 0),
        ("wait", "full", 0), ("read", "t", stages, None, 0), ("arrive", "empty", 0),
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


def in_loops(body, shape, more=0):
    """A round's body in one loop, in two after each other, or in a loop inside another."""
    loop = ("loop", ("N", more), [*body, ("next",)])
    match shape:
        case "one":
            return [loop]
        case "two":
            return [loop, ("loop", ("P", 0), [*body, ("next",)])]
    return [("loop", ("P", 0), [loop])]


def drawn(choose):
    """Programs of one agent that copies and some that read, their rings, and the number of stages."""
    stages, readers = choose.choice((1, 2, 2, 3)), choose.choice((1, 1, 2))
    copying, reading = (choose.choice((1, 1, 2)) for _ in range(2))
    bodies = bodies_of(stages, readers)
    if choose.random() < 0.25:
        bodies, readers, reading = [body_of_both(stages)], 1, copying
    spoilt(choose, bodies, stages)
    shape = choose.choice(("one", "two", "nested"))
    programs = [
        (reading if number else copying, in_loops(body, shape, choose.choice((0,) * 20 + (-1, 1))))
        for number, body in enumerate(bodies)
    ]
    return programs, rings_of(stages, copying, readers * reading), stages


def rings_of(stages, copying, reading):
    return {"full": OracleRing(stages, copying), "empty": OracleRing(stages, reading)}


def parts_of(program):
    """A program as the proofs have it."""
    for number, operation in enumerate(program):
        match operation:
            case ("loop", (name, more), body):
                symbol = sympy.Symbol(f"k{number} {len(str(body))}", integer=True)
                yield RingLoop(symbol, sympy.Integer(0), SIZES[name] + more, sympy.Integer(1), tuple(parts_of(body)))
            case ("next",):
                yield Let(COUNT, COUNT + 1)
            case ("copy" | "read" as kind, tile, stages, ring, offset):
                row, use = HEIGHT * FloorMod(COUNT + offset, stages), None if ring is None else COUNT + offset
                yield StageAccess(kind, tile, row, HEIGHT, str(operation), ring, use)
            case (kind, ring, offset):
                yield RingWord(kind, ring, COUNT + offset, str(operation))


def order_of(programs, rings, stages):
    """The order of such programs. Raises NotFollowedError."""
    start = Let(COUNT, sympy.Integer(0))
    agents = [Agent(str(k), warps, (start, *parts_of(p)), k) for k, (warps, p) in enumerate(programs)]
    shapes = {name: RingShape(name, ring.stages, ring.expected) for name, ring in rings.items()}
    return divided(RingOrder(shapes, {"t": StagedBuffer("t", stages, HEIGHT, ring="full")}, agents, {}))
