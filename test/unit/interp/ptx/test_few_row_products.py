"""Products of few rows and few tiles, emulated: K in parts within a cluster, transposed products, larger clusters."""

from __future__ import annotations

import numpy as np
import pytest
from warpgroup_runs import check, emulated, factors

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e4m3fn, f16, f32, i8, i32
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.traced_ptx import argument_of
from lego_mlir.interp.report import Kind
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.toolchain import compile_kernel

SMALL = Tiling(64, 64, 64, (4, 1))
PARTS = [
    ("NT", (40, 72, 320), f16, SMALL, {"cluster_k": 2}, None),
    ("NN", (40, 64, 1032), bf16, SMALL, {"cluster_k": 8, "exact": 1}, None),  # parts that are not equal
    ("TT", (72, 40, 264), f16, Tiling(128, 48, 64, (8, 1)), {"cluster_k": 4, "stages": 4}, None),
    ("NT", (64, 64, 400), f16, SMALL, {"cluster_k": 2}, f32),  # one block adds
    ("NT", (40, 64, 528), i8, Tiling(64, 64, 128, (4, 1)), {"cluster_k": 4}, i32),
    ("NT", (40, 64, 400), f8e4m3fn, Tiling(64, 64, 128, (4, 1)), {"cluster_k": 2, "dependent": 1}, bf16),
    ("NN", (64, 128, 392), f16, Tiling(64, 128, 64, (4, 1)), {"cluster_k": 2, "cluster_n": 2}, None),
    ("NT", (40, 72, 264), f16, SMALL, {"cluster_k": 2, "resident": 2}, None),
    ("TN", (72, 128, 136), f16, Tiling(128, 128, 64, (4, 1)), {"cluster_m": 2, "cluster_n": 2, "cluster_k": 2}, None),
    ("NT", (24, 136, 392), f16, Tiling(32, 64, 64, (1, 4)), {"cluster_k": 4, "transposed": 1, "stages": 4}, None),
]
SHARED = [
    ("NT", (64, 256, 136), f16, Tiling(64, 128, 64, (4, 1)), {"cluster_n": 4}, 1),
    ("TN", (136, 136, 72), f16, Tiling(128, 128, 64, (8, 1)), {"cluster_n": 2, "cluster_m": 2}, 1),
    ("NN", (72, 104, 136), bf16, Tiling(64, 56, 64, (4, 1)), {}, 2),
    ("TT", (72, 104, 136), bf16, Tiling(64, 24, 64, (4, 1)), {"dependent": 1}, 3),
    ("NT", (200, 112, 136), f16, Tiling(192, 96, 64, (4, 1)), {"cluster_n": 2, "lockstep": 1}, 1),
    ("NN", (136, 72, 72), bf16, Tiling(192, 128, 64, (4, 1)), {}, None),
    ("TT", (136, 40, 72), f16, Tiling(192, 48, 64, (4, 1)), {"exact": 1}, None),
]
TRANSPOSED = [
    *((layouts, (24 if layouts[0] == "T" else 23, 136, 72), f16, Tiling(32, 64, 64, (1, 4)), {}, 2)
      for layouts in ("NN", "NT", "TN", "TT")),
    ("NT", (1, 72, 72), bf16, Tiling(16, 64, 64, (1, 4)), {}, None),  # a box of one row
    ("NT", (100, 264, 72), bf16, Tiling(64, 128, 64, (2, 4)), {}, 2),
    ("NT", (48, 200, 144), f8e4m3fn, Tiling(48, 64, 128, (1, 4)), {}, None),
    ("NT", (16, 136, 136), f16, Tiling(16, 128, 64, (1, 4)), {"cluster_n": 2}, None),
]  # fmt: skip


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "parameters", "result"), PARTS)
def test_blocks_of_a_cluster_add_their_parts_of_k(layouts, sizes, dtype, tiling, parameters, result):
    check(layouts, sizes, dtype, tiling, parameters, result=result)


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "parameters", "blocks"), SHARED)
def test_larger_clusters_narrow_tiles_and_three_parts_of_rows(layouts, sizes, dtype, tiling, parameters, blocks):
    check(layouts, sizes, dtype, tiling, parameters, blocks)


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "parameters", "blocks"), TRANSPOSED)
def test_rows_of_b_are_those_of_the_unit(layouts, sizes, dtype, tiling, parameters, blocks):
    check(layouts, sizes, dtype, tiling, {"transposed": 1, **parameters}, blocks)


