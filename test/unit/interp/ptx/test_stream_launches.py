"""Kernels that begin before the previous one on the stream has ended: right with the wait, found without it."""

import itertools
import re

import numpy as np
import pytest

from lego_mlir import Row, f16
from lego_mlir.interp.ptx.stream_launches import StreamLaunch, emulate_stream
from lego_mlir.interp.ptx.traced_ptx import argument_of
from lego_mlir.interp.report import Kind
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.toolchain import compile_kernel

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
COPY = """.visible .entry copy(.param .u64 from, .param .u64 to)
.maxntid 32, 1, 1
{ .reg .b32 %r<9>; .reg .b64 %rd<9>;
  griddepcontrol.launch_dependents;
  griddepcontrol.wait;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; mov.u32 %r1, %ctaid.x; mul.lo.u32 %r1, %r1, 32;
  mov.u32 %r2, %tid.x; add.u32 %r1, %r1, %r2; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3; ld.global.b32 %r3, [%rd1]; add.s32 %r3, %r3, 1; st.global.b32 [%rd2], %r3; ret; }
"""


def chain(text, seed, early=True):
    arrays = [np.arange(128, dtype=np.int32), *(np.zeros(128, np.int32) for _ in range(3))]
    launches = [StreamLaunch(HEAD + text, (a, b), (4,), early=early) for a, b in itertools.pairwise(arrays)]
    return emulate_stream(launches, seed), arrays


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_of_copies(seed):
    reports, arrays = chain(COPY, seed)
    assert all(report.clean for report in reports)
    assert [report.blocks_run for report in reports] == [4, 4, 4]
    for step, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.arange(128) + step)


def test_a_missing_wait_is_found_unless_launches_do_not_overlap():
    missing = COPY.replace("griddepcontrol.wait;", "")
    faults = [fault for seed in range(6) for report in chain(missing, seed)[0] for fault in report.faults]
    assert {fault.kind for fault in faults} == {Kind.RACE}
    assert "with no griddepcontrol.wait before" in faults[0].message
    for text, early in ((missing, False), (missing.replace("griddepcontrol.launch_dependents;", ""), True)):
        reports, arrays = chain(text, 0, early)
        assert all(report.clean for report in reports)
        np.testing.assert_array_equal(arrays[-1], np.arange(128) + 3)


def products(edit=lambda text: text, seed=0, cluster=2):
    """(A B) B by two launches of one dependent kernel; reports, the result, and what it must be."""
    tiling, order = ProductTile(64, 64, 64, (4, 1)), "row"
    kernel = matmul.build(128, 128, 128, f16, a=Row(128, 128), b=Row(128, 128), result=f16, tiling=tiling, order=order)
    parameters = {"stages": 2, "blocks": cluster, "cluster": cluster, "dependent": True}
    made = compile_kernel(kernel, target="sm_90a", transform="matmul_sm90.mlir", parameters=parameters)
    (facts,) = made.kernels
    assert made.manifest["kernels"][0]["dependent"]
    random = np.random.default_rng(5)
    a, b = (random.integers(-1, 2, (128, 128)).astype(np.float16) for _ in range(2))
    c, d = np.zeros((2, 128, 128), np.float16)
    launches = []
    for number, arrays in enumerate(((a, b, c), (c, b, d))):
        maps = [argument_of(one.tensor_map, array) for one, array in zip(facts.arguments, arrays, strict=True)]
        text = edit(made.text) if number else made.text
        launches.append(StreamLaunch(text, maps, (cluster,), facts.block, facts.dynamic_shared))
    return emulate_stream(launches, seed), d, (a.astype(int) @ b.astype(int) @ b.astype(int)).astype(np.float16)


@pytest.mark.parametrize("cluster", [1, 2])
def test_two_products_of_which_the_second_reads_the_first_one_s_result(cluster):
    reports, found, expected = products(cluster=cluster)
    assert all(report.clean for report in reports), reports
    np.testing.assert_array_equal(found, expected)


def test_a_product_that_does_not_wait_for_the_one_before():
    reports, _, _ = products(lambda text: text.replace("griddepcontrol.wait;", ""))
    assert reports[0].clean
    assert reports[1].kinds() == {Kind.RACE}


@pytest.mark.parametrize("seed", range(3))
def test_consumers_that_do_not_wait_for_the_thread_that_sets_up_the_barriers(seed):
    assert products(lambda text: re.sub(r"bar\.sync\s+0;", "", text), seed, 1)[0][1].faults
