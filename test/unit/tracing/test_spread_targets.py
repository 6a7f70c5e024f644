"""Values spread over threads down to machine code and on the CPU; their lines in reports; the example."""

import functools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f16, f32, f64, interp, spec
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel, nvidia_tools, ptxas, sass

needs_lister = pytest.mark.skipif(nvidia_tools.find("cuobjdump") is None, reason="needs cuobjdump")
MLIR_OPT = shutil.which("mlir-opt-22")
EXAMPLE = Path(__file__).parents[3] / "examples" / "softmax_spread.py"
LAYOUTS = {
    "blocked": f2.Blocked((1, 4), (4, 8), (2, 2), order=(1, 0)).layout((32, 64)),
    "mma": f2.MmaSync((2, 2)).layout((32, 64)),
}


def normalised(layout, dtype):
    """Rows divided by their sums, over two warps."""

    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(dtype, Row(31, 63)), b: lego.Tensor(dtype, Row(31, 63))):
        x = lego.load(a, layout).to(f32)
        (x / x.sum(axis=1)[:, None]).to(dtype).store(b)

    return k


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_kernels_assemble(layout, target):
    for dtype in (f16, bf16, f32, f64):
        assemble(compile_kernel(normalised(layout, dtype), target=target).text, target)


@pytest.mark.tools
@pytest.mark.skipif(MLIR_OPT is None, reason="needs mlir-opt-22 (apt-get install mlir-22-tools)")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_mlir_opt_verifies_kernels(layout):
    text = normalised(layout, f16).mlir()
    subprocess.run([MLIR_OPT, "-"], input=text, text=True, capture_output=True, check=True)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_cpu_and_the_interpreter_agree(layout):
    a = np.random.default_rng(0).integers(1, 9, (31, 63)).astype(np.float32)
    kernel = normalised(layout, f32)
    np.testing.assert_allclose(launch(kernel, a, 0 * a)[1], a / a.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(launch_on_cpu(kernel, a, 0 * a)[1], launch(kernel, a, 0 * a)[1])


@needs_ptxas
@needs_lister
def test_no_more_instructions_than_by_hand():
    rows, columns = lego.size("M", min=1, multiple_of=4), 1024
    layout = f2.Blocked((1, 4), (1, 32), (4, 1), order=(1, 0)).layout((4, columns))

    @lego.kernel(grid=rows // 4, block=128)
    def spread(x: lego.Tensor(f32, Row(rows, columns)), y: lego.Tensor(f32, Row(rows, columns))):
        at = (4 * lego.block_id[0], 0)
        tile = lego.load(x, layout, at=at)
        e = lego.exp(tile - tile.max(axis=1)[:, None])
        (e * (1 / e.sum(axis=1))[:, None]).store(y, at=at)

    @lego.kernel(grid=rows // 4, block=128)
    def by_hand(x: lego.Tensor(f32, Row(rows, columns)), y: lego.Tensor(f32, Row(rows, columns))):
        row, first = 4 * lego.block_id[0] + lego.warp_id, 4 * lego.lane_id
        loaded = [x.load(row, first + 128 * i, width=4) for i in lego.unroll(8)]
        a, b, c, d = functools.reduce(lego.maximum, loaded)
        most = lego.warp_reduce(lego.maximum(lego.maximum(a, b), lego.maximum(c, d)), "max")
        e = [lego.exp(v - most) for v in loaded]
        a, b, c, d = functools.reduce(lambda v, w: v + w, e)
        total = 1 / lego.warp_reduce((a + b) + (c + d))
        for i in lego.unroll(8):
            y.store(e[i] * total, row, first + 128 * i)

    def count(kernel):
        cubin, _ = ptxas.assemble(compile_kernel(kernel, target="sm_90").text, target_named("sm_90"))
        return sum(n for name, n in sass.mix(sass.disassemble(cubin)).items() if name not in ("NOP", "BRA"))

    assert count(spread) <= count(by_hand)


def test_traffic_and_races_are_reported_at_the_user_s_line():
    layout = f2.Blocked((4, 1), (8, 4), (2, 2), order=(0, 1)).layout((64, 32))

    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f32, Row(64, 32)), b: lego.Tensor(f32, Row(32, 64))):
        tile = lego.shared(f32, Row(64, 32), name="tile")
        x = lego.load(a, layout)
        x.store(tile)
        lego.load(tile, layout).T.store(b)
        lego.load(tile.T, LAYOUTS["mma"]).store(b)

    first = k.source.line + 2
    report = interp.run_kernel(k, {p.name: np.zeros(p.size, np.float32) for p in k.params}, {})
    sites = {(s.buffer, s.kind, s.place.line - first, s.width) for s in report.sites}
    assert sites == {
        ("a", "read", 1, 4), ("tile", "write", 2, 4), ("tile", "read", 3, 4), ("b", "write", 3, 16),
        ("tile", "read", 4, 4), ("b", "write", 4, 8),
    }  # fmt: skip
    assert {fault.kind for fault in report.faults} == {Kind.RACE}
    assert {fault.place.line - first for fault in report.faults} <= {2, 3, 4}
    written = [s for s in report.sites if (s.buffer, s.kind) == ("tile", "write")]
    assert {s.wavefronts / s.ideal_wavefronts for s in written} == {8}  # 8 rows a warp, in the banks of 4 columns


def test_the_example_computes_its_reference():
    kernel = spec.load(EXAMPLE).kernels["softmax"]
    x = np.random.default_rng(0).normal(size=(37, 1024)).astype(np.float32)
    _, y = launch(kernel, x, 0 * x, sizes={"M": 37})
    np.testing.assert_allclose(y, kernel.expected(x), rtol=1e-5)
