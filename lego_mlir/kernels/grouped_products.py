"""Grouped products: the rows of A belong to groups, and each group is multiplied by a matrix of B.

    c[begin:end] = a[begin:end] @ b[g]        begin, end = offsets[g - 1], offsets[g]

`offsets` are on the device and are read there, as the experts of a mixture have them: group g ends at row offsets[g].
Persistent blocks share the tiles of all groups. Block x of X computes the tiles x, x + X, .. of the tiles in the order
of the groups; the number of its next tile in the next group is kept, so that no block searches. A tile that reaches
past the end of its group multiplies rows of the next one, and does not store them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.aliases import Operand
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, height_of, role_tile, threads_of, together
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.kernels.role_products import (
    ALIGNED,
    LARGEST,
    USES,
    OutputTile,
    ProductRings,
    RoleForm,
    RowStores,
    bound,
    cluster_number,
    first_row,
    in_panels,
)
from lego_mlir.tracing.schedules.rings import StageCounter

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

MOST_GROUPS: Final = 2**14


def build(form: RoleForm | None = None, tile: ProductTile | None = None, blocks: int = REFERENCE_SMS) -> Kernel:
    """The kernel of sizes T, G, K and N: a is [T, K], offsets are [G], c is [T, N].

    b is [G, K, N] ("NN") or [G, N, K] ("NT"), as weights of a layer are. K is a multiple of 8, and so is the size P,
    the pitch of b's rows where N is not. Rows after the last offset are not stored. Groups may be empty.
    """
    form, tile = form or RoleForm(), tile or role_tile()
    form.require("grouped products", ("NN", "NT"))
    T, G = lego.size("T", min=1, max=LARGEST), lego.size("G", min=1, max=MOST_GROUPS)
    K = lego.size("K", min=ALIGNED, max=LARGEST, multiple_of=ALIGNED)
    N = lego.size("N", min=form.multiple, max=LARGEST, multiple_of=form.multiple)
    P = N if form.multiple == ALIGNED else lego.size("P", min=ALIGNED, max=LARGEST, multiple_of=ALIGNED)
    of_b = lego.Tensor(form.dtype, Row(G, K, P) if form.layouts == "NN" else Row(G, N, K))

    @lego.kernel(grid=blocks, block=threads_of(tile), cluster=tile.sharing)
    def grouped_product(  # type: ignore[no-untyped-def]
        a: lego.Tensor(form.dtype, Row(T, K)),  # type: ignore[valid-type]
        b: of_b,  # type: ignore[valid-type]
        offsets: lego.Tensor(i32, Row(G), range=(0, T + 1)),  # type: ignore[valid-type]
        c: lego.Tensor(form.stored, Row(T, N)),  # type: ignore[valid-type]
    ):
        rings = ProductRings(tile, form.dtype, form.contiguous)
        stores = RowStores(tile, form.stored, ragged=True)
        order = GroupOrder(tile, blocks, (T, G, K, N))
        with lego.warps(GROUPS * WARPGROUP, (GROUPS + 1) * WARPGROUP, registers=24):
            used = StageCounter(tile.stages)
            for place in order.tiles(offsets):
                rings.fill(a, b, place, used)
        with lego.warps(0, GROUPS * WARPGROUP, groups=GROUPS, registers=240):
            used = StageCounter(tile.stages)
            for place in order.tiles(offsets):
                stores.write(rings.sums(place, used), c, place, form.multiple)
        rings.meet()

    return grouped_product


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """The tiles of a block: `sizes` are T, G, K and N.

    If `apart`, each group has its own matrix of T rows, of which it multiplies as many as `offsets` has.
    """

    tile: ProductTile
    blocks: int
    sizes: tuple[Operand, Operand, Operand, Operand]
    apart: bool = False

    def tiles(self, offsets: Operand) -> Iterator[OutputTile]:
        """The places of the block's tiles; `following` is the number of its next tile, in the present group or later.

        The end of the next group is loaded while this one is visited.
        """
        (rows, groups, depth, columns), clusters = self.sizes, self.blocks // self.tile.sharing
        across, high = bound(lego.cdiv(columns, self.tile.n)), together(self.tile, self.blocks)
        begin, following = lego.register(i32, 0), lego.register(i32, lego.i32(cluster_number(self.tile)))
        ahead = lego.register(i32, offsets[0])
        for group in lego.range(groups):
            first, end = (lego.index(x, range=(0, rows + 1)) for x in (begin.get(), ahead.get()))
            if not self.apart:
                begin.set(ahead)
            ahead.set(offsets[lego.minimum(group + 1, groups - 1)])
            down = bound(lego.cdiv(lego.maximum(end - first, 0), height_of(self.tile)))
            count = bound(down * across, USES)
            for number in lego.range(lego.index(following.get(), range=(0, USES)), count, clusters):
                row, column = in_panels(number, down, across, high)
                top = bound(first + row * height_of(self.tile) + first_row(self.tile))
                of_a = (group,) if self.apart else ()
                yield OutputTile(top, column * self.tile.n, end, columns, depth, of_a, (group,), of_a)
                following.set(following + clusters)
            following.set(following - lego.i32(count))
