"""Random orders of products in flight: stages are proved to be released in time exactly where each warp waits."""

import random
import re

import flying_products
import pytest
import ring_oracle

from lego_mlir.proofs.rings.claims import ring_proof
from lego_mlir.toolchain import compile_kernel

FEW, MANY, PART = 14, 400, 50
EMITTED = 6


def words_of(seed):
    return flying_products.drawn(random.Random(seed))


def judge(seed):
    """Whether the stages are proved, which they are if and only if no order of the warps has a fault."""
    words = words_of(seed)
    proof = ring_proof(flying_products.kernel_of(words).trace())
    warps, agents, rings = flying_products.programs_of(words)
    fault = ring_oracle.fault_of(warps, rings, seed, agents=agents)
    assert (proof.reasons == ()) == (fault is None), f"seed {seed}, {words}: {proof.reasons}, {fault}"
    return fault is None


def test_a_stage_is_proved_to_be_released_in_time_if_and_only_if_it_is():
    assert {judge(seed) for seed in range(FEW)} == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
def test_many_stages_are_proved_to_be_released_in_time_if_and_only_if_they_are(part):
    for seed in range(FEW + PART * part, FEW + PART * (part + 1)):
        judge(seed)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", ["all", "none"])
@pytest.mark.parametrize("arrival", flying_products.ARRIVALS)
def test_sums_in_flight_over_visits_are_proved_if_and_only_if_no_size_has_a_fault(arrival, last, first):
    proof = ring_proof(flying_products.kernel_of_sums(arrival, last, first).trace())
    faults = []
    for n in range(2, 13):
        warps, agents, rings = flying_products.programs_of_sums(arrival, last, first, n)
        faults.append(ring_oracle.fault_of(warps, rings, n, agents=agents))
    assert (proof.reasons == ()) == (not any(faults)), (proof.reasons, faults)


@pytest.mark.tools
@pytest.mark.parametrize("seed", range(EMITTED))
def test_a_round_waits_for_products_where_the_oracle_says(seed):
    words = words_of(seed)
    text = compile_kernel(flying_products.kernel_of(words), target="sm_90a", emit="mlir").text
    found = [int(n) for n in re.findall(r"wgmma\.wait_group\.sync\.aligned (\d+)", text)]
    assert found == [n for kind, n in flying_products.in_flight(words) if kind == "wait"]
