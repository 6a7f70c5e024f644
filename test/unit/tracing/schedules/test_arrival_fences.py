"""Arrivals after stores into operands of `wgmma` have a proxy fence, and no others."""

import pytest
from tiled_products import PRODUCTS, after, emulated, run

from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.emit import emit_wgmma
from lego_mlir.tracing.emit.proxy_fences import fenced_arrivals
from lego_mlir.tracing.trace.trace import For, statements_in

ROLES = "warpgroups, pipeline(stages=2), roles"
STORING = ("doubled", "computed", "gathered")


def scheduled(name):
    kernel, reference = PRODUCTS[name](128, 128, 256)
    return after(kernel, ROLES), reference


def operands(trace):
    return {name for product in trace.products for name in product.buffers}


@pytest.mark.parametrize("name", ["plain", "two_sums", "row_maximum", *STORING])
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
