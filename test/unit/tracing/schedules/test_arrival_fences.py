"""Arrivals after stores into operands of `wgmma` have a proxy fence, and no others."""

import numpy as np
import pytest
from ptx_runs import memories_of
from tiled_products import PRODUCTS, after, emulated, run

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.emit import emit_wgmma
from lego_mlir.tracing.emit.proxy_fences import fenced_arrivals
from lego_mlir.tracing.trace.trace import For, statements_in

ROLES = "warpgroups, pipeline(stages=2), roles"
STORING = ("doubled", "computed")


def scheduled(name):
    kernel, reference = PRODUCTS[name](128, 128, 256)
    return after(kernel, ROLES), reference


def operands(trace):
    return {name for product in trace.products for name in product.buffers}


@pytest.mark.parametrize("name", ["plain", "two_sums", "row_maximum", "gathered", *STORING])
def test_arrivals_are_fenced_where_threads_store_operands(name):
    trace = scheduled(name)[0].trace()
    found = fenced_arrivals(trace.body, operands(trace))
    assert len(found) == (name in STORING)  # the copies' arrival at the full ring


def test_its_code_has_one_fence_more():
    plain, doubled = (compile_kernel(scheduled(name)[0], target="sm_90a").text for name in ("plain", "doubled"))
    assert doubled.count("fence.proxy.async") == plain.count("fence.proxy.async") + 1


def test_the_emulator_reports_a_fence_that_is_left_out(monkeypatch):
    monkeypatch.setattr(emit_wgmma, "fenced_arrivals", lambda body, operands: frozenset())
    kernel, reference = PRODUCTS["doubled"](128, 128, 256)
    faults, _ = run(kernel.schedule(ROLES), reference, emulated)  # not the kernel that others share
    assert {fault.kind for fault in faults} == {Kind.UNFENCED}


def test_a_store_in_the_round_before_reaches_an_arrival():
    """The order of a loop's statements does not matter: a store at its end comes before an arrival at its beginning."""
    trace = scheduled("doubled")[0].trace()
    fenced = fenced_arrivals(trace.body, operands(trace))
    loops = [s for s in trace.statements() if isinstance(s, For)]
    loop = next(s for s in loops if any(id(i) in fenced for i in statements_in(s.body)))
    turned = For(loop.symbol, loop.lo, loop.hi, loop.step, tuple(reversed(loop.body)), loop.source)
    assert fenced_arrivals((turned,), operands(trace)) & {id(s) for s in statements_in(turned.body)}


@lego.function(inline=False)
def put(tile, value, i, j):
    tile[i, j] = value


@lego.function(inline=False)
def put_by_another(tile, value, i, j):
    put(tile, value, i, j)


@pytest.mark.parametrize("way", ["store", "call", "nested call", "copy"])
def test_what_threads_write_before_an_arrival_of_their_own_is_fenced(way):
    @lego.kernel(grid=1, block=256)
    def square(a: lego.Tensor(f16, Row(64, 64)), c: lego.Tensor(f32, Row(64, 64))):
        tile, full = lego.shared(f16, gallery.xor_swizzle(64, 64, 8, 1, 8)), lego.barriers(1, arrivals=4)
        with lego.warps(4, 8):
            thread = lego.thread_id.x % 128
            if way == "copy":
                lego.copy_async(a, tile)
                lego.commit_copies()
                lego.wait_copies()
            else:
                for turn in lego.range(32):
                    i, j = (thread + 128 * turn) // 64, thread % 64
                    if way == "store":
                        tile[i, j] = a[i, j]
                    else:
                        (put if way == "call" else put_by_another)(tile, a[i, j], i, j)
            full[0].arrive()
        with lego.warps(0, 4):
            full[0].wait()
            lego.mma(tile, tile.T, lego.zeros(f32, f2.MmaSync((4, 1)).layout((64, 64)))).store(c)

    memories = memories_of(square, {"a": np.eye(64, dtype=np.float16)})
    assert not PtxRun(target="sm_90a")(square, memories, {}).faults
    np.testing.assert_array_equal(memories["c"].reshape(64, 64), np.eye(64))
