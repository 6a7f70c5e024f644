"""Random programs with rings of barriers: what is proved has no fault, and each word of a proved ring is needed."""

import random
from dataclasses import replace

import pytest
import ring_oracle
import sympy
from ring_programs import HEIGHT, SIZES, bodies_of, drawn, in_loops, in_parts, order_of, rings_of

from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Larger, Le, Lt, Select, Smaller
from lego_mlir.expr.ranges import Range
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    WAIT,
    Agent,
    NotFollowedError,
    RingLoop,
    RingShape,
    RingWord,
    StageAccess,
)
from lego_mlir.proofs.rings.counts import ProgramWalk
from lego_mlir.proofs.rings.obligations import problems
from lego_mlir.proofs.rings.order import RingOrder, StagedBuffer
from lego_mlir.proofs.rings.repeating import unwound
from lego_mlir.proofs.rings.stage_fills import unfilled
from lego_mlir.proofs.rings.values import KnownRanges, for_any_length, holds

FEW, MANY = 60, 3000
TRIED = ((1, 1), (2, 1), (3, 2), (5, 1), (5, 2), (1, 3), (2, 5))


def is_proved(programs, rings, stages):
    try:
        return not problems(order_of(programs, rings, stages))
    except NotFollowedError:
        return False


def never_falsely_proved(seed):
    programs, rings, stages = drawn(random.Random(seed))
    if is_proved(programs, rings, stages):
        for n, p in (*TRIED, (2 * stages + 2, 1)):
            assert ring_oracle.find_fault(programs, rings, {"N": n, "P": p}, seed) is None


