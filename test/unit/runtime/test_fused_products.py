"""`lego_mlir.matmul` with an epilogue, of other types, and with promoted sums, on a stand-in for the driver."""

import ml_dtypes
import numpy as np
import pytest
from cuda_stand_in import own

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.kernels import aligned_products
from lego_mlir.kernels.fused_epilogues import FusedEpilogue
from lego_mlir.runtime.products import kernels
from lego_mlir.runtime.products.problem import Problem

M, N, K = 24, 32, 48


def matrix(shape, dtype, seed=0, order="C"):
    return np.asarray(np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype), order=order)


def test_everything_that_is_fused(device):
    a, b, added = matrix((M, K), np.float16), matrix((K, N), np.float16, 1), matrix((M, N), np.float16, 2)
    rows, columns = np.arange(M, dtype=np.float32) / 16, np.float32([0.5])
    bias = matrix(N, np.float16, 3)
    fused = {"scale_a": own(rows), "scale_b": own(columns), "bias": own(bias), "residual": own(added)}
    for _ in range(2):
        found = lego_mlir.matmul(own(a), own(b), activation="relu", result="float32", **fused)
    product = a.astype(np.float32) @ b.astype(np.float32) * rows[:, None] * columns + bias
    np.testing.assert_array_equal(found, np.maximum(product, 0) + added)
    (problem,) = device.compiled
    assert problem.epilogue == FusedEpilogue("each", "one", "f16", "relu", "f16")
    assert problem.name == f"matmul_{M}x{N}x{K}_f16_f32_NN_scaleeach_byone_biasf16_relu_addf16"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_the_largest_value_of_the_result(device, dtype, shape):
    """It grows from call to call, and the product alone is returned."""
    amax, largest = own(np.zeros(shape, np.float32)), 0.0
    for seed in range(2):
        a, b = matrix((M, K), dtype, seed), matrix((K, N), dtype, 4 + seed, order="F")
        bias = matrix(N, np.float16, seed)
        found = lego_mlir.matmul(own(a), own(b), bias=own(bias), activation="relu", result="float32", amax=amax)
        expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0)
        np.testing.assert_array_equal(found, expected)
        largest = max(largest, np.abs(expected).max())
        assert np.asarray(amax).reshape(()) == largest
    (problem,) = device.compiled
    assert problem.epilogue == FusedEpilogue(bias="f16", activation="relu", amax=True)
    assert problem.name.endswith("_biasf16_relu_amax")


@pytest.mark.parametrize("size", [(23, 31, 47), (24, 31, 50), (17, 32, 33)])
def test_odd_sizes_with_an_epilogue(device, size):
    m, n, k = size
    a, b, bias = matrix((m, k), np.float16), matrix((k, n), np.float16, 1), matrix(n, np.float16, 2)
    added = matrix((m, n), np.float16, 3)
    found = lego_mlir.matmul(own(a), own(b), bias=own(bias), activation="relu", residual=own(added), result="float32")
    np.testing.assert_array_equal(found, np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0) + added)


@pytest.mark.parametrize(("size", "orders"), [((23, 31, 47), "CC"), ((24, 31, 50), "FF"), ((17, 32, 33), "FC")])
def test_odd_sizes_on_aligned_copies(device, monkeypatch, size, orders):
    """Where copies pay, operands of the epilogue are copied as well, and the result is cropped."""
    monkeypatch.setattr(aligned_products, "LEAST_WORK", 1)
    monkeypatch.setattr(aligned_products, "LEAST_INTENSITY", 1)
    m, n, k = size
    a, b = (matrix(shape, np.float16, i, orders[i]) for i, shape in enumerate(((m, k), (k, n))))
    bias, added = matrix(n, np.float16, 2), matrix((m, n), np.float16, 3)
    rows, amax = np.arange(1, m + 1, dtype=np.float32) / 16, own(np.zeros(1, np.float32))
    found = lego_mlir.matmul(own(a), own(b), scale_a=own(rows), bias=own(bias), residual=own(added), amax=amax,
                             result="float32")  # fmt: skip
    expected = a.astype(np.float32) @ b.astype(np.float32) * rows[:, None] + bias + added
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(amax)[0] == np.abs(expected).max()
    names = device.launched
    assert any(name.startswith("pad") for name in names)
    assert names[-1] == ("crop" if n % 8 or (orders[0] == "F" and m % 8) else "matmul")


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_activations(device, activation):
    a, b = matrix((M, K), np.float16), matrix((K, N), np.float16, 1)
    found = lego_mlir.matmul(own(a), own(b), activation=activation, result="float32")
    expected = getattr(lego_mlir.kernels.epilogues, activation)().reference(a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("orders", ["CF", "FC"])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8, np.float32])
def test_types_that_are_multiplied_along_k(device, dtype, orders):
    a, b = (matrix(shape, dtype, i, orders[i]) for i, shape in enumerate(((M, K), (K, N))))
    found = lego_mlir.matmul(own(a), own(b), **({"tf32": True} if dtype is np.float32 else {}))
    exact = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(np.asarray(found).astype(np.float32), exact)
    (problem,) = device.compiled
    assert (problem.layouts, problem.result) == ("NT", {1: "bf16", 4: "f32"}[np.dtype(dtype).itemsize]
                                                 if dtype is not np.int8 else "i32")  # fmt: skip


