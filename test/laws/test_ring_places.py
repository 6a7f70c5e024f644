"""Places and values in proofs about rings: random expressions against plain Python, and programs with values more."""

import contextlib
import random
from dataclasses import replace

import pytest
import sympy
from ring_programs import COUNTS, drawn, order_of

from lego_mlir.expr.nodes import BitXor, FloorDiv, FloorMod, Le, Lt, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.proofs.rings.agents import Let, RingBranch, RingLoop, Unfollowed
from lego_mlir.proofs.rings.counts import ProgramWalk
from lego_mlir.proofs.rings.needed_values import without_unneeded
from lego_mlir.proofs.rings.values import KnownRanges, holds
from lego_mlir.proofs.rings.whole_stages import whole_stage

FEW, MANY, PART = 40, 4000, 100
THREADS = 64
T, K, B = (sympy.Symbol(name, integer=True) for name in ("thread", "k", "bx"))
M, N = Size("M", min=1), Size("N", min=1)


def number(expr, **values):
    """The value of an expression by its text, in Python's integers, whose division rounds down as the nodes' does."""
    names = {"minimum": min, "maximum": max, **values}
    return eval(str(expr), {"__builtins__": {}}, names)


def row(choose, size):
    """A row of a stage of `size` rows, as kernels have them, and some that are in no stage."""
    inner = choose.choice((
        FloorMod(T, size), BitXor(FloorMod(T, size), choose.randrange(size)), FloorMod(FloorDiv(T, 4), size), T,
        FloorMod(T, size) + choose.choice((0, 0, 1, size, -1)), 2 * FloorMod(T, size),
    ))  # fmt: skip
    stages = choose.choice((2, 3, 4))
    use = choose.choice((K, K + choose.randrange(4), 3 * K + FloorDiv(T, 32), K + FloorDiv(T, THREADS)))
    height = choose.choice((size, size, size, 2 * size, size + 1))
    return choose.choice((1, 1, 1, 2)) * inner + height * FloorMod(use, stages)


def places_of(seed):
    """Whether a stage was found for a drawn row; if so, all threads are in it, for many values of the other symbol."""
    choose = random.Random(seed)
    size = choose.choice((4, 8, 16, 64))
    place = row(choose, size)
    found = whole_stage(place, size, T, KnownRanges({T: Range(0, THREADS), K: Range(0, 1000)}))
    if found is None:
        return False
    assert T not in found.free_symbols
    for k in (0, 1, 2, 3, 4, 5, 11, 997):
        first = number(found, k=k)
        assert first % size == 0
        assert all(first <= number(place, k=k, thread=t) < first + size for t in range(THREADS)), (seed, place, found)
    return True


@pytest.mark.parametrize("part", range(2))
def test_all_threads_are_in_the_stage_that_was_found(part):
    found = [places_of(seed) for seed in range(part * FEW, (part + 1) * FEW)]
    assert any(found) and not all(found)


def claim(choose):
    """A comparison of rests of divisions by sizes, as the places of parts in a row of tiles are."""
    tiles = choose.choice((M, FloorDiv(M + 63, 64), M + N, M - 1, M - 70, FloorDiv(M, 64)))
    part = choose.choice((B, B + 132 * K, 2 * B - K, FloorDiv(B, 3)))
    place, other = FloorMod(part, tiles), FloorMod(choose.choice((part, part + 1, K)), choose.choice((tiles, tiles, N)))
    left = choose.choice((place, 64 * place, tiles - 1 - place, place + other, place - other, -place))
    right = choose.choice((tiles, tiles - 1, tiles - 2, 64 * tiles, 64 * tiles - 64, other, 0, 1, M, -1))
    return choose.choice((Le, Lt))(*choose.choice(((left, right), (right, left))))


def shown(seed):
    """Whether a drawn claim is proved; if so, it holds for all values that are tried."""
    choose = random.Random(seed)
    found = claim(choose)
    if not holds(found, KnownRanges({B: Range(0, 132), K: Range(0, 1000)})):
        return False
    for _ in range(200):
        m, n = (choose.choice((1, 2, 63, 64, 65, choose.randrange(1, 5000))) for _ in range(2))
        b, k = choose.randrange(132), choose.choice((0, 1, choose.randrange(1000)))
        with contextlib.suppress(ZeroDivisionError):
            assert number(found, M=m, N=n, bx=b, k=k), (seed, found, m, n, b, k)
    return True


def test_claims_about_rests_of_divisions_by_sizes_hold_where_they_are_proved():
    found = [shown(seed) for seed in range(3 * FEW)]
    assert any(found) and not all(found)


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
def test_no_place_of_many_is_false(part):
    for seed in range(2 * FEW + PART * part, 2 * FEW + PART * (part + 1)):
        places_of(seed)
        shown(seed)


def with_values(choose, parts):
    """A program with values that nothing reads, in loops as well, computed from each other and from its counts."""
    junk = [sympy.Symbol(f"junk {i}", integer=True) for i in range(3)]
    found = []
    for part in parts:
        if isinstance(part, RingLoop):
            part = replace(part, body=with_values(choose, part.body))
        found.append(part)
        if choose.random() < 0.5:
            value = choose.choice(junk) * choose.choice((1, COUNTS["k"])) + choose.randrange(3)
            found.append(Let(choose.choice(junk), value))
        if choose.random() < 0.2:
            found.append(Unfollowed("data", frozenset(choose.sample(junk, 2))))
        if choose.random() < 0.2:
            found.append(RingBranch(Lt(junk[0], COUNTS["k"]), (Let(junk[1], junk[2]),), (Let(junk[2], COUNTS["k"]),)))
    return tuple(found)


@pytest.mark.parametrize("seed", range(FEW))
def test_values_that_nothing_reads_are_left_out_and_events_keep_their_counts(seed):
    choose = random.Random(seed)
    order = order_of(*drawn(choose))
    for number, agent in enumerate(order.agents):
        kept = without_unneeded(agent.program)
        assert without_unneeded(with_values(choose, agent.program)) == kept
        walk = ProgramWalk(KnownRanges({}), stages={name: ring.stages for name, ring in order.rings.items()})
        walk.follow(kept)
        assert walk.totals == order.walks[number].totals
        assert [(s.event, s.counts) for s in walk.sites] == [(s.event, s.counts) for s in order.walks[number].sites]