def test_an_epilogue_of_a_transposed_product_in_parts():
    """Of odd numbers of rows, whose loads end with the last one."""
    m, n, k = 23, 136, 392
    epilogue = matmul.scales(m, n).then(matmul.residual(m, n, f16))
    placed, given = factors("NT", (m, n, k), f16)
    random = np.random.default_rng(1)
    operands = {
        name: random.integers(-4, 5, kind.layout.dims()).astype(kind.dtype.numpy) if isinstance(kind, lego.Tensor)
        else np.float32(0.5)
        for name, kind in epilogue.operands.items()
    }  # fmt: skip
    kernel = matmul.build(m, n, k, f16, **placed, result=f16, tiling=Tiling(32, 64, 64, (1, 4)), epilogue=epilogue)
    flat = {name: np.ravel(values).copy() if np.ndim(values) else values for name, values in operands.items()}
    found = emulated(kernel, {**given, "c": np.zeros(m * n, np.float16), **flat}, placed,
                     {"stages": 4, "transposed": 1, "cluster_k": 2})  # fmt: skip
    product = (given["a"].astype(np.float64) @ given["b"].astype(np.float64)).astype(np.float32)
    expected = epilogue.reference(product, **operands).astype(np.float16)
    np.testing.assert_array_equal(found.reshape(m, n), expected)


M, N, K = 64, 64, 520
BARRIER = "\tbarrier.cluster.arrive;\n\tbarrier.cluster.wait;\n"


@pytest.fixture(scope="module")
def in_parts():
    """A product of one tile, K in two parts."""
    kernel = matmul.build(M, N, K, f16, b=Col(K, N), a=Row(M, K), result=f16, tiling=SMALL)
    parameters = {"stages": 3, "cluster_k": 2}
    return compile_kernel(kernel, target="sm_90a", transform="matmul_sm90.mlir", parameters=parameters)


def run(compiled, text, seed=0, distribution="integers"):
    (facts,) = compiled.kernels
    random = np.random.default_rng(2)
    draw = random.standard_normal if distribution == "normal" else lambda dims: random.integers(-2, 3, dims)
    a, b = draw((M, K)).astype(np.float16), draw((K, N)).astype(np.float16)
    c = np.zeros((M, N), np.float16)
    arrays = a, np.ascontiguousarray(b.T), c
    maps = [argument_of(one.tensor_map, array) for one, array in zip(facts.arguments, arrays, strict=True)]
    report = emulate(text, args=maps, grid=(2,), block=facts.block, dynamic_shared=facts.dynamic_shared, seed=seed)
    return report, c, a.astype(np.float64) @ b.astype(np.float64)


def test_the_order_of_blocks_does_not_change_the_sums(in_parts):
    found = []
    for seed in range(3):
        report, c, exact = run(in_parts, in_parts.text, seed, "normal")
        assert report.clean, report.faults
        np.testing.assert_allclose(c, exact, atol=0.05)
        found.append(c)
    assert all(np.array_equal(found[0], other) for other in found)


def without(barriers):
    """An edit that drops some of the cluster's barriers: of the start, two in roles before sums are added, the end."""

    def edit(text):
        parts = text.split(BARRIER)
        assert len(parts) == 5
        joints = ["\n" if number in barriers else BARRIER for number in range(4)]
        return "".join(part + joint for part, joint in zip(parts, [*joints, ""], strict=True))

    return edit


FAULTS = {
    "no barrier before a peer's sums are read": (without({1, 2}), set(Kind)),
    "no barrier at the end": (without({3}), set(Kind)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(in_parts, name):
    edit, kinds = FAULTS[name]
    found = set()
    for seed in range(4):
        found |= run(in_parts, edit(in_parts.text), seed)[0].kinds()
    assert found & kinds, found
