"""K in parts within a cluster, emulated: results of f32, every epilogue after the parts are added, promoted sums."""

from __future__ import annotations

import numpy as np
import pytest
from warpgroup_runs import emulated, factors

import lego_mlir as lego
from lego_mlir import bf16, f16, f32
from lego_mlir.kernels import epilogues, matmul
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.transforms.warpgroups import cluster_sums

M, N, K = 72, 136, 264
SMALL, NARROW = Tiling(64, 64, 64, (4, 1)), Tiling(64, 16, 64, (4, 1))
HIGH, WIDE = Tiling(128, 80, 64, (8, 1)), Tiling(64, 96, 64, (4, 1))
TALLER = Tiling(192, 96, 64, (4, 1))
MADE = {
    "": lambda: None,
    "bias relu": lambda: epilogues.bias(N).then(epilogues.relu()),
    "gelu": lambda: epilogues.scale().then(epilogues.gelu()),
    "silu": lambda: epilogues.scale().then(epilogues.silu()),
    "gate": lambda: epilogues.scale().then(epilogues.silu_gate(M, N, bf16)),
    "scales residual": lambda: epilogues.scales(M, N).then(epilogues.residual(M, N, f16)),
    "bias amax": lambda: epilogues.bias(N, bf16).then(epilogues.amax()),
}
CASES = [
    ("", "NN", f32, SMALL, {"cluster_k": 2}),
    ("", "NT", f32, NARROW, {"cluster_k": 4}),
    ("", "TN", f32, HIGH, {"cluster_k": 4, "exact": 2}),
    ("", "TT", f32, TALLER, {"cluster_k": 2, "stages": 4}),
    ("bias relu", "NT", f16, SMALL, {"cluster_k": 4, "dependent": 1}),
    ("bias relu", "TT", f32, Tiling(128, 96, 64, (8, 1)), {"cluster_k": 2, "cluster_m": 2, "exact": 1}),
    ("gelu", "NN", f32, Tiling(128, 64, 64, (8, 1)), {"cluster_k": 4, "cluster_m": 2}),
    ("silu", "TN", bf16, SMALL, {"cluster_k": 2, "resident": 2}),
    ("gate", "NT", f32, SMALL, {"cluster_k": 4, "exact": 4}),
    ("scales residual", "TT", f16, TALLER, {"cluster_k": 4, "stages": 4}),
    ("scales residual", "NN", f32, Tiling(128, 128, 64, (8, 1)), {"cluster_k": 4, "stages": 4}),
    ("bias amax", "NT", f32, HIGH, {"cluster_k": 4, "stages": 4}),
    ("bias amax", "TN", f16, WIDE, {"cluster_k": 2, "exact": 2}),
]


def run(name, layouts, result, tiling, parameters):
    """The largest error, relative to the largest value, of a product whose K is in parts."""
    epilogue, (placed, given) = MADE[name](), factors(layouts, (M, N, K), f16)
    random, operands = np.random.default_rng(5), {}
    for operand, kind in (epilogue.operands if epilogue else {}).items():
        shape = kind.layout.dims() if isinstance(kind, lego.Tensor) else ()
        values = random.standard_normal(shape).astype(getattr(kind, "dtype", kind).numpy)
        operands[operand] = np.zeros(1, np.float32) if operand == "amax" else values if shape else np.float32(0.1)
    kernel = matmul.build(M, N, K, f16, **placed, result=result, tiling=tiling, epilogue=epilogue)
    flat = {operand: np.ravel(values).copy() if np.ndim(values) else values for operand, values in operands.items()}
    zeros = np.zeros(M * N, result.numpy)
    found = emulated(kernel, {**given, "c": zeros, **flat}, placed, {"stages": 3, **parameters}, seed=len(layouts))
    product = (given["a"].astype(np.float64) @ given["b"].astype(np.float64)).astype(np.float32)
    expected = product if epilogue is None else epilogue.reference(product, **operands)
    if "amax" in operands:
        np.testing.assert_allclose(flat["amax"], operands["amax"], rtol=1e-6)
    stored = np.asarray(expected).astype(result.numpy).astype(np.float64)
    return np.abs(found.reshape(M, N).astype(np.float64) - stored).max() / np.abs(stored).max()


@pytest.mark.parametrize(("name", "layouts", "result", "tiling", "parameters"), CASES)
def test_an_epilogue_is_applied_once_to_the_sum_of_all_parts(name, layouts, result, tiling, parameters):
    error = run(name, layouts, result, tiling, parameters)
    assert error <= {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}[result.name]


def test_an_epilogue_for_each_part_is_found(monkeypatch):
    """A planted fault: the parts are not below 0 when they are added."""
    keep = cluster_sums._keep

    def clipped(t, plan, own, vector, places, struct):
        zero, kind = t.value("arith.constant 0.0 : f32"), f"!llvm.struct<({', '.join(['f32'] * len(places))})>"
        whole = t.value(f"llvm.mlir.undef : {kind}")
        for number, place in enumerate(places):
            value = t.value(f"llvm.extractvalue {place} : {struct}")
            positive = t.value(f"arith.maximumf {value}, {zero} : f32")
            whole = t.value(f"llvm.insertvalue {positive}, {whole}[{number}] : {kind}")
        keep(t, plan, own, vector, [f"{whole}[{number}]" for number in range(len(places))], kind)

    monkeypatch.setattr(cluster_sums, "_keep", clipped)
    assert run("bias relu", "NT", f32, SMALL, {"cluster_k": 2}) > 1e-2
