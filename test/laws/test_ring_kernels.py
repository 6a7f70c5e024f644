"""Random kernels with rings: no verdict contradicts what their warps do, event by event, in drawn orders."""

import random
from dataclasses import replace

import pytest
import ring_oracle
from ring_kernels import MOST, drawn, drawn_in_turns, drawn_in_two_dimensions, kernel_of, programs_of

from lego_mlir.errors import LegoError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof

FEW, MANY, PART = 24, 2000, 50
FEW_CLUSTERS = FEW_IN_TURNS = 6
SIZES = (1, 2, 3, MOST)
REFUTED_ORDERS = 150
ARRIVES_TWICE = 3137
"""A seed: more arrivals than a phase expects, some of which the next phase has."""


def memories(choose):
    """What memory may hold: the least, the greatest, all alike, and anything in the declared ranges."""
    for steps in ([0] * 4, [1] * 4, [MOST - 1] * 4, *([choose.randrange(MOST) for _ in range(4)] for _ in range(3))):
        order = choose.choice(([0] * 4, [3, 2, 1, 0], [choose.randrange(4) for _ in range(4)]))
        yield {"steps": steps, "order": order, "flags": [choose.randrange(2)] * 4}


def fault(description, seed, orders=12):
    """A fault of some order, for some size and memory."""
    choose = random.Random(seed)
    for n in SIZES if description.trips == "size" else SIZES[:1]:
        for memory in memories(choose):
            if description.trips == "claimed" and any(
                a < b for a, b in zip(memory["steps"], memory["order"], strict=True)
            ):
                continue  # not as the kernel claims
            warps, rings = programs_of(description, n, memory)
            found = ring_oracle.fault_of(warps, rings, seed, orders)
            if found is not None:
                return found
    return None


def verdict_of(description):
    trace = kernel_of(description).trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    return claim.verdict


def judge(seed, draw=drawn):
    """The verdict on a drawn kernel, which the oracle must not contradict."""
    description = draw(random.Random(seed))
    try:
        verdict = verdict_of(description)
    except LegoError as error:
        assert "lego" in type(error).__module__
        return "refused"
    if isinstance(verdict, Proved):
        found = fault(description, seed)
        assert found is None, f"seed {seed}: proved, and {found}"
    if isinstance(verdict, Refuted):
        assert fault(description, seed, REFUTED_ORDERS) is not None, f"seed {seed}: {verdict.explanation}"
    return type(verdict).__name__


@pytest.mark.parametrize("seed", [*range(FEW), ARRIVES_TWICE])
def test_no_verdict_on_a_random_kernel_is_false(seed):
    judge(seed)


def test_the_drawn_kernels_have_every_verdict():
    assert {judge(seed) for seed in range(8)} >= {"Proved", "Refuted"}


@pytest.mark.parametrize("seed", range(FEW_CLUSTERS))
def test_no_verdict_on_clusters_of_two_dimensions_is_false(seed):
    judge(seed, drawn_in_two_dimensions)


def test_clusters_of_two_dimensions_have_every_verdict():
    assert {judge(seed, drawn_in_two_dimensions) for seed in (0, 1, 5)} == {"Refuted", "Proved", "Unknown"}


@pytest.mark.parametrize("seed", range(FEW_IN_TURNS))
def test_no_verdict_on_roles_in_turns_is_false(seed):
    judge(seed, drawn_in_turns)


def test_roles_in_turns_have_every_verdict():
    assert {judge(seed, drawn_in_turns) for seed in (0, 3, 11)} == {"Refuted", "Proved", "Unknown"}


IN_TURNS = drawn_in_turns(random.Random(0))
COPYING = [("wait", "empty", -4), ("copy", "full", 0), ("arrive", "full", 0)]
READING = [("wait", "full", 0), ("read", None, 0), ("arrive", "empty", 0)]


def in_turns(copying, trips, whole, nested=False):
    """Two roles that read the uses of four stages in turns."""
    return replace(IN_TURNS, stages=4, turns=2, whole=whole, bodies=[copying, READING, READING], warps=[1] * 3,
                   trips=trips, nested=nested, more=[0] * 3)  # fmt: skip


@pytest.mark.parametrize(
    ("trips", "whole", "nested"),
    [
        ("size", 1, False),
        ("memory", 1, False),
        ("claimed", 2, False),
        ("size", 2, True),
        ("number", 2, True),
    ],
)
def test_roles_in_turns_are_proved(trips, whole, nested):
    proof = ring_proof(kernel_of(in_turns(COPYING, trips, whole, nested)).trace())
    assert (proof.reasons, proof.unfilled, proof.guarded) == ((), {}, {"tile"})


@pytest.mark.parametrize("moved", [(1, 0, 2), (0, 2, 1)])
def test_roles_in_turns_are_not_proved_where_a_copy_is_early_or_late(moved):
    description = in_turns([COPYING[n] for n in moved], "size", 1)
    assert not isinstance(verdict_of(description), Proved)
    assert fault(description, 0, REFUTED_ORDERS) is not None


def test_parts_and_masks_have_to_agree():
    """Blocks of a row copy for each other the parts that are numbered along columns: the same half, twice."""
    right = next(d for d in map(drawn_in_two_dimensions, map(random.Random, range(1, 9))) if d.mask == d.part)
    assert isinstance(verdict_of(right), Proved)
    wrong = replace(right, part=(2, 3 - right.mask[1]))
    assert "not shown that the blocks of a cluster copy different rows" in verdict_of(wrong).reason


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
def test_no_verdict_on_many_random_kernels_is_false(part):
    for seed in range(FEW + PART * part, FEW + PART * (part + 1)):
        judge(seed)
        judge(seed, drawn_in_two_dimensions)
        judge(seed, drawn_in_turns)
