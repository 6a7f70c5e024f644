"""`lego.mma` on spread values as `wgmma`: emulated against NumPy, refused layouts, and the machine code."""

import re
from functools import cache

import numpy as np
import pytest
import sympy
from assembling import machine_code, needs_ptxas

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f16, f32, gallery
from lego_mlir.errors import LayoutError
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.layout import as_layout
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import Buffer
from lego_mlir.tracing.trace.wgmma_products import shared_matrix

K, N = 64, 64
swizzled = gallery.xor_swizzle


@cache
def chained(m, dtype=f16, layout=lambda rows: swizzled(rows, 64, 8, 1, 8), warps=None):
    """(s + s) and the product of its rounded half with b, where s = a b^T: every form of operands and accumulators."""
    parent = f2.MmaSync((warps or m // 16, 1))

    @lego.kernel(grid=1, block=32 * (warps or m // 16))
    def products(a: lego.Tensor(dtype, Row(m, K)), b: lego.Tensor(dtype, Row(N, K)), c: lego.Tensor(f32, Row(m, N))):
        left, right = lego.shared(dtype, layout(m)), lego.shared(dtype, layout(N))
        lego.copy_async(a, left)
        lego.copy_async(b, right)
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        s = lego.mma(left, right.T, lego.zeros(f32, parent.layout((m, N))))
        held = lego.load(left, f2.MmaOperand(0, parent).layout((m, K)))
        s = lego.mma(held, right.T, s)
        p = lego.convert((s * 0.25).to(dtype), to=f2.MmaOperand(0, parent).layout((m, N)))
        lego.mma(p, right, s).store(c)

    return products


@pytest.mark.parametrize(("m", "dtype", "warps"), [(64, f16, 4), (128, bf16, 8), (256, f16, 8)])
def test_products_by_warpgroups(m, dtype, warps):
    kernel, random = chained(m, dtype, warps=warps), np.random.default_rng(m)
    a, b = (random.integers(-3, 4, (rows, K)).astype(dtype.numpy) for rows in (m, N))
    c = np.zeros(m * N, np.float32)
    report = PtxRun(target="sm_90a", seed=m)(kernel, {"a": a.ravel(), "b": b.ravel(), "c": c}, {})
    assert report.clean, report.faults
    s = 2 * a.astype(np.float64) @ b.T.astype(np.float64)
    expected = s + (s / 4).astype(dtype.numpy).astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(c.reshape(m, N), expected)


def test_one_trace_for_all_targets():
    kernel = chained(64)
    assert len(kernel.trace().products) == 3
    below = compile_kernel(kernel, target="sm_90").text
    assert "mma.sync" in below
    assert "wgmma" not in below
    text = compile_kernel(kernel, target="sm_90a").text
    assert "mma.sync" not in text
    assert text.count("wgmma.commit_group") == 3
    assert text.count("fence.proxy.async") == 1


@pytest.mark.parametrize(
    ("layout", "warps"),
    [
        (lambda rows: swizzled(rows, 64, 8, 2, 8), None),  # the unit swizzles single rows
        (lambda rows: gallery.padded(rows, 64, 8), None),
        (lambda rows: swizzled(rows, 64, 8, 1, 8), 2),  # half a warpgroup
    ],
)
def test_products_that_stay_with_mma_sync(layout, warps):
    kernel = chained(64, f16, layout, warps)
    assert not kernel.trace().products
    assert "mma.sync" in compile_kernel(kernel, target="sm_90a").text


def test_a_tile_without_a_descriptor_is_refused_with_the_element():
    tile = LinearLayout({"dim0": [64 << k for k in range(6)], "dim1": [1, 2, 4, 16, 8, 32]}, {"offset": 4096})
    layout = as_layout(Row(64, 64))
    buffer = Buffer("tile", f16, layout, "workgroup", 4096, Source(__file__, 1))
    with pytest.raises(LayoutError, match=r"no wgmma descriptor describes this tile .* puts element"):
        shared_matrix(buffer, sympy.Integer(0), tile, [0], 0, (64, 32))


@needs_ptxas
def test_registers_of_products_in_flight_are_not_touched():
    """ptxas serializes wgmma whose registers are used before the wait (C7510 .. C7519)."""
    resources = machine_code(compile_kernel(chained(128, bf16), target="sm_90a").text)
    assert resources.spill_stores == resources.spill_loads == 0


@cache
def released(products):
    """Two groups: one multiplies a tile and releases it, the other one writes it then."""
    parent = f2.MmaSync((4, 1))

    @lego.kernel(grid=1, block=256)
    def kernel(a: lego.Tensor(f16, Row(64, K)), c: lego.Tensor(f32, Row(64, 64))):
        tile, free = lego.shared(f16, swizzled(64, 64, 8, 1, 8)), lego.barriers(1, arrivals=4)
        lego.copy_async(a, tile)
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        with lego.warps(0, 4):
            found = lego.mma(tile, tile.T, lego.zeros(f32, parent.layout((64, 64))))
            lego.barrier(products=False)
            free[0].arrive(products=products)
            found.store(c)
        with lego.warps(4, 8):
            free[0].wait()
            lego.zeros(f16, parent.layout((64, 64))).store(tile)

    return kernel


def test_a_barrier_and_an_arrival_leave_products_in_flight():
    text = compile_kernel(released(False), target="sm_90a").text
    order = re.findall(r"wgmma\.commit_group|wgmma\.wait_group|bar\.sync|mbarrier\.arrive", text)
    issued = order.index("wgmma.commit_group")
    assert order[issued:] == ["wgmma.commit_group", "bar.sync", "mbarrier.arrive", "wgmma.wait_group"]
    assert "lego.products_go_on" not in text


@pytest.mark.parametrize("products", [True, False])
def test_a_tile_that_is_released_while_a_product_reads_it(products):
    a, c = np.ones((64, K), np.float16), np.zeros(64 * 64, np.float32)
    report = PtxRun(target="sm_90a")(released(products), {"a": a.ravel(), "c": c}, {})
    assert report.clean == products, report.faults
    assert not products or (c == K).all()
