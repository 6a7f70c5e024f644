"""A directed result is the nearest number on its side of the exact one, which a fraction gives."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.interp.directed_rounding import directed

EXACT = {
    "add": lambda x, y, z: x + y,
    "sub": lambda x, y, z: x - y,
    "mul": lambda x, y, z: x * y,
    "div": lambda x, y, z: x / y,
    "rcp": lambda x, y, z: 1 / x,
    "fma": lambda x, y, z: x * y + z,
}
ARITY = {"rcp": 1, "fma": 3}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["rm", "rp", "rz"])
@settings(max_examples=40)
@given(st.data())
def test_no_number_is_between_the_result_and_the_exact_one(dtype, mode, data):
    width = 32 if dtype == np.float32 else 64
    operation = data.draw(st.sampled_from([*EXACT, "sqrt"]))
    numbers = data.draw(st.tuples(*[st.floats(width=width, allow_nan=False, allow_infinity=False)] * 3))
    given_ = [dtype(v) for v in numbers[: ARITY.get(operation, 2)]]
    if operation == "sqrt":
        given_ = [abs(given_[0])]
    if operation in ("div", "rcp") and given_[-1] == 0:
        return
    with np.errstate(all="ignore"):
        found = float(directed(operation, mode, [np.array([v], dtype) for v in given_])[0])
    x, y, z = (Fraction(float(v)) for v in (*given_, 0, 0, 0)[:3])

    def compare(value: float) -> int:
        """The sign of value - exact."""
        if math.isinf(value):
            return 1 if value > 0 else -1
        if operation == "sqrt":
            return -1 if value < 0 else int(np.sign(Fraction(value) ** 2 - x))
        return int(np.sign(Fraction(value) - EXACT[operation](x, y, z)))

    down = mode == "rm" or (mode == "rz" and compare(0.0) < 0)
    with np.errstate(all="ignore"):
        beyond = float(np.nextafter(dtype(found), dtype(np.inf if down else -np.inf)))
    side = compare(found)
    assert (side <= 0 and compare(beyond) > 0) if down else (side >= 0 and compare(beyond) < 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_cancel_give_minus_zero_when_rounding_down(dtype):
    one, zero = np.array([1], dtype), np.array([0], dtype)
    assert np.signbit(directed("sub", "rm", [one, one]))[0]
    assert not np.signbit(directed("sub", "rp", [one, one]))[0]
    assert not np.signbit(directed("add", "rm", [zero, zero]))[0]
