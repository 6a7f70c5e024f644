"""Batched products: c[z] = a[z] @ b[z] for matrices at any distance, by one kernel for all numbers and sizes.

    a       [A, M, K]    of batch strides and pitches that are arguments: slices and padded rows as they are
    b       [B, K, N]
    c       [Z, M, N]    c[z] = a[z // DA % A] @ b[z // DB % B]

Z, DA and DB are arguments as well: with A = 1 all products share one matrix, and with DA = 4 four neighbours do, so
that nothing is copied for NumPy's rules of broadcasting. Persistent blocks share the tiles of all matrices, those of
one matrix after the other; copies have the matrix as an index, so that a tile which reaches past the end of its matrix
gets zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, Strided
from lego_mlir.aliases import Operand
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, height_of, role_tile, threads_of, together
from lego_mlir.errors import UsageError
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

LARGEST_STRIDE: Final = 2**40
LAYOUTS: Final = ("NN", "NT", "TN", "TT")


def build(form: RoleForm | None = None, tile: ProductTile | None = None, blocks: int = REFERENCE_SMS) -> Kernel:
    """The kernel of all sizes, strides and numbers of matrices, of a form and a tile.

    `a` and `b` have K, M or N contiguous as the form has it: [A, M, K] or [A, K, M], [B, K, N] or [B, N, K]. Along
    their rows the sizes are multiples of 8: K for a in rows and b in columns, M for a in columns, N for b in rows.
    """
    form, tile = form or RoleForm(), tile or role_tile()
    form.require("batched products", LAYOUTS)
    if form.multiple != ALIGNED and form.layouts[1] == "N":
        raise UsageError(f"batched products of {form.layouts}, N a multiple of {form.multiple}: take 8 for b in rows")
    sizes = BatchedSizes.of(form)
    of_a, of_b = (lego.Tensor(form.dtype, layout) for layout in sizes.layouts(form))

    @lego.kernel(grid=blocks, block=threads_of(tile), cluster=tile.sharing)
    def batched_product(  # type: ignore[no-untyped-def]
        a: of_a,  # type: ignore[valid-type]
        b: of_b,  # type: ignore[valid-type]
        c: lego.Tensor(form.stored, Row(sizes.products, sizes.m, sizes.n)),  # type: ignore[valid-type]
    ):
        rings, stores = ProductRings(tile, form.dtype, form.contiguous), RowStores(tile, form.stored)
        with lego.warps(GROUPS * WARPGROUP, (GROUPS + 1) * WARPGROUP, registers=24):
            used = StageCounter(tile.stages)
            for place in sizes.tiles(tile, blocks):
                rings.fill(a, b, place, used)
        with lego.warps(0, GROUPS * WARPGROUP, groups=GROUPS, registers=240):
            used = StageCounter(tile.stages)
            for place in sizes.tiles(tile, blocks):
                stores.write(rings.sums(place, used), c, place, form.multiple)
        rings.meet()

    return batched_product


@dataclass(frozen=True, slots=True)
class BatchedSizes:
    """The sizes of the launch: of a matrix, and for a and b how many there are and how many neighbours share one."""

    m: Operand
    n: Operand
    k: Operand
    products: Operand
    matrices: tuple[Operand, Operand]
    shared: tuple[Operand, Operand]

    @staticmethod
    def of(form: RoleForm) -> BatchedSizes:
        """The sizes of a form."""
        along_k = ALIGNED if "k" in form.contiguous else 1
        multiples = {"M": ALIGNED if form.layouts[0] == "T" else 1, "N": form.multiple, "K": along_k}
        m, n, k = (lego.size(name, min=1, max=LARGEST, multiple_of=multiples[name]) for name in "MNK")
        products, *rest = (lego.size(name, min=1, max=LARGEST) for name in ("Z", "A", "B", "DA", "DB"))
        return BatchedSizes(m, n, k, products, (rest[0], rest[1]), (rest[2], rest[3]))

    def layouts(self, form: RoleForm) -> tuple[Strided, Strided]:
        """The layouts of a and b in memory."""
        found = []
        for name, count, extents, contiguous in zip(
            "AB", self.matrices, ((self.m, self.k), (self.n, self.k)), form.contiguous, strict=True
        ):
            extent, depth = extents
            stride, pitch = (
                lego.size(kind + name, min=ALIGNED, max=LARGEST_STRIDE, multiple_of=ALIGNED) for kind in ("S", "P")
            )
            shape = (extent, depth) if contiguous == "k" else (depth, extent)
            found.append(Strided([count, *shape], [stride, pitch, 1], claim=True))
        return found[0], found[1]

    def tiles(self, tile: ProductTile, blocks: int) -> Iterator[OutputTile]:
        """The places of a block's tiles."""
        down, across = (bound(lego.cdiv(n, extent)) for n, extent in ((self.m, height_of(tile)), (self.n, tile.n)))
        each = bound(down * across, USES, first=1)
        for number in lego.range(
            cluster_number(tile), bound(down * across * self.products, USES), blocks // tile.sharing
        ):
            turn = bound(number, USES)
            product = bound(turn // each)
            row, column = in_panels(turn % each, down, across, together(tile, blocks))
            of_a, of_b = (
                (bound(product // by % count, count),) for by, count in zip(self.shared, self.matrices, strict=True)
            )
            yield OutputTile(
                row * height_of(tile) + first_row(tile),
                column * tile.n,
                self.m,
                self.n,
                self.k,
                of_a,
                of_b,
                (bound(product, self.products),),
            )
