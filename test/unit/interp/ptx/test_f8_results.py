"""Results of 8 bits, emulated: rounded to nearest even and saturated, as `ml_dtypes` rounds what is clipped before."""

import gemm
import ml_dtypes
import numpy as np
import pytest
from warpgroup_runs import emulated, factors

import lego_mlir as lego
from lego_mlir import Col, bf16, f8e4m3fn, f8e5m2, f16, f32, i8
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile

LARGEST = {f8e4m3fn: 448.0, f8e5m2: 57344.0}
NUMPY = {f8e4m3fn: ml_dtypes.float8_e4m3fn, f8e5m2: ml_dtypes.float8_e5m2}
NARROW, SMALL, WIDE = (
    ProductTile(64, 40, 128, (4, 1)),
    ProductTile(64, 128, 128, (4, 1)),
    ProductTile(128, 256, 128, (8, 1)),
)
CASES = [
    ((72, 208, 272), f8e4m3fn, f8e4m3fn, SMALL, 2, {}),
    ((72, 80, 144), f8e4m3fn, f8e4m3fn, NARROW, None, {}),  # buffers of 32 columns, of which the last one overlaps
    ((136, 528, 128), f8e5m2, f8e5m2, WIDE, 2, {"buffers": 4}),
    ((72, 208, 144), f8e5m2, f8e4m3fn, ProductTile(64, 96, 128, (4, 1)), 3, {"exact": 1}),  # of 64 columns
    ((136, 272, 144), f8e4m3fn, f8e5m2, ProductTile(128, 128, 128, (8, 1)), None, {"cluster": 2}),
    ((200, 112, 136), f16, f8e4m3fn, ProductTile(192, 96, 64, (4, 1)), 1, {}),
    ((72, 80, 144), f8e4m3fn, f8e4m3fn, ProductTile(32, 64, 128, (1, 4)), None, {"transposed": True}),
    ((72, 144, 144), i8, f8e4m3fn, SMALL, 2, {}),
]


def rounded(values, result):
    """As PTX's cvt.rn.satfinite rounds: clipped to the largest number first."""
    return np.clip(values, -LARGEST[result], LARGEST[result]).astype(NUMPY[result])


def run(sizes, dtype, result, tiling, blocks, parameters, epilogue, operands):
    m, n, k = sizes
    placed, given = factors("NT", sizes, dtype)
    kernel = matmul.build(m, n, k, dtype, **placed, result=result, tiling=tiling, blocks=blocks, epilogue=epilogue)
    arrays = {**given, "c": np.zeros(m * n, result.numpy), **operands}
    found = emulated(kernel, arrays, placed, {"stages": 3, **parameters}, seed=m)
    return found.reshape(m, n), (given["a"].astype(np.float64) @ given["b"].astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize(("sizes", "dtype", "result", "tiling", "blocks", "parameters"), CASES)
def test_values_are_rounded_and_saturated(sizes, dtype, result, tiling, blocks, parameters):
    m, n, _ = sizes
    random = np.random.default_rng(3)
    rows, columns = (random.uniform(0.1, 3.0, count).astype(np.float32) for count in (m, n))
    columns[::7] *= LARGEST[result]
    operands = {"row_scale": rows, "column_scale": columns}
    found, product = run(sizes, dtype, result, tiling, blocks, parameters, matmul.scales(m, n), operands)
    expected = rounded(product * rows[:, None] * columns, result)
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    assert (np.abs(expected.astype(np.float32)) == LARGEST[result]).any()


@pytest.mark.parametrize(("half", "before"), [
    (None, lambda product: product),
    (matmul.Epilogue(lambda value, place: (value * 0.37).to(bf16), lambda product: product),
     lambda product: (product * np.float32(0.37)).astype(ml_dtypes.bfloat16).astype(np.float32)),
], ids=["plain", "rounded before"])  # fmt: skip
def test_products_without_another_epilogue(half, before):
    found, product = run((72, 208, 144), f8e4m3fn, f8e4m3fn, SMALL, 2, {}, half, {})
    np.testing.assert_array_equal(found.view(np.uint8), rounded(before(product), f8e4m3fn).view(np.uint8))


def test_nan_remains():
    by_row = matmul.Epilogue(
        lambda value, place, by_row: value * place.by_row(by_row), lambda product, by_row: product,
        {"by_row": lego.Tensor(f32, lego.Row(72))},
    )  # fmt: skip
    rows = np.ones(72, np.float32)
    rows[[3, 70]] = np.nan, np.inf
    found, product = run((72, 208, 144), f8e4m3fn, f8e4m3fn, SMALL, 2, {}, by_row, {"by_row": rows})
    with np.errstate(invalid="ignore"):
        expected = rounded(product * rows[:, None], f8e4m3fn)
    assert np.isnan(found[3].astype(np.float32)).all()
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("dtype", "script"), [(f8e4m3fn, None), (f16, "matmul_sm80.mlir")])
def test_the_interpreter_rounds_alike_before_scripts_and_by_mma_sync(dtype, script, fused):
    m, n, k = 72, 80, 96
    tiling, epilogue = ProductTile(64, 64, 32, (2, 2)), matmul.scale() if fused else None
    kernel = matmul.build(m, n, k, dtype, b=Col(k, n), result=f8e4m3fn, tiling=tiling, epilogue=epilogue)
    a, b = gemm.operands(m, n, k)
    factor = [np.float32(9.7)] if fused else []
    report, found = gemm.launch(kernel, gemm.transformed(kernel, script), a, b, np.zeros((m, n)), *factor)
    assert report.clean, report.faults
    expected = rounded((a @ b).astype(np.float32) * np.float32(9.7 if fused else 1), f8e4m3fn)
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
