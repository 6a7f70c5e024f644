"""The attention examples: every length, mask, head and type against NumPy, without races, conflicts or spills."""

import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from assembling import needs_ptxas
from attention_oracle import attended
from launching import in_memory, logical

from lego_mlir import bf16, f16, interp
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.toolchain import compile_kernel, ptxas, target_named
from lego_mlir.tracing.trace.trace import MatrixLoad

EXAMPLES = Path(__file__).parents[3] / "examples"
build, pipelined = (runpy.run_path(str(EXAMPLES / f"attention_{name}.py"))["build"] for name in ("spread", "pipelined"))


@cache
def kernel(D, dtype, causal, held, lazy=False):
    return build(D, dtype, causal, BM=64, BN=32, warps=2, held=held, lazy=lazy)


@cache
def pipelined_kernel(D, dtype, causal):
    return pipelined(D, dtype, causal, BM=64, BN=32, warps=2, held=True)


def run(built, heads, positions, features, dtype, causal):
    random = np.random.default_rng(positions)
    q, k, v = (random.normal(size=(heads, positions, features)).astype(dtype.numpy) for _ in "qkv")
    sizes = {"H": heads, "S": positions}
    memories, placed = in_memory(built, (q, k, v, np.full_like(q, 7)), sizes)
    report = interp.launch(
        built.mlir(),
        grid=[int(evaluate(n, sizes)) for n in built.grid],
        block=[int(n) for n in built.block],
        args=[*memories, *(sizes[s.name] for s in built.sizes)],
    )
    assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    expected = attended(q, k, v, np.tri(positions) if causal else True).o
    error = np.abs(logical(memories, placed)[-1].astype(np.float64) - expected).max() / np.abs(expected).max()
    assert error < (2**-9 if dtype == f16 else 2**-6)
    return report


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [1, 31, 32, 64, 97])
def test_lengths(positions, causal):
    run(kernel(64, f16, causal, True), 2, positions, 64, f16, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [20, 64, 97])
def test_products_merged_with_arithmetic(positions, causal):
    run(pipelined_kernel(64, f16, causal), 1, positions, 64, f16, causal)


def test_scaling_only_where_a_maximum_grows():
    built = kernel(64, f16, True, True, lazy=True)
    run(built, 1, 97, 64, f16, True)
    assert compile_kernel(built, target="sm_80").text.count("vote.sync.any") == 2


@pytest.mark.parametrize(("features", "dtype", "causal", "held"), [(64, bf16, True, True), (128, f16, True, False)])
def test_heads_and_types_without_bank_conflicts(features, dtype, causal, held):
    report = run(kernel(features, dtype, causal, held), 1, 70, features, dtype, causal)
    assert report.totals.conflicts == 0


def test_all_operands_in_shared_memory_are_loaded_as_four_matrices():
    loads = [s for s in kernel(128, f16, True, False).trace().statements() if isinstance(s, MatrixLoad)]
    assert {s.result.width for s in loads} == {(4, 2)}
    assert {s.transposed for s in loads} == {False, True}


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_the_default_tile_fits_the_registers(target):
    text = compile_kernel(build(), target=target).text
    _, (resources,) = ptxas.assemble(text, target_named(target))
    assert resources.spill_stores == resources.spill_loads == 0
    assert "cp.async.cg.shared.global" in text
    assert text.count("ex2.approx.ftz.f32") == 2 * (64 + 4)  # of each loop: 64 weights and 4 rows of a thread
