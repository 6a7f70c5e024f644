"""Races between lanes of one warp, where they are asked for."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions

NEIGHBOUR = """.shared .align 4 .b8 s[256]; mov.u32 %r10, s; shl.b32 %r11, %r50, 2; add.u32 %r12, %r10, %r11;
xor.b32 %r13, %r12, 4; add.s64 %rd4, %rd1, %rd51;
st.shared.b32 [%r12], %r50;
{first}
ld.shared.b32 %r14, [%r13];
{second}
st.shared.b32 [%r12], %r14;
st.global.b32 [%rd4], %r14; ret;"""
WARP, BLOCK = "bar.warp.sync -1;", "bar.sync 0;"


def faults(first: str, second: str, **checks: bool):
    text = entry(THREAD + NEIGHBOUR.format(first=first, second=second), "y")
    options = EmulatorOptions(checks=Checks(**checks))
    return emulate(text, args=[np.zeros(64, np.int32)], grid=1, block=64, options=options).faults


@pytest.mark.parametrize("barrier", [WARP, BLOCK])
def test_barriers_order_lanes(barrier):
    assert faults(barrier, barrier, lanes=True) == []


@pytest.mark.parametrize(("first", "second", "earlier"), [("", WARP, "write"), (WARP, "", "read")])
def test_a_missing_barrier_of_the_warp_is_a_race(first, second, earlier):
    assert faults(first, second) == []
    (fault,) = faults(first, second, lanes=True)
    assert f"races with the {earlier} at line" in fault.message
    assert fault.message.endswith("by another lane of its warp, with no __syncwarp between")
    assert fault.count == 64


def test_a_lane_may_use_what_it_wrote():
    text = entry(
        f"""{THREAD} .shared .align 4 .b8 s[256]; mov.u32 %r10, s; shl.b32 %r11, %r50, 2;
add.u32 %r12, %r10, %r11; st.shared.b32 [%r12], %r50; ld.shared.b32 %r14, [%r12]; st.shared.b32 [%r12], %r14; ret;""",
        "y",
    )
    options = EmulatorOptions(checks=Checks(lanes=True))
    assert emulate(text, args=[np.zeros(64, np.int32)], grid=1, block=64, options=options).clean
