"""10. Grouped products, as of a mixture of experts: groups of rows times a matrix each, found on the device.

    lego-mlir run examples/grouped_matmul.py --on ptx --target sm_90a --size T=300 --size G=4 --size K=136 --size N=200

The offsets, where each group ends, are data: the host does not read them. Every block counts the tiles of one group
after the other, and computes every third of them. One role copies tiles, two groups of warps multiply and store them
(`lego_mlir/kernels/role_products.py`, whose parts are those of `examples/warp_roles.py`).
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, i32
from lego_mlir.choices.role_tiles import role_tile, threads_of
from lego_mlir.kernels.role_products import OutputTile, ProductRings, RowStores
from lego_mlir.tracing.schedules.rings import StageCounter

BLOCKS, TILE = 3, role_tile(rows=64, columns=128, stages=2)
T, G = lego.size("T", min=1, max=2**16), lego.size("G", min=1, max=64)
K, N = (lego.size(name, min=8, max=2**14, multiple_of=8) for name in "KN")


def bound(x, end):
    return lego.index(lego.i32(x), range=(0, end))  # data with a range: no proof looks into its computation


def tiles(offsets):
    """The tiles of this block, by group: `following` is the number of its next tile in the next group."""
    begin, following = lego.register(i32, 0), lego.register(i32, lego.i32(lego.block_id.x))
    across = lego.cdiv(N, TILE.n)
    for group in lego.range(G):
        first, end = (lego.index(x, range=(0, T + 1)) for x in (begin.get(), offsets[group]))
        down = bound(lego.cdiv(lego.maximum(end - first, 0), TILE.m), 2**16)
        count = bound(down * across, 2**30)
        mine = lego.index(following.get(), range=(0, BLOCKS))
        for tile in lego.range(mine, count, BLOCKS):
            row, column = bound(first + tile // across * TILE.m, 2**16), bound(tile % across, 2**8)
            yield OutputTile(row, column * TILE.n, end, columns=N, depth=K, of_b=(group,))
        following.set(lego.i32((mine - count) % BLOCKS))
        begin.set(offsets[group])


@lego.kernel(grid=BLOCKS, block=threads_of(TILE))
def grouped_product(
    a: lego.Tensor(f16, Row(T, K)),
    b: lego.Tensor(f16, Row(G, K, N)),
    offsets: lego.Tensor(i32, Row(G), range=(0, T + 1)),
    c: lego.Tensor(f16, Row(T, N)),
):
    rings, stores = ProductRings(TILE, f16, ("k", "mn")), RowStores(TILE, f16)
    with lego.warps(8, 12):  # copies
        used = StageCounter(TILE.stages)
        for place in tiles(offsets):
            rings.fill(a, b, place, used)
    with lego.warps(0, 8, groups=2):  # multiply, and store what is before the end of the group
        used = StageCounter(TILE.stages)
        for place in tiles(offsets):
            stores.store(rings.sums(place, used), c, place, width=8)


@grouped_product.inputs
def offsets_of_groups(T, G, K, N):
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape).astype(np.float16) for shape in ((T, K), (G, K, N)))
    return {"a": a, "b": b, "offsets": np.linspace(T / 3, T, G).astype(np.int32)}


@grouped_product.reference(rtol=2**-9, atol=2**-8)
def expected(a, b, offsets):
    groups = np.searchsorted(offsets, np.arange(len(a)), side="right")  # of each row
    return np.einsum("tk,tkn->tn", a, b[groups])
