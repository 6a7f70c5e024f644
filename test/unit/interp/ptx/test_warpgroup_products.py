"""Products through `matmul_sm90.mlir`, emulated: layouts, tiles, ragged sizes, orders, epilogues of a user's own."""

import numpy as np
import pytest
from warpgroup_runs import check, emulated, factors

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e5m2, f16, f32, i8
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile

WIDE, SMALL, TURNED = (
    ProductTile(128, 256, 64, (8, 1)),
    ProductTile(64, 64, 64, (4, 1)),
    ProductTile(48, 128, 64, (1, 8)),
)
CASES = [
    ("NN", (256, 512, 192), f16, WIDE, 3, {}),
    ("NT", (200, 520, 168), f16, WIDE, 2, {"stages": 2}),
    ("TT", (256, 256, 320), bf16, WIDE, None, {"blocks": 2, "lockstep": 2}),
    ("NN", (128, 192, 320), f16, SMALL, None, {"stages": 5}),
    ("NT", (136, 208, 144), f8e5m2, ProductTile(128, 96, 128, (8, 1)), None, {"stages": 2}),
    ("NT", (136, 200, 328), f16, ProductTile(128, 96, 64, (8, 1)), 3, {"exact": 2}),
    ("NT", (64, 200, 8), bf16, ProductTile(64, 96, 64, (4, 1)), None, {}),
    ("NN", (200, 256, 136), f16, ProductTile(128, 128, 64, (8, 1)), None, {"blocks": 2, "cluster": 2, "stages": 2}),
    ("NT", (16, 72, 136), f16, ProductTile(64, 32, 64, (4, 1)), 2, {"dependent": True}),
    ("NN", (40, 56, 72), bf16, ProductTile(64, 16, 64, (4, 1)), 2, {"stages": 2}),
    ("NT", (136, 192, 72), f16, ProductTile(128, 88, 64, (8, 1)), 4, {}),
    ("TT", (136, 264, 72), f16, TURNED, None, {"transposed": True, "blocks": 3}),
    ("NN", (264, 200, 136), f16, ProductTile(256, 192, 64, (8, 1)), 2, {"stages": 3}),
    ("NT", (72, 520, 72), f16, ProductTile(64, 256, 64, (4, 1)), 2, {"stages": 2, "buffers": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "blocks", "parameters"), CASES)
def test_a_product_is_right_and_clean(layouts, sizes, dtype, tiling, blocks, parameters):
    check(layouts, sizes, dtype, tiling, parameters, blocks, bf16 if dtype is f8e5m2 else None)


@pytest.mark.parametrize("parameters", [{}, {"rounded": True}, {"rounded": True, "cluster": 2}])
def test_copies_round_f32_to_tf32_where_units_cut_off(parameters):
    m, n, k = 72, 132, 68
    random = np.random.default_rng(7)
    a = random.integers(2040, 2072, (m, k)).astype(np.float32)  # 11 bits and fewer are exact; ties both ways
    b = random.integers(-3, 4, (k, n)).astype(np.float32)
    placed = {"a": Row(m, k), "b": Col(k, n)}
    kernel = matmul.build(m, n, k, f32, **placed, tiling=ProductTile(64, 128, 32, (4, 1)), order="column")
    found = emulated(kernel, {"a": a, "b": b, "c": np.zeros(m * n, np.float32)}, placed, {"stages": 2, **parameters})
    halved = a / np.where(a >= 2048, 2, 1)
    read = np.where(a >= 2048, (np.rint(halved) if parameters else np.floor(halved)) * 2, a)
    assert (read != a).any()
    np.testing.assert_array_equal(found.reshape(m, n), (read.astype(np.float64) @ b).astype(np.float32))


M, N, K = 136, 200, 72
EPILOGUES = {
    "bias": (f16, SMALL, {}, lambda: matmul.bias(N).then(matmul.relu())),
    "gelu": (f32, SMALL, {}, lambda: matmul.scale().then(matmul.gelu())),
    "scales": (bf16, SMALL, {"blocks": 2}, lambda: matmul.scales(M, N)),
    "gate": (f16, WIDE, {"stages": 3}, lambda: matmul.scale().then(matmul.silu_gate(M, N, bf16))),
    "two of the user": (f16, TURNED, {"transposed": True}, lambda: matmul.Epilogue(
        lambda value, place, by_row: lego.where(value > 0.0, value * place.by_row(by_row), value.to(f16).to(f32)),
        lambda product, by_row: np.where(product > 0, product * by_row[:, None], product.astype(np.float16)),
        {"by_row": lego.Tensor(f32, Row(M))})),
}  # fmt: skip


@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_is_applied_to_each_sum(name):
    result, tiling, parameters, made = EPILOGUES[name]
    epilogue, (placed, given) = made(), factors("NT", (M, N, K), f16)
    random = np.random.default_rng(5)
    operands = {}
    for operand, kind in epilogue.operands.items():
        shape = kind.layout.dims() if isinstance(kind, lego.Tensor) else ()
        values = random.standard_normal(shape).astype(getattr(kind, "dtype", kind).numpy)
        operands[operand] = values if shape else np.float32(0.1)
    kernel = matmul.build(M, N, K, f16, **placed, result=result, tiling=tiling, epilogue=epilogue)
    flat = {operand: np.ravel(values).copy() if np.ndim(values) else values for operand, values in operands.items()}
    found = emulated(kernel, {**given, "c": np.zeros(M * N, result.numpy), **flat}, placed, parameters)
    product = (given["a"].astype(np.float64) @ given["b"].astype(np.float64)).astype(np.float32)
    expected = epilogue.reference(product, **operands)
    error = np.abs(found.reshape(M, N).astype(np.float64) - expected.astype(result.numpy).astype(np.float64)).max()
    assert error <= np.abs(expected).max() * {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}[result.name]


def test_integer_sums_are_scaled_as_f32():
    placed, given = factors("NT", (M, 208, 144), i8)
    kernel = matmul.build(M, 208, 144, i8, **placed, result=f16, tiling=ProductTile(64, 64, 128, (4, 1)),
                          epilogue=matmul.scales(M, 208))  # fmt: skip
    rows, columns = np.full(M, 0.125, np.float32), np.arange(208, dtype=np.float32) / 16
    arrays = {**given, "c": np.zeros(M * 208, np.float16), "row_scale": rows, "column_scale": columns}
    found = emulated(kernel, arrays, placed, {})
    expected = (given["a"].astype(np.float64) @ given["b"].astype(np.float64)) * rows[:, None] * columns
    np.testing.assert_array_equal(found.reshape(M, 208), expected.astype(np.float16))


def test_columns_of_c_with_an_epilogue():
    placed, given = factors("NN", (M, N, K), f16)
    kernel = matmul.build(M, N, K, f16, **placed, c=Col(M, N), result=f32, tiling=ProductTile(128, 64, 64, (2, 4)),
                          epilogue=matmul.scales(M, N))  # fmt: skip
    rows, columns = np.arange(M, dtype=np.float32), np.arange(N, dtype=np.float32)
    arrays = {**given, "c": np.zeros(M * N, np.float32), "row_scale": rows, "column_scale": columns}
    found = emulated(kernel, arrays, placed, {})
    expected = (given["a"].astype(np.float64) @ given["b"].astype(np.float64)) * rows[:, None] * columns
    np.testing.assert_array_equal(found.reshape(N, M).T, expected.astype(np.float32))
