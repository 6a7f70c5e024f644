"""`resident`: registers of several blocks fit a multiprocessor, and values stay."""

from assembling import needs_ptxas
from tiled_products import PRODUCTS, Tile, after, emulated, run

from lego_mlir.hardware.targets import target_named
from lego_mlir.toolchain import compile_kernel, ptxas
from lego_mlir.tracing.schedules.scheduled import words_in
from lego_mlir.tracing.trace.marks import WarpRole

ROLES = "warpgroups, pipeline(stages=2), overlay, roles"
T = Tile(64, 64, 16)


def test_values_stay():
    kernel, reference = PRODUCTS["plain"](64, 64, 192, T)
    faults, difference = run(after(kernel, f"{ROLES}, resident"), reference, emulated)
    assert (faults, difference) == ([], 0)


def test_roles_keep_the_registers_that_they_are_launched_with():
    kernel, _ = PRODUCTS["plain"](64, 64, 192, T)
    own, shared = (after(kernel, text) for text in (ROLES, f"{ROLES}, resident(blocks=3)"))
    assert all(role.registers for _, role in words_in(own.trace().body, WarpRole))
    assert not any(role.registers for _, role in words_in(shared.trace().body, WarpRole))
    texts = [compile_kernel(k, target="sm_90a").text for k in (own, shared)]
    assert ["setmaxnreg" in text for text in texts] == [True, False]
    assert [".minnctapersm 3" in text for text in texts] == [False, True]


@needs_ptxas
def test_registers_fit_a_multiprocessor():
    kernel, _ = PRODUCTS["plain"](128, 64, 256, Tile(128, 64, 16))
    scheduled = after(kernel, f"{ROLES}, resident")
    (threads,) = scheduled.block
    text = compile_kernel(scheduled, target="sm_90a").text
    _, (resources,) = ptxas.assemble(text, target_named("sm_90a"))
    assert resources.registers * threads * 2 <= 64 * 1024
    assert resources.spill_stores == resources.spill_loads == 0


def test_threads_that_copy_ahead_share_a_multiprocessor_too():
    kernel, _ = PRODUCTS["plain"](64, 64, 192, T)
    scheduled = after(kernel, "warps, pipeline(stages=2), ahead, resident(blocks=4)")
    assert ".minnctapersm 4" in compile_kernel(scheduled, target="sm_80").text
