"""Barriers of a warp order the accesses of its lanes, and of no others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import interp
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import Kind

SHARED = "memref<128xi32, #gpu.address_space<workgroup>>"
CONSTANTS = """
    %t = gpu.thread_id x
    %all = arith.constant -1 : i32
    %zero = arith.constant 0 : i32
"""
STEPS = {"warp": "\n    nvvm.bar.warp.sync %all : i32", "block": "\n    gpu.barrier"}


def launch(body, threads=64, blocks=2, **options):
    text = f"""
gpu.module @m {{ gpu.func @k(%x: memref<256xi32>) workgroup(%s: {SHARED}) kernel {{
{CONSTANTS}
{body}
    gpu.return }} }}"""
    x = np.zeros(256, np.int32)
    report = interp.launch(text, grid=blocks, block=threads, args=[x], **options)
    return x, report


def write(index, at=0):
    return f"""
    %w{at} = affine.apply affine_map<(d0) -> ({index})>(%t)
    %i{at} = arith.index_cast %t : index to i32
    memref.store %i{at}, %s[%w{at}] : {SHARED}"""


def read(index, at=0):
    return f"""
    %r{at} = affine.apply affine_map<(d0) -> ({index})>(%t)
    %v{at} = memref.load %s[%r{at}] : {SHARED}
    memref.store %v{at}, %x[%t] : memref<256xi32>"""


NEXT_IN_WARP = "(d0 floordiv 32) * 32 + (d0 + 1) mod 32"


def test_lanes_of_a_warp_exchange_values():
    x, report = launch(write("d0") + STEPS["warp"] + read(NEXT_IN_WARP), blocks=1)
    assert report.clean, report.faults
    t = np.arange(64)
    assert (x[:64] == t // 32 * 32 + (t + 1) % 32).all()
    assert launch(write("d0") + read(NEXT_IN_WARP))[1].kinds() == {Kind.RACE}


def test_warps_are_not_ordered_by_their_own_barriers():
    _, report = launch(write("d0") + STEPS["warp"] + read("(d0 + 32) mod 64"))
    assert report.kinds() == {Kind.RACE}
    assert "written by thread (32, 0, 0)" in report.faults[0].message
    assert launch(write("d0") + STEPS["warp"] + STEPS["block"] + read("(d0 + 32) mod 64"), blocks=1)[1].clean


def test_what_a_block_ordered_stays_ordered_after_a_barrier_of_a_warp():
    body = write("d0") + STEPS["block"] + STEPS["warp"] + read("(d0 + 32) mod 64")
    assert launch(body, blocks=1)[1].clean


def test_a_write_after_reads_of_the_warp():
    """All lanes read an element that one lane writes after the barrier: several readers, of one warp."""
    first = write("d0") + STEPS["block"] + read("(d0 floordiv 32) * 32")
    assert launch(first + STEPS["warp"] + write("d0", 1), blocks=1)[1].clean
    assert launch(first + write("d0", 1), blocks=1)[1].kinds() == {Kind.RACE}
    across = write("d0") + STEPS["block"] + read("0 * d0") + STEPS["warp"] + write("d0", 1)
    _, report = launch(across, blocks=1)
    assert report.kinds() == {Kind.RACE}
    assert "read by several threads at" in report.faults[0].message


def test_readers_of_one_warp_are_named():
    body = (
        write("d0")
        + STEPS["block"]
        + STEPS["warp"]
        + read("d0 floordiv 32")
        + write("d0 + 32 - (d0 floordiv 32) * 64", 1)
    )
    _, report = launch(body, blocks=1)
    assert "read by several threads of warp 0" in "".join(f.message for f in report.faults)


def test_a_barrier_that_only_some_lanes_reach():
    body = """
    %c5 = arith.constant 5 : index
    %some = arith.cmpi slt, %t, %c5 : index
    scf.if %some { nvvm.bar.warp.sync %all : i32 }"""
    _, report = launch(body)
    (fault,) = report.faults
    assert fault.kind is Kind.BARRIER and "lane 5 of warp 0 does not reach this barrier of the warp" in fault.message
    assert fault.count == 2
    whole = body.replace("constant 5", "constant 32")
    assert launch(whole)[1].clean


def test_masks_of_part_of_a_warp_are_refused():
    with pytest.raises(InterpreterError, match=r"bar.warp.sync: only masks of the whole warp are supported, -1, got 0"):
        launch("nvvm.bar.warp.sync %zero : i32")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("add", 32 * 31 // 2 - 32 * 9),
        ("max", 22),
        ("min", -9),
        ("umax", -1),
        ("umin", 0),
        ("or", -1),
        ("and", 0),
        ("xor", 0),
    ],
)
def test_redux(kind, expected):
    body = f"""
    %c32 = arith.constant 32 : index
    %c9 = arith.constant 9 : index
    %lane = arith.remui %t, %c32 : index
    %less = arith.subi %lane, %c9 : index
    %v = arith.index_cast %less : index to i32
    %r = nvvm.redux.sync {kind} %v, %all : i32 -> i32
    memref.store %r, %x[%t] : memref<256xi32>"""
    x, report = launch(body, blocks=1)
    values = (np.arange(32) - 9).astype(np.int32)
    if kind in ("or", "and", "xor"):
        expected = int(getattr(np, f"bitwise_{kind}").reduce(values))
    assert report.clean and (x[:64] == expected).all()


# A second model of the order: vectors of the last barriers, compared for every pair of accesses.


def races(steps):
    """Whether two accesses of a list of (barrier | (writes?, element of thread)) are unordered and conflict."""
    block, warp, seen = 0, [0, 0], []
    for step in steps:
        if step == "block":
            block += 1
        elif step == "warp":
            warp = [n + 1 for n in warp]
        elif step in ("warp 0", "warp 1"):
            warp[int(step[-1])] += 1
        else:
            writes, element = step
            now = [(t, element(t), writes, block, warp[t // 32]) for t in range(64)]
            for t, e, w, b, c in now:
                for other, e2, w2, b2, c2 in seen + now:
                    apart = other != t and e == e2 and (w or w2) and b == b2
                    if apart and not (t // 32 == other // 32 and c != c2):
                        return True
            seen += now
    return False


ELEMENTS = {
    "d0": lambda t: t,
    "(d0 floordiv 32) * 32": lambda t: t // 32 * 32,
    "(d0 + 1) mod 64": lambda t: (t + 1) % 64,
    NEXT_IN_WARP: lambda t: t // 32 * 32 + (t + 1) % 32,
    "d0 floordiv 2": lambda t: t // 2,
    "(d0 + 32) mod 64 + 64": lambda t: (t + 32) % 64 + 64,
}
ONE_WARP = """
    %h{at} = arith.constant {first} : index
    %g{at} = arith.constant {last} : index
    %a{at} = arith.cmpi sge, %t, %h{at} : index
    %b{at} = arith.cmpi slt, %t, %g{at} : index
    %o{at} = arith.andi %a{at}, %b{at} : i1
    scf.if %o{at} {{ nvvm.bar.warp.sync %all : i32 }}"""


@given(
    st.lists(
        st.sampled_from(["block", "warp", "warp 0", "warp 1"])
        | st.tuples(st.booleans(), st.sampled_from(list(ELEMENTS))),
        max_size=9,
    )
)
@settings(max_examples=60)
def test_races_are_those_of_pairs_of_accesses(steps):
    body = "".join(write(index, 100 + n) for n, index in enumerate(("d0", "d0 + 64"))) + STEPS["block"]
    for n, step in enumerate(steps):
        if isinstance(step, tuple):
            body += (write if step[0] else read)(step[1], n)
        elif step in STEPS:
            body += STEPS[step]
        else:
            first = 32 * int(step[-1])
            body += ONE_WARP.format(at=n, first=first, last=first + 32)
    model = [step if isinstance(step, str) else (step[0], ELEMENTS[step[1]]) for step in steps]
    _, report = launch(body, blocks=1)
    assert (Kind.RACE in report.kinds()) == races(model)
    assert report.kinds() <= {Kind.RACE}
