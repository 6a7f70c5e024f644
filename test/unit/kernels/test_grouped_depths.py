"""Products of groups along K against NumPy: the rows after a group's end are infinite, and count for nothing."""

from functools import cache

import numpy as np
import pytest
from assembling import machine_code, needs_ptxas

from lego_mlir import bf16, f32
from lego_mlir.choices.role_tiles import role_tile
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import grouped_depths
from lego_mlir.kernels.role_products import RoleForm
from lego_mlir.toolchain import compile_kernel

BLOCKS, SMALL = 3, role_tile(64, 128, 2)


@cache
def kernel(form, tile=SMALL):
    return grouped_depths.build(form, tile, BLOCKS)


def multiply(form, ends, rows, columns, on, tile=SMALL, infinite=()):
    """The result of a kernel and the expected one; the rows of the groups `infinite` are infinite in a and b."""
    random, groups = np.random.default_rng(rows), len(ends)
    total, begins = ends[-1] + 70, [0, *ends[:-1]]
    a, b = (random.integers(-3, 4, (total, n)).astype(form.dtype.numpy) for n in (rows, columns))
    wanted = np.stack([a[s:e].astype(np.float32).T @ b[s:e].astype(np.float32)
                       for s, e in zip(begins, ends, strict=True)])  # fmt: skip
    for group in infinite:
        a[begins[group] : ends[group]] = b[begins[group] : ends[group]] = np.inf
    a[ends[-1] :] = b[ends[-1] :] = np.nan
    pitches = [-(-n // 8) * 8 for n in (rows, columns)]
    memory = {name: np.pad(x, ((0, 0), (0, pitch - x.shape[1]))).reshape(-1)
              for name, x, pitch in zip("ab", (a, b), pitches, strict=True)}  # fmt: skip
    memory |= {"offsets": np.array(ends, np.int32), "c": np.full(groups * rows * columns, 7, form.stored.numpy)}
    sizes = {"T": total, "G": groups, "M": rows, "N": columns, "PA": pitches[0], "PB": pitches[1]}
    run = kernel(form, tile)
    report = run_kernel(run, memory, sizes, counts=False) if on == "interp" else PtxRun(target=on)(run, memory, sizes)
    assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    found = memory["c"].reshape(wanted.shape).astype(np.float64)
    finite = [group for group in range(groups) if group not in infinite]
    np.testing.assert_array_equal(found[finite], wanted[finite].astype(form.stored.numpy).astype(np.float64))


@pytest.mark.parametrize("on", ["interp", "sm_80", "sm_90a"])
def test_groups_of_any_depth_are_multiplied(on):
    multiply(RoleForm(layouts="TN"), [0, 70, 70, 198, 199], 72, 136, on)


def test_rows_of_the_next_group_count_for_nothing():
    multiply(RoleForm(bf16, f32, "TN", 4), [3, 80, 81], 5, 132, "sm_90a", infinite=[1])


def test_matrices_of_any_size_in_a_tile_whose_groups_have_rows():
    multiply(RoleForm(layouts="TN", multiple=1), [70, 130], 131, 67, "sm_90a", role_tile(128, 64, 2))


@needs_ptxas
def test_code_for_hopper_has_no_spills_and_no_serialised_products():
    text = compile_kernel(
        kernel(RoleForm(bf16, layouts="TN"), role_tile(128, 256, 4)), target="sm_90a", cache=None
    ).text
    resources = machine_code(text)
    assert resources.spill_stores == resources.spill_loads == 0
    assert "cp.async.bulk.tensor.3d.global.shared::cta" in text


@pytest.mark.parametrize(("make", "words"), [
    (lambda: grouped_depths.build(RoleForm(f32, layouts="TN")), "of f16 or bf16"),
    (lambda: grouped_depths.build(RoleForm(layouts="TN", multiple=3)), "a multiple of 1, 2, 4 or 8"),
    (lambda: grouped_depths.build(tile=role_tile(cluster=2)), "in clusters of 2 blocks: take 1"),
])  # fmt: skip
def test_what_is_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()