@pytest.mark.parametrize("seed", range(FEW))
def test_what_is_proved_has_no_fault_in_any_order_that_was_tried(seed):
    never_falsely_proved(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // 100))
def test_what_is_proved_has_no_fault_in_any_order_of_many(part):
    for seed in range(FEW + 100 * part, FEW + 100 * (part + 1)):
        never_falsely_proved(seed)


def whole(stages, readers, shape, warps=1, bodies=None):
    bodies = bodies_of(stages, readers) if bodies is None else bodies
    programs = [(warps, in_loops(body, shape)) for body in bodies]
    return programs, rings_of(stages, warps, readers * warps), stages


@pytest.mark.parametrize("shape", ["one", "two", "nested"])
@pytest.mark.parametrize("readers", [1, 2])
def test_a_ring_is_proved_for_every_number_of_stages_and_of_warps(shape, readers):
    for stages in (1, 2, 3, 5):
        for warps in (1, 4):
            assert is_proved(*whole(stages, readers, shape, warps))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_rings_at_two_rates_are_proved_in_parts_and_each_word_around_the_rounds_is_needed(stages):
    rings = rings_of(stages, 1, 1) | {f"{name[:-1]}q": ring for name, ring in rings_of(stages, 1, 1).items()}
    loops = in_parts(random.Random(1), bodies_of(stages, 1), stages, (0, 0))
    assert is_proved([(1, loop) for loop in loops], rings, stages)
    for loop in loops:
        ((_, _, body),) = loop
        for number, word in enumerate(body):
            if word[0] in ("wait", "arrive"):
                del body[number]
                assert not is_proved([(1, loop) for loop in loops], rings, stages)
                body.insert(number, word)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("left_out", [(0, 0), (0, 2), (1, 0), (1, 2)])
def test_each_word_of_a_proved_ring_is_needed(stages, left_out):
    bodies = bodies_of(stages, 1)
    agent, word = left_out
    bodies[agent].pop(word)
    given = whole(stages, 1, "one", bodies=bodies)
    assert not is_proved(*given)
    programs, rings, _ = given
    assert ring_oracle.find_fault(programs, rings, {"N": 2 * stages + 2, "P": 1}, 0) is not None


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_loop_split_in_two_and_warps_split_into_agents_change_no_verdict(stages):
    one, rings, _ = whole(stages, 1, "one", warps=2)
    two = [(warps, in_loops(body, "two")) for (warps, _), body in zip(one, bodies_of(stages, 1), strict=True)]
    copying, reading = one
    apart = [copying, (1, reading[1]), (1, reading[1])]
    assert is_proved(one, rings, stages) and is_proved(two, rings, stages) and is_proved(apart, rings, stages)


def test_a_write_after_a_loop_is_not_ordered_by_a_count_of_which_only_a_lower_bound_is_known():
    """A stage is written after the rounds of one agent, and read in each round of another."""
    one, k, size = sympy.Integer(1), sympy.Symbol("k", integer=True), SIZES["N"]
    span = FloorDiv(Larger(size - 100, sympy.Integer(0)), 64), FloorDiv(size + 63, 64)

    def agent(name, body, after=()):
        loop = RingLoop(k, *span, one, tuple(body))
        return Agent(name, 1, (RingWord(WAIT, "once", sympy.Integer(0)), loop, *after))

    use, stage = k - span[0], StageAccess("read", "t", sympy.Integer(0), HEIGHT)
    writes = [RingWord(WAIT, "empty", use - 1), RingWord(ARRIVE, "full", use)]
    reads = [RingWord(WAIT, "full", use), stage, RingWord(ARRIVE, "empty", use)]
    agents = [
        Agent("copies", 1, (RingWord(ARRIVE, "once", sympy.Integer(0)),)),
        agent("writes", writes, (replace(stage, kind="write"),)),
        agent("reads", reads),
    ]
    rings = {name: RingShape(name, 2 if name == "once" else 1, 1) for name in ("once", "full", "empty")}
    buffers = {"t": StagedBuffer("t", 2, HEIGHT, ring="once")}
    (found,) = {problem.reason for problem in problems(RingOrder(rings, buffers, agents, KnownRanges({})))}
    assert "the read of use u may come while" in found


@pytest.mark.parametrize("ring", ["full", "late"])
def test_copies_of_one_line_into_two_buffers_are_each_compared_with_their_own_reads(ring):
    """Both copies and both reads have the same places and counts; the read of the second waits for `full` alone."""
    stages, k, span = 2, sympy.Symbol("k", integer=True), (sympy.Integer(0), SIZES["N"], sympy.Integer(1))

    def access(kind, buffer, on=None):
        return StageAccess(kind, buffer, HEIGHT * FloorMod(k, stages), HEIGHT, "a line", on, k if on else None)

    copies = [RingWord(WAIT, "empty", k - stages), access("copy", "a", "full"), access("copy", "b", ring)]
    copies += [RingWord(ARRIVE, name, k) for name in ("full", "late")]
    reads = [RingWord(WAIT, "full", k), access("read", "a"), access("read", "b")]
    reads += [RingWord(WAIT, "late", k), RingWord(ARRIVE, "empty", k)]
    agents = [Agent(name, 1, (RingLoop(k, *span, tuple(body)),)) for name, body in (("c", copies), ("r", reads))]
    rings = {name: RingShape(name, stages, 1) for name in ("full", "late", "empty")}
    buffers = {name: StagedBuffer(name, stages, HEIGHT, ring=on) for name, on in (("a", "full"), ("b", ring))}
    found = [problem.about for problem in problems(RingOrder(rings, buffers, agents, KnownRanges({})))]
    assert found == ([] if ring == "full" else ["b"])


def test_a_stage_whose_row_is_a_number_from_memory_is_filled():
    """A role copies as often as memory says, and once more; the row of the last stage is stated one turn further."""
    k, zero, one, stages = sympy.Symbol("k", integer=True), sympy.Integer(0), sympy.Integer(1), 2
    trips = sympy.Function("steps", integer=True)(1)
    rounds = Larger(trips, zero)

    def copied(use, row):
        access = StageAccess("copy", "t", HEIGHT * FloorMod(row, stages), HEIGHT, "", "full", use, whole_rows=True)
        return RingWord(WAIT, "empty", use - stages), access, RingWord(ARRIVE, "full", use)

    read = StageAccess("read", "t", HEIGHT * FloorMod(k, stages), HEIGHT)
    body = RingWord(WAIT, "full", k + 1), read, RingWord(ARRIVE, "empty", k)
    agents = [
        Agent("copies", 1, (RingLoop(k, zero, trips, one, copied(k, k)), *copied(rounds, rounds + stages))),
        Agent("reads", 1, (RingWord(WAIT, "full", zero), RingLoop(k, zero, trips, one, body))),
    ]
    rings = {name: RingShape(name, stages, 1) for name in ("full", "empty")}
    order = RingOrder(rings, {"t": StagedBuffer("t", stages, HEIGHT, ring="full")}, agents, KnownRanges({}))
    assert problems(order) == []
    assert unfilled(order) == {}


@pytest.mark.parametrize("seed", range(25))
def test_no_loop_has_more_rounds_than_the_range_of_their_number_says(seed):
    choose = random.Random(seed)
    x, y, data, k = sympy.symbols("x y data k", integer=True)
    tops = {x: choose.randrange(1, 9), y: choose.randrange(1, 9)}

    def drawn_end():
        line = choose.randrange(-3, 4) * x + choose.randrange(-2, 3) * y + choose.randrange(-4, 12)
        bounded = choose.choice((Smaller, Larger))(choose.choice((data, data - x, FloorDiv(data, 3))), line)
        return choose.choice((line, bounded, bounded + y))

    lo, hi, step = drawn_end(), drawn_end(), choose.randrange(1, 4)
    access = StageAccess("read", "t", k, 1)
    walk = ProgramWalk(KnownRanges({symbol: Range(0, top) for symbol, top in tops.items()}))
    walk.follow((RingLoop(k, lo, hi, sympy.Integer(step), (access,)),))
    numbers = [r for s, r in walk.ranges.items() if s not in tops]
    most = int(numbers[0].hi) if numbers else 1
    for point in ({x: a, y: b, data: c} for a in range(tops[x]) for b in range(tops[y]) for c in (-12, 0, 3, 7, 40)):
        assert len(range(int(lo.subs(point)), int(hi.subs(point)), step)) <= most


@pytest.mark.parametrize("seed", range(20))
def test_what_holds_for_any_length_holds_for_the_lengths_of_a_claim(seed):
    """A number of whole steps and one for the rest, against one rounded up, of a length that memory decides."""
    choose = random.Random(seed)
    x, y = sympy.symbols("x y", integer=True)
    length = Larger(choose.choice((x - y, Select(Lt(x, y), x + y, y))), sympy.Integer(choose.choice((0, -3))))
    depth = choose.choice((1, 4, 64))
    whole, rounding = FloorDiv(length, depth), choose.choice((depth - 1, depth - 1, depth))
    rest = Select(Lt(0, Smaller(length - depth * whole, sympy.Integer(1))), sympy.Integer(1), sympy.Integer(0))
    claim = choose.choice((Eq(whole + rest, FloorDiv(length + rounding, depth)), Le(0, length), Le(0, whole + rest)))
    found = holds(for_any_length(claim), KnownRanges({}))
    points = [{x: a, y: b} for a in (-9, -1, 0, 1, 3, 4, 5, 63, 64, 65, 128) for b in (-66, -1, 0, 1, 64)]
    assert found == all(claim.subs(point) == True for point in points)  # noqa: E712


@pytest.mark.parametrize("seed", range(30))
def test_a_use_is_the_number_that_it_is_unwound_to(seed):
    """A number is stated by a stage and a parity, perhaps one step off; it is itself computed by divisions."""
    choose = random.Random(seed)
    size, turn, step = sympy.symbols("size turn step", integer=True)
    stages, off = choose.choice((1, 2, 3, 4)), choose.choice((0, 0, 1, -1))
    number = choose.choice(
        (step, turn * FloorDiv(size, 64) + step, FloorDiv(size, stages) + step, FloorMod(step, 5) + turn)
    )
    use = FloorMod(number + off, stages) + stages * FloorMod(FloorDiv(number + choose.choice((off, off, 0)), stages), 2)
    found = unwound(use, 2 * stages)
    right = FloorMod(number + off, stages) + stages * FloorMod(FloorDiv(number + off, stages), 2)
    if use == right and not number.atoms(FloorMod):
        assert found != use
    for point in ({size: a, turn: b, step: c} for a in (0, 63, 64, 200, 513) for b in (0, 1, 3) for c in range(-7, 9)):
        assert FloorMod(found - use, 2 * stages).subs(point) == 0
