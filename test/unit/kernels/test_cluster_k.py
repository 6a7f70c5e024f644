"""K in parts summed by the blocks of a cluster: values, layouts, types, shares, and planted faults."""

import numpy as np
import pytest
from gemm import LAYOUTS, operands
from ptx_runs import memories_of

from lego_mlir import Col, Row, bf16, f16, f32, i8, i32, interp
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import cluster_k, matmul
from lego_mlir.kernels.added_parts import SharedVectors
from lego_mlir.kernels.cluster_k import ClusterK
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.runtime.data import positions

SMALL = ProductTile(16, 32, 32, (1, 2))


def build(m, n, k, dtype=f16, a=Row, b=Row, c=Row, parts=2, **given):
    layouts = {"a": a(m, k), "b": b(k, n), "c": c(m, n)}
    return matmul.build(m, n, k, dtype, **layouts, tiling=SMALL, split=ClusterK(parts), **given)


def run(kernel, *arrays):
    given = [p.name for p in kernel.params if p.name != "c"]
    memories = memories_of(kernel, dict(zip(given, arrays, strict=True)))
    return run_kernel(kernel, memories, counts=False), memories["c"][positions(kernel.params[2].layout, {})]


def check(kernel, m, n, k, *further):
    a, b = operands(m, n, k)
    report, c = run(kernel, a, b, *further)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(c, kernel.expected(a, b, *further))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout(kind):
    a, b = LAYOUTS[kind]
    check(build(16, 64, 256, a=a, b=b), 16, 64, 256)


@pytest.mark.parametrize("c", [Row, Col])
@pytest.mark.parametrize(("dtype", "result"), [(f16, f16), (bf16, bf16), (f16, f32), (i8, i32)])
def test_every_type(dtype, result, c):
    check(build(16, 64, 128, dtype, b=Col, c=c, result=result), 16, 64, 128)


@pytest.mark.parametrize(("m", "n", "k", "parts"), [(13, 72, 250, 3), (1, 33, 99, 2), (40, 40, 640, 7), (5, 32, 64, 8)])
def test_sizes_that_neither_tiles_nor_parts_divide(m, n, k, parts):
    check(build(m, n, k, parts=parts), m, n, k)


def test_an_epilogue_sees_the_whole_sum():
    check(build(16, 64, 192, epilogue=matmul.bias(64), result=f16), 16, 64, 192, np.arange(64) - 32)


@pytest.mark.parametrize("parts", range(1, 9))
@pytest.mark.parametrize("shape", [(64, 40), (64, 88), (1, 64), (5, 24), (16, 64), (64, 200)])
def test_each_vector_is_in_one_share(shape, parts):
    """What `visit` traces, counted without it: thread t of part p has vectors p count + t + threads i."""
    vectors = SharedVectors(shape, 4, 128, parts=parts)
    turns, threads = vectors.division
    assert threads <= 128
    found = [
        part * turns * threads + thread + threads * turn
        for part in range(parts) for thread in range(threads) for turn in range(turns)
    ]  # fmt: skip
    assert sorted(n for n in found if n < vectors.total) == list(range(vectors.total))


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_barrier_that_is_left_out_is_reported(monkeypatch, left_out):
    """The first orders the sums before they are read; the second keeps a block until others have read them."""
    calls = []

    def barrier():
        calls.append(len(calls))
        if calls[-1] != left_out:
            kept()

    kept = cluster_k.lego.cluster_barrier
    monkeypatch.setattr("lego_mlir.cluster_barrier", barrier)
    a, b = operands(16, 32, 256)
    report, _ = run(build(16, 32, 256), a, b)
    assert {fault.kind for fault in report.faults} & {interp.Kind.RACE, interp.Kind.ENDED}
