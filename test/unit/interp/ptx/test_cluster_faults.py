"""Faults planted in a product whose blocks share an operand in clusters are found in its emulation."""

import re

import numpy as np
import pytest

from lego_mlir import Col, Row, f16
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.traced_ptx import argument_of
from lego_mlir.interp.report import Kind
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.toolchain import compile_kernel

M, N, K = 64, 256, 320
BARRIER = "\tbarrier.cluster.arrive;\n\tbarrier.cluster.wait;\n"


@pytest.fixture(scope="module")
def compiled():
    """A clustered product with both operands contiguous along M and N: a tile for each of two blocks."""
    kernel = matmul.build(M, N, K, f16, a=Col(M, K), b=Row(K, N), result=f16, tiling=ProductTile(64, 128, 64, (4, 1)))
    parameters = {"stages": 2, "cluster": 2}
    return compile_kernel(kernel, target="sm_90a", transform="matmul_sm90.mlir", parameters=parameters)


def run(compiled, edit, seed):
    (facts,) = compiled.kernels
    random = np.random.default_rng(2)
    a, b = random.integers(-2, 3, (M, K)).astype(np.float16), random.integers(-2, 3, (K, N)).astype(np.float16)
    c = np.zeros((M, N), np.float16)
    arrays = np.ascontiguousarray(a.T), b, c
    maps = [argument_of(one.tensor_map, array) for one, array in zip(facts.arguments, arrays, strict=True)]
    report = emulate(
        edit(compiled.text), args=maps, grid=(2,), block=facts.block, dynamic_shared=facts.dynamic_shared, seed=seed
    )
    return report, np.array_equal(c, (a.astype(int) @ b.astype(int)).astype(np.float16))


def replaced(pattern, text, count):
    """An edit that must find `count` places."""

    def edit(ptx):
        made, number = re.subn(pattern, text, ptx)
        assert number == count, f"{pattern} is there {number} times; change this test"
        return made

    return edit


def without_barrier(which):
    """An edit that drops the first or the last barrier of the cluster."""

    def edit(ptx):
        parts = ptx.split(BARRIER)
        assert len(parts) == 3
        return BARRIER.join(["\n".join(parts[:2]), parts[2]] if which == "first" else [parts[0], "\n".join(parts[1:])])

    return edit


FAULTS = {
    "no rank mask": (replaced(r", 16320;", ", 268435440;", 2), set(Kind)),
    "released before the products have read": (
        replaced(r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;", 5), {Kind.PENDING},
    ),
    "released to rank 0 alone": (replaced(r"(mapa\S+ there, %r\d+), %r\d+;", r"\1, 0;", 5), {Kind.DEADLOCK}),
    "released to the own block alone": (
        replaced(r"mapa\S+ there, (%r\d+), (%r\d+);", r"mov.u32 there, \1;", 5), set(Kind),
    ),
    "no barrier at the start": (without_barrier("first"), set(Kind)),
    "no barrier at the end": (without_barrier("last"), set(Kind)),
}  # fmt: skip


def test_the_product_itself_is_clean(compiled):
    for seed in range(2):
        report, right = run(compiled, lambda text: text, seed)
        assert report.clean, report.faults
        assert right


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(compiled, name):
    edit, kinds = FAULTS[name]
    found = set()
    for seed in range(3):
        report, _ = run(compiled, edit, seed)
        found |= report.kinds()
    assert found & kinds, found
