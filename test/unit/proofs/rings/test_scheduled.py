"""Scheduled products: their rings, stage and parity in registers, are proved, and planted faults refuted."""

from functools import cache

import pytest
from scheduled_faults import FAULTS, planted
from tiled_products import PRODUCTS, after

import lego_mlir as lego
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof

ROLES = "warpgroups, pipeline(stages=3), roles"
OVERLAID = "warpgroups, pipeline(stages=4), overlay, roles"
COMPOSITIONS = (
    "warpgroups, pipeline(stages=2)",
    "warpgroups, pipeline(stages=3), clusters(blocks=2), roles",
    "persistent(blocks=3), warpgroups, pipeline(stages=3), roles",
    "persistent(blocks=2), warpgroups, pipeline(stages=3), clusters(blocks=2), roles",
    "persistent(blocks=3), warpgroups, pipeline(stages=3), lockstep(every=2), roles",
    "persistent(blocks=2), warpgroups, pipeline(stages=3), clusters(blocks=2), lockstep(every=2), roles",
)
STORED_BY_THREADS = ("doubled", "computed", "gathered", "gathered_copies")
IN_A_PUSH = ("gathered",)
FAULTS_IN_A_PUSH = (
    "a stage released with its product in flight",
    "no arrival at the full stage",
    "a wrong parity of the full stage",
    "a stage reused without a wait",
)


def scheduled(name, schedule, k=512):
    return after(PRODUCTS[name](256, 256, k)[0], schedule)


ANY_DEPTH = lego.size("K", min=64, max=2**16, multiple_of=64)


@cache
def plain(schedule):
    return scheduled("plain", schedule, 256)


def others_are_long(names, short):
    return [name if name in short else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", others_are_long(PRODUCTS, IN_A_PUSH))
def test_every_claim_about_a_scheduled_product_is_proved(name):
    unproved = {text for text, verdict in kernel_claims(scheduled(name, OVERLAID), tried=False)
                if not isinstance(verdict, Proved)}  # fmt: skip
    allowed = {"every read of shared0 comes after a write of that element"} if name in STORED_BY_THREADS else set()
    assert unproved == allowed


@pytest.mark.parametrize("composition", others_are_long(COMPOSITIONS, COMPOSITIONS[-1:]))
def test_rings_of_every_composition_are_proved(composition):
    proof = ring_proof(scheduled("plain", composition).trace())
    assert proof.reasons == ()
    assert proof.guarded == {"shared0", "shared1"}
    assert proof.unfilled == {}


@pytest.mark.parametrize("composition", [ROLES, *COMPOSITIONS[1:4]])
def test_rings_of_a_product_of_any_depth_are_proved(composition):
    proof = ring_proof(scheduled("plain", composition, ANY_DEPTH).trace())
    assert proof.reasons == ()
    assert proof.guarded == {"shared0", "shared1"}
    assert proof.unfilled == {}


@pytest.mark.parametrize("fault", others_are_long(FAULTS, FAULTS_IN_A_PUSH))
def test_faults_in_a_product_of_any_depth_are_refuted_with_their_round(fault):
    trace = planted(scheduled("plain", ROLES, ANY_DEPTH), fault).trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    assert isinstance(claim.verdict, Refuted)
    assert "round k0 =" in claim.verdict.explanation


@pytest.mark.parametrize("fault", others_are_long(FAULTS, FAULTS_IN_A_PUSH))
def test_faults_in_the_words_of_a_schedule_are_refuted_with_their_round(fault):
    trace = planted(plain(ROLES), fault).trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    assert isinstance(claim.verdict, Refuted)
    assert "round k0 =" in claim.verdict.explanation


def test_a_tile_over_rings_that_are_not_proved_is_open():
    kernel = planted(scheduled("plain", OVERLAID), "a stage reused without a wait")
    claims = dict(kernel_claims(kernel, tried=False))
    verdict = claims["no race for shared2 between two threads of a block"]
    assert verdict.reason == "it takes the memory of shared0, shared1, whose order is not proved"
