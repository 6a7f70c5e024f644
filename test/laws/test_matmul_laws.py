"""For drawn sizes, layouts, types, tiles and depths: the matrix product through its script is the product, cleanly."""

import pytest
from gemm import check
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lego_mlir import Col, Row, as_layout, bf16, f16, f32, gallery
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import LEAST_STEPS, ProductTile
from lego_mlir.layout.transposed import Transposed
from lego_mlir.schedule import ORDERS

WIDEST = 8  # f16 in 16 bytes: sizes that are multiples of less are copied in smaller pieces


@st.composite
def tilings(draw):
    warps = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)]))
    m, n = (16 * count * draw(st.sampled_from([1, 2])) for count in warps)
    return ProductTile(m, n, draw(st.sampled_from([16, 32, 64])), warps)


@st.composite
def shared_tiles(draw, tiling):
    """The layouts of A's and B's shared tiles: the default, or swizzled rows or columns."""
    if draw(st.booleans()):
        return None
    tiles = []
    for rows, columns in ((tiling.m, tiling.k), (tiling.k, tiling.n)):
        per_phase, turned = draw(st.sampled_from([1, 2, 4])), draw(st.booleans())
        lines, length = (columns, rows) if turned else (rows, columns)
        swizzled = as_layout(gallery.xor_swizzle(lines, length, vec=WIDEST, per_phase=per_phase))
        tiles.append(Transposed(swizzled) if turned else swizzled)
    return tuple(tiles)


@st.composite
def problems(draw):
    """Sizes, the kernel's options, and the stages of its pipeline."""
    step = draw(st.sampled_from([1, 2, 4, WIDEST, WIDEST]))
    sizes = tuple(step * draw(st.integers(1, 100 // step)) for _ in range(3))
    m, n, k = sizes
    a, b, c = (draw(st.sampled_from([Row, Col])) for _ in range(3))
    tiling = draw(tilings())
    options = {
        "dtype": draw(st.sampled_from([f16, bf16])),
        "result": draw(st.sampled_from([f16, bf16, f32])),
        "order": draw(st.sampled_from(sorted(ORDERS))),
        "epilogue": draw(st.sampled_from([None, matmul.relu()])),
        "a": a(m, k), "b": b(k, n), "c": c(m, n), "tiling": tiling,
        "blocks": draw(st.sampled_from([None, 1, 3])), "tiles": draw(shared_tiles(tiling)),
    }  # fmt: skip
    steps = max(LEAST_STEPS, -(-k // tiling.k))
    return sizes, options, draw(st.integers(2, min(steps + 1, 6)))


@pytest.mark.examples(33)
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(problems())
def test_every_product(problem):
    sizes, options, stages = problem
    tiling = options["tiling"]
    assume(all(side * tiling.k % (8 * tiling.threads) == 0 for side in (tiling.m, tiling.n)))
    kernel = matmul.build(*sizes, **options)
    widths = {access.width for _, access in kernel.trace().accesses() if access.buffer.name in ("a", "b")}
    if min(widths) == 1:  # two bytes: no asynchronous copy
        check(kernel, "ldmatrix_mma.mlir", *sizes, counts=False)
    else:
        check(kernel, "matmul_sm80.mlir", *sizes, counts=False, stages=stages)
