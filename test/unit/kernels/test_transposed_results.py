"""Transposed products with results of 4 bytes: a group's 64 columns are two lines of 128 bytes of C."""

import numpy as np
import pytest
from tiled_products import emulated, interpreted
from warpgroup_products import built, operands, run

from lego_mlir import f16
from lego_mlir.choices.product_tile import warpgroup_tile
from lego_mlir.f2 import Blocked
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.kernels.scheduled_products import BUFFER
from lego_mlir.tracing.spread.copied_stores import shares


def tile(rows, columns, **more):
    return warpgroup_tile(rows, columns, 2, transposed=True, **{"group": 2, **more})


PRODUCTS = [
    ((16, 64, 200), "NT", tile(16, 64)),
    ((40, 136, 72), "NN", tile(32, 128)),
    ((93, 400, 136), "NT", tile(80, 128)),
    ((93, 400, 136), "NT", tile(80, 192)),
    ((208, 400, 136), "NN", tile(80, 192, cluster=(2, 1))),
]


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize(
    ("size", "layouts", "tile"),
    [pytest.param(*p, marks=() if n < 3 else pytest.mark.long) for n, p in enumerate(PRODUCTS)],
)
def test_values(size, layouts, tile, machine):
    kernel = built(size, tile, layouts, result="f32", clusters=2)
    a, b = operands(*size, f16)
    np.testing.assert_array_equal(run(kernel, machine, a, b), a.astype(np.float64) @ b.astype(np.float64))


def test_shares_across_take_a_buffer_of_one_size():
    """Whatever the type: the memory of a ring is computed before the type of the result is known."""
    across = LinearLayout(
        {
            "register": [(0, 8), *[(1 << k, 0) for k in range(6)]],
            "lane": [(0, 1), (0, 2), (0, 4), (0, 0), (0, 0)],
            "warp": [(0, 16), (0, 32)],
        },
        {"dim0": 64, "dim1": 64},
    )
    for line, size in ((64, 2), (32, 4)):
        own = shares(across, line)
        assert own.part[1] == 64
        assert own.buffer_rows * own.columns * size == BUFFER
    assert shares(Blocked((1, 4), (4, 8), (1, 4), (1, 0)).layout((4, 128)), 64).groups == 1
