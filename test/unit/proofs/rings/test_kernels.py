"""Rings of barriers of kernels: shipped ones are proved, faults planted in a product are refuted with their round."""

import re
from pathlib import Path

import pytest
from ring_mutants import FAULTS, product
from role_kernels import staged

from lego_mlir import f32, spec
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.kernels import batched_products, fused_attention, grouped_products, transpose
from lego_mlir.kernels.fused_attention import AttentionForm, AttentionTile
from lego_mlir.kernels.role_tiles import RoleTile
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof
from lego_mlir.proofs.unneeded import unneeded_barriers

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def verdict(kernel):
    trace = kernel.trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    return claim.verdict


@pytest.mark.parametrize(
    "kernel",
    [
        staged,
        product,
        lambda: product(stages=4),
        lambda: batched_products.build(tile=RoleTile(128, 128, 3)),
        lambda: batched_products.build(batched_products.BatchedForm(layouts="TN"), RoleTile(128, 128, 4, 2)),
        grouped_products.build,
    ],
    ids=["staged", "product", "product of four stages", "batched", "batched in clusters", "grouped"],
)
def test_rings_are_proved_for_all_sizes(kernel):
    assert isinstance(verdict(kernel()), Proved)


def example(name):
    return next(iter(spec.load(EXAMPLES / f"{name}.py").kernels.values()))


@pytest.mark.parametrize("name", ["warp_roles", "cluster_product"])
def test_the_examples_with_roles_are_proved_and_their_stages_filled(name):
    proof = ring_proof(example(name).trace())
    assert proof.reasons == ()
    assert proof.guarded == {"left", "right"}
    assert proof.unfilled == {}


@pytest.mark.long
@pytest.mark.parametrize(
    "kernel",
    [
        lambda: fused_attention.build(AttentionForm()),
        lambda: fused_attention.build(AttentionForm(causal=True)),
        lambda: fused_attention.build(AttentionForm(features=128)),
        lambda: fused_attention.build(AttentionForm(causal=True), AttentionTile(2, 128, 4, turns=True)),
        lambda: batched_products.build(batched_products.BatchedForm(layouts="TT")),
        lambda: batched_products.build(batched_products.BatchedForm(layouts="NT"), RoleTile(256, 128, 3, 2)),
    ],
    ids=["attention", "causal", "128 features", "in turns", "TT", "NT in clusters"],
)
def test_rings_of_attention_and_of_all_layouts_are_proved(kernel):
    proof = ring_proof(kernel().trace())
    assert proof.reasons == ()
    assert proof.unfilled == {}


def test_what_stays_unknown_names_its_line():
    proof = ring_proof(fused_attention.build(AttentionForm(), None, None, 132).trace())
    assert proof.order is None
    assert re.fullmatch(
        r"attention_tiles.py:\d+: waits or arrivals in a branch that some rounds take", proof.reasons[0]
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_refuted_with_their_round(fault):
    found = verdict(product(fault))
    assert isinstance(found, Refuted)
    assert "round" in found.explanation


def test_a_kernel_without_rings_has_no_claim_about_them():
    trace = transpose.build("naive", 64, 64, f32).trace()
    assert ring_proof(trace) is None
    assert not list(ring_claims(trace, None))


def test_no_barrier_of_a_kernel_with_rings_is_called_unneeded():
    assert unneeded_barriers(example("warp_roles").trace()) == []
