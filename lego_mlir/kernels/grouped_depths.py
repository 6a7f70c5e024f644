"""Groups along K: the rows of A and B belong to groups, and each group is a product of its own depth.

    c[g] = a[begin:end].T @ b[begin:end]        begin, end = offsets[g - 1], offsets[g]

a is [T, M] and b is [T, N], as the gradient of a grouped product by its matrices has them: tokens and gradients in
rows. c is [G, M, N]; an empty group has zeros. Persistent blocks share the tiles of all groups.

The last step of a group copies rows of the next one too. These are replaced by zeros in both tiles, since they may be
infinite: the role that copies waits until they are there, stores zeros over them, and then tells the others that the
stage is full. Meanwhile these multiply what the other stages hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.aliases import Operand
from lego_mlir.choices.product_tile import STEP, WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, role_tile, threads_of, together
from lego_mlir.errors import UsageError
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.kernels.grouped_products import MOST_GROUPS
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
    in_panels,
)
from lego_mlir.tracing.schedules.rings import StageCounter
from lego_mlir.tracing.trace.dtypes import DType

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

THREADS = 32 * WARPGROUP
"""Threads of the role that copies."""


def build(form: RoleForm | None = None, tile: ProductTile | None = None, blocks: int = REFERENCE_SMS) -> Kernel:
    """The kernel of sizes T, G, M and N: a is [T, PA], of which M columns count, b is [T, PB], and offsets are [G]."""
    form, tile = form or RoleForm(layouts="TN"), tile or role_tile()
    form.require("products of groups along K", ("TN",))
    if tile.sharing > 1:
        raise UsageError(f"groups along K in clusters of {tile.sharing} blocks: take 1, a block ends its own tiles")
    T, G = lego.size("T", min=1, max=LARGEST), lego.size("G", min=1, max=MOST_GROUPS)
    M, N = (lego.size(n, min=1, max=LARGEST, multiple_of=by) for n, by in (("M", 1), ("N", form.multiple)))
    pitches = [lego.size(name, min=ALIGNED, max=LARGEST, multiple_of=ALIGNED) for name in ("PA", "PB")]
    of_a, of_b = (lego.Tensor(form.dtype, Row(T, pitch)) for pitch in pitches)

    @lego.kernel(grid=blocks, block=threads_of(tile), cluster=tile.sharing)
    def depth_product(  # type: ignore[no-untyped-def]
        a: of_a,  # type: ignore[valid-type]
        b: of_b,  # type: ignore[valid-type]
        offsets: lego.Tensor(i32, Row(G), range=(0, T + 1)),  # type: ignore[valid-type]
        c: lego.Tensor(form.stored, Row(G, M, N)),  # type: ignore[valid-type]
    ):
        rings, stores = DepthRings(tile, form.dtype), RowStores(tile, form.stored)
        order = DepthOrder(tile, blocks, (T, G, M, N))
        with lego.warps(GROUPS * WARPGROUP, (GROUPS + 1) * WARPGROUP, registers=40):
            used, ends = StageCounter(tile.stages), StageCounter(1)
            for place in order.tiles(offsets):
                rings.fill_group(a, b, place, used, ends)
        with lego.warps(0, GROUPS * WARPGROUP, groups=GROUPS, registers=232):
            used = StageCounter(tile.stages)
            for place in order.tiles(offsets):
                stores.write(rings.sums(place, used), c, place, form.multiple)
        rings.meet()

    return depth_product


class DepthRings(ProductRings):
    """Rings whose last stage of a group has zeros after the group's end."""

    def __init__(self, tile: ProductTile, dtype: DType) -> None:
        super().__init__(tile, dtype, ("mn", "mn"))
        self.dtype = dtype
        self.landed = lego.barriers(1, arrivals=WARPGROUP)

    def fill_group(self, a: Operand, b: Operand, place: OutputTile, used: StageCounter, ends: StageCounter) -> None:
        """Copy the tiles of all steps; of the last one, if it is not whole, those before the end of the group."""
        whole = bound(place.depth // STEP)
        self.fill(a, b, replace(place, depth=whole * STEP), used)
        rest = bound(place.depth - whole * STEP, STEP)
        for _ in lego.range(lego.minimum(rest, 1)):
            use, end = used.use(), ends.use()
            self.copy(a, b, place, whole * STEP, use, self.landed[end])
            self.landed[end].arrive()
            self.landed[end].wait()
            for side in range(2):
                self._clear(side, use, rest)
            lego.barrier()
            self.full[use].arrive()
            used.next()
            ends.next()

    def _clear(self, side: int, use: Operand, first: Operand) -> None:
        """Store zeros into the rows of a stage from `first` on."""
        _, width = self._shape(side)
        across = width // ALIGNED
        thread = lego.warp_id * 32 + lego.lane_id
        zeros = lego.vector(*[lego.register(self.dtype, 0.0).get()] * ALIGNED)
        for row in lego.range(first + thread // across, STEP, THREADS // across):
            self.rings[side].store(zeros, use % self.tile.stages * STEP + row, thread % across * ALIGNED)


@dataclass(frozen=True, slots=True)
class DepthOrder:
    """The tiles of a block: `sizes` are T, G, M and N."""

    tile: ProductTile
    blocks: int
    sizes: tuple[Operand, Operand, Operand, Operand]

    def tiles(self, offsets: Operand) -> Iterator[OutputTile]:
        """The places of the block's tiles, those of a group after the other."""
        depth, groups, rows, columns = self.sizes
        down, across = (bound(lego.cdiv(n, e)) for n, e in ((rows, self.tile.m), (columns, self.tile.n)))
        each = bound(down * across, USES, first=1)
        for number in lego.range(cluster_number(self.tile), bound(each * groups, USES), self.blocks):
            turn = bound(number, USES)
            group = bound(turn // each, groups)
            row, column = in_panels(turn % each, down, across, together(self.tile, self.blocks))
            begin = lego.register(i32, 0)
            with lego.when(group > 0):
                begin.set(offsets[lego.maximum(group - 1, 0)])
            first, end = (lego.index(x, range=(0, depth + 1)) for x in (begin.get(), offsets[group]))
            yield OutputTile(
                row * self.tile.m,
                column * self.tile.n,
                rows,
                columns,
                bound(lego.maximum(end - first, 0)),
                of_c=(group,),
                start=first,
            )
