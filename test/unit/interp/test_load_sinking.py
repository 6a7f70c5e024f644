"""A load that only one side of a branch uses is counted for the lanes that take that side, as the compiler sinks it."""

import numpy as np
import pytest

from lego_mlir import interp

TILE = "memref<2048xf32, #gpu.address_space<workgroup>>"
KERNEL = """
gpu.module @m {{ gpu.func @k(%y: memref<64xf32>, %n: index)
    workgroup(%s: memref<2048xf32, #gpu.address_space<workgroup>>) kernel {{
  %t = gpu.thread_id x
  %c32 = arith.constant 32 : index
  %one = arith.constant 1.0 : f32
  %i = arith.muli %t, %c32 : index
  memref.store %one, %s[%i] : memref<2048xf32, #gpu.address_space<workgroup>>
  gpu.barrier
  {before}
  gpu.return }} }}"""
LOAD = f"%v = memref.load %s[%i] : {TILE}\n"
INSIDE = "%in = arith.cmpi ult, %t, %n : index\n"
STORE = "memref.store %v, %y[%t] : memref<64xf32>"
THEN = f"scf.if %in {{ {STORE} }}"


def wavefronts(body: str, taken: int) -> int:
    """Shared wavefronts of the loads of a kernel of two warps whose every load is a 32-way conflict."""
    y = np.zeros(64, np.float32)
    report = interp.launch(KERNEL.format(before=body), grid=1, block=64, args=[y, taken])
    assert report.clean
    return sum(site.wavefronts for site in report.sites if site.space == "shared" and site.kind == "read")


@pytest.mark.parametrize("taken", [0, 1, 7, 32, 40, 64])
def test_a_load_for_one_side_is_counted_for_the_lanes_that_take_it(taken: int) -> None:
    assert wavefronts(LOAD + INSIDE + THEN, taken) == taken
    other = f"scf.if %in {{ }} else {{ {STORE} }}"
    assert wavefronts(LOAD + INSIDE + other, taken) == 64 - taken


def test_what_is_computed_from_the_load_moves_with_it() -> None:
    sum_ = "%w = arith.addf %v, %v : f32\n"
    used = THEN.replace("%v", "%w")
    assert wavefronts(LOAD + sum_ + INSIDE + used, 3) == 3


def test_nested_in_a_branch_only_its_lanes_are_counted() -> None:
    outer = "%even = arith.cmpi ult, %t, %c32 : index\nscf.if %even { " + LOAD + INSIDE + THEN + " }"
    assert wavefronts(outer, 40) == 32


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(LOAD + INSIDE + "gpu.barrier\n" + THEN, id="a barrier between"),
        pytest.param(LOAD + INSIDE + f"memref.store %one, %s[%t] : {TILE}\n" + THEN, id="a write between"),
        pytest.param(LOAD + INSIDE + "scf.if %in { }\n" + THEN, id="another branch between"),
        pytest.param(LOAD + INSIDE + f"{STORE}\n" + THEN, id="a use outside"),
        pytest.param(LOAD + INSIDE + f"scf.if %in {{ {STORE} }} else {{ {STORE} }}", id="a use on both sides"),
    ],
)
def test_a_load_that_is_not_sunk_is_counted_for_all_lanes(body: str) -> None:
    text = body.replace("%s[%t]", "%s[%i]")
    y = np.zeros(64, np.float32)
    report = interp.launch(KERNEL.format(before=text), grid=1, block=64, args=[y, 5])
    loads = [site for site in report.sites if site.space == "shared" and site.kind == "read"]
    assert sum(site.wavefronts for site in loads) == 64


def test_values_and_faults_do_not_move() -> None:
    outside = LOAD.replace("%s[%i]", "%s[%far]")
    body = "%big = arith.constant 4096 : index\n%far = arith.addi %i, %big : index\n" + outside + INSIDE + THEN
    report = interp.launch(KERNEL.format(before=body), grid=1, block=64, args=[np.zeros(64, np.float32), 0])
    assert not report.clean


def test_rounds_of_a_loop_are_counted_each() -> None:
    loop = (
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c4 = arith.constant 4 : index\n"
        "scf.for %r = %c0 to %c4 step %c1 { %in = arith.cmpi ult, %t, %r : index\n" + LOAD + THEN + " }"
    )
    assert wavefronts(loop, 0) == 0 + 1 + 2 + 3
