"""Fused products of arrays with leading dimensions, on the stand-in device."""

import numpy as np
import pytest
from cuda_stand_in import own

import lego_mlir
from lego_mlir.errors import UsageError

LEAD, K, N = (2, 3, 4), 16, 24


def drawn(*shape):
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float16)


def test_rows_are_one_product(device):
    x, w, bias, residual = drawn(*LEAD, K), drawn(K, N), drawn(N), drawn(*LEAD, N)
    scale = np.arange(24, dtype=np.float32).reshape(LEAD)
    found = lego_mlir.matmul(
        own(x), own(w), scale_a=own(scale), bias=own(bias), residual=own(residual), activation="relu", result="float32"
    )
    product = x.astype(np.float32) @ w.astype(np.float32) * scale[..., None] + bias
    np.testing.assert_array_equal(found, np.maximum(product, 0) + residual)
    assert [launch[0] for launch in device.machine.launches] == ["matmul"]


@pytest.mark.parametrize(("shapes", "options", "words"), [
    (((2, 4, K), (2, K, N)), {"activation": "relu"}, r"these are for one matrix b"),
    (((4, K), (2, K, N)), {"activation": "relu"}, r"these are for one matrix b"),
    (((2, 4, K), (K, N)), {"scale_a": (8,)}, r"scale_a is \[8\], and the rows of the product need \[2, 4\]"),
    (((2, 4, K), (K, N)), {"residual": (8, N)}, r"residual is \[8, 24\], .* need \[2, 4, 24\]"),
])  # fmt: skip
def test_what_is_refused(device, shapes, options, words):
    given = {k: own(np.zeros(v, np.float32)) if isinstance(v, tuple) else v for k, v in options.items()}
    with pytest.raises(UsageError, match=words):
        lego_mlir.matmul(*(own(drawn(*shape)) for shape in shapes), **given)
