"""Each fault planted in the PTX of a correct kernel is found, at its line."""

import re

import numpy as np
import pytest
from ptx_runs import memories_of, ptx_of, run_ptx

from lego_mlir import f16, f32
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.report import Kind
from lego_mlir.kernels import matmul, transpose
from lego_mlir.runtime import data

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
SMALL = matmul.ProductTile(64, 64, 32, (2, 2))


def entry(body, parameters=".param .u64 p", threads=64, shared=1024):
    """A kernel of hand-written text; line 7 is the first of its body."""
    return (
        f"{HEAD}.visible .entry k({parameters}) .maxntid {threads}, 1, 1\n"
        f"{{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<9>;\n"
        f".shared .align 16 .b8 tile[{shared}];\n{body}\nret; }}\n"
    )


def kinds(text, *args, grid=(1, 1, 1), **given):
    report = emulate(text, args=args, grid=grid, **given)
    return {(fault.kind, fault.place.line) for fault in report.faults}


def changed(text, pattern, replacement, count=1):
    found, changes = re.subn(pattern, replacement, text, count=count)
    assert changes == count
    return found


def run_transpose(edit):
    kernel = transpose.build("padded", 64, 64, f32)
    memories = memories_of(kernel, data.draw(kernel, {}, 0))
    text, facts = ptx_of(kernel)
    return run_ptx(kernel, memories, edit(text), facts)


def run_matmul(edit):
    kernel = matmul.build(64, 64, 128, f16, tiling=SMALL)
    memories = memories_of(kernel, data.draw(kernel, {}, 0))
    text, facts = ptx_of(kernel, "matmul_sm80.mlir")
    return run_ptx(kernel, memories, edit(text), facts)


def test_a_missing_barrier():
    assert run_transpose(lambda text: text).clean
    report = run_transpose(lambda text: changed(text, r"bar\.sync\s+0;", ";"))
    assert Kind.RACE in report.kinds()
    assert "by another warp, with no barrier between" in report.faults[0].message


def test_a_copy_that_is_not_waited_for():
    assert run_matmul(lambda text: text).clean
    report = run_matmul(lambda text: re.sub(r"cp\.async\.wait_group\s+\d+", "cp.async.wait_group 9", text))
    assert Kind.PENDING in report.kinds()
    assert "cp.async" in next(f.message for f in report.faults if f.kind is Kind.PENDING)


@pytest.mark.parametrize(("left", "expected"), [(0, set()), (1, {Kind.PENDING}), (3, {Kind.PENDING})])
def test_a_wait_for_more_groups_than_are_in_flight_waits_for_none(left, expected):
    """Two groups of a copy each; the second is read after a wait that leaves so many."""
    copy = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; ld.param.u64 %rd1, [p]; add.s64 %rd3, %rd1, %rd2;\n"
    copy += "shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;\n"
    group = "cp.async.ca.shared.global [%r3+{}], [%rd3], 4; cp.async.commit_group;\n"
    body = copy + group.format(0) + group.format(128) + f"cp.async.wait_group {left};\nld.shared.b32 %r4, [%r3+{{}}];"
    for place in (0, 128):
        at_wait = expected if left > 1 or place else set()
        found = emulate(entry(body.format(place), threads=32), args=[np.zeros(32, np.int32)]).kinds()
        assert found == at_wait, place


def test_a_pipeline_without_its_barrier():
    report = run_matmul(lambda text: changed(text, r"bar\.sync\s+0;", ";"))
    assert report.kinds() & {Kind.RACE, Kind.PENDING}


def test_out_of_bounds_and_misaligned():
    body = """mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; ld.param.u64 %rd1, [p]; add.s64 %rd3, %rd1, %rd2;
    ld.global.b32 %r2, [%rd3+4];
    ld.global.b16 %r3, [%rd3+1];
    st.shared.b32 [tile+4096], %r2;"""
    found = kinds(entry(body), np.zeros(64, np.int32))
    assert found == {(Kind.OUT_OF_BOUNDS, 8), (Kind.MISALIGNED, 9), (Kind.OUT_OF_BOUNDS, 10)}


def test_an_uninitialised_shared_read():
    assert kinds(entry("ld.shared.b32 %r1, [tile+8];"), np.zeros(4)) == {(Kind.UNINITIALISED, 7)}


def test_two_lanes_store_different_values():
    body = "mov.u32 %r1, %tid.x;\nst.shared.b32 [tile], %r1;"
    assert kinds(entry(body, threads=32), np.zeros(4)) == {(Kind.RACE, 8)}
    assert kinds(entry("st.shared.b32 [tile], 7;", threads=32), np.zeros(4)) == set()


def test_a_barrier_for_too_many_threads_is_a_deadlock_that_names_who_waits():
    report = emulate(entry("bar.sync 1, 64;\nbar.sync 2, 96;", threads=96), args=[np.zeros(4)])
    assert report.kinds() == {Kind.DEADLOCK}
    assert "line 7: barrier 1 of 64 threads, at which 32 have arrived" in report.faults[0].message
    assert "line 8: barrier 2 of 96 threads, at which 64 have arrived" in report.faults[0].message


def test_a_barrier_that_not_all_warps_reach():
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbar.sync 0;\nL:"
    assert kinds(entry(body), np.zeros(4)) == {(Kind.BARRIER, 9)}


def test_a_loop_that_never_ends():
    found = kinds(entry("L: bra L;"), np.zeros(4), budget=10_000)
    assert found == {(Kind.DEADLOCK, 7)}


def test_a_shuffle_from_an_inactive_lane():
    body = """mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16;
    @%p1 bra L;
    shfl.sync.idx.b32 %r2, %r1, 3, 31, 0xffff0000;
    L:"""
    assert kinds(entry(body, threads=32), np.zeros(4)) == {(Kind.SHUFFLE, 9)}


@pytest.mark.parametrize("seed", range(3))
def test_divergent_lanes_meet_at_a_warp_barrier(seed):
    """Lanes of different branches exchange through shared memory, with bar.warp.sync inside each branch."""
    body = """mov.u32 %r1, %laneid; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra L;
    add.s32 %r5, %r1, 100; bra M;
    L: add.s32 %r5, %r1, 200;
    M: st.shared.b32 [%r4], %r5; bar.warp.sync -1;
    xor.b32 %r6, %r2, 64; add.s32 %r6, %r6, %r3; ld.shared.b32 %r7, [%r6];
    ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.b32 [%rd1], %r7;"""
    out = np.zeros(32, np.int32)
    assert emulate(entry(body, threads=32), args=[out], seed=seed).clean
    lanes = np.arange(32)
    assert out.tolist() == np.where(lanes < 16, lanes + 116, lanes + 184).tolist()


def test_registers_that_never_come_free():
    body = "setmaxnreg.inc.sync.aligned.u32 256;"
    report = emulate(entry(body, threads=512), args=[np.zeros(4)])
    assert report.kinds() == {Kind.DEADLOCK}
    assert "registers for setmaxnreg 256, of which the block has 0 free" in report.faults[0].message


def test_register_counts_that_are_not_possible():
    body = "setmaxnreg.dec.sync.aligned.u32 20;\nsetmaxnreg.dec.sync.aligned.u32 64;"
    assert kinds(entry(body, threads=128), np.zeros(4)) == {(Kind.REGISTERS, 7), (Kind.REGISTERS, 8)}
