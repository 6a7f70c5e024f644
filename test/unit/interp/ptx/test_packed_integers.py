"""Pairs of 16-bit integers in a register: each half by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import entry

from lego_mlir.interp.ptx import emulate

HALVES = st.lists(st.integers(0, 2**16 - 1), min_size=4, max_size=4)
OPERATIONS = {"max.u16x2": max, "min.u16x2": min, "add.u16x2": lambda a, b: (a + b) % 2**16}


def one_by_one(statement, a, b):
    """A statement of the words %r2 and %r3 of two arrays, whose result %r4 is written into the second."""
    body = f"""mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.b32 %r2, [%rd4]; ld.global.b32 %r3, [%rd5]; {statement} st.global.b32 [%rd5], %r4; ret;"""
    assert emulate(entry(body), args=[a, b], grid=1, block=a.nbytes // 4).clean


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=10)
@given(x=HALVES, y=HALVES)
def test_halves_are_computed_one_by_one(name, x, y):
    a, b = np.array(x, np.uint16), np.array(y, np.uint16)
    one_by_one(f"{name} %r4, %r2, %r3;", a, b)
    assert b.tolist() == [OPERATIONS[name](*pair) for pair in zip(x, y, strict=True)]


@pytest.mark.parametrize(("name", "dtype"), [("s32", np.int32), ("s16x2", np.int16)])
@pytest.mark.parametrize("called", ["max", "min"])
def test_relu_leaves_no_negative_number(called, name, dtype):
    x, y = np.array([-3, -3, 5, -7], dtype), np.array([-1, 4, -2, 0], dtype)
    wanted = np.maximum(np.maximum(x, y) if called == "max" else np.minimum(x, y), 0)
    one_by_one(f"{called}.relu.{name} %r4, %r2, %r3;", x, y)
    assert y.tolist() == wanted.tolist()


def test_relu_of_floats_keeps_nan():
    x, y = np.array([np.nan, -1.0, 2.0, np.nan], np.float16), np.array([1.0, 3.0, 4.0, -1.0], np.float16)
    one_by_one("fma.rn.relu.f16x2 %r4, %r2, %r3, %r3;", x, y)
    assert np.isnan(y[[0, 3]]).all() and y[1:3].tolist() == [0.0, 12.0]
