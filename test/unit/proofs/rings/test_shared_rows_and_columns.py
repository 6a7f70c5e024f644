"""Rings of products in clusters of 2 x 2 blocks, which share rows and columns: proved, unless a word is wrong."""

from functools import cache

import pytest
from scheduled_faults import FAULTS, planted

from lego_mlir import Col, Row, f16
from lego_mlir.expr.verdict import Proved
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof
from lego_mlir.schedule import nested
from lego_mlir.tracing.schedules.common_copies import _Share

TILING = ProductTile(64, 64, 64, (4, 1))


def product(m, n, k, blocks, cluster=(2, 2), more=""):
    down, across = cluster
    order = nested(Row(-(-m // (64 * down)), -(-n // (64 * across))), Col(down, across))
    kernel = matmul.build(m, n, k, f16, b=Col(k, n), result=f16, tiling=TILING, order=order)
    words = f"pipeline(stages=2), clusters(blocks={down * across}), {more}roles"
    return kernel.schedule(f"persistent(blocks={blocks}), warpgroups, copied_out, {words}")


@cache
def small():
    return product(256, 256, 192, 8)


def verdict(kernel):
    trace = kernel.trace()
    proof = ring_proof(trace)
    (claim,) = ring_claims(trace, proof)
    return claim.verdict, proof


@pytest.mark.parametrize(
    "kernel",
    [
        small,
        lambda: product(500, 456, 200, 8),  # tiles, and blocks' tiles, that end outside
        pytest.param(lambda: product(1000, 1048, 520, 16, (4, 2), "lockstep(every=4), "), marks=pytest.mark.long),
        pytest.param(lambda: product(128, 256, 192, 8, (2, 4)), marks=pytest.mark.long),
    ],
)
def test_they_are_proved_and_every_stage_is_filled(kernel):
    found, proof = verdict(kernel())
    assert isinstance(found, Proved), found
    assert proof.guarded and not proof.unfilled and not proof.open


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_word_is_not_proved(fault):
    assert not isinstance(verdict(planted(small(), fault))[0], Proved)


MASK, ROWS = _Share.mask, _Share.rows
WRONG = {
    "the same blocks for all": ("mask", lambda share, rank: 0b0011 + 0 * rank),
    "blocks that share the other operand": ("mask", lambda share, rank: MASK(_Share(2, 3 - share.distance), rank)),
    "half of a part": ("rows", lambda share, tile: ROWS(share, tile) // 2),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_masks_and_parts_are_not_proved(wrong, monkeypatch):
    monkeypatch.setattr(_Share, *WRONG[wrong])
    found, proof = verdict(product(256, 256, 192, 8))
    assert not isinstance(found, Proved) or proof.unfilled
