"""K in parts among clusters of a grid, emulated: the last one to arrive adds them, whatever the order of blocks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from warpgroup_runs import emulated, factors

from lego_mlir import Col, bf16, f8e4m3fn, f16, f32, i8, i32
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.traced_ptx import argument_of
from lego_mlir.kernels import epilogues, matmul, warpgroup_splits
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.toolchain import compile_kernel

SMALL = Tiling(64, 64, 64, (4, 1))
CASES = [
    ("NT", (72, 136, 328), f16, f32, SMALL, {"splits": 3}, False),
    ("NN", (136, 72, 392), bf16, bf16, Tiling(128, 48, 64, (8, 1)), {"splits": 4, "dependent": 1}, True),
    ("TN", (136, 128, 392), f16, f16, Tiling(128, 64, 64, (8, 1)), {"splits": 2, "cluster_m": 2}, False),
    ("TT", (72, 128, 520), f16, f32, Tiling(64, 128, 64, (4, 1)), {"splits": 2, "cluster_k": 2, "exact": 1}, True),
    ("NT", (40, 64, 656), i8, i32, Tiling(64, 64, 128, (4, 1)), {"splits": 5}, False),
    ("NT", (40, 72, 528), f8e4m3fn, bf16, Tiling(64, 64, 128, (4, 1)), {"splits": 2, "cluster_k": 2}, False),
    ("NT", (24, 136, 392), f16, f16, Tiling(32, 64, 64, (1, 4)), {"splits": 3, "transposed": 1}, True),
]


def run(layouts, sizes, dtype, result, tiling, parameters, fused=False, seed=0):
    """The result in memory, and the counters that are left."""
    (m, n, _), (placed, given) = sizes, factors(layouts, sizes, dtype)
    epilogue = warpgroup_splits.workspace(tiling, m, n, parameters["splits"])
    operands = {name: np.zeros(np.prod(kind.layout.dims()), kind.dtype.numpy)
                for name, kind in epilogue.operands.items()}  # fmt: skip
    operands["partial"][:] = np.nan
    if fused:
        epilogue = epilogues.bias(n).then(epilogues.relu()).then(epilogue)
        operands["bias"] = np.arange(n, dtype=np.float32) - n // 2
    kernel = matmul.build(*sizes, dtype, **placed, result=result, tiling=tiling, epilogue=epilogue)
    zeros = np.zeros(m * n, result.numpy)
    found = emulated(kernel, {**given, "c": zeros, **operands}, placed, {"stages": 4, **parameters}, seed=seed)
    expected = given["a"].astype(np.float64) @ given["b"].astype(np.float64)
    if fused:
        expected = np.maximum(expected + operands["bias"], 0)
    return found.reshape(m, n), expected.astype(result.numpy), operands["counters"]


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "result", "tiling", "parameters", "fused"), CASES)
def test_the_last_cluster_of_a_tile_adds_the_parts(layouts, sizes, dtype, result, tiling, parameters, fused):
    found, expected, counters = run(layouts, sizes, dtype, result, tiling, parameters, fused)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    assert not counters.any()


M, N, K = 64, 64, 520


@pytest.fixture(scope="module")
def in_three():
    """A product of one tile, K in parts for three clusters of a block."""
    kernel = matmul.build(M, N, K, f16, b=Col(K, N), result=f32, tiling=SMALL,
                          epilogue=warpgroup_splits.workspace(SMALL, M, N, 3))  # fmt: skip
    return compile_kernel(kernel, target="sm_90a", transform="matmul_sm90.mlir", parameters={"stages": 3, "splits": 3})


def launched(compiled, text, seed=0, draw=None):
    """What an emulated launch of a text reports, its result and counters, and the exact product."""
    (facts,) = compiled.kernels
    random = np.random.default_rng(2)
    draw = random.standard_normal if draw is None else lambda dims: random.integers(-2, 3, dims)
    a, b = draw((M, K)).astype(np.float16), draw((K, N)).astype(np.float16)
    c, partial = np.zeros((M, N), np.float32), np.full(3 * M * N, np.nan, np.float32)
    counters = np.zeros(warpgroup_splits.COUNTERS, np.int32)
    arrays = a, np.ascontiguousarray(b.T), c
    maps = [argument_of(one.tensor_map, array) for one, array in zip(facts.arguments[:3], arrays, strict=True)]
    report = emulate(text, args=[*maps, partial, counters], grid=(3,), block=facts.block,
                     dynamic_shared=facts.dynamic_shared, seed=seed)  # fmt: skip
    return report, c, counters, a.astype(np.float64) @ b.astype(np.float64)


def test_the_order_of_clusters_does_not_change_the_sums(in_three):
    found = []
    for seed in range(4):
        report, c, counters, exact = launched(in_three, in_three.text, seed)
        assert report.clean, report.faults
        assert not counters.any()
        np.testing.assert_allclose(c, exact, atol=1e-3)
        found.append(c)
    assert all(np.array_equal(found[0], other) for other in found)


FAULTS = {
    "no reset of the counter": (r"\tst\.relaxed\.gpu\.global\.b32 \t\[%rd\d+\], 0;\n", ""),
    "one cluster too few": (r"(setp\.ne\.b32 \t%p\d+, %r\d+), 2;", r"\1, 1;"),
    "the same place for all parts": (r"mul\.wide\.u32 \t(%rd\d+), (%r\d+), 16384;", r"mul.wide.u32 \t\1, \2, 0;"),
    "the same steps for all parts": (r"mul\.lo\.s32 \t(%r\d+), %r\d+, 192;", r"mov.b32 \t\1, 0;"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(in_three, name):
    text, count = re.subn(*FAULTS[name], in_three.text)
    assert count, name
    found = set()
    for seed in range(6):
        report, c, counters, exact = launched(in_three, text, seed, draw="integers")
        found.add(report.clean and not counters.any() and np.array_equal(c, exact))
    assert False in found
