"""Schedules on products as users write them: right values, no faults, and tensor cores of warpgroups."""

import re
from functools import cache

import pytest
from assembling import needs_ptxas
from tiled_products import PRODUCTS, Tile, after, emulated, interpreted, require

from lego_mlir.toolchain import compile_kernel, ptxas, target_named

SIZES = {"symmetric": (256, 256, 128)}
SPECIAL = "warpgroups, pipeline(stages=3), overlay, roles"
COMPOSITIONS = [
    "warpgroups",
    *(f"warpgroups, pipeline(stages={stages}){roles}" for stages in (2, 3, 6) for roles in ("", ", roles")),
    "warpgroups, pipeline(stages=2), overlay, roles(copies=40), dependent",
    "persistent(blocks=1), warpgroups, pipeline(stages=3), roles",
    "persistent(blocks=2), warpgroups, pipeline(stages=3), clusters(blocks=2), roles",
    "warpgroups, pipeline(stages=3), clusters(blocks=2), roles",
]


def made(name, *sizes):
    return PRODUCTS[name](*(sizes or SIZES.get(name, (128, 128, 256))))


@cache
def scheduled(name, composition, *sizes):
    """A kernel that several tests run, scheduled once, and its reference."""
    kernel, reference = made(name, *sizes)
    return after(kernel, composition), reference


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_without_a_schedule(name):
    kernel, reference = made(name)
    require(kernel, reference, interpreted)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_a_product_by_warpgroups_that_copy_and_multiply(name, machine):
    require(*scheduled(name, SPECIAL), machine)


@pytest.mark.parametrize("name", ["gated", "biased"])
@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_functions_of_elements_are_computed_in_registers(name, machine):
    made = scheduled(
        name, "persistent(blocks=2), warpgroups, copied_out(buffers=1), pipeline(stages=2), roles", 256, 128, 128
    )
    assert {b.name for b in made[0].trace().shared}.isdisjoint({"out", "gate", "up"})
    require(*made, machine)


@pytest.mark.parametrize("name", PRODUCTS)
def test_its_instructions_copy_tiles_and_multiply_by_warpgroups(name):
    text = compile_kernel(scheduled(name, SPECIAL)[0], target="sm_90a").text
    assert "wgmma.mma_async" in text
    assert "cp.async.bulk.tensor" in text
    assert not re.search(r"\bmma\.sync|ldmatrix|cp\.async\.c[ag]", text)
    assert "wgmma.wait_group.sync.aligned 1;" in text  # the products of a step go on while the next one is issued


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_compositions_agree(composition, machine):
    require(*scheduled("plain", composition, 256, 128, 192), machine)


def test_a_schedule_leaves_its_origin_as_it_was():
    kernel, _ = made("plain")
    before = kernel.mlir()
    scheduled = kernel.schedule("warpgroups", "pipeline(stages=2), roles")
    assert scheduled.schedules == ("warpgroups", "pipeline(stages=2)", "roles")
    assert kernel.mlir() == before != scheduled.mlir()
    assert kernel.schedules == ()
    assert (kernel.block, scheduled.block) == ((128,), (256,))


def test_a_scheduled_kernel_is_called_and_keeps_its_reference():
    kernel, _ = made("plain")
    kernel.reference(lambda a, b: (a.astype("f4") @ b.astype("f4")).astype("f2"))
    assert kernel.schedule(SPECIAL).expected is kernel.expected
    assert {f.name for f in kernel.schedule(SPECIAL).params if f.written} == {"c"}


@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_a_product_is_divided_where_a_launch_of_many_threads_leaves_few_registers(machine):
    """512 threads have 128 registers each at launch, and one instruction of 256 columns would take 154."""
    kernel, reference = PRODUCTS["doubled"](128, 256, 64, Tile(128, 256))
    kernel = after(kernel, "warpgroups, pipeline(stages=2), overlay, roles(threads=256)")
    assert {(product.columns, product.width) for product in kernel.trace().products} == {(256, 128)}
    require(kernel, reference, machine)


@needs_ptxas
@pytest.mark.parametrize("name", ["computed", "symmetric"])  # many threads; a tensor in tiles of two heights
def test_wide_tiles_do_not_spill(name):
    kernel, _ = PRODUCTS[name](512, 512, 256, Tile(128, 256))
    text = compile_kernel(kernel.schedule("warpgroups, pipeline(stages=3), overlay, roles"), target="sm_90a").text
    _, (resources,) = ptxas.assemble(text, target_named("sm_90a"))
    assert resources.spill_stores == resources.spill_loads == 0
