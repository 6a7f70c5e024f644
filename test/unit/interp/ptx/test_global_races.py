"""Races on global memory: what is ordered gives no alarm, and removing any one thing that orders it does."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.report import Kind

WRITER = """setp.ne.u32 %p1, %r50, 0; @%p1 bra END; setp.ne.u32 %p2, %r51, 0; @%p2 bra READ;
st.global.u32 [%rd1], 7;
"""
READER = """bra END;
READ: {poll} setp.eq.u32 %p3, %r9, 0; @%p3 bra READ;
{fence}
ld.global.u32 %r10, [%rd1]; st.global.u32 [%rd2+8], %r10; END: ret;"""
FENCE = "membar.gl;"
PROTOCOLS = {
    "flag by atomics": (FENCE, "atom.global.exch.b32 %r8, [%rd2], 1;", "atom.global.add.u32 %r9, [%rd2], 0;", FENCE),
    "volatile flag": (FENCE, "st.volatile.global.u32 [%rd2], 1;", "ld.volatile.global.u32 %r9, [%rd2];", FENCE),
    "release and acquire": ("", "st.release.gpu.global.u32 [%rd2], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd2];", ""),
    "acq_rel": ("", "atom.acq_rel.gpu.global.exch.b32 %r8, [%rd2], 1;",
                "atom.acq_rel.gpu.global.add.u32 %r9, [%rd2], 0;", ""),
    "cg": ("fence.acq_rel.gpu;", "red.relaxed.gpu.global.add.u32 [%rd2], 1;", "ld.relaxed.gpu.global.u32 %r9, [%rd2];",
           "fence.acq_rel.gpu;"),
}  # fmt: skip


def run(protocol: tuple[str, str, str, str], seed: int = 0):
    first, signal, poll, second = protocol
    text = entry(THREAD + WRITER + first + signal + READER.format(poll=poll, fence=second))
    x, y = np.zeros(1, np.uint32), np.zeros(3, np.uint32)
    return emulate(text, args=[x, y], names=["x", "y"], grid=2, block=32, seed=seed), y


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_fenced_flag_orders_two_blocks(name):
    for seed in range(5):
        report, y = run(PROTOCOLS[name], seed)
        assert report.clean, report
        assert y[2] == 7


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_half_of_the_order_is_needed(name):
    first, signal, poll, second = PROTOCOLS[name]
    weaker = {"release": "relaxed", "acquire": "relaxed", "acq_rel": "relaxed"}

    def relaxed(text: str) -> str:
        for word, instead in weaker.items():
            text = text.replace(f".{word}.", f".{instead}.")
        return text

    broken = [("", relaxed(signal), poll, second), (first, signal, relaxed(poll), "")]
    for protocol in broken:
        for seed in range(2):
            report, _ = run(protocol, seed)
            assert {f.kind for f in report.faults} == {Kind.RACE}, (name, protocol)
            assert "x[0] races with the" in report.faults[0].message


def one(
    body: str, *, grid: int = 2, block: int = 64, elements: int = 256, dtype=np.float32, checks=None, seed: int = 0
):
    x, y = np.arange(elements).astype(dtype), np.zeros(elements, dtype)
    options = EmulatorOptions(seed, checks=checks or Checks())
    return emulate(entry(THREAD + body), args=[x, y], names=["x", "y"], grid=grid, block=block, options=options)


TO_Y = "add.s64 %rd3, %rd1, %rd50; ld.global.b32 %r5, [%rd3]; add.s64 %rd4, %rd2, {at}; st.global.b32 [%rd4], %r5; ret;"


def test_blocks_that_write_their_own_elements_do_not_race():
    assert one(TO_Y.format(at="%rd50")).clean


def test_blocks_that_write_one_tile_do():
    (fault,) = one(TO_Y.format(at="%rd51")).faults
    assert fault.kind is Kind.RACE
    assert "stored to y[0] in one instruction" in fault.message


def test_the_same_value_twice_is_no_race():
    assert one("mov.u32 %r5, 3; add.s64 %rd4, %rd2, %rd51; st.global.b32 [%rd4], %r5; ret;").clean


@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_a_barrier_orders_the_warps_of_a_block(barrier):
    body = f"""add.s64 %rd4, %rd2, %rd51; st.global.b32 [%rd4], %r50; {barrier}
xor.b32 %r5, %r50, 32; mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, %rd2, %rd5; ld.global.b32 %r6, [%rd6];
add.s64 %rd7, %rd1, %rd51; st.global.b32 [%rd7], %r6; ret;"""
    for seed in range(3):
        report = one(body, grid=1, dtype=np.int32, seed=seed)
        assert report.clean == bool(barrier)
        assert all("by another warp, with no barrier between" in f.message for f in report.faults)


MEETING = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
SHIFTED = """add.s64 %rd4, %rd2, %rd50; {first} {barrier} xor.b32 %r5, %r53, {apart}; mul.wide.u32 %rd5, %r5, 4;
add.s64 %rd6, %rd2, %rd5; {second} ret;"""
STORE, LOAD = "st.global.b32 [%rd{}], %r53;", "ld.global.b32 %r6, [%rd{}];"
ORDERS = {"read after write": (STORE, LOAD), "write after read": (LOAD, STORE), "write after write": (STORE, STORE)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("barrier", "apart", "clean"), [
    (MEETING, 64, True), ("", 64, False), (MEETING, 32, True), (MEETING, 256, False),
])  # fmt: skip
def test_a_barrier_of_the_cluster_orders_its_blocks_and_no_others(order, barrier, apart, clean):
    first, second = (word.format(register) for word, register in zip(ORDERS[order], (4, 6), strict=True))
    body = entry(THREAD + SHIFTED.format(first=first, second=second, barrier=barrier, apart=apart))
    for cores in (1, 2):
        for seed in range(3):
            x, y = (np.zeros(512, np.int32) for _ in range(2))
            options = EmulatorOptions(seed, cores=cores)
            report = emulate(body, args=[x, y], names=["x", "y"], grid=8, block=64, cluster=4, options=options)
            assert report.clean == clean, report
            assert all(fault.kind is Kind.RACE and "of another block" in fault.message for fault in report.faults)


@pytest.mark.parametrize("writer", [0, 1, 2, 5])
@pytest.mark.parametrize("barrier", [MEETING, ""])
def test_every_block_may_have_read_what_one_writes(writer, barrier):
    body = f"""ld.global.b32 %r5, [%rd2]; {barrier} setp.ne.u32 %p1, %r53, {writer * 32}; @%p1 bra END;
