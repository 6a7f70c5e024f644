"""Rings of windowed and persistent attention: proved as they are, refuted where a fault is planted."""

import re

import attention_faults
import pytest
from ring_kernels import verdict

from lego_mlir import bf16, f8e4m3fn
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.kernels import fused_attention
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile
from lego_mlir.proofs.rings.claims import ring_proof

IN_TURNS = AttentionTile(2, 128, 4, turns=True)
PLANTED = {
    ("window", "released early"): r"the read of shared\d while the copy of use \d+ goes on",
    ("window", "reused before its wait"): r"the copy of use \d+ is issued while .* \(round k\d+ = \d+\)",
    ("persistent", "no arrival"): r"deadlock: .* \(round k\d+ = 0, k\d+ = 2\); .* \(round k\d+ = 0, k\d+ = 3\)",
    ("persistent", "wrong parity"): r"the read of shared\d while the copy of use 0 goes on \(round k\d+ = 0\)",
    ("window", "no arrival"): r"deadlock: .* \(round .*\); .* \(round .*\)",
    ("window", "wrong parity"): r"the read of shared\d while the copy of use \d+ goes on",
    ("persistent", "released early"): r"the read of shared\d while the copy of use 2 goes on \(round k\d+ = 0\)",
    ("persistent", "reused before its wait"): r"the copy of use 2 is issued while that of use 0 goes on \(round .*\)",
    ("persistent", "queries released early"): r"the write of shared0 while the copy of use \d+ goes on \(round .*\)",
    ("persistent", "queries kept"): r"deadlock: .* \(round k\d+ = 2\); .* \(round k\d+ = 2\)",
    ("narrow", "copies kept"): r"deadlock: .* waits for use 4 \(round .*\); .* waits for use 1 \(round .*\)",
    ("narrow", "copies not awaited"): r"the read of copied while the copy of use 0 goes on \(round .*\)",
}
LEFT_OPEN = ("copies released early", "copies reused before their wait")
FEW = 4


@pytest.mark.parametrize("form", attention_faults.KERNELS)
def test_small_kernels_without_a_fault_are_proved(form):
    assert isinstance(verdict(attention_faults.KERNELS[form]()), Proved)


@pytest.mark.parametrize(
    ("form", "fault"), [pytest.param(*key, marks=() if n < FEW else pytest.mark.long) for n, key in enumerate(PLANTED)]
)
def test_planted_faults_are_refuted_with_the_round(form, fault, monkeypatch):
    found = verdict(attention_faults.faulty(form, fault, monkeypatch))
    assert isinstance(found, Refuted)
    assert re.search(PLANTED[form, fault], found.explanation)


@pytest.mark.parametrize("fault", LEFT_OPEN)
def test_planted_faults_between_warps_of_a_role_are_never_proved(fault, monkeypatch):
    found = verdict(attention_faults.faulty("narrow", fault, monkeypatch))
    assert isinstance(found, Unknown)
    assert re.search(r"the read of copied for use u while .* may write use u \+ 2", found.reason)


def test_every_fault_is_planted():
    assert {fault for _, fault in PLANTED} | set(LEFT_OPEN) == set(attention_faults.FAULTS)


def long(name, *given):
    return pytest.param(*given, id=name, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("form", "tile"),
    [
        pytest.param(AttentionForm(causal=True), AttentionTile(4, 64, 4), id="causal of four groups"),
        pytest.param(
            AttentionForm(features=256, causal=True),
            AttentionTile(2, 64, 2, skips=True, sections=8),
            id="tiles skipped and parts by length",
        ),
        long("plain", AttentionForm(), None),
        long("plain in turns", AttentionForm(), IN_TURNS),
        long("causal", AttentionForm(causal=True), None),
        long("causal in turns", AttentionForm(causal=True), IN_TURNS),
        long("window in turns", AttentionForm(causal=True, window=128), IN_TURNS),
        long("groups", AttentionForm(causal=True, group=2), IN_TURNS),
        long("128", AttentionForm(features=128), None),
        long("256 causal", AttentionForm(features=256, causal=True), None),
    ],
)
def test_rings_of_persistent_attention_are_proved_for_all_sizes_and_their_stages_filled(form, tile):
    proof = ring_proof(fused_attention.build(form, tile, blocks=132).trace())
    assert proof.reasons == ()
    assert proof.guarded == {"shared0", "shared1", "shared2"}
    assert proof.unfilled == {}


@pytest.mark.parametrize(
    ("features", "causal", "blocks"),
    [
        (64, True, None),
        long("one part, 64", 64, False, None),
        long("one part, 128 causal", 128, True, None),
        long("64", 64, False, 132),
        long("64 causal", 64, True, 132),
        long("128", 128, False, 132),
        long("128 causal", 128, True, 132),
    ],
)
def test_rings_of_attention_of_8_bits_and_of_its_copied_values_are_proved_for_all_sizes(features, causal, blocks):
    form = AttentionForm(features, f8e4m3fn, result=bf16, causal=causal)
    proof = ring_proof(fused_attention.build(form, None, blocks=blocks).trace())
    assert proof.reasons == ()
    assert proof.guarded == {"shared0", "copied", "shared2"}
    assert proof.unfilled == {}
