"""Classes of products: one kernel for all sizes that take the same tile, layouts and types.

    4096 x 4096 x 4096    128x256, 4 stages, lockstep 32, rows of whole 128 bytes    -> kernel A
    4095 x 4096 x 4096    the same                                                   -> kernel A
    4096 x 4104 x 4096    the same, rows of 16 bytes                                 -> kernel B

A class has what the code depends on, so a varying batch compiles nothing anew. Its kernel takes M, N and K as
arguments; their divisors, of 8 elements or of whole columns of 128 bytes, are part of the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.expr.index import Index
from lego_mlir.kernels import matmul
from lego_mlir.kernels.warpgroup_choices import WarpgroupTile, choose
from lego_mlir.layout import Col, Row
from lego_mlir.schedule.orders import grouped
from lego_mlir.tracing.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.tracing.definition import Kernel

ALIGNED: Final = 8
"""Elements of 16 bytes, of which rows are multiples."""
COLUMN: Final = 64
"""Elements of 128 bytes: with rows of whole columns one copy moves all columns of a tile."""
LARGEST: Final = 2**20
"""The largest M, N and K of a class: the number of tiles of 64 x 64 fits 32 bits."""


@dataclass(frozen=True, slots=True)
class ProductClass:
    """Products by warpgroups with one kernel; `clusters` run at the same time, and share the tiles.

    `whole` tells that the operands whose rows are along M or N have rows of whole columns.
    """

    dtype: str
    result: str
    layouts: str
    tile: WarpgroupTile
    clusters: int
    whole: bool

    @property
    def name(self) -> str:
        """The name of its kernel."""
        rows = "whole" if self.whole else "aligned"
        return f"matmul_{self.dtype}_{self.result}_{self.layouts}_{rows}_{self.tile}".replace(" ", "_")

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of `matmul_sm90.mlir`."""
        return {**self.tile.parameters, "whole_columns": int(self.whole)}

    def kernel(self) -> Kernel:
        """The kernel of sizes M, N and K."""
        (m, n, k), tiling = self.sizes(), self.tile.tiling
        a, b = (
            (Col if letter == "T" else Row)(*dims) for letter, dims in zip(self.layouts, ((m, k), (k, n)), strict=True)
        )
        grid = lego.cdiv(m, tiling.m), lego.cdiv(n, tiling.n)
        order = grouped(*grid, rows=self.tile.group, snake=self.tile.lockstep > 0)
        return matmul.build(
            m, n, k, dtype_named(self.dtype), a=a, b=b, result=dtype_named(self.result), tiling=tiling, order=order,
            blocks=self.clusters,
        )  # fmt: skip

    def sizes(self) -> tuple[Index, Index, Index]:
        """M, N and K, with their divisors: rows of A, B and C are multiples of 16 bytes.

        Those of whole columns are not declared, since the kernel's masks make the ends of matrices known; the launch
        checks them (`hardware.tensor_map_forms`).
        """
        m, n, k = (
            lego.size(name, min=1, max=LARGEST, multiple_of=divisor)
            for name, divisor in zip("MNK", divisors(self.layouts), strict=True)
        )
        return m, n, k


def divisors(layouts: str) -> tuple[int, int, int]:
    """What M, N and K must be multiples of, so that rows of A, B and C are multiples of 16 bytes."""
    return ALIGNED if layouts[0] == "T" else 1, ALIGNED, 1 if layouts == "TN" else ALIGNED


def magnitude(m: int) -> int:
    """The M for which the tile of a class is chosen: the next power of two."""
    return 1 << (m - 1).bit_length()


def class_of(
    size: tuple[int, int, int], layouts: str, dtype: str, result: str, multiprocessors: int,
    clusters: int | None = None,
) -> ProductClass:  # fmt: skip
    """The class of a product, for a device with this many multiprocessors, or of clusters that run at a time.

    A varying M, the batch, changes the class only with its order of magnitude.
    """
    m, n, k = size
    tile = choose(magnitude(m), n, k, multiprocessors, layouts)
    across = [n] * (layouts[1] == "N") + [m] * (layouts[0] == "T")
    whole = bool(across) and all(extent % COLUMN == 0 for extent in across)
    return ProductClass(dtype, result, layouts, tile, clusters or tile.clusters(multiprocessors), whole)