st.global.b32 [%rd2], 9; END: ret;"""
    for grid in (4, 8):
        for seed in range(3):
            y = np.zeros(1, np.int32)
            report = emulate(entry(THREAD + body), args=[y, y], grid=grid, block=32, cluster=4, seed=seed)
            assert report.clean == ((bool(barrier) and grid == 4 and writer < 4) or writer >= grid), (grid, seed)


@pytest.mark.parametrize("barrier", ["barrier.cluster.arrive; barrier.cluster.wait;", ""])
def test_a_barrier_of_the_cluster_passes_on_what_a_flag_has_ordered(barrier):
    body = f"""setp.ne.u32 %p1, %r50, 0; @%p1 bra MEET; setp.ne.u32 %p2, %r51, 0; @%p2 bra POLL;
st.global.u32 [%rd1], 7; membar.gl; st.volatile.global.u32 [%rd2], 1; bra MEET;
POLL: setp.ne.u32 %p3, %r51, 2; @%p3 bra MEET;
AGAIN: ld.volatile.global.u32 %r9, [%rd2]; setp.eq.u32 %p4, %r9, 0; @%p4 bra AGAIN; membar.gl;
MEET: {barrier} setp.ne.u32 %p5, %r53, 96; @%p5 bra END;
ld.global.u32 %r10, [%rd1]; st.global.u32 [%rd2+8], %r10; END: ret;"""
    for seed in range(3):
        x, y = np.zeros(1, np.uint32), np.zeros(3, np.uint32)
        report = emulate(entry(THREAD + body), args=[x, y], names=["x", "y"], grid=4, block=32, cluster=2, seed=seed)
        assert report.clean == bool(barrier), report
        assert y[2] == 7 or not barrier


def test_bytes_beside_each_other_are_different_elements():
    body = "cvt.u64.u32 %rd9, %r53; mul.lo.u64 %rd9, %rd9, 1; add.s64 %rd4, %rd2, %rd9; st.global.u8 [%rd4], %r53; ret;"
    assert one(body, block=33, dtype=np.uint8).clean


def test_a_write_after_reads_of_several_blocks_is_a_race():
    body = """ld.global.b32 %r5, [%rd2]; setp.ne.u32 %p1, %r53, 0; @%p1 bra END; st.global.b32 [%rd2], 9; END: ret;"""
    assert any("races with the read" in f.message for f in one(body, grid=3).faults)


def test_replicated_may_be_stored_back():
    body = """ld.global.b32 %r5, [%rd2]; setp.ne.u32 %p1, %r53, 0; @%p1 bra END; st.global.b32 [%rd2], 9; END: ret;"""
    assert not one(body, grid=1).clean
    assert one(body, grid=1, checks=Checks(replicated=True)).clean


def test_a_sample_of_blocks_runs_only_those():
    x, y = np.arange(640, dtype=np.float32), np.zeros(640, np.float32)
    done = []
    options = EmulatorOptions(blocks=3, progress=lambda *counts: done.append(counts))
    report = emulate(entry(THREAD + TO_Y.format(at="%rd50")), args=[x, y], grid=20, block=32, options=options)
    assert report.blocks_run == 3
    assert done == [(3, 3)]
    assert sorted(set(np.flatnonzero(y) // 32)) == [0, 10, 19]


def test_polling_what_nothing_changes_is_a_deadlock_at_once():
    body = """WAIT: ld.volatile.global.u32 %r5, [%rd2]; setp.eq.u32 %p1, %r5, 0; @%p1 bra WAIT; ret;"""
    (fault,) = one(body, dtype=np.uint32).faults
    assert fault.kind is Kind.DEADLOCK
    assert "a loop that reads what no other warp will change" in fault.message


def test_a_loop_that_counts_its_polls_ends():
    body = """mov.u32 %r6, 0; WAIT: ld.volatile.global.u32 %r5, [%rd2]; add.u32 %r6, %r6, 1;
setp.lt.u32 %p1, %r6, 30; @%p1 bra WAIT; ret;"""
    assert one(body, dtype=np.uint32).clean


@pytest.mark.parametrize(("value", "clean"), [("%r50", False), ("3", True)])
@pytest.mark.parametrize("space", ["shared", "global"])
def test_two_warps_that_write_one_element_one_after_the_other_race_by_their_values(space, value, clean):
    place = "mov.u32 %r10, s; shl.b32 %r11, %r9, 2; add.u32 %r12, %r10, %r11;" if space == "shared" else ""
    at = "%r12" if space == "shared" else "%rd8"
    body = f""".shared .align 4 .b8 s[256]; and.b32 %r9, %r50, 31; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd8, %rd2, %rd9;
{place} setp.lt.u32 %p1, %r50, 32; @%p1 bra SECOND;
st.{space}.b32 [{at}], {value}; bra END;
SECOND: st.{space}.b32 [{at}], {value};
END: ret;"""
    for seed in range(3):
        assert one(body, grid=1, dtype=np.int32, seed=seed).clean == clean
