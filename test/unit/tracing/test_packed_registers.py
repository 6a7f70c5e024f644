"""Pairs of 16-bit registers that become one word, and those that something else reads."""

import re
from functools import cache

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.emit.packed_registers import packed_registers

M = K = N = 64


@cache
def carried(*, stored):
    """Three times c += w b, where w is a variable that is halved in between; with `stored` w is read otherwise too."""
    parent = f2.MmaSync((4, 1))
    left = f2.MmaOperand(0, parent).layout((M, K))

    @lego.kernel(grid=1, block=128)
    def products(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(K, N)), c: lego.Tensor(f32, Row(M, N))):
        right = lego.shared(f16, gallery.xor_swizzle(K, N, 8, 1, 8))
        lego.copy_async(b, right)
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        wide = lego.register(lego.load(a, left).to(f32))
        weights = lego.register(lego.zeros(f16, left))
        total = lego.register(lego.zeros(f32, parent.layout((M, N))))
        weights.set(wide.to(f16))
        for _ in lego.range(3):
            total.set(lego.mma(weights, right, total))
            wide.set(wide * 0.5)
            weights.set(wide.to(f16))
        if stored:
            lego.convert(weights, to=parent.layout((M, K))).to(f32).store(c)
        else:
            total.store(c)

    return products


def test_weights_that_products_read_are_words():
    kernel = carried(stored=False)
    assert len(packed_registers(kernel.trace()).words) == M * K // 128 // 2
    text = compile_kernel(kernel, target="sm_90a").text
    assert not re.search(r"cvt\.rn\.f16\.f32|prmt|mov\.b32 +\{", text)


def test_weights_that_are_read_otherwise_stay_apart():
    assert not packed_registers(carried(stored=True).trace()).words


@pytest.mark.parametrize("stored", [False, True])
def test_both_are_right(stored):
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, (M, K)).astype(np.float16) for _ in "ab")
    c = np.zeros(M * N, np.float32)
    report = PtxRun(target="sm_90a")(carried(stored=stored), {"a": a.ravel(), "b": b.ravel(), "c": c}, {})
    assert report.clean, report.faults
    expected = a.astype(np.float64) / 8 if stored else 1.75 * a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(c.reshape(M, N), expected)
