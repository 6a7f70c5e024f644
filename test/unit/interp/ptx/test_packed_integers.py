"""Pairs of 16-bit integers in a register: each half by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import entry

from lego_mlir.interp.ptx import emulate

HALVES = st.lists(st.integers(0, 2**16 - 1), min_size=4, max_size=4)
OPERATIONS = {"max.u16x2": max, "min.u16x2": min, "add.u16x2": lambda a, b: (a + b) % 2**16}


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=10)
@given(x=HALVES, y=HALVES)
def test_halves_are_computed_one_by_one(name, x, y):
    body = f"""mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.b32 %r2, [%rd4]; ld.global.b32 %r3, [%rd5]; {name} %r4, %r2, %r3; st.global.b32 [%rd5], %r4; ret;"""
    a, b = np.array(x, np.uint16), np.array(y, np.uint16)
    assert emulate(entry(body), args=[a, b], grid=1, block=2).clean
    assert b.tolist() == [OPERATIONS[name](*pair) for pair in zip(x, y, strict=True)]
