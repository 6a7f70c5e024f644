"""Comparing memory with expectations: right within rounding, wrong beyond it, whatever the type."""

import math

import ml_dtypes
import numpy as np
import pytest

from lego_mlir.kernel.dtypes import DTYPES
from lego_mlir.runtime.comparing import STORED, TOLERANCE, compare, numbers, relative_error

RANDOM = np.random.default_rng(3)


def test_every_element_type_has_a_form_in_memory_of_its_size():
    assert set(STORED) == set(DTYPES)
    for name, stored in STORED.items():
        assert np.dtype(stored).itemsize == DTYPES[name].bytes


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rounding_once_is_right_and_a_wrong_element_is_found(dtype):
    exact = RANDOM.standard_normal(1000)
    rounded = exact.astype(DTYPES[dtype].numpy)
    stored = rounded.view(np.dtype(STORED[dtype]))
    assert compare(stored, exact, dtype)
    broken = rounded.copy()
    broken[17] = 100
    result = compare(broken.view(np.dtype(STORED[dtype])), exact, dtype)
    assert not result
    assert result.first_wrong == (17, 100.0, exact[17])
    assert "first wrong element at position 17: found 100.0" in str(result)


def test_bfloat16_bits_are_the_numbers():
    values = RANDOM.standard_normal(100).astype(ml_dtypes.bfloat16)
    assert np.array_equal(numbers(values.view(np.uint16), "bf16"), values.astype(np.float32))


def test_integers_must_be_equal():
    values = np.arange(10, dtype=np.int32)
    assert compare(values, values.astype(np.int64), "i32")
    assert not compare(values, values + (values == 5), "i32")


def test_nan_and_infinity():
    assert compare(np.float32([np.nan, 1, np.inf]), np.float64([np.nan, 1, np.inf]), "f32")
    assert compare(np.float32([np.nan, 1]), np.float64([0, 1]), "f32").error == math.inf
    assert compare(np.float32([-np.inf, 1]), np.float64([np.inf, 1]), "f32").error == math.inf
    assert relative_error(np.float32([1e-3]), np.float64([0])) == math.inf
