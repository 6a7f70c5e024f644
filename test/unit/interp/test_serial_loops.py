"""Serial loops: an iteration costs a bounded number of calls, and requests that repeat are counted like new ones."""

import numpy as np
import pytest
from counted import calls
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import interp
from lego_mlir.interp import repeats

SHARED = "#gpu.address_space<workgroup>"
TURNS = 300
KERNEL = """
gpu.module @m {{
  gpu.func @k(%x: memref<4096x{type}>, %y: memref<{lanes}x{type}>) workgroup(%s: memref<512x{type}, {shared}>) kernel {{
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {turns} : index
    %first = memref.load %x[%t] : memref<4096x{type}>
    scf.for %i = %c0 to %c8 step %c1 {{
      %p = affine.apply affine_map<(d0, d1) -> ((d0 * 64 + d1) mod 512)>(%i, %t)
      memref.store %first, %s[%p] : memref<512x{type}, {shared}>
    }}
    gpu.barrier
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%a = %first) -> ({type}) {{
      %j = affine.apply affine_map<(d0, d1, d2) -> ((d0 * {step} + d1 * {lane} + d2 * 7) mod {size})>(%i, %t, %b)
      %v = memref.load {buffer}[%j] : {view}
      %w = arith.addf %a, %v : {type}
      scf.yield %w : {type}
    }}
    %q = affine.apply affine_map<(d0, d1) -> (d0 * 64 + d1)>(%b, %t)
    memref.store %sum, %y[%q] : memref<{lanes}x{type}>
    gpu.return
  }}
}}"""


def text(type_="f32", buffer="%x", step=1, lane=0, turns=TURNS, blocks=1):
    size, view = (4096, f"memref<4096x{type_}>") if buffer == "%x" else (512, f"memref<512x{type_}, {SHARED}>")
    filled = KERNEL.replace("%c1 = ar", "%c8 = arith.constant 8 : index\n    %c1 = ar")
    return filled.format(type=type_, buffer=buffer, step=step, lane=lane, turns=turns, size=size, view=view,
                         shared=SHARED, lanes=64 * blocks)  # fmt: skip


def run(kernel, type_="f32", blocks=1):
    x = np.arange(4096).astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[type_])
    report = interp.launch(kernel, grid=blocks, block=64, args=[x, np.zeros(64 * blocks, x.dtype)])
    assert report.clean, report.faults
    return report


@pytest.mark.parametrize(("buffer", "most"), [("%x", 60), ("%s", 100)])
def test_an_iteration_with_a_load_and_a_sum_takes_few_calls(buffer, most):
    """Two loops that differ in their trip count, so that what comes before and after cancels."""
    few, many = (interp.compile_module(text(buffer=buffer, lane=1, turns=turns)) for turns in (100, 600))
    run(few)
    assert calls(lambda: run(many)) - calls(lambda: run(few)) <= 500 * most


@pytest.mark.examples(2)
@given(
    st.sampled_from(["f16", "f32", "f64"]),
    st.sampled_from(["%x", "%s"]),
    st.integers(0, 70),
    st.integers(0, 40),
    st.integers(1, 3),
)
@settings(max_examples=25)
def test_repeated_requests_count_as_new_ones(type_, buffer, step, lane, blocks):
    kernel = text(type_, buffer, step, lane, TURNS, blocks)
    repeated = run(kernel, type_, blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "LARGEST", 0)
        counted = run(kernel, type_, blocks)
    assert repeated.sites == counted.sites
