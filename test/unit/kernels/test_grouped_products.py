"""Grouped products against NumPy: by wgmma in the emulator, by mma.sync in the interpreter; rows outside stay."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from assembling import machine_code, needs_ptxas

from lego_mlir import bf16, f32, spec
from lego_mlir.choices import role_tiles
from lego_mlir.choices.product_device import REFERENCE_DEVICE
from lego_mlir.choices.role_tiles import role_tile
from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import grouped_products
from lego_mlir.kernels.role_products import RoleForm
from lego_mlir.runtime import data
from lego_mlir.toolchain import compile_kernel

EXAMPLES = Path(__file__).parents[3] / "examples"
BLOCKS, SMALL, PAIRED, UNTOUCHED = 3, role_tile(64, 128, 2), role_tile(64, 128, 2, cluster=2), 7
ENDS = {"empty groups": [0, 70, 70, 201, 201], "one row": [1], "skewed": [2, 3, 190], "nothing": [0, 0]}


@cache
def kernel(form, tile=SMALL):
    return grouped_products.build(form, tile, BLOCKS - BLOCKS % -tile.sharing)


def multiply(form, ends, rows, depth, columns, on, tile=SMALL):
    """The result of a kernel, and the expected one; rows after the last group have the value from before."""
    random, groups = np.random.default_rng(rows), len(ends)
    dtype, stored = form.dtype.numpy, form.stored.numpy
    a, b = (random.integers(-3, 4, shape) for shape in ((rows, depth), (groups, depth, columns)))
    wanted, begin = np.full((rows, columns), UNTOUCHED), 0
    for group, end in enumerate(ends):
        wanted[begin:end], begin = a[begin:end] @ b[group], end
    given, sizes = b, {"T": rows, "G": groups, "K": depth, "N": columns}
    if form.layouts == "NT":
        given = b.swapaxes(1, 2)
    elif form.multiple < 8:
        sizes["P"] = -(-columns // 8) * 8
        given = np.pad(b, ((0, 0), (0, 0), (0, sizes["P"] - columns)))
    c = np.full((rows, columns), UNTOUCHED, stored)
    arrays = {"a": a.astype(dtype), "b": given.astype(dtype), "offsets": np.array(ends, np.int32), "c": c}
    memory = {name: np.ascontiguousarray(x).reshape(-1) for name, x in arrays.items()}
    run = kernel(form, tile)
    if form.multiple == 8 or form.layouts == "NT":
        sizes = {s.name: sizes.get(s.name, 8) for s in run.sizes}
    report = run_kernel(run, memory, sizes, counts=False) if on == "interp" else PtxRun(target=on)(run, memory, sizes)
    assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    return memory["c"].reshape(c.shape).astype(np.float64), wanted.astype(stored).astype(np.float64)


@pytest.mark.parametrize(("form", "ends", "on"), [
    (RoleForm(), "empty groups", "interp"),
    (RoleForm(), "empty groups", "sm_90a"),
    (RoleForm(), "one row", "sm_80"),
    (RoleForm(), "nothing", "sm_90a"),
    (RoleForm(bf16, f32, "NT"), "skewed", "interp"),
    (RoleForm(bf16, f32, "NT"), "skewed", "sm_90a"),
])  # fmt: skip
def test_groups_are_multiplied_and_other_rows_stay(form, ends, on):
    found, wanted = multiply(form, ENDS[ends], 204, 136, 136, on)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("b", ["N", "T"])
def test_columns_of_any_number(b):
    found, wanted = multiply(RoleForm(layouts="N" + b, multiple=1), [3, 66], 70, 72, 131, "sm_90a")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(64, 256), (128, 64), (128, 256), (256, 128)])
def test_every_division_of_a_tile_among_the_groups(shape):
    found, wanted = multiply(RoleForm(layouts="NT"), [100, 300], 310, 72, 264, "sm_90a", role_tile(*shape, 2))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("on", ["interp", "sm_90a"])
def test_the_example(on):
    loaded = spec.load(EXAMPLES / "grouped_matmul.py").kernels["grouped_product"]
    sizes = {"T": 100, "G": 3, "K": 72, "N": 136}
    drawn = data.draw(loaded, sizes, 0)
    memory = {p.name: np.ascontiguousarray(drawn[p.name]).reshape(-1) for p in loaded.params if p.name != "c"}
    memory["c"] = np.zeros(sizes["T"] * sizes["N"], np.float16)
    if on == "interp":
        report = run_kernel(loaded, memory, sizes, counts=False)
    else:
        report = PtxRun(target=on)(loaded, memory, sizes)
    assert report.clean, report.faults
    a, b = (drawn[name].astype(np.float32) for name in "ab")
    wanted = loaded.expected(a, b, drawn["offsets"])
    np.testing.assert_allclose(memory["c"], wanted.reshape(-1), rtol=2**-9, atol=2**-6)


@pytest.mark.parametrize(("b", "on"), [("N", "interp"), ("N", "sm_90a"), ("T", "sm_90a")])
def test_blocks_of_a_cluster_share_tiles_of_b(b, on):
    found, wanted = multiply(RoleForm(layouts="N" + b), [100, 100, 330], 340, 136, 136, on, PAIRED)
    np.testing.assert_array_equal(found, wanted)


def test_more_panels_than_one():
    rows = role_tiles.together(SMALL, BLOCKS) * 64 + 70
    found, wanted = multiply(RoleForm(layouts="NT"), [rows], rows, 8, 264, "sm_90a")
    np.testing.assert_array_equal(found, wanted)


@needs_ptxas
def test_code_for_hopper_has_no_spills_and_no_serialised_products():
    compilation = compile_kernel(kernel(RoleForm(layouts="NT"), role_tile(128, 256, 4)), target="sm_90a", cache=None)
    resources = machine_code(compilation.text)
    assert resources.spill_stores == resources.spill_loads == 0
    assert len(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n256k16", compilation.text)) == 4
    assert "cp.async.bulk.tensor.3d" in compilation.text


def test_tiles_by_the_rows_of_a_group():
    few, many = (role_tiles.choose((total, 64, 4096, 4096)) for total in (4096, 16384))
    assert (few.m, many.m) == (64, 128)
    assert all(role_tiles.shared_bytes(tile) < 100 * 1024 for tile in role_tiles.shapes(100 * 1024))


def test_rows_that_are_not_whole_lines_are_copied_by_clusters():
    cubes, room = (12 * 1000, 12, 1000, 1000), LARGEST_SHARED_BYTES
    assert role_tiles.label(role_tiles.choose(cubes, REFERENCE_DEVICE, room, lines=2, clusters=True)) == "128x256x4x2"
    assert role_tiles.choose(cubes, REFERENCE_DEVICE, room, lines=2).sharing == 1
    assert role_tiles.choose((16 * 2048, 16, 2048, 2048), REFERENCE_DEVICE, room, clusters=True).sharing == 1


@pytest.mark.parametrize(("make", "words"), [
    (lambda: role_tile(96, 128), "64, 128 or 256 rows"),
    (lambda: role_tile(256, 256), "a group sums 128 x 256 numbers"),
    (lambda: role_tile(64, 64), "a group sums 64 x 32 numbers"),
    (lambda: role_tile(64, 128, 1), "at least 2"),
    (lambda: role_tile(64, 128, 2, 4), "clusters of 4 blocks: 1 or 2"),
    (lambda: grouped_products.build(RoleForm(f32)), "of f16 or bf16"),
    (lambda: grouped_products.build(RoleForm(multiple=3)), "a multiple of 1, 2, 4 or 8"),
])  # fmt: skip
def test_what_is_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()
