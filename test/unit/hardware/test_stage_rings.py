"""Rings of stages: what fits a block, and that one stage more does not."""

from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.stage_rings import ENOUGH_STAGES, StageRing


@given(st.integers(1, 56).map(lambda n: 1024 * n), st.integers(1, 16).map(lambda n: 1024 * n))
def test_the_stages_that_fit_and_no_more(stage, buffer):
    ring = StageRing(stage, buffer)
    assert ring.shared_bytes(ring.most) <= LARGEST_SHARED_BYTES < ring.shared_bytes(ring.most + 1)
    assert ring.roomy <= ring.most
    assert ring.buffers(ring.roomy) == 2 or ring.roomy <= ENOUGH_STAGES
    assert [ring.buffers(n) for n in (ring.fitting(2), ring.fitting(2) + 1)] == [2, 1]
