"""Rings of barriers of kernels: shipped ones are proved, faults planted in a product are refuted with their round."""

import pytest
from ring_mutants import FAULTS, product
from role_kernels import staged

from lego_mlir import f32
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.kernels import batched_products, grouped_products, transpose
from lego_mlir.kernels.role_tiles import RoleTile
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof


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


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_refuted_with_their_round(fault):
    found = verdict(product(fault))
    assert isinstance(found, Refuted)
    assert "round" in found.explanation


def test_a_kernel_without_rings_has_no_claim_about_them():
    trace = transpose.build("naive", 64, 64, f32).trace()
    assert ring_proof(trace) is None
    assert not list(ring_claims(trace, None))
