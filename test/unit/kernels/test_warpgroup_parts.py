"""K in parts by warpgroups: drawn sizes, parts and types through schedules, in the interpreter and in the emulator."""

import random
from dataclasses import replace

import numpy as np
import pytest
from tiled_products import emulated, interpreted
from warpgroup_products import built, operands, run

from lego_mlir import bf16, f8e4m3fn, f8e5m2, f16, f32, i8
from lego_mlir.choices import warpgroup_tiles
from lego_mlir.choices.product_tile import warpgroup_tile
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels.fused_epilogues import FusedEpilogue, FusedParts
from lego_mlir.toolchain import compile_kernel

SHAPES = ((64, 40), (64, 64), (128, 64), (64, 24))
FEW_ROWS = ((16, 64), (32, 64), (16, 128))


def drawn(seed):
    """A product, its tile, and the layouts."""
    draw = random.Random(seed)
    transposed = draw.random() < 0.5
    m_tile, n_tile = draw.choice(FEW_ROWS if transposed else SHAPES)
    dtype = draw.choice((f16, bf16))
    parts, splits = draw.choice(((2, 1), (4, 1), (3, 1), (1, 2), (1, 3), (1, 5)))
    m, n = draw.randint(1, m_tile if transposed else 2 * m_tile), 8 * draw.randint(1, n_tile // 4)
    tile = warpgroup_tile(m_tile, n_tile, draw.choice((2, 3)), parts=parts, splits=splits, transposed=transposed,
                         group=2, dependent=draw.random() < 0.5)  # fmt: skip
    return (m, n, 8 * draw.randint(16, 64)), dtype, tile, draw.choice(("NT", "NN"))


@pytest.mark.parametrize(
    ("seed", "machine"),
    [pytest.param(seed, machine, marks=() if seed < few else pytest.mark.long)
     for machine, few in ((interpreted, 2), (emulated, 4)) for seed in range(12)],
)  # fmt: skip
def test_drawn_products(seed, machine):
    size, dtype, tile, layouts = drawn(seed)
    kernel = built(size, tile, layouts, str(dtype))
    a, b = operands(*size, dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(run(kernel, machine, a, b, launches=1 + (machine is emulated)), exact)


@pytest.mark.parametrize("parts", [{"parts": 2}, {"splits": 2}], ids=["cluster", "grid"])
@pytest.mark.parametrize(
    "dtype",
    [f32, f8e4m3fn, *(pytest.param(t, marks=pytest.mark.long) for t in (f8e5m2, i8))], ids=str,
)  # fmt: skip
def test_other_types(dtype, parts):
    k = 128 // dtype.bytes
    kernel = built((40, 32, 4 * k), replace(warpgroup_tile(64, 32, 2, **parts), k=k), "NT", str(dtype),
                   "f32" if dtype.is_float else "i32", FusedParts(rounded=dtype == f32))  # fmt: skip
    a, b = operands(40, 32, 4 * k, dtype)
    np.testing.assert_array_equal(run(kernel, emulated, a, b), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("parts", [{"parts": 4}, {"splits": 3}], ids=["cluster", "grid"])
def test_an_epilogue_sees_the_whole_sum(parts):
    tile, fused = (
        warpgroup_tile(16, 64, 2, transposed=True, **parts),
        FusedEpilogue(bias="f16", activation="relu", amax=True),
    )
    kernel = built((3, 64, 320), tile, "NT", "f16", "f16", FusedParts(fused))
    a, b = operands(3, 64, 320, f16)
    bias, amax = np.arange(64) - 32, np.float32([0.5])
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    c, found = run(kernel, emulated, a, b, bias, amax)
    np.testing.assert_array_equal(c, expected)
    assert found == expected.max()


def test_all_blocks_add_in_one_order():
    """Numbers whose sums depend on their order: each launch, with another order of warps, has the same bits."""
    kernel = built((8, 64, 768), warpgroup_tile(16, 64, 2, transposed=True, splits=3))
    draw = np.random.default_rng(1)
    a, b = (draw.standard_normal(shape).astype(np.float16) for shape in ((8, 768), (768, 64)))

    def bits(seed):
        return run(kernel, lambda k, memories: PtxRun(target="sm_90a", seed=seed)(k, memories, {}), a, b).tobytes()

    assert len({bits(seed) for seed in range(3)}) == 1


@pytest.mark.parametrize(("m", "n", "blocks"), [(128, 128, 8), (200, 40, 8), (128, 64, 4)])
def test_clusters_that_share_copies_divide_k_among_themselves(m, n, blocks):
    """Also those of one column of tiles, and of one tile."""
    kernel = built((m, n, 512), warpgroup_tile(64, 64, 2, cluster=(2, 1), splits=2))
    assert kernel.cluster == (2,) and kernel.grid == (blocks,)
    a, b = operands(m, n, 512, f16)
    np.testing.assert_array_equal(run(kernel, emulated, a, b), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("layouts", ["NT", "NN"])
def test_parts_within_a_cluster_are_all_that_it_is_for(layouts):
    sizes = [(m, n, k) for m in (1, 16, 64) for n, k in ((4096, 4096), (2560, 8192))] + [(256, 256, 4096)]
    chosen = [warpgroup_tiles.choose(*size, layouts=layouts) for size in sizes]
    assert {tile.cluster for tile in chosen if tile.parts > 1} == {(1, 1)}


def test_parts_are_published_and_added_as_vectors():
    kernel = built((64, 64, 1024), warpgroup_tile(64, 64, 4, splits=4), "NT", "f16", "f16")
    text = compile_kernel(kernel, target="sm_90a").text
    assert text.count("st.volatile.global.v4") == 64 * 64 // 4 // 128
    assert text.count("ld.volatile.global.v4") == 4 * 64 * 64 // 4 // 128
    assert "ld.relaxed" not in text and text.count("atom.global.add") == 1
