"""Random programs in the form of attention's gradients: groups share stages by rows, look ahead, meet at the end."""

import random
from functools import cache

import pytest
import ring_oracle
import ring_visits
from ring_programs import order_of

from lego_mlir.proofs.rings.agents import NotFollowedError
from lego_mlir.proofs.rings.obligations import problems
from lego_mlir.proofs.rings.ring_faults import find_fault

FEW, MANY, PART = 30, 2000, 100
TELLING = (73, 75, 84, 103, 131)
"""Faults that a rule would miss if it were off by one: rows that are apart, arrivals that are all made."""
SIZES = (1, 2, 3, 8)
REFUTED_ORDERS = 200


def is_proved(programs, rings, stages, tiles):
    try:
        return not problems(order_of(programs, rings, stages, tiles))
    except NotFollowedError:
        return False


def has_fault(programs, rings, seed, orders=12):
    sizes = ({"N": n, "P": p} for n in SIZES for p in (2, 1))
    return any(ring_oracle.find_fault(programs, rings, size, seed, orders) for size in sizes)


@cache
def judged(seed):
    """Whether a drawn program is proved, and whether it has a fault: not both, and a fault that is found is one."""
    programs, rings, stages, tiles = ring_visits.drawn(random.Random(seed))
    proved, faulty = is_proved(programs, rings, stages, tiles), has_fault(programs, rings, seed)
    assert not (proved and faulty), f"seed {seed}"
    if not proved and not faulty:
        try:
            found = find_fault(order_of(programs, rings, stages, tiles), {"N": 3, "P": 2})
        except NotFollowedError:
            return proved, faulty
        assert found is None or has_fault(programs, rings, seed, REFUTED_ORDERS), f"seed {seed}: {found}"
    return proved, faulty


@pytest.mark.parametrize("seed", (*range(FEW), *TELLING))
def test_no_verdict_on_groups_that_share_stages_is_false(seed):
    judged(seed)


def test_the_drawn_programs_are_proved_or_have_faults():
    assert {judged(seed) for seed in range(FEW)} >= {(True, False), (False, True)}


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
def test_no_verdict_on_many_groups_that_share_stages_is_false(part):
    for seed in range(FEW + PART * part, FEW + PART * (part + 1)):
        judged(seed)


def right(stages):
    rows = ring_visits.GROUP_ROWS[0]
    return [ring_visits.copying(stages), *(ring_visits.visiting(stages, own) for own in rows)]


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_groups_that_share_stages_are_proved_for_every_number_of_stages_and_of_warps(stages, warps):
    if stages == 1:  # a visit ahead needs a stage more
        assert not is_proved(*ring_visits.whole(right(stages), stages, warps))
        assert has_fault(*ring_visits.whole(right(stages), stages, warps)[:2], 0)
    else:
        assert is_proved(*ring_visits.whole(right(stages), stages, warps))
        assert is_proved(*ring_visits.whole(right(stages), stages, warps, under=(True,) * 3))


WORDS = [
    (agent, place, number)
    for agent, body in enumerate(right(2)[:2])
    for place, words in enumerate(body)
    for number, word in enumerate(words)
    if word[0] in ("wait", "arrive")
]


@pytest.mark.parametrize("left_out", WORDS)
def test_each_word_of_the_visits_is_needed(left_out):
    agent, place, number = left_out
    bodies = right(2)
    for body in bodies[agent : agent + 2] if agent else bodies[:1]:
        del body[place][number]
    programs, rings, stages, tiles = ring_visits.whole(bodies, 2, 1)
    assert not is_proved(programs, rings, stages, tiles)
    assert has_fault(programs, rings, 0, REFUTED_ORDERS)
