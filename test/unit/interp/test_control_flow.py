"""Control flow under divergence: loops, branches, blocks, returns and assertions."""

# ruff: noqa: E501  (MLIR reads better unbroken)
import numpy as np
import pytest
from lane_texts import LANES, PROLOGUE, T, index_of

from lego_mlir import interp
from lego_mlir.interp import Kind

LOOPS = {
    "uniform for": ("%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %t) -> index { %n = arith.addi %s, %i : index scf.yield %n : index }", T + 6),
    "lane-varying upper bound": ("%r = scf.for %i = %c0 to %mod8 step %c1 iter_args(%s = %t) -> index { %n = arith.addi %s, %i : index scf.yield %n : index }",
                                 T + (T % 8) * (T % 8 - 1) // 2),
    "lane-varying lower bound and step": (
        "%st = arith.addi %mod4, %c1 : index\n%r = scf.for %i = %mod4 to %c32 step %st iter_args(%s = %c0) -> index { %n = arith.addi %s, %i : index scf.yield %n : index }",
        np.array([sum(range(t % 4, 32, t % 4 + 1)) for t in T])),
    "if with results": ("%r = scf.if %is_odd -> index { scf.yield %t : index } else { scf.yield %c4 : index }", np.where(T % 2, T, 4)),
    "nested if": (
        """%lt = arith.cmpi ult, %mod8, %c4 : index
        %r = scf.if %is_odd -> index {
          %x = scf.if %lt -> index { scf.yield %c1 : index } else { scf.yield %c2 : index }
          scf.yield %x : index
        } else { scf.yield %c0 : index }""", np.where(T % 2, np.where(T % 8 < 4, 1, 2), 0)),
    "while: Collatz steps": (
        """%start = arith.addi %t, %c1 : index
        %x:2 = scf.while (%n = %start, %steps = %c0) : (index, index) -> (index, index) {
          %go = arith.cmpi ne, %n, %c1 : index
          scf.condition(%go) %n, %steps : index, index
        } do { ^bb0(%n: index, %steps: index):
          %half = arith.divui %n, %c2 : index
          %rem = arith.remui %n, %c2 : index
          %even = arith.cmpi eq, %rem, %c0 : index
          %three = affine.apply affine_map<(d0) -> (3 * d0 + 1)>(%n)
          %next = arith.select %even, %half, %three : index
          %more = arith.addi %steps, %c1 : index
          scf.yield %next, %more : index, index
        }
        %r = arith.addi %x#1, %c0 : index""", None),
    "index_switch": (
        """%r = scf.index_switch %mod4 -> index case 0 { scf.yield %c32 : index } case 2 { scf.yield %t : index } default { scf.yield %c1 : index }""",
        np.select([T % 4 == 0, T % 4 == 2], [32, T], 1)),
    "affine.for with a triangular bound": (
        "%r = affine.for %i = 0 to affine_map<(d0) -> (d0 + 1, 5)>(%t) iter_args(%s = %c0) -> index { %n = arith.addi %s, %i : index affine.yield %n : index }"
        .replace("to affine_map", "to min affine_map"), np.array([sum(range(min(t + 1, 5))) for t in T])),
    "affine.if": ("%r = affine.if affine_set<(d0) : (d0 - 8 >= 0, 31 - d0 >= 0)>(%t) -> index { affine.yield %t : index } else { affine.yield %c0 : index }",
                  np.where((T >= 8) & (T <= 31), T, 0)),
    "affine.if with equality and floor": (
        "%r = affine.if affine_set<(d0) : (d0 mod 4 - 1 == 0)>(%t) -> index { affine.yield %t : index } else { affine.yield %c0 : index }", np.where(T % 4 == 1, T, 0)),
    "affine.min and max": (
        "%lo = affine.min affine_map<(d0) -> (d0, 20)>(%t)\n%r = affine.max affine_map<(d0) -> (d0, 3)>(%lo)", np.clip(T, 3, 20)),
    "affine arithmetic": (
        "%r = affine.apply affine_map<(d0)[s0] -> ((d0 - 40) floordiv 7 + (d0 - 40) ceildiv 7 * 100 + ((d0 - 40) mod 7) * s0)>(%t)[%c4]",
        (T - 40) // 7 + -(-(T - 40) // 7) * 100 + (T - 40) % 7 * 4),
    "delinearize": ("%d:3 = affine.delinearize_index %t into (4, 2, 8) : index, index, index\n%x = arith.muli %d#2, %c32 : index\n%y = arith.addi %d#0, %x : index\n%r = arith.addi %y, %d#1 : index",
                    T % 8 * 32 + T // 16 + T // 8 % 2),
    "linearize": ("%r = affine.linearize_index [%mod4, %mod8] by (4, 8) : index", T % 4 * 8 + T % 8),
    "func.call": ("%r = func.call @twice(%t) : (index) -> index", 2 * T),
    "execute_region": ("%r = scf.execute_region -> index { %q = arith.addi %t, %c1 : index scf.yield %q : index }", T + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_control_flow(name: str):
    body, expected = LOOPS[name]
    if name == "func.call":
        text = f"""gpu.module @m {{
          func.func @twice(%x: index) -> index {{ %y = arith.addi %x, %x : index return %y : index }}
          gpu.func @k(%out: memref<{LANES}xindex>) kernel {{ %t = gpu.thread_id x
            {body}
            memref.store %r, %out[%t] : memref<{LANES}xindex>
            gpu.return }} }}"""
        out = np.zeros(LANES, np.int64)
        interp.launch(text, "k", grid=1, block=LANES, args=[out])
        assert np.array_equal(out, expected)
        return
    if expected is None:

        def collatz(n: int) -> int:
            return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)

        expected = np.array([collatz(int(t) + 1) for t in T])
    assert np.array_equal(index_of(body), expected)


ONE_MORE = f"""%old = memref.load %out[%t] : memref<{LANES}xf32>
            %new = arith.addf %old, %f1 : f32
            memref.store %new, %out[%t] : memref<{LANES}xf32>"""
STORES = {
    "those of a branch": (
        f"""scf.if %is_odd {{ memref.store %f1, %out[%t] : memref<{LANES}xf32> }}
        scf.for %i = %c0 to %mod4 step %c1 {{ {ONE_MORE} }}""", T % 2 + T % 4),
    "a loop in a branch": (f"scf.if %is_odd {{ scf.for %i = %c0 to %mod8 step %c1 {{ {ONE_MORE} }} }}", T % 2 * (T % 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_stores_happen_for_the_lanes_of_a_branch_only(name: str):
    body, expected = STORES[name]
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<{LANES}xf32>) kernel {{
        {PROLOGUE}
        {body}
        gpu.return }} }}"""
    out = np.zeros(LANES, np.float32)
    assert interp.launch(text, grid=1, block=LANES, args=[out]).clean
    assert np.array_equal(out, expected)


BRANCHES = {
    "sides that join": ("""cf.cond_br %is_odd, ^a, ^b(%c4 : index)
        ^a:
          %two = arith.addi %t, %t : index
          cf.br ^b(%two : index)
        ^b(%r: index):""", np.where(T % 2, 2 * T, 4)),
    "a loop that lanes leave one by one, and a value of the round in which they left": ("""cf.br ^head(%c0 : index)
        ^head(%i: index):
          %square = arith.muli %i, %i : index
          %go = arith.cmpi ult, %i, %mod8 : index
          cf.cond_br %go, ^body, ^exit
        ^body:
          %next = arith.addi %i, %c1 : index
          cf.br ^head(%next : index)
        ^exit:
          %r = arith.addi %square, %c1 : index""", (T % 8) ** 2 + 1),
    "a switch": ("""%flag = arith.index_cast %mod4 : index to i32
        cf.switch %flag : i32, [default: ^c(%c32 : index), 0: ^c(%t : index), 2: ^two]
        ^two:
          %v = arith.addi %t, %c1 : index
          cf.br ^c(%v : index)
        ^c(%r: index):""", np.select([T % 4 == 0, T % 4 == 2], [T, T + 1], 32)),
}  # fmt: skip


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_between_blocks(name: str):
    body, expected = BRANCHES[name]
    assert np.array_equal(index_of(body), expected)


def test_a_value_outlives_the_rounds_of_other_lanes():
    """Each lane counts its rounds in memory; what it found there in its last round is used after the loop."""
    text = f"""gpu.module @m {{ gpu.func @k(%count: memref<{LANES}xi64>, %out: memref<{LANES}xi64>) kernel {{
        {PROLOGUE}
        %one = arith.constant 1 : i64
        cf.br ^head(%c0 : index)
        ^head(%i: index):
          %found = memref.atomic_rmw addi %one, %count[%t] : (i64, memref<{LANES}xi64>) -> i64
          %next = arith.addi %i, %c1 : index
          %go = arith.cmpi ult, %i, %mod8 : index
          cf.cond_br %go, ^head(%next : index), ^exit
        ^exit:
          memref.store %found, %out[%t] : memref<{LANES}xi64>
          gpu.return }} }}"""
    count, out = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    assert interp.launch(text, grid=1, block=LANES, args=[count, out]).clean
    assert np.array_equal(count, T % 8 + 1)
    assert np.array_equal(out, T % 8)


def test_a_return_in_the_middle_and_a_barrier_that_only_some_reach():
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<{LANES}xf32>) kernel {{
        {PROLOGUE}
        cf.cond_br %is_odd, ^leave, ^stay
        ^leave:
          gpu.return
        ^stay:
          memref.store %f1, %out[%t] : memref<{LANES}xf32>
          BARRIER
          gpu.return }} }}"""
    out = np.zeros(LANES, np.float32)
    assert interp.launch(text.replace("BARRIER", ""), grid=1, block=LANES, args=[out]).clean
    assert np.array_equal(out, 1 - T % 2)
    report = interp.launch(text.replace("BARRIER", "gpu.barrier"), grid=1, block=LANES, args=[out])
    assert report.kinds() == {Kind.BARRIER}


def test_a_function_with_two_returns():
    text = f"""gpu.module @m {{
      func.func @f(%x: index, %c: i1) -> index {{
        cf.cond_br %c, ^a, ^b
        ^a:
          return %x : index
        ^b:
          %y = arith.addi %x, %x : index
          return %y : index
      }}
      gpu.func @k(%out: memref<{LANES}xindex>) kernel {{
        {PROLOGUE}
        %r = func.call @f(%t, %is_odd) : (index, i1) -> index
        memref.store %r, %out[%t] : memref<{LANES}xindex>
        gpu.return }} }}"""
    out = np.zeros(LANES, np.int64)
    assert interp.launch(text, "k", grid=1, block=LANES, args=[out]).clean
    assert np.array_equal(out, np.where(T % 2, T, 2 * T))


def test_a_failed_assertion():
    text = f"""gpu.module @m {{ gpu.func @k() kernel {{
        {PROLOGUE}
        cf.assert %is_odd, "threads are odd"
        gpu.return }} }}"""
    report = interp.launch(text, grid=1, block=LANES)
    assert report.kinds() == {Kind.ASSERTION}
    assert report.faults[0].count == 32
    assert "threads are odd" in report.faults[0].message


def test_a_while_in_a_branch_with_different_trip_counts():
    body = """%r = scf.if %is_odd -> index {
          %x = scf.while (%n = %t) : (index) -> index {
            %go = arith.cmpi ugt, %n, %c4 : index
            scf.condition(%go) %n : index
          } do { ^bb0(%n: index):
            %next = arith.subi %n, %c4 : index
            scf.yield %next : index
          }
          scf.yield %x : index
        } else { scf.yield %c32 : index }"""
    assert np.array_equal(index_of(body), np.where(T % 2 == 0, 32, np.where(T > 4, (T - 1) % 4 + 1, T)))


def test_out_of_bounds_in_a_branch_counts_its_lanes_only():
    body = """%far = arith.muli %t, %c32 : index
        %ok = arith.cmpi ult, %far, %c4 : index
        scf.if %ok { memref.store %f1, %out[%far] : memref<4xf32> }"""
    text = f"gpu.module @m {{ gpu.func @k(%out: memref<4xf32>) kernel {{ {PROLOGUE}\n{body}\ngpu.return }} }}"
    assert interp.launch(text, grid=1, block=LANES, args=[np.zeros(4, np.float32)]).clean
