"""A product by TMA, mbarriers, wgmma and clusters: right, clean, accepted by ptxas; planted faults are found."""

import shutil
import subprocess

import numpy as np
import pytest
from hopper_ptx import A_BYTES, CHUNK, Plan, run, text

from lego_mlir.interp.report import Kind


@pytest.mark.parametrize("plan", [Plan(), Plan(cluster=2), Plan(k_steps=5, cluster=2)], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_right_and_clean(plan, seed):
    report, found, expected = run(plan, seed=seed)
    assert report.clean, report.faults
    assert np.array_equal(found, expected)


def test_ragged_sizes_are_filled_with_zeros_and_clipped():
    report, found, expected = run(Plan(cluster=2), rows=100, depth=168, columns=200)
    assert report.clean, report.faults
    assert np.array_equal(found, expected)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("cluster", [1, 2])
def test_ptxas_accepts_it(cluster, tmp_path):
    path = tmp_path / "product.ptx"
    path.write_text(text(Plan(cluster=cluster)))
    command = ["ptxas", "-arch=sm_90a", "-v", "-o", str(tmp_path / "product.cubin"), str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "C75" not in found.stderr
    assert "0 bytes spill stores" in found.stderr


FAULTS = {
    "a stage released early": (Plan(early_release=True), {Kind.PENDING}, "read of wgmma"),
    "a stage released early to both blocks": (Plan(cluster=2, early_release=True), {Kind.PENDING}, "read of wgmma"),
    "a missing rank mask": (Plan(cluster=2, rank_mask=False), {Kind.PENDING, Kind.UNINITIALISED}, "never written"),
    "an epilogue that waits for one store too few": (
        Plan(epilogue_wait="cp.async.bulk.wait_group.read 1;"), {Kind.PENDING}, "the read of a bulk copy",
    ),
    "an epilogue that does not wait": (Plan(epilogue_wait=""), {Kind.PENDING}, "the read of a bulk copy"),
    "an epilogue without its fence": (Plan(epilogue_fence=""), {Kind.UNFENCED}, "followed by fence.proxy.async"),
    "a barrier count too high": (Plan(extra_arrivals=1), {Kind.DEADLOCK}, "1 of 2 arrivals"),
    "a barrier count too low": (Plan(cluster=2, extra_arrivals=-1), {Kind.MBARRIER}, "more than its phase has left"),
    "a polled barrier that is relied on": (Plan(polls=3), {Kind.PENDING}, "write of a bulk copy"),
    "too few bytes expected": (Plan(expected_bytes=A_BYTES + CHUNK), {Kind.PENDING}, "write of a bulk copy"),
    "too many bytes expected": (Plan(expected_bytes=A_BYTES + 3 * CHUNK), {Kind.DEADLOCK}, "8192 bytes missing"),
    "no wgmma.fence": (Plan(wgmma_fence=""), {Kind.UNFENCED}, "after the last wgmma.fence"),
    "barriers used before the cluster meets": (Plan(cluster=2, cluster_sync=False), {Kind.RACE}, "this mbarrier"),
    "an initialisation that is not fenced": (Plan(init_fence=""), {Kind.UNFENCED}, "the use of this mbarrier"),
    "a block that may exit early": (Plan(cluster=2, hold_the_block=False), {Kind.RACE}, "the block may exit before"),
    "accumulators read before they land": (
        Plan(final_wait="wgmma.wait_group.sync.aligned 1;"), {Kind.PENDING}, "wgmma that is still in flight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", range(2))
def test_a_planted_fault_is_found(name, seed):
    plan, kinds, message = FAULTS[name]
    report, _, _ = run(plan, seed=seed)
    assert kinds <= report.kinds()
    assert any(message in fault.message for fault in report.faults), [f.message for f in report.faults]
