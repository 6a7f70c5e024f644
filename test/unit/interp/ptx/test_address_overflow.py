"""Overflow is reported where it goes into an address, at its line, and nowhere else."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.report import Kind

ADDRESS = "and.b32 %r9, %r8, 31; mul.wide.s32 %rd4, %r8, 4; shr.s64 %rd4, %rd4, 62; add.s64 %rd5, %rd1, %rd50;"


def overflows(body: str, *, checked: bool = True) -> list[tuple[int, int]]:
    """Lines after the thread's index, and counts."""
    text = entry(f"{THREAD}\n{body}\nret;", "x")
    options = EmulatorOptions(checks=Checks(overflow=checked))
    report = emulate(text, args=[np.zeros(64, np.int32)], grid=1, block=32, options=options)
    first = text[: text.index(THREAD)].count("\n") + THREAD.count("\n") + 2
    return [(f.place.line - first, f.count) for f in report.faults if f.kind is Kind.OVERFLOW]


INDEXED = "mul.wide.s32 %rd4, %r8, 4;\nadd.s64 %rd5, %rd1, %rd4;\nld.global.u32 %r10, [%rd5];"


@pytest.mark.parametrize(
    ("computes", "lanes"),
    [
        ("mul.lo.s32 %r8, %r50, 200000000;", 32 - 22),  # fits as unsigned up to 21
        ("mad.lo.s32 %r8, %r50, 2000000000, 500000000;", 32 - 2),
        ("add.s32 %r8, %r50, 2147483640;", 0),  # fits as unsigned
        ("shl.b32 %r8, %r50, 28;", 16),
        ("add.s32 %r8, %r50, -5;", 0),
        ("sub.s32 %r8, %r50, 31;", 0),
        ("mul.lo.s32 %r8, %r50, -1;", 0),
    ],
)
def test_sums_and_products_that_do_not_fit(computes, lanes):
    found = overflows(f"{computes}\n{INDEXED}")
    assert found == ([(0, lanes)] if lanes else [])


def test_what_is_no_part_of_an_address_may_wrap():
    wraps = "mul.lo.s32 %r8, %r50, 2000000000;"
    assert overflows(f"{wraps}\nadd.s64 %rd5, %rd1, %rd50;\nst.global.u32 [%rd5], %r8;") == []
    assert overflows(f"{wraps}\nmov.u32 %r11, %r8;\n{INDEXED.replace('%r8', '%r11')}") != []
    assert overflows(f"{wraps}\n{INDEXED}", checked=False) == []


def test_lanes_that_are_off_do_not_count():
    body = f"setp.lt.s32 %p1, %r50, 4;\nmov.u32 %r8, 0;\n@%p1 mul.lo.s32 %r8, %r50, 2000000000;\n{INDEXED}"
    assert overflows(body) == [(2, 1)]
