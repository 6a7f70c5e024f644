"""Products of odd rows, with the next tile's loads during the products: values, races, and what a fault looks like."""

import numpy as np
import pytest
from gemm import LAYOUTS, build, check, composed, launch, operands, transformed
from ptx_runs import memories_of, ptx_of, run_ptx

from lego_mlir import bf16, f16
from lego_mlir.errors import ToolchainError
from lego_mlir.kernels import aligned_products, copy, matmul
from lego_mlir.kernels.split_k import SplitK
from lego_mlir.runtime.products import kernels
from lego_mlir.runtime.products.problem import Problem
from lego_mlir.transforms.passes import load_tiles_early

SCRIPT = "matmul_narrow.mlir"
ODD = (33, 65, 67)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout_of_odd_sizes(kind):
    a, b = LAYOUTS[kind]
    check(build(ODD, a=a, b=b, result=f16), SCRIPT, *ODD)


def test_types_epilogues_and_persistent_blocks():
    check(build(ODD, bf16, result=bf16), SCRIPT, *ODD)
    check(build(ODD, epilogue=matmul.relu(), blocks=2), SCRIPT, *ODD)


def test_aligned_rows_are_loaded_as_vectors():
    text = transformed(build((64, 64, 96)), SCRIPT)
    assert "vector<8xf16>" in text[text.index("iter_args") :].split("{")[0]
    check(build((64, 64, 96)), SCRIPT, 64, 64, 96)


def test_the_next_tile_is_loaded_before_the_products():
    """In the loop: stores of what the previous iteration loaded, a barrier, loads, products."""
    text = transformed(build(ODD), SCRIPT)
    loop = text[text.index("iter_args") :]
    places = [loop.index(name) for name in ("memref.store", "memref.load %arg0", "nvgpu.mma.sync")]
    assert places == sorted(places)
    assert loop.count("gpu.barrier", 0, places[1]) == 2


def test_parts_of_k():
    kernel = matmul.build(15, 33, 259, f16, tiling=matmul.ProductTile(16, 32, 32, (1, 2)), split=SplitK(3))
    a, b = operands(15, 33, 259)
    sums, counters = (np.zeros(int(p.size), p.dtype.numpy) for p in kernel.params[3:])
    report, c = launch(kernel, transformed(kernel, SCRIPT), a, b, np.zeros((15, 33)), sums.reshape(2, 3, -1), counters)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(c, a @ b)


def test_the_ptx_multiplies():
    kernel = build(ODD)
    a, b = operands(*ODD)
    text, facts = ptx_of(kernel, SCRIPT)
    memories = memories_of(kernel, {"a": a, "b": b})
    report = run_ptx(kernel, memories, text, facts)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(memories["c"].reshape(ODD[:2]), a @ b)


def test_values_of_the_wrong_iteration_are_found(monkeypatch):
    """Loads of this iteration's tile instead of the next one's."""
    monkeypatch.setattr(load_tiles_early, "_next", lambda loop, now: now)
    kernel = build(ODD)
    a, b = operands(*ODD)
    _, c = launch(kernel, transformed(kernel, SCRIPT), a, b, np.zeros(ODD[:2]))
    assert not np.array_equal(c, a @ b)


def test_a_missing_barrier_is_found(tmp_path):
    text = transformed(build(ODD), SCRIPT)
    loop = text.index("iter_args")
    second = text.index("gpu.barrier", text.index("gpu.barrier", loop) + 1)
    kernel = build(ODD)
    a, b = operands(*ODD)
    report, _ = launch(kernel, text[:second] + text[second + len("gpu.barrier") :], a, b, np.zeros(ODD[:2]))
    assert any("race" in str(fault) for fault in report.faults)


@pytest.mark.parametrize("size", [(64, 64, 63), (64, 63, 64), (1, 63, 64), (63, 1, 1), (9, 9, 9)])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_narrow_rows_are_those_that_no_asynchronous_copy_takes(kind, size):
    a, b = LAYOUTS[kind]
    accesses = [access for _, access in build(size, a=a, b=b).trace().accesses() if access.buffer.name in ("a", "b")]
    copied = all(access.width * access.buffer.dtype.bytes >= aligned_products.LEAST_COPY for access in accesses)
    assert copied or aligned_products.is_narrow(*size, kind)


@pytest.mark.parametrize("size", [(129, 129, 63), (16, 300, 701), (1, 33, 65)])
def test_the_chosen_kernel_of_odd_rows_compiles(size):
    problem = Problem(*size, "f16", "f16", "NN", "sm_80", 108)
    kernel, script, parameters = kernels.kernel_for(problem)
    assert (script, parameters) == (SCRIPT, {})
    assert "mma.sync" in kernels.compiled(problem).text
    assert kernel.block[0] <= 256


def test_a_kernel_without_products_is_refused(tmp_path):
    with pytest.raises(ToolchainError, match=r"lego-load-tiles-early matched nothing: it looked for an scf.for"):
        transformed(copy.build(64, 64, f16), composed(tmp_path, "lego-load-tiles-early"))
