"""Products of f8, i8 and f32 (as TF32) through schedules: `wgmma` of each type, and `mma.sync`, against NumPy."""

import numpy as np
import pytest
from assembling import needs_ptxas
from ptx_runs import memories_of
from tiled_products import interpreted

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e4m3fn, f8e5m2, f16, f32, i8, i32
from lego_mlir.errors import ScheduleError
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.runtime import data
from lego_mlir.toolchain import compile_kernel, ptxas

ROLES = "warpgroups, pipeline(stages=2), roles"
UNITS = {bf16: "k16.f32.bf16.bf16", f32: "k8.f32.tf32.tf32", f8e4m3fn: "k32.f32.e4m3.e4m3",
         f8e5m2: "k32.f32.e5m2.e5m2", i8: "k32.s32.s8.s8.satfinite"}  # fmt: skip
M, N = 64, 32


def product(dtype, steps=3, columns=N, b_order=Col):
    sums, k = (f32 if dtype.is_float else i32), 128 // dtype.bytes

    @lego.kernel(grid=1, block=128)
    def kernel(
        a: lego.Tensor(dtype, Row(M, steps * k)), b: lego.Tensor(dtype, b_order(steps * k, columns)),
        c: lego.Tensor(sums, Row(M, columns)),
    ):  # fmt: skip
        ta, tb = lego.shared(dtype, Row(M, k)), lego.shared(dtype, b_order(k, columns))
        acc, out, row = lego.accumulator(sums, 16, columns), lego.shared(sums, Row(M, columns)), lego.warp_id * 16
        for step in lego.range(steps):
            lego.stage(a, (0, step), ta)
            lego.stage(b, (step, 0), tb)
            lego.barrier()
            lego.mma(ta.part((row, 0), (16, k)), tb.part((0, 0), (k, columns)), acc)
            lego.barrier()
        acc.store(out, at=(row, 0))
        lego.barrier()
        for i in lego.range(M * columns // 128):
            place = i * 128 + lego.thread_id.x
            c[place // columns, place % columns] = out[place // columns, place % columns]

    return kernel


def types(*pushed):
    """All types; those that are not `pushed` run with --long."""
    return pytest.mark.parametrize(
        "dtype", [pytest.param(t, marks=() if t in pushed else pytest.mark.long) for t in UNITS]
    )


def drawn(rng, dtype, shape):
    """Numbers of a few bits, which each type holds and whose products add up exactly."""
    if dtype == i8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return (rng.integers(-4, 5, shape) / 4).astype(dtype.numpy)


def emulated(target):
    return lambda kernel, memories: PtxRun(target=target)(kernel, memories, {})


def require(origin, kernel, machine, given=None):
    rng = np.random.default_rng(0)
    a, b, c = origin.params
    given = given or {p.name: drawn(rng, p.dtype, p.layout.dims()) for p in (a, b)}
    memories = memories_of(kernel, given)
    report = machine(kernel, memories)
    assert not report.faults, report.faults[0]
    exact = np.float64 if c.dtype.is_float else np.int64
    expected = given["a"].astype(exact) @ given["b"].astype(exact)
    found = memories["c"][data.positions(c.layout, {})].reshape(expected.shape)
    np.testing.assert_array_equal(found, expected.clip(-(2**31), 2**31 - 1))


@types(f8e5m2, i8, f32)
def test_by_warpgroups(dtype):
    kernel = product(dtype)
    scheduled = kernel.schedule(ROLES)
    assert f"wgmma.mma_async.sync.aligned.m64n{N}{UNITS[dtype]} " in compile_kernel(scheduled, target="sm_90a").text
    require(kernel, scheduled, emulated("sm_90a"))
    require(kernel, scheduled, interpreted)


@types(f8e4m3fn)
def test_by_warps(dtype):
    kernel = product(dtype)
    require(kernel, kernel.schedule("warps, pipeline(stages=2), ahead"), emulated("sm_80"))


@needs_ptxas
@types(i8)
def test_they_assemble(dtype):
    text = compile_kernel(product(dtype).schedule(ROLES), target="sm_90a").text
    _, (resources,) = ptxas.assemble(text, target_named("sm_90a"))
    assert resources.spill_stores == resources.spill_loads == 0


@pytest.mark.parametrize("machine", [interpreted, emulated("sm_90a")])
def test_sums_of_integers_saturate(machine):
    """What `mma.sync` does, `wgmma` does too: a sum at the limit stays there."""
    kernel = product(i8, steps=1)
    scheduled = kernel.schedule(ROLES)
    trace = scheduled.trace()
    assert trace.products
    given = {p.name: np.full(p.layout.dims(), -128, np.int8) for p in kernel.params[:2]}
    require(kernel, scheduled, machine, given)


@pytest.mark.parametrize(
    ("options", "what"), [({"dtype": i8, "columns": 40}, "i8"), ({"dtype": f8e4m3fn, "b_order": Row}, "f8e4m3fn")]
)
def test_what_has_no_instruction(options, what):
    """40 columns of i8, and f8 with N contiguous."""
    with pytest.raises(ScheduleError, match=rf"\.py:\d+: wgmma cannot compute this product of {what} tiles"):
        product(**options).schedule(ROLES)


def test_f16_is_as_before():
    assert product(f16).schedule(ROLES).trace().products[0].steps == 4
