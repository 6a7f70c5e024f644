"""NaN and infinity are reported where they are born, and nowhere else."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.report import Kind

ZERO, MINUS_INFINITY = "0f00000000", "0fFF800000"
CASES = {  # the instruction, and how many of the 32 threads make a value that is not finite: x = 0, 1, 2, ..
    f"div.rn.f32 %f2, %f1, {ZERO};": 32,
    "rcp.approx.f32 %f2, %f1;": 1,
    "lg2.approx.f32 %f2, %f1;": 1,
    "sqrt.rn.f32 %f2, %f1;": 0,
    f"add.f32 %f2, %f1, {MINUS_INFINITY};": 0,
    f"max.f32 %f2, %f1, {MINUS_INFINITY};": 0,
    "mul.f32 %f3, %f1, 0f7F000000; mul.f32 %f3, %f3, 0f7F000000; add.f32 %f2, %f3, %f3;": 31,
}


@pytest.mark.parametrize("code", CASES)
def test_births_are_counted_by_thread(code):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    text = entry(f"{THREAD} add.s64 %rd3, %rd1, %rd50; add.s64 %rd4, %rd2, %rd50; ld.global.f32 %f1, [%rd3];\n{code}\n"
                 "st.global.f32 [%rd4], %f2; ret;")  # fmt: skip
    options = EmulatorOptions(checks=Checks(nonfinite=True))
    faults = emulate(text, args=[x, y], grid=1, block=32, options=options).faults
    assert sum(fault.count for fault in faults) == CASES[code]
    assert all(fault.kind is Kind.NONFINITE and "of finite numbers gives" in fault.message for fault in faults)
    assert emulate(text, args=[x, y], grid=1, block=32).clean
