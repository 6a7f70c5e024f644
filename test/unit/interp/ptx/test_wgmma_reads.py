"""Stores and copies to the shared memory that a wgmma in flight reads: each without its wait or barrier is found."""

import numpy as np
import pytest

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import DEFAULT, TRITON
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.report import Kind

A, B, BARRIER = 0, 2048, 4096
WAIT, MEET = "wgmma.wait_group.sync.aligned 0;", "bar.sync 1, 256;"
ORDERED, RACES = set(), {Kind.PENDING}


def text(after_issue, group_one="", registers=False):
    """Group 0 issues D [64, 8] = A [64, 16] B [16, 8], then runs `after_issue`; group 1 runs `group_one`.

    Row r of A is 16 bytes at byte 16 * (r % 8) + 256 * (r // 8), and 16 bytes 128 on; %at is where a warp's rows begin.
    """
    d = "{%f0, %f1, %f2, %f3}"
    left = "{%r10, %r10, %r10, %r10}" if registers else "%rd1"
    flips = "0" if registers else "0, 0"
    body = f"""
mov.u32 %base, tile; mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5; mov.b32 %r10, 0;
setp.eq.u32 %first, %thread, 0; setp.lt.u32 %group, %thread, 128; setp.eq.u32 %second, %warp, 1;
mad.lo.u32 %r1, %thread, 16, %base; st.shared.v4.b32 [%r1], {{%r10, %r10, %r10, %r10}};
@%first mbarrier.init.shared::cta.b64 [%base+{BARRIER}], 1;
@%first fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta; bar.sync 0;
mad.lo.u32 %at, %warp, 512, %base;
@!%group bra OTHER;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
wgmma.fence.sync.aligned;
shr.u32 %r2, %base, 4; cvt.u64.u32 %rd1, %r2; or.b64 %rd1, %rd1, {hex(16 << 32 | 8 << 16)};
add.u32 %r2, %r2, {B >> 4}; cvt.u64.u32 %rd2, %r2; or.b64 %rd2, %rd2, {hex(16 << 32 | 8 << 16)};
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d}, {left}, %rd2, 1, 1, 1, {flips};
wgmma.commit_group.sync.aligned;
{after_issue}
bra END;
OTHER:
{group_one}
END: wgmma.wait_group.sync.aligned 0; ret;
"""
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) .maxntid 256, 1, 1\n"
        "{ .reg .pred %first, %group, %second, %done; .reg .b32 %r<20>, %base, %thread, %warp, %at; .reg .b64 %rd<9>;\n"
        f".reg .f32 %f<9>; .shared .align 1024 .b8 tile[4104];\n{body}\n}}\n"
    )


OWN = "st.shared.b32 [%at], %r10;"
OTHERS_ROWS = f"@%second st.shared.b32 [%base+{A + 1024}], %r10;"
COLUMNS = f"@%second st.shared.b32 [%base+{B}], %r10;"
COPY = f"""
@!%first bra COPIED;
ld.param.u64 %rd4, [p]; add.u32 %r3, %base, {BARRIER}; add.u32 %r4, %base, {B};
mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r3], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd4], 256, [%r3];
COPIED: mbarrier.try_wait.parity.shared::cta.b64 %done, [%base+{BARRIER}], 0; @!%done bra COPIED;
"""
CASES = {
    "a warp's own rows after its wait": (WAIT + OWN, "", ORDERED),
    "a warp's own rows before its wait": (OWN + WAIT, "", RACES),
    "another warp's rows after its own wait": (WAIT + OTHERS_ROWS, "", RACES),
    "what all warps read after its own wait": (WAIT + COLUMNS, "", RACES),
    "another warp's rows after a barrier": (WAIT + "bar.sync 1, 128;" + OTHERS_ROWS, "", ORDERED),
    "what all warps read after a barrier": (WAIT + "bar.sync 1, 128;" + COLUMNS, "", ORDERED),
    "a barrier before the wait": ("bar.sync 1, 128;" + WAIT + COLUMNS, "", RACES),
    "another group that meets it before the wait": (MEET + WAIT, MEET + f"st.shared.b32 [%base+{B}], %r10;", RACES),
    "another group that meets it": (WAIT + MEET, MEET + f"st.shared.b32 [%base+{B}], %r10;", ORDERED),
    "a copy before the wait": (COPY + WAIT, "", RACES),
    "a copy by a thread that has waited": (WAIT + COPY, "", ORDERED),
    "a result that is read before the wait": ("add.f32 %f5, %f0, %f1;" + WAIT, "", RACES),
    "a result that is read after the wait": (WAIT + "add.f32 %f5, %f0, %f1;", "", ORDERED),
}  # fmt: skip


def kinds(ptx, checks=DEFAULT, seed=0):
    options = EmulatorOptions(seed, checks=checks)
    return emulate(ptx, args=[np.zeros(128, np.float16)], options=options).kinds()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_what_follows_a_product(name, seed):
    after, group_one, expected = CASES[name]
    assert kinds(text(after, group_one), seed=seed) == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_store_of_another_group_with_no_barrier(seed):
    found = kinds(text(WAIT, f"st.shared.b32 [%base+{B}], %r10;"), seed=seed)
    assert found in ({Kind.RACE}, {Kind.PENDING})  # as the store is before the wgmma or after it


@pytest.mark.parametrize(("after", "expected"), [(WAIT + COLUMNS, RACES), (COLUMNS + WAIT, RACES), (WAIT, ORDERED)])
def test_columns_of_a_product_whose_rows_are_in_registers(after, expected):
    assert kinds(text(after, registers=True)) == expected


def test_triton_takes_the_wait_for_a_barrier():
    assert kinds(text(WAIT + COLUMNS), TRITON) == ORDERED
    assert kinds(text(COLUMNS + WAIT), TRITON) == RACES
