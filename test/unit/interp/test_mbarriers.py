"""Barriers in shared memory count arrivals and complete phases."""

import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import Kind

SHARED = "memref<64xi32, #gpu.address_space<workgroup>>"
HEAD = """
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %even = arith.constant false
    %odd = arith.constant true
    %ticks = arith.constant 1000 : index
    %first = arith.cmpi eq, %t, %c0 : index
    %b = nvgpu.mbarrier.create -> !group
"""
INIT = """
    nvgpu.mbarrier.init %b[%c0], %c64, predicate = %first : !group
    gpu.barrier
"""
ARRIVE = "\n    %token{0} = nvgpu.mbarrier.arrive %b[%c0] : !group -> !nvgpu.mbarrier.token"
WAIT = "\n    nvgpu.mbarrier.try_wait.parity %b[%c0], {0}, %ticks : !group"
WRITE = f"""
    %i = arith.index_cast %t : index to i32
    memref.store %i, %s[%t] : {SHARED}"""
READ = f"""
    %n = affine.apply affine_map<(d0) -> ((d0 + 33) mod 64)>(%t)
    %v = memref.load %s[%n] : {SHARED}
    memref.store %v, %x[%t] : memref<64xi32>"""


def launch(body, group="num_barriers = 1", blocks=1):
    text = f"""
!group = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, {group}>
gpu.module @m {{ gpu.func @k(%x: memref<64xi32>) workgroup(%s: {SHARED}) kernel {{
{HEAD}{body}
    gpu.return }} }}"""
    x = np.zeros(64, np.int32)
    return x, interp.launch(text, grid=blocks, block=64, args=[x])


def test_a_completed_phase_orders_as_a_barrier_does():
    x, report = launch(INIT + WRITE + ARRIVE.format(0) + WAIT.format("%even") + READ)
    assert report.clean, report.faults
    assert (x == (np.arange(64) + 33) % 64).all()
    assert launch(INIT + WRITE + ARRIVE.format(0) + READ)[1].kinds() == {Kind.RACE}


def test_a_phase_orders_only_the_warps_that_arrive():
    """Warp 0 arrives alone, and all wait: lanes 0 to 30 read what warp 1 wrote, which nothing orders."""
    alone = "\n    %some = arith.cmpi slt, %t, %c32 : index\n    scf.if %some {" + ARRIVE.format(0) + "\n    }"
    init = "\n    %c32 = arith.constant 32 : index" + INIT.replace("%c64", "%c32")
    (fault,) = launch(init + WRITE + alone + WAIT.format("%even") + READ)[1].faults
    assert fault.kind is Kind.RACE and fault.count == 31
    assert "written by warp 1" in fault.message


def test_a_test_of_a_token_orders_as_a_wait_does():
    test = "\n    %done = nvgpu.mbarrier.test.wait %b[%c0], %token0 : !group, !nvgpu.mbarrier.token"
    assert launch(INIT + WRITE + ARRIVE.format(0) + test + READ)[1].clean


def test_phases_alternate():
    """Phase 0 is even, phase 1 odd; a wait for the phase that is under way would hang."""
    both = INIT + ARRIVE.format(0) + WAIT.format("%even") + ARRIVE.format(1) + WAIT.format("%odd")
    assert launch(both)[1].clean
    _, report = launch(INIT + ARRIVE.format(0) + WAIT.format("%odd"))
    (fault,) = report.faults
    assert fault.kind is Kind.DEADLOCK
    assert "the wait hangs: 64 of the 64 arrivals of phase 1 of barrier 0 are missing" in fault.message


def test_a_phase_needs_all_arrivals():
    half = (
        """
    %c32 = arith.constant 32 : index
    %some = arith.cmpi slt, %t, %c32 : index
    scf.if %some {"""
        + ARRIVE.format(0)
        + "\n    }"
    )
    _, report = launch(INIT + half + WAIT.format("%even"))
    assert "the wait hangs: 32 of the 64 arrivals of phase 0 of barrier 0 are missing" in report.faults[0].message
    assert launch(INIT + half + half.replace("%c32", "%h").replace("%some", "%more") + WAIT.format("%even"))[1].clean


def test_tokens_tell_the_phase():
    body = (
        INIT
        + ARRIVE.format(0)
        + """
    %done = nvgpu.mbarrier.test.wait %b[%c0], %token0 : !group, !nvgpu.mbarrier.token
    %d = arith.extui %done : i1 to i32"""
        + ARRIVE.format(1).replace("%b", "%b")
        + """
    %again = nvgpu.mbarrier.test.wait %b[%c0], %token1 : !group, !nvgpu.mbarrier.token
    %a = arith.extui %again : i1 to i32
    %both = arith.addi %d, %a : i32
    memref.store %both, %x[%t] : memref<64xi32>"""
    )
    x, report = launch(body)
    assert report.clean and (x == 2).all()


def test_arrivals_of_several_count():
    """32 lanes that arrive twice each complete a phase of 64."""
    body = (
        INIT
        + """
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %some = arith.cmpi slt, %t, %c32 : index
    scf.if %some {
      %k = nvgpu.mbarrier.arrive.nocomplete %b[%c0], %c2 : !group -> !nvgpu.mbarrier.token
    }"""
        + WAIT.format("%even")
    )
    assert launch(body)[1].clean


def test_groups_hold_several_barriers():
    body = (
        """
    nvgpu.mbarrier.init %b[%c0], %c64, predicate = %first : !group
    nvgpu.mbarrier.init %b[%c1], %c1, predicate = %first : !group
    gpu.barrier"""
        + ARRIVE.format(0)
        + """
    scf.if %first {
      %k = nvgpu.mbarrier.arrive %b[%c1] : !group -> !nvgpu.mbarrier.token
    }"""
        + WAIT.format("%even")
        + WAIT.format("%even").replace("%c0", "%c1")
    )
    assert launch(body, "num_barriers = 2", blocks=3)[1].clean


def test_use_before_initialisation():
    assert launch(ARRIVE.format(0))[1].kinds() == {Kind.UNINITIALISED}
    unordered = INIT.replace("gpu.barrier", "") + ARRIVE.format(0)
    _, report = launch(unordered)
    assert report.kinds() == {Kind.RACE} and report.faults[0].count == 63
    assert "initialised by another thread with no barrier between" in report.faults[0].message


def test_bytes_of_copies_are_refused():
    expect = "nvgpu.mbarrier.arrive.expect_tx %b[%c0], {} : !group"
    assert launch(INIT + expect.format("%c0") + WAIT.format("%even"))[1].clean
    with pytest.raises(
        InterpreterError, match=r"nvgpu.mbarrier.arrive.expect_tx: a barrier that waits for the bytes of"
    ):
        launch(INIT + expect.format("%c64"))


def test_pointers_to_barriers_are_refused():
    text = "%p = nvgpu.mbarrier.get %b[%c0] : !group -> i64\n%q = llvm.inttoptr %p : i64 to !llvm.ptr<3>\n"
    with pytest.raises(InterpreterError, match=r"does not support the operation nvvm.mbarrier.arrive"):
        launch(INIT + text + "%r = nvvm.mbarrier.arrive %q : !llvm.ptr<3> -> i64")
    other = "%p = arith.constant 64 : i64\n%q = llvm.inttoptr %p : i64 to !llvm.ptr<3>"
    with pytest.raises(InterpreterError, match=r"only the address of an mbarrier may become a pointer"):
        launch(INIT + other)
