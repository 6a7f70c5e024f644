"""The pytest fixture fails a test whose launches had faults."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir import sanitize
from lego_mlir.sanitize import pytest_plugin

WRITE = entry(f"{THREAD} add.s64 %rd4, %rd1, %rd50; st.global.b32 [%rd4], %r50; ret;", "x")


def run(elements: int, on_fault: str = "raise") -> None:
    fixture = pytest_plugin.sanitizer.__wrapped__() if hasattr(pytest_plugin.sanitizer, "__wrapped__") else None
    assert fixture is not None
    found = next(fixture)
    found.on_fault = on_fault
    sanitize.ptx(WRITE)[1, 32](np.zeros(elements, np.int32))
    with pytest.raises(StopIteration):
        next(fixture)


def test_the_fixture_lets_a_clean_test_pass():
    run(32)


def test_the_fixture_fails_a_test_with_a_fault():
    with pytest.raises(sanitize.LaunchFaultError, match="out of bounds"):
        run(31)


def test_the_fixture_may_collect():
    run(31, "collect")
