"""Tiles that reach outside of a matrix: copied by boxes of what is inside, zeros elsewhere, at every size."""

import numpy as np
import pytest

from lego_mlir.choices.product_tile import warpgroup_tile
from lego_mlir.interp.ptx.bulk_tensor_maps import TensorMapArgument
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.kernels.product_classes import LARGEST, divisors, sizes_of
from lego_mlir.kernels.scheduled_products import ScheduledProduct
from lego_mlir.toolchain import Cache

TILES = [("NT", warpgroup_tile(128, 64, 2, cluster=(1, 2))), ("NN", warpgroup_tile(64, 64, 2)),
         ("NT", warpgroup_tile(64, 72, 2, cluster=(3, 1))), ("NT", warpgroup_tile(192, 80, 2, cluster=(2, 1))),
         ("NN", warpgroup_tile(80, 192, 2, cluster=(2, 1), transposed=True))]  # fmt: skip
DRAWN, MORE = 4, 60
"""Sizes of a kernel, and with --long."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return PtxRun("sm_90a", cache=Cache(tmp_path_factory.mktemp("kernels")))


def product(layouts, tile, run, size, known=False):
    """Whether the emulator computes a product of small integers exactly over NaN, and its faults."""
    (m, n, k), draw = size, np.random.default_rng(sum(size))
    kernel = ScheduledProduct(tile, layouts).kernel(
        size if known else sizes_of(divisors(layouts), 1, LARGEST), 6 // (tile.cluster[0] * tile.cluster[1])
    )
    a, b = (draw.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    arrays = {
        "a": np.ravel(a, "C" if layouts[0] == "N" else "F"), "b": np.ravel(b, "C" if layouts[1] == "N" else "F"),
        "c": np.full(m * n, np.nan, np.float16),
    }  # fmt: skip
    arrays = {name: np.array(value) for name, value in arrays.items()}
    report = run(kernel, arrays, {} if known else {"M": m, "N": n, "K": k})
    exact = a.astype(np.float32) @ b.astype(np.float32)
    return np.array_equal(arrays["c"].reshape(m, n), exact.astype(np.float16)), report.faults


@pytest.mark.parametrize(("layouts", "tile"), TILES)
def test_every_size_is_right(layouts, tile, run, request):
    draw, by = np.random.default_rng(35), divisors(layouts)
    for _ in range(MORE if request.config.getoption("--long") else DRAWN):
        size = tuple(int(draw.integers(1, most // n + 1)) * n for most, n in zip((300, 200, 200), by, strict=True))
        right, faults = product(layouts, tile, run, size)
        assert right and not faults, (size, faults[:1])


@pytest.mark.parametrize("m", [129, 150, 192])
def test_three_rows_of_tiles_are_clusters_in_one_round(m, run):
    layouts, tile = TILES[2]
    assert product(layouts, tile, run, (m, 136, 200), known=True) == (True, [])


@pytest.mark.parametrize("m", [1, 65, 129, 200])
def test_copies_reach_below_a_matrix_in_the_first_steps_alone(m, run, monkeypatch):
    (layouts, tile), copied, rows, depth = TILES[0], [], TensorMapArgument.global_rows, 64 * 5

    def seen(of, corner):
        found = rows(of, corner)
        if of.sizes[0] == depth and corner[1] < of.sizes[1]:  # of A and B; what begins outside is outside as a whole
            copied.append((corner[0], bool(found[1].all())))
        return found

    monkeypatch.setattr(TensorMapArgument, "global_rows", seen)
    right, faults = product(layouts, tile, run, (m, 72, depth))
    assert right and not faults
    later = [inside for k, inside in copied if k >= 64 * tile.stages]
    assert later and all(later)
    assert not all(inside for _, inside in copied)


@pytest.mark.parametrize(
    "tile", [warpgroup_tile(80, 64, 2, cluster=(1, 4), transposed=True), warpgroup_tile(128, 64, 2, cluster=(1, 2))]
)
def test_blocks_share_the_rows_of_a_tile_that_reaches_outside(tile, run):
    """The kernel of exactly 68 rows, which the blocks of a cluster cannot divide."""
    assert product("NN", tile, run, (68, 256, 136), known=True) == (True, [])
