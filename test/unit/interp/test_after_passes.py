"""The interpreter runs what passes leave, not only what we emit: the same values and no fault after each pipeline."""

import numpy as np
import pytest
from gemm_text import Gemm, script, transformed

from lego_mlir import bindings, f16, interp
from lego_mlir.kernels import transpose
from lego_mlir.runtime import data

PIPELINES = [
    "canonicalize,cse,loop-invariant-code-motion",
    "lower-affine,canonicalize,cse",
    "expand-strided-metadata,lower-affine",
    "arith-expand,memref-expand,fold-memref-alias-ops",
    "gpu.module(gpu.func(scf-for-loop-canonicalization)),int-range-optimizations",
    "arith-int-range-narrowing{int-bitwidths-supported=32}",
    "gpu.module(affine-expand-index-ops,affine-expand-index-ops-as-affine)",
    "gpu.module(gpu-decompose-memrefs),flatten-memref",
    "convert-scf-to-cf",
    "lower-affine,convert-scf-to-cf,canonicalize",
]
SCRIPTED = [*PIPELINES, "gpu.module(convert-vector-to-scf{full-unroll=true})"]
PATTERNS = [
    "lower_contraction lowering_strategy = outerproduct",
    "lower_contraction lowering_strategy = dot",
    "lower_contraction lowering_strategy = parallelarith",
    "lower_transfer",
    "transfer_permutation_patterns",
    "cast_away_vector_leading_one_dim",
]
GEMM = Gemm(m=64, n=128, k=96, bm=64, bn=128, bk=32)
TWO_BARRIERS = Gemm(m=64, n=64, k=32, bm=64, bn=64, bk=32, barriers=("gpu.barrier", "\ngpu.barrier"))


def after(text: str, pipeline: str) -> str:
    mlir = bindings.load()
    with mlir.ir.Context():
        module = mlir.ir.Module.parse(text)
        mlir.passmanager.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        return str(module.operation.get_asm(enable_debug_info=True))


def run_gemm(text: str, sizes: Gemm) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((sizes.m, sizes.k)).astype(np.float16)
    b = rng.standard_normal((sizes.k, sizes.n)).astype(np.float16)
    c = np.zeros((sizes.m, sizes.n), np.float32)
    report = interp.launch(text, args=[a, b, c])
    assert report.clean, report.faults
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pipeline", SCRIPTED)
def test_tensor_core_gemm(pipeline: str):
    run_gemm(after(transformed(GEMM.text(), script()), pipeline), GEMM)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_vectorised_transpose_with_masks(pipeline: str):
    kernel = transpose.build("vectorised", 100, 52, f16)
    logical = data.draw(kernel, {}, 0)
    source = np.zeros(100 * 52, np.float16)
    source[data.positions(kernel.params[0].layout, {})] = logical["src"]
    target = np.zeros(100 * 52, np.float16)
    report = interp.run_kernel(kernel, {"src": source, "dst": target}, module=after(kernel.mlir(), pipeline))
    assert report.clean, report.faults
    assert np.array_equal(target[data.positions(kernel.params[1].layout, {})], logical["src"].T)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_vectors_lowered_step_by_step(pattern: str):
    lowering = f"""module attributes {{transform.with_named_sequence}} {{
      transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
        %f = transform.structured.match ops{{["gpu.func"]}} in %root : (!transform.any_op) -> !transform.any_op
        transform.apply_patterns to %f {{ transform.apply_patterns.vector.{pattern} }} : !transform.any_op
        transform.yield }} }}"""
    run_gemm(transformed(TWO_BARRIERS.text(), lowering), TWO_BARRIERS)
