"""The PTX of shipped kernels computes what the interpreter computes from their MLIR: the whole toolchain, compared."""

import numpy as np
import pytest
from ptx_runs import memories_of, ptx_of, run_ptx

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, interp
from lego_mlir.kernels import box_stencil, copy, dot_products, matmul, transpose
from lego_mlir.runtime import comparing, data, tolerance

SMALL = matmul.ProductTile(64, 64, 32, (2, 2))


def row_sums():
    """Sums of rows by shuffles and shared memory."""

    @lego.kernel(grid=(5,), block=(128,))
    def sums(x: lego.Tensor(f32, Row(5, 512)), y: lego.Tensor(f32, Row(5))):
        t, row = lego.thread_id[0], lego.block_id[0]
        part = lego.shared(f32, Row(128))
        total = x[row, t]
        for i in lego.unroll(1, 4):
            total = total + x[row, t + 128 * i]
        part[t] = total
        lego.barrier()
        for half in (64, 32, 16, 8, 4, 2, 1):
            with lego.when(t < half):
                part[t] = part[t] + part[t + half]
            lego.barrier()
        with lego.when(t < 1):
            y[row] = part[0]

    @sums.reference
    def _(x):
        return x.sum(axis=1)

    return sums


CASES = {
    "copy": (lambda: copy.build(50, 70, f32), None),
    "box_stencil": (lambda: box_stencil.build(37, 45, f16, size=5, boundary="mirror", order="columns"), None),
    "box_stencil, shared": (lambda: box_stencil.build_shared(37, 45, f32, size=5, tile=(8, 32), threads=64), None),
    "dot_products": (lambda: dot_products.build(33, 45, 20, f32, order="columns"), None),
    **{
        f"transpose {variant}": (lambda v=variant: transpose.build(v, 100, 52, f16), None)
        for variant in transpose.VARIANTS
    },
    "sums of rows": (row_sums, None),
    "matmul": (lambda: matmul.build(64, 128, 96, f16, tiling=SMALL), "ldmatrix_mma.mlir"),
    "matmul, bf16": (lambda: matmul.build(64, 64, 128, bf16, tiling=SMALL), "matmul_sm80.mlir"),
    "matmul, scripted": (lambda: matmul.build(64, 128, 96, f16, tiling=SMALL), "matmul_sm80.mlir"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_ptx_computes_what_the_interpreter_computes(name):
    build, script = CASES[name]
    kernel = build()
    logical = data.draw(kernel, {}, 0)
    text, facts = ptx_of(kernel, script)
    by_ptx, by_mlir = memories_of(kernel, logical), memories_of(kernel, logical)
    report = run_ptx(kernel, by_ptx, text, facts)
    assert report.clean, report.faults
    assert interp.run_kernel(kernel, by_mlir).clean
    expected = data.expected(kernel, logical, {})
    allowed = tolerance.allowed(kernel, logical, {}, expected)
    for parameter in kernel.params:
        if parameter.name not in expected:
            assert np.array_equal(by_ptx[parameter.name], by_mlir[parameter.name])
            continue
        at = data.positions(parameter.layout, {})
        found = by_ptx[parameter.name][at].astype(np.float64)
        result = comparing.compare(found, expected[parameter.name], parameter.dtype.name, allowed[parameter.name])
        assert result, f"{parameter.name}: {result}"
        if script is None:  # no matrix unit: the same sums in the same order
            assert np.array_equal(by_ptx[parameter.name], by_mlir[parameter.name])
