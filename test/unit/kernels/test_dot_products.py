"""The product with one thread an element of C, in every order, against NumPy."""

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import f16, f32, f64, schedule
from lego_mlir.errors import UsageError
from lego_mlir.kernels import dot_products
from lego_mlir.schedule import ORDERS


def check(m, n, k, dtype, **options):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.standard_normal(shape).astype(dtype.numpy) for shape in ((m, k), (k, n)))
    kernel = dot_products.build(m, n, k, dtype, threads=64, **options)
    *_, c = launch(kernel, a, b, np.zeros((m, n), dtype.numpy))
    tolerance = {f16: 2e-2, f32: 1e-5, f64: 1e-13}[dtype]
    np.testing.assert_allclose(c, kernel.expected(a, b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", ORDERS)
def test_every_named_order(order):
    check(9, 21, 8, f32, order=order)


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
@pytest.mark.parametrize("k", [7, 16])
def test_types_and_depths(dtype, k):
    check(12, 20, k, dtype, order=schedule.columns(12, 20, width=8, zigzag=True))


def test_symbolic_sizes():
    M, N, K = (lego.size(name, max=4096) for name in "MNK")
    kernel = dot_products.build(M, N, K, f32, order=schedule.columns(M, N, width=32), threads=64)
    a, b = np.ones((5, 6), np.float32), np.arange(6 * 40, dtype=np.float32).reshape(6, 40)
    *_, c = launch(kernel, a, b, np.zeros((5, 40), np.float32), sizes={"M": 5, "N": 40, "K": 6})
    np.testing.assert_array_equal(c, a @ b)


def test_other_types_are_refused():
    with pytest.raises(UsageError, match="dot_products: the elements are f16, f32 or f64, got i32"):
        dot_products.build(4, 4, 4, lego.i32)