def test_rounding_to_tf32(device):
    a, b = matrix((M, K), np.float32), matrix((K, N), np.float32, 1)
    for tf32, suffix in (("cut", "_NT"), (True, "_NT_rounded"), ("rounded", "_NT_rounded")):
        np.testing.assert_array_equal(lego_mlir.matmul(own(a), own(b), tf32=tf32), a @ b)
        assert list(device.compiled)[-1].name.endswith(suffix)
    text = list(device.compiled.values())[-1].stage("transformed")
    assert text.count('dtype = "tf32"') == 2


def test_promoted_sums(device):
    a, b = matrix((M, K), np.float16), matrix((K, N), np.float16, 1)
    found = lego_mlir.matmul(own(a), own(b), accumulate="exact")
    np.testing.assert_array_equal(found, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    (problem,) = device.compiled
    assert problem.exact == 4
    assert problem.name.endswith("_NN_exact4")


@pytest.mark.parametrize(
    ("dtype", "fused", "message"),
    [
        (np.float32, {"bias": None}, "multiply its first 19 bits, TF32; allow that with tf32=True"),
        (np.float32, {"tf32": "nearest"}, "tf32 is False, True, 'rounded' or 'cut', .*got 'nearest' for float32"),
        (np.float16, {"tf32": "rounded"}, "tf32 is False, .*or 'cut', of float32 operands; got 'rounded' for"),
        (np.float16, {"activation": "swish"}, "activation one of relu, gelu, silu; got None and 'swish'"),
        (np.float16, {"accumulate": "slow"}, "accumulate is 'fast' or 'exact', .*got 'slow' and None"),
        (np.float16, {"bias": np.zeros(N + 1, np.float16)}, "bias is float16 of shape .33,.*must be .* of shape .32,"),
        (np.float16, {"scale_a": np.zeros(M, np.float16)}, "scale_a is float16 of shape .*; it must be float32 of"),
        (np.float16, {"result": "float8_e4m3fn", "activation": "relu"}, "are those of float8_e4m3fn or .*got float16"),
        (np.float16, {"scale_result": np.ones(2, np.float32)}, "scale_result is float32 of shape .2,.* of shape .1,"),
        (np.int8, {"result": "int32", "scale_a": np.zeros(M, np.float32)}, "int32 of plain products of int8"),
    ],
)
def test_what_is_refused(device, dtype, fused, message):
    a, b = matrix((M, K), dtype), matrix((K, N), dtype)
    given = {name: own(value) if isinstance(value, np.ndarray) else value for name, value in fused.items()}
    with pytest.raises(UsageError, match=message):
        lego_mlir.matmul(own(a), own(b), **given)


def test_sizes_that_no_unit_takes():
    """A packed kernel is for sizes as they are; `matmul` would crop wider rows."""
    problem = Problem(M, N + 1, K, "i8", "i32", "NT", "sm_90a", 132)
    with pytest.raises(UsageError, match="the rows of a, the columns of b and the rows of the result are multiples of"):
        kernels.kernel_for(problem)


def saturated(values, dtype):
    limit = {ml_dtypes.float8_e4m3fn: 448, ml_dtypes.float8_e5m2: 57344}[dtype]
    return np.clip(values, -limit, limit).astype(dtype)


@pytest.mark.parametrize("result", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize(("size", "orders"), [((24, 32, 48), "CF"), ((23, 37, 50), "FC"), ((20, 8, 48), "CF")])
def test_results_of_8_bits(device, result, size, orders):
    """Scaled at the end, after the largest value is counted; rows that are not of 16 bytes are cropped."""
    m, n, k = size
    dtype, largest = ml_dtypes.float8_e4m3fn, own(np.zeros(1, np.float32))
    a, b = (matrix(shape, dtype, i, orders[i]) for i, shape in enumerate(((m, k), (k, n))))
    rows, bias = np.arange(1, m + 1, dtype=np.float32) / 16, matrix(n, np.float16, 2)
    name, factor = np.dtype(result).name, np.float32([9.5])
    found = lego_mlir.matmul(own(a), own(b), scale_a=own(rows), bias=own(bias), activation="relu", amax=largest,
                             scale_result=own(factor), result=name)  # fmt: skip
    value = np.maximum(a.astype(np.float32) @ b.astype(np.float32) * rows[:, None] + bias, 0)
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), saturated(value * factor, result).view(np.uint8))
    assert np.asarray(largest)[0] == np.abs(value).max()
    (problem,) = device.compiled
    assert problem.name.endswith("_scaleeach_biasf16_relu_amax_resultone")


def test_a_plain_result_of_8_bits(device):
    dtype = ml_dtypes.float8_e4m3fn
    a, b = matrix((M, K), dtype), matrix((K, N), dtype, 1, order="F")
    found = lego_mlir.matmul(own(a), own(b), result="float8_e4m3fn")
    expected = saturated(a.astype(np.float32) @ b.astype(np.float32), dtype)
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), expected.view(np.uint8))


def test_operands_that_are_not_aligned_take_the_same_kernel(device):
    """The second call has arrays like those of the first, at other addresses."""
    a, b, bias = matrix((M, K), np.float16), matrix((K, N), np.float16, 1, order="F"), matrix(N, np.float16, 2)
    expected = (a.astype(np.float32) @ b.astype(np.float32) + bias).astype(np.float16)
    for shift in (0, 2):
        found = lego_mlir.matmul(own(a, shift=shift), own(b, shift=shift), bias=own(bias))
        np.testing.assert_array_equal(found, expected)
    assert len(device.compiled) == 1
