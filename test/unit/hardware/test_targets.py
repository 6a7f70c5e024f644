"""The table of targets: known to LLVM, consistent, and refused with the list when unknown."""

import pytest

from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import STATIC_SHARED_BYTES
from lego_mlir.hardware.targets import TARGETS, KiB, Target, target_named
from lego_mlir.toolchain.llvm import to_ptx


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_llvm_writes_code_for_every_row(target):
    ptx = to_ptx("define ptx_kernel void @k() { ret void }", target)
    assert f".target {target.name}\n" in ptx
    assert f".version {target.ptx // 10}.{target.ptx % 10}\n" in ptx


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_shared_memory_limits_are_possible(target):
    assert STATIC_SHARED_BYTES <= target.shared_per_block <= target.shared_per_sm
    # From sm_80 on the system keeps one KiB of an SM's shared memory for each block.
    assert target.shared_per_sm - target.shared_per_block == (0 if target.name == "sm_75" else KiB)


def test_specific_targets_and_capabilities():
    assert [t.name for t in TARGETS.values() if t.specific] == ["sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a"]
    assert target_named("sm_100a").compute_capability == (10, 0)
    assert target_named("sm_89").compute_capability == (8, 9)


def test_a_row_passes_and_an_unknown_name_is_refused_with_the_known_ones():
    row = Target("sm_200", 99, 1, 1)
    assert target_named(row) is row
    with pytest.raises(UsageError, match=r"unknown target 'sm_8'; known: sm_75, sm_80"):
        target_named("sm_8")
