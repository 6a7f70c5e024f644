"""K in parts summed by several blocks: values, layouts, epilogues, the order of the sums, and planted faults."""

import numpy as np
import pytest
from gemm import LAYOUTS, operands, transformed
from ptx_runs import memories_of, ptx_of, run_ptx

from lego_mlir import Col, Row, bf16, f16, f32, interp
from lego_mlir.kernels import matmul, split_k
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.kernels.split_k import SplitK
from lego_mlir.runtime.data import positions

SMALL = ProductTile(16, 32, 32, (1, 2))
SCRIPT = "matmul_sm80.mlir"


def build(m, n, k, dtype=f16, a=Row, b=Row, c=Row, parts=3, **given):
    layouts = {"a": a(m, k), "b": b(k, n), "c": c(m, n)}
    return matmul.build(m, n, k, dtype, **layouts, tiling=SMALL, split=SplitK(parts), **given)


def run(kernel, text, *arrays, launches=1):
    """The logical C after launches in a row on one workspace, whose sums begin as NaN."""
    memories = {p.name: np.full(int(p.size), np.nan).astype(p.dtype.numpy) for p in kernel.params[:-1]}
    memories["counters"] = np.zeros(int(kernel.params[-1].size), np.int32)
    given = [p for p in kernel.params if p.name not in ("c", "partial", "counters")]
    for parameter, array in zip(given, arrays, strict=True):
        memories[parameter.name][positions(parameter.layout, {})] = np.asarray(array).astype(parameter.dtype.numpy)
    for _ in range(launches):
        memories["c"][:] = np.nan
        report = interp.launch(text, args=[memories[p.name] for p in kernel.params], counts=False)
        assert report.clean, [str(fault) for fault in report.faults]
        assert not memories["counters"].any()
    return memories["c"][positions(kernel.params[2].layout, {})]


def check(kernel, m, n, k, script=None, *further, **parameters):
    a, b = operands(m, n, k)
    c = run(kernel, transformed(kernel, script, target="sm_80", **parameters), a, b, *further, launches=2)
    np.testing.assert_array_equal(c, kernel.expected(a, b, *further)[0])


@pytest.mark.parametrize("script", [None, SCRIPT])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout(kind, script):
    a, b = LAYOUTS[kind]
    parameters = {"stages": 2} if script else {}
    check(build(16, 64, 256, a=a, b=b), 16, 64, 256, script, **parameters)


@pytest.mark.parametrize("c", [Row, Col])
@pytest.mark.parametrize(("dtype", "result"), [(f16, f16), (bf16, bf16), (f16, f32)])
def test_every_type(dtype, result, c):
    check(build(16, 64, 128, dtype, c=c, result=result, parts=2), 16, 64, 128, SCRIPT, stages=2)


@pytest.mark.parametrize(("m", "n", "k", "parts"), [(13, 72, 250, 3), (1, 33, 99, 2), (40, 40, 640, 7)])
def test_sizes_that_neither_tiles_nor_parts_divide(m, n, k, parts):
    check(build(m, n, k, parts=parts), m, n, k)


@pytest.mark.parametrize("order", ["row", "column", "grouped", "morton"])
def test_every_order(order):
    check(build(48, 96, 128, parts=2, order=order), 48, 96, 128)


@pytest.mark.parametrize("script", [None, SCRIPT])
@pytest.mark.parametrize("blocks", [1, 5, 8, 100])
def test_persistent_blocks_share_the_parts(blocks, script):
    """12 parts of 4 tiles; a block's share begins and ends anywhere in a tile."""
    a, b = operands(16, 128, 512)
    kernel = matmul.build(16, 128, 512, f16, tiling=SMALL, split=SplitK(3, blocks))
    assert kernel.grid == (min(blocks, 12),)
    c = run(kernel, transformed(kernel, script, target="sm_80", **({"stages": 3} if script else {})), a, b, launches=2)
    np.testing.assert_array_equal(c, a @ b)


def test_persistent_blocks_do_not_change_a_bit():
    draw = np.random.default_rng(1)
    a, b = draw.standard_normal((16, 512)).astype(np.float16), draw.standard_normal((512, 128)).astype(np.float16)
    found = []
    for blocks in (None, 3, 5):
        kernel = matmul.build(16, 128, 512, f16, tiling=SMALL, split=SplitK(3, blocks))
        found.append(run(kernel, transformed(kernel, None), a, b))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_an_epilogue_sees_the_whole_sum():
    kernel = build(16, 64, 192, epilogue=matmul.bias(64), result=f16)
    check(kernel, 16, 64, 192, None, np.arange(64) - 32)


def one_by_one(kernel, order, a, b):
    """C and the counters after its blocks have run one after the other, in an order."""
    text = transformed(kernel, None)
    memories = memories_of(kernel, {"a": a, "b": b, "partial": np.full((1, 4, 512), np.nan), "counters": [0]})
    for block in order:
        report = interp.launch(text, args=list(memories.values()), blocks=[block])
        assert report.clean, [str(fault) for fault in report.faults]
    return memories["c"].tobytes(), int(memories["counters"][0])


def orders():
    """The same random numbers, whose sums depend on their order, with the blocks of the tile in several orders."""
    draw = np.random.default_rng(1)
    a, b = draw.standard_normal((16, 512)).astype(np.float16), draw.standard_normal((512, 32)).astype(np.float16)
    kernel = build(16, 32, 512, parts=4)
    found = [one_by_one(kernel, order, a, b) for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1))]
    return found, a.astype(float) @ b.astype(float)


def test_the_order_in_which_blocks_run_does_not_change_a_bit():
    found, right = orders()
    assert found[0] == found[1] == found[2] and found[0][1] == 0
    np.testing.assert_allclose(np.frombuffer(found[0][0], np.float32).reshape(16, 32), right, rtol=1e-4, atol=1e-3)


def test_a_block_that_takes_itself_for_the_last_too_early_is_found(monkeypatch):
    monkeypatch.setattr(split_k.SplitK, "last", property(lambda split: split.parts - 2))
    found, _ = orders()
    assert np.isnan(np.frombuffer(found[0][0], np.float32)).any() and found[0][1] == 1


def test_the_ptx_sums_the_parts():
    """The emulator draws the order of all warps from a seed."""
    kernel = build(16, 32, 512, parts=4)
    a, b = operands(16, 32, 512)
    text, facts = ptx_of(kernel, SCRIPT, stages=2)
    for seed in range(2):
        memories = memories_of(kernel, {"a": a, "b": b, "partial": np.full((1, 4, 512), np.nan), "counters": [0]})
        report = run_ptx(kernel, memories, text, facts, seed)
        assert report.clean, [str(fault) for fault in report.faults]
        np.testing.assert_array_equal(memories["c"].reshape(16, 32), a @ b)


def test_a_run_knows_the_workspace():
    a, b = operands(16, 64, 256)
    c, partial, counters = build(16, 64, 256).expected(a, b)
    np.testing.assert_array_equal(partial.sum(1).reshape(2, 16, 32).swapaxes(0, 1).reshape(16, 64), c)
    assert not counters.any()
