"""Products of types that units multiply along K only, from operands in any order: the launches, and the results."""

import ml_dtypes
import numpy as np
import pytest
from cuda_stand_in import own

import lego_mlir
from lego_mlir.runtime.products import known

M, N = 24, 32


def launched(device):
    return device.launched


def operands(k, dtype, orders):
    draw = np.random.default_rng(k)
    return [np.asarray(draw.integers(-3, 4, shape).astype(dtype), order=order)
            for shape, order in zip(((M, k), (k, N)), orders, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("orders", "k", "dtype", "expected"),
    [
        ("CF", 48, np.int8, []), ("FC", 48, np.int8, ["along_k_8bit_by_8"] * 2),
        ("CC", 48, ml_dtypes.float8_e4m3fn, ["along_k_8bit_by_8"]),
        ("FF", 50, ml_dtypes.float8_e5m2, ["along_k_8bit_by_8", "pad_rows"]),
        ("FC", 51, np.float32, ["along_k_32bit_by_4"] * 2), ("CF", 30, np.int8, ["pad_rows"] * 2),
    ],
)  # fmt: skip
def test_copies_are_launched_before_the_product(device, orders, k, dtype, expected):
    a, b = operands(k, dtype, orders)
    options = {"tf32": True} if dtype is np.float32 else {}
    for _ in range(2):
        found = lego_mlir.matmul(own(a), own(b), result="float32", **options)
        np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))
    assert launched(device) == [*expected, "matmul"] * 2
    (problem,) = device.compiled
    assert problem.k % (16 // np.dtype(dtype).itemsize) == 0


def test_an_epilogue_behind_copies(device):
    a, b = operands(40, ml_dtypes.float8_e4m3fn, "FC")
    rows, bias = np.arange(M, dtype=np.float32) / 16, np.arange(N, dtype=np.float16)
    found = lego_mlir.matmul(own(a), own(b), scale_a=own(rows), bias=own(bias), activation="relu", result="float32")
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(found, np.maximum(product * rows[:, None] + bias, 0))
    assert launched(device) == ["along_k_8bit_by_8"] * 2 + ["matmul"]


@pytest.mark.parametrize(
    ("n", "dtype", "result", "orders", "amax", "expected"),
    [
        (31, ml_dtypes.float8_e4m3fn, "bfloat16", "CF", True, ["pad_rows"] * 4),
        (31, ml_dtypes.float8_e4m3fn, "float32", "CC", False, ["along_k_8bit_by_1"] + ["pad_rows"] * 3),
        (30, np.float32, "float32", "CC", True, ["along_k_32bit_by_1"] + ["pad_rows"] * 4),
        (9, np.int8, "float16", "FF", True, ["along_k_8bit_by_8"] + ["pad_rows"] * 4),
    ],
)  # fmt: skip
def test_rows_of_results_that_are_not_aligned(device, n, dtype, result, orders, amax, expected):
    """The product has more columns, of zeros, and is cropped; so does each operand of its epilogue."""
    draw, k = np.random.default_rng(n), 48
    a, b = (np.asarray(draw.integers(-3, 4, shape).astype(dtype), order=order)
            for shape, order in zip(((M, k), (k, n)), orders, strict=True))  # fmt: skip
    columns, bias = draw.integers(1, 5, n).astype(np.float32), draw.integers(-9, 9, n).astype(np.float32)
    added, rows = draw.integers(-3, 4, (M, n)).astype(np.float16), draw.integers(1, 3, M).astype(np.float32)
    largest = own(np.zeros(1, np.float32))
    fused = {"scale_a": own(rows), "scale_b": own(columns), "bias": own(bias), "residual": own(added)}
    options = {"tf32": True} if dtype is np.float32 else {}
    options |= {"amax": largest} if amax else {}
    found = np.asarray(lego_mlir.matmul(own(a), own(b), result=result, **fused, **options))
    exact = (a.astype(np.float32) @ b.astype(np.float32)) * rows[:, None] * columns + bias + added
    assert found.shape == (M, n)
    np.testing.assert_array_equal(found.astype(np.float32), exact.astype(found.dtype).astype(np.float32))
    assert launched(device) == [*expected, "matmul", "crop"]
    if amax:
        assert np.asarray(largest)[0] == np.abs(exact).max()
    (problem,) = device.compiled
    assert problem.n % 8 == 0


def test_odd_rows_of_integers(device):
    draw = np.random.default_rng(5)
    a, b = draw.integers(-9, 9, (7, 33)).astype(np.int8), draw.integers(-9, 9, (33, 5)).astype(np.int8)
    found = lego_mlir.matmul(own(a), own(b[:, ::-1]))
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b[:, ::-1].astype(np.int32))


def test_no_scratch_memory_is_left(device):
    a, b = operands(48, np.int8, "FC")
    lego_mlir.matmul(own(a), own(b))
    (bound,) = known.known.values()
    assert bound.plan.bytes >= 48 * (M + N)
    assert bound.in_place
