"""Products of parts of a tile: the second takes the registers of the first one's sums, where nothing needs these."""

import re

import numpy as np
import pytest
from assembling import needs_ptxas
from ptx_runs import memories_of

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery
from lego_mlir.choices.scaled_tiles import scaled_tile
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import scaled_products
from lego_mlir.toolchain import compile_kernel, ptxas, target_named
from lego_mlir.tracing.emit.reused_sums import reused_sums

M, N, K = 128, 64, 64
LAYOUT = f2.MmaSync((4, 1)).layout((64, N))


def two_parts(second="rows", kept=False, local=False):
    """Two products of 64 rows, each from zero on, added to totals after it.

    `kept` uses the first sums once more, `local` adds them in a branch with a register of its own.
    """

    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(2 * N, K)), c: lego.Tensor(f32, Row(M, N))):
        ta, tb = (lego.shared(f16, gallery.xor_swizzle(rows, K, 8, 1, 8)) for rows in (M, 2 * N))
        lego.copy_async(a, ta)
        lego.copy_async(b, tb)
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        totals = [lego.register(lego.zeros(f32, LAYOUT)) for _ in range(2)]
        found = []
        for part in range(2):
            column = N * part if second == "columns" else 0
            sums = lego.mma(ta.part((64 * part, 0), (64, K)), tb.part((column, 0), (N, K)).T, lego.zeros(f32, LAYOUT))
            if local:
                with lego.when(lego.block_id.x == 0):
                    factor = lego.register(f32, 2.0)
                    totals[part].set(totals[part].get() + factor.get() * sums)
            else:
                totals[part].set(totals[part].get() + 2.0 * sums)
            found.append(sums)
        if kept:
            totals[0].set(totals[0].get() + found[0])
        for part in range(2):
            totals[part].get().store(c, at=(64 * part, 0))

    return product


def test_a_part_takes_the_registers_of_the_one_before():
    trace = two_parts().trace()
    ((_, part),) = reused_sums(trace).items()
    assert part.product is trace.products[0]
    assert len(part.written) == N // 2  # of each thread, for 64 rows


def test_one_set_of_registers_is_in_both_instructions():
    text = compile_kernel(two_parts(), target="sm_90a").text
    sums = re.findall(r"wgmma\.mma_async\S+ (\{[^}]*\})", text)
    assert len(sums) == 2 * K // 16
    assert len(set(sums)) == 1


@pytest.mark.parametrize("given", [{"second": "columns"}, {"kept": True}])
def test_sums_that_are_needed_or_of_another_operand_keep_their_registers(given):
    assert reused_sums(two_parts(**given).trace()) == {}


@pytest.mark.parametrize("given", [{}, {"second": "columns"}, {"kept": True}, {"local": True}])
def test_parts_are_right(given):
    kernel, rng = two_parts(**given), np.random.default_rng(0)
    arrays = {
        name: (rng.integers(-8, 9, shape) / 16).astype(np.float16) for name, shape in (("a", (M, K)), ("b", (2 * N, K)))
    }
    memories = memories_of(kernel, arrays)
    assert not PtxRun(target="sm_90a")(kernel, memories, {}).faults
    a, b = (x.astype(np.float64) for x in arrays.values())
    want = 2 * a @ b[:N].T
    want[64:] = 2 * a[64:] @ b[N:].T if "second" in given else want[64:]
    want[:64] *= 1.5 if "kept" in given else 1
    np.testing.assert_allclose(memories["c"].reshape(M, N), want, atol=1e-4)


@needs_ptxas
@pytest.mark.parametrize("columns", [112, 128])
def test_tiles_of_256_rows_with_scales_do_not_spill(columns):
    text = compile_kernel(scaled_products.build("dense", scaled_tile(256, columns)), target="sm_90a").text
    _, (resources,) = ptxas.assemble(text, target_named("sm_90a"))
    assert resources.spill_stores == resources.spill_loads == 0
