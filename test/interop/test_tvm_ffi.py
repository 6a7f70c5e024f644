"""Kernels as functions of TVM's FFI, which C++ callers find by name. `python test/run.py interop` has it."""

import numpy as np
import pytest

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed; `python test/run.py interop` has it")

import interop_kernels as kernels  # noqa: E402


def test_a_kernel_is_a_global_function():
    tvm_ffi.register_global_func("lego.axpy", kernels.axpy, override=True)
    x, y, z = np.arange(100, dtype=np.float32), np.ones(100, np.float32), np.zeros(100, np.float32)
    found = tvm_ffi.get_global_func("lego.axpy")
    found(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 2.0, tvm_ffi.from_dlpack(z))
    assert np.allclose(z, 2 * x + y)
