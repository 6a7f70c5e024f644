"""Tiles beyond 48 KB: values in the interpreter and on the CPU, the bytes of the manifest, limits of targets."""

import json

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i8, interp
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel

N = 128


@lego.kernel(grid=1, block=(32, 8))
def big_transpose(x: lego.Tensor(f32, Row(N, N)), y: lego.Tensor(f32, Row(N, N))):
    tile = lego.shared(f32, Row(N, N), name="tile")
    odd, tx, ty = lego.shared(i8, Row(5)), *lego.thread_id
    last = lego.shared(f32, Row(32))
    with lego.when((tx < 5) & (ty == 0)):
        odd[tx] = 2
    with lego.when(ty == 0):
        last[tx] = 1.0
    for r in lego.range(0, N, 8):
        for c in lego.unroll(0, N, 32):
            tile[r + ty, c + tx] = x[r + ty, c + tx]
    lego.barrier()
    for r in lego.range(0, N, 8):
        for c in lego.unroll(0, N, 32):
            y[r + ty, c + tx] = tile[c + tx, r + ty] * last[tx] * odd[4].to(f32)


def test_the_tiles_are_views_of_one_block():
    x = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
    for run in (launch, launch_on_cpu):
        np.testing.assert_array_equal(run(big_transpose, x, np.zeros((N, N)))[1], 2 * x.T)


def test_the_manifest_holds_the_bytes():
    compiled = compile_kernel(big_transpose, target="sm_80")
    (kernel,) = compiled.manifest["kernels"]
    assert kernel["dynamic_shared_bytes"] == N * N * 4 + 128 + 128 and kernel["static_shared_bytes"] == 0
    assert json.dumps(kernel)
    assert ".extern .shared" in compiled.text


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@needs_ptxas
def test_it_assembles(target):
    assemble(compile_kernel(big_transpose, target=target).text, target)


def test_a_target_with_less_memory_refuses_it():
    with pytest.raises(
        UsageError, match="needs 65792 bytes of dynamic shared memory, and a block on sm_75 may have 65536"
    ):
        compile_kernel(big_transpose, target="sm_75")


def test_races_name_the_tile():
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(f16, Row(64))):
        big, t = lego.shared(f16, Row(30000), name="big"), lego.thread_id[0]
        big[t] = y[t]
        y[t] = big[63 - t]

    report = interp.launch(k.mlir(), args=[np.zeros(64, np.float16)])
    assert report.kinds() == {Kind.RACE} and report.faults[0].buffer == "big"


def test_no_gpu_has_that_much():
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(f32, Row(64))):
        a, b = lego.shared(f32, Row(32 * 1024)), lego.shared(f32, Row(28 * 1024))
        y[0] = a[0] + b[0]

    with pytest.raises(TraceError, match=r"with shared1, .* take 245760 bytes; GPUs have at most 232448 for a block"):
        k.trace()
