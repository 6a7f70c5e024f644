"""Floats become integers by one instruction and integer bounds on a GPU: truncated, bounded, 0 of NaN, in all types."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32
from lego_mlir.interp.ptx import emulate
from lego_mlir.toolchain import compile_kernel

EDGES = [s * (b + d) for b in (0, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2.0**31, 2.0**32, 2.0**63)
         for d in (-1.0, -0.5, 0.0, 0.5, 1.0) for s in (1, -1)]  # fmt: skip
DRAWN = np.random.default_rng(7).integers(0, 1 << 32, 380, dtype=np.uint64).astype(np.uint32).view(np.float32)
NUMBERS = np.array([*EDGES, np.inf, -np.inf, np.nan, 1e-40, -1e-40, *DRAWN], np.float32)[:500]


def wanted(x, dtype):
    low, high = dtype.span
    return [
        0 if np.isnan(v) else int(min(max(v, low), high)) if np.isinf(v) else min(max(int(v), low), high) for v in x
    ]


@pytest.mark.parametrize("source", [f32, f16, bf16, f64], ids=str)
@pytest.mark.parametrize("target", [i8, u8, i16, u16, i32, u32, i64], ids=str)
def test_every_number_is_truncated_and_bounded(source, target):
    n = len(NUMBERS)

    @lego.kernel(grid=1, block=n // 2)
    def converted(x: lego.Tensor(source, Row(n)), y: lego.Tensor(target, Row(n)), z: lego.Tensor(target, Row(n))):
        i = 2 * lego.thread_id[0]
        y[i], y[i + 1] = x[i].to(target), x[i + 1].to(target)
        z.store(lego.vector(x[i], x[i + 1]).to(target), i)

    with np.errstate(over="ignore", invalid="ignore"):
        x = NUMBERS.astype(source.numpy)
    found = [np.zeros(n, target.numpy) for _ in range(2)]
    text = compile_kernel((converted,), target="sm_80").text
    assert emulate(text, grid=1, block=n // 2, args=[x, *found]).clean
    exact = np.array(wanted(x.astype(np.float64), target), object)
    for got in found:
        np.testing.assert_array_equal(got.astype(object), exact)
    if source != f64 and target != i64:
        assert "setp" not in text
