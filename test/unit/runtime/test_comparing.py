"""Comparing memory with expectations: right within rounding, wrong beyond it, whatever the type."""

import ml_dtypes
import numpy as np
import pytest

from lego_mlir.runtime.comparing import FLOATS, STORED, compare, numbers, ulp
from lego_mlir.tracing.trace.dtypes import DTYPES

RANDOM = np.random.default_rng(3)


def test_every_element_type_has_a_form_in_memory_of_its_size():
    assert set(STORED) == set(DTYPES)
    for name, stored in STORED.items():
        assert np.dtype(stored).itemsize == DTYPES[name].bytes


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_once_is_right_and_a_wrong_element_is_found(dtype):
    exact = RANDOM.standard_normal(1000)
    rounded = exact.astype(DTYPES[dtype].numpy)
    stored = rounded.view(np.dtype(STORED[dtype]))
    assert compare(stored, exact, dtype)
    broken = rounded.copy()
    broken[17] = 96
    result = compare(broken.view(np.dtype(STORED[dtype])), exact, dtype)
    assert not result
    first = result.first_wrong
    assert (first.position, first.found, first.expected) == (17, 96.0, exact[17])
    assert str(result).startswith("WRONG: 1 of 1000 elements; first wrong element at position 17: found 96.0, expected")


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_ulp_is_the_distance_to_the_next_number(dtype):
    kind = DTYPES[dtype].numpy
    exponents = np.concatenate([RANDOM.uniform(-30, 8 if FLOATS[dtype].largest < 1024 else 15, 1000), [0, 1, 7]])
    values = np.exp2(exponents).astype(kind)
    word = np.dtype(f"u{kind.itemsize}")
    following = (values.view(word) + word.type(1)).view(kind).astype(np.float64)
    assert np.array_equal(ulp(values.astype(np.float64), dtype), following - values.astype(np.float64))


def test_bfloat16_bits_are_the_numbers():
    values = RANDOM.standard_normal(100).astype(ml_dtypes.bfloat16)
    assert np.array_equal(numbers(values.view(np.uint16), "bf16"), values.astype(np.float32))


def test_integers_must_be_equal():
    values = np.arange(10, dtype=np.int32)
    assert compare(values, values.astype(np.int64), "i32")
    assert not compare(values, values + (values == 5), "i32")
    result = compare(values, values + 300 * (values == 5), "i32")
    assert str(result.first_wrong) == "found 5, expected 305, off by 300, must be equal"


def test_integers_beyond_double_precision_are_compared_exactly():
    values = np.int64([2**62, 2**62 + 1])
    assert compare(values, values, "i64")
    assert compare(values, np.int64([2**62, 2**62]), "i64").wrong == 1


def test_nan_and_infinity_belong_to_their_places():
    nan, inf = np.nan, np.inf
    assert compare(np.float32([nan, 1, inf, -inf]), np.float64([nan, 1, inf, -inf]), "f32", np.zeros(4))
    for found, expected in (([nan, 1], [0, 1]), ([0, 1], [nan, 1]), ([-inf, 1], [inf, 1]), ([1, 1], [inf, 1])):
        result = compare(np.float32(found), np.float64(expected), "f32", np.full(2, 1e30))
        assert (result.wrong, result.first_wrong.position) == (1, 0)
        assert "ulps off" not in str(result)


@pytest.mark.parametrize(("value", "dtype"), [(1e5, "f16"), (-65510.0, "f16"), (1e39, "f32"), (3.4e38, "bf16")])
def test_what_leaves_the_type_is_infinite(value, dtype):
    kind = np.float32 if dtype == "bf16" else DTYPES[dtype].numpy
    found = kind([np.inf]) if dtype == "bf16" else np.asarray([np.inf]).astype(kind)
    found = found * np.sign(kind(value) if dtype == "bf16" else value)
    assert compare(found, np.float64([value]), dtype, np.float64([16.0 if dtype == "f16" else 2e36]))
    assert not compare(-found, np.float64([value]), dtype, np.float64([16.0]))


def test_the_summary_of_elements_that_overflow_the_type():
    inf = np.inf
    all_overflow = compare(np.float32([inf, -inf]), np.float64([1e39, -1e40]), "f32", np.full(2, 1e30))
    assert (all_overflow.error, all_overflow.overflowed) == (0.0, 2)
    assert str(all_overflow) == "2 elements equal; 2 infinite: the expected number overflows the type"
    mixed = compare(np.float32([inf, 1, inf]), np.float64([1e39, 1 + 2.0**-23, inf]), "f32", np.full(3, 1e-6))
    assert mixed.summary.startswith(
        "3 elements within their bounds, the closest off by 1 ulps, allowed 8.4 ulps; 1 inf"
    )


def test_without_bounds_floats_are_right_within_some_ulps_and_integers_are_equal():
    expected = RANDOM.standard_normal(100)
    found = expected.astype(np.float32)
    assert compare(found, expected, "f32")
    found[99] = -found[99]
    assert compare(found, expected, "f32").wrong == 1
    assert compare(np.zeros(0, np.float32), np.zeros(0), "f32")
