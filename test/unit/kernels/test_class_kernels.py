"""Products in the tiles of the choosers, through schedules: one kernel for all sizes of a class, in the emulator."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.choices.product_tile import warpgroup_tile
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.kernels.fused_epilogues import PLAIN, FusedEpilogue, FusedParts
from lego_mlir.kernels.product_classes import LARGEST, class_of, divisors, sizes_of
from lego_mlir.kernels.scheduled_products import ScheduledProduct, clustered_order
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.trace.dtypes import dtype_named

BLOCKS = 4
TYPED = [
    ("f16", "f16", "NT", (200, 264, 200), warpgroup_tile(128, 128, 3, cluster=(2, 1), group=2), PLAIN),
    ("bf16", "f32", "TN", (200, 264, 200), warpgroup_tile(64, 128, 3, lockstep=2, group=2), PLAIN),
    ("bf16", "bf16", "TT", (200, 264, 200), warpgroup_tile(64, 128, 3, transposed=True, group=2), PLAIN),
    ("f8e4m3fn", "bf16", "NT", (136, 144, 272), warpgroup_tile(128, 64, 2, k=128, exact=1),
     FusedParts(FusedEpilogue(scale_a="each", scale_b="each", amax=True), 1)),
    ("f8e4m3fn", "f8e5m2", "NT", (136, 144, 272), warpgroup_tile(128, 64, 2, k=128), PLAIN),
    ("i8", "i32", "NT", (136, 144, 272), warpgroup_tile(128, 64, 2, k=128), PLAIN),
    ("i8", "f16", "NT", (136, 144, 272), warpgroup_tile(128, 64, 2, k=128), FusedParts(FusedEpilogue(scale_a="one"))),
    ("f8e4m3fn", "bf16", "NT", (5, 144, 272), warpgroup_tile(64, 32, 2, k=128, dependent=True), PLAIN),
    ("i8", "i32", "NT", (3, 144, 272), warpgroup_tile(64, 32, 2, k=128, dependent=True), PLAIN),
    ("f32", "f32", "NT", (72, 68, 68), warpgroup_tile(64, 64, 2, k=32), FusedParts(None, 0, True)),
    ("f16", "f16", "NN", (200, 264, 200), warpgroup_tile(64, 64, 3, resident=2, dependent=True),
     FusedParts(FusedEpilogue(bias="f16", activation="gelu", residual="f16"))),
]  # fmt: skip


def drawn(epilogue):
    """The operands of an epilogue for a run."""
    draw = np.random.default_rng(1)
    found = {}
    for name, operand in ({} if epilogue is None else epilogue.operands).items():
        shape = [int(n) for n in operand.layout.dims()]
        found[name] = np.zeros(shape) if name == "amax" else draw.integers(1, 3, shape)
        found[name] = found[name].astype(operand.dtype.numpy)
    return found


@pytest.mark.parametrize(("dtype", "result", "layouts", "size", "tile", "fused"), TYPED)
def test_a_kernel_of_all_sizes(dtype, result, layouts, size, tile, fused):
    (m, n, k), draw = size, np.random.default_rng(0)
    kernel = ScheduledProduct(tile, layouts, dtype, result, fused).kernel(
        sizes_of(divisors(layouts, dtype, result), 1, LARGEST), BLOCKS // (tile.cluster[0] * tile.cluster[1])
    )
    a, b = (draw.integers(-2, 3, shape).astype(dtype_named(dtype).numpy) for shape in ((m, k), (k, n)))
    epilogue = fused.build(m, n)
    operands = drawn(epilogue)
    arrays = {
        "a": np.ravel(a, "C" if layouts[0] == "N" else "F"), "b": np.ravel(b, "C" if layouts[1] == "N" else "F"),
        "c": np.zeros(m * n, dtype_named(result).numpy), **{x: v.ravel() for x, v in operands.items()},
    }  # fmt: skip
    arrays = {x: np.array(v) for x, v in arrays.items()}
    report = PtxRun("sm_90a")(kernel, arrays, {"M": m, "N": n, "K": k})
    assert report.clean, str(report.faults[0])
    expected = a.astype(np.float32) @ b.astype(np.float32)
    if epilogue is not None:
        expected = epilogue.reference(expected, *operands.values())
    found = arrays["c"].reshape(m, n).astype(np.float32)
    np.testing.assert_allclose(found, expected.astype(dtype_named(result).numpy).astype(np.float32), rtol=0, atol=2e-3)
    if "amax" in operands:
        np.testing.assert_array_equal(arrays["amax"], operands["amax"])


def test_rounding_is_that_of_the_copies():
    tile = warpgroup_tile(64, 64, 2, k=32)
    texts = [
        compile_kernel(ScheduledProduct(tile, "NT", "f32", "f32", FusedParts(None, 0, rounded)).kernel((64, 64, 64), 4),
                       target="sm_90a").manifest["kernels"][0]["arguments"]
        for rounded in (True, False)
    ]  # fmt: skip
    assert [["tf32" in str(argument) for argument in found] for found in texts] == [[True, True, False], [False] * 3]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 4)]))
def test_blocks_of_a_cluster_have_tiles_next_to_each_other(rows, columns, group, cluster):
    order, (down, across) = clustered_order(rows, columns, group, cluster), cluster
    assert sorted(map(order.apply, *zip(*map(order.inv, range(order.numel())), strict=True))) == list(
        range(order.numel())
    )
    for number in range(rows * columns):
        places = [order.inv(number * down * across + rank) for rank in range(down * across)]
        assert {(i // down, j // across) for i, j in places} == {(places[0][0] // down, places[0][1] // across)}
        assert [(i % down, j % across) for i, j in places] == [(r % down, r // down) for r in range(down * across)]


def test_a_tile_has_the_stages_that_fit_beside_its_buffers():
    of = lambda *given, **more: ScheduledProduct(warpgroup_tile(*given, **more), "NT")  # noqa: E731
    assert (of(128, 256, 12).stages, of(128, 256, 12).buffers) == (4, 2)
    assert (of(256, 192, 12).stages, of(256, 192, 12).buffers) == (3, 2)
    assert (of(128, 248, 12, cluster=(2, 1)).rows, of(128, 248, 12).rows) == (16, 1)
    assert of(64, 64, 3).stages == 3


def test_all_tiles_at_once_are_one_of_each_block():
    product = ScheduledProduct(warpgroup_tile(64, 128, 3, cluster=(2, 1)), "NT")
    few, many = (product.kernel((256, n, 256), 4) for n in (256, 384))
    assert "overlay" in few.schedules and "persistent(blocks=8)" not in few.schedules
    assert "persistent(blocks=8)" in many.schedules and many.grid == (8,)


def test_classes_of_sizes():
    one = class_of((4096, 4096, 4096), "NN", "f16", "f16")
    assert class_of((4095, 4096, 4096), "NN", "f16", "f16") == one
    assert class_of((4096, 4104, 4096), "NN", "f16", "f16") != one  # rows that are not whole lines
    assert re.fullmatch(r"matmul_f16_f16_NN_aligned_128x256_group_\d+_every_32", one.name)
    assert replace(one, fused=FusedParts(None, 4)).name.endswith("_exact4")
