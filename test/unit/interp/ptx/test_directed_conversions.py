"""Integers to floats in each rounding, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate

VALUES = np.array([0, 1, -1, 2**24 + 1, -(2**24) - 1, 123456789, -123456789, 2**31 - 1, -(2**31)] + [7] * 23, np.int32)


def allowed(value: int, mode: str) -> float:
    """The neighbour of an integer among f32, in a direction."""
    near = np.float32(value)
    below, above = (np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf))
    candidates = [float(v) for v in (near, below, above)]
    if mode == "rm" or (mode == "rz" and value > 0):
        return max(v for v in candidates if Fraction(v) <= value)
    if mode in ("rp", "rz"):
        return min(v for v in candidates if Fraction(v) >= value)
    return min(candidates, key=lambda v: abs(Fraction(v) - value))


@pytest.mark.parametrize("mode", ["rn", "rm", "rp", "rz"])
def test_integers_to_f32(mode):
    text = entry(f"""{THREAD} add.s64 %rd4, %rd1, %rd50; ld.global.s32 %r9, [%rd4]; cvt.{mode}.f32.s32 %f1, %r9;
st.global.f32 [%rd4], %f1; ret;""", "x")  # fmt: skip
    x = VALUES.copy()
    assert emulate(text, args=[x], grid=1, block=32).clean
    assert x.view(np.float32).tolist() == [allowed(int(v), mode) for v in VALUES]
