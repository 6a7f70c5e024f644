"""A product by warpgroups as the kernel of `matmul` and a composition of schedules, for a tile of the choosers.

    256 x 128 in clusters of 2 x 1, every 32      persistent(blocks=132), warpgroups, copied_out(buffers=2),
                                                  pipeline(stages=4), clusters(blocks=2), lockstep(every=32), roles

Sizes are ints, or symbols for a kernel of all sizes of a class. Where all tiles of known sizes run at once, each block
has one; otherwise few blocks compute all of them. The blocks of a cluster compute tiles next to each other, or parts of
K of one tile (`cluster_k`); or any blocks have parts of K, and a workspace (`split_k`).

>>> from lego_mlir.choices.warpgroup_tiles import choose
>>> product = ScheduledProduct(choose(4096, 4096, 4096), "NT")
>>> product.text(blocks=132, once=False).split(", ")[2:]
['copied_out(buffers=2)', 'pipeline(stages=4)', 'clusters(blocks=2)', 'lockstep(every=32)', 'roles']
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.warpgroup_tiles import UNIT
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.kernels import matmul
from lego_mlir.kernels.cluster_k import ClusterK
from lego_mlir.kernels.fused_epilogues import PLAIN, FusedParts
from lego_mlir.kernels.split_k import SplitK
from lego_mlir.layout import Col, Row
from lego_mlir.layout.canonical import SizeLike, is_static
from lego_mlir.schedule.orders import grouped, nested
from lego_mlir.tracing.schedules.ring_pipeline import RingPipeline
from lego_mlir.tracing.trace.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.kernels.epilogues import Epilogue
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition.kernel import Kernel

LINE: Final = 128
"""Bytes of a step along K, and of a row of a panel."""
BUFFER: Final = 64 * LINE
"""Bytes of a buffer of a group of warps."""
BARRIER_BYTES: Final = 1024
"""Of all rings, and what aligns the tiles."""
MOST_STAGES: Final = 24
MORE_BUFFERS: Final = 4
"""Buffers of a block with one tile, which takes them from the ring."""
Sizes = tuple["SizeLike", "SizeLike", "SizeLike"]


@dataclass(frozen=True, slots=True)
class ScheduledProduct:
    """What the kernels of a tile have in common: `layouts` as NT, the types by their names, and what is fused."""

    tile: ProductTile
    layouts: str
    dtype: str = "f16"
    result: str = "f16"
    fused: FusedParts = PLAIN

    @property
    def warps(self) -> int:
        """The warps that multiply, WARPGROUP for each group."""
        return self.tile.warps[0] * self.tile.warps[1]

    @property
    def buffers(self) -> int:
        """Buffers of each group: two, or one where that makes room for a fourth stage (`hardware.stage_rings`)."""
        return self._ring[1]

    @property
    def stages(self) -> int:
        """The stages of the tile, as far as they fit."""
        return self._ring[0]

    @property
    def rows(self) -> int:
        """What the rows of a stage are a multiple of, where blocks of a cluster share a tile that has others."""
        t, (down, across) = self.tile, self.tile.cluster
        of_a, of_b = t.m if self.layouts[0] == "N" else t.k, t.n if self.layouts[1] == "T" else t.k
        shared = [(of_a, UNIT * across)] * (across > 1) + [(of_b, UNIT * down)] * (down > 1)
        return max((by for extent, by in shared if extent % by), default=1)

    @property
    def split(self) -> SplitK | ClusterK | None:
        """How blocks divide K."""
        t = self.tile
        return ClusterK(t.parts) if t.parts > 1 else SplitK(t.splits) if t.splits > 1 else None

    @property
    def _ring(self) -> tuple[int, int]:
        t, stage, buffer = self.tile, self._stage_bytes, self.warps // WARPGROUP * BUFFER
        room = LARGEST_SHARED_BYTES - BARRIER_BYTES
        one, two = ((room - count * buffer) // stage for count in (1, 2))
        if self.split:
            return min(room // stage, MOST_STAGES, t.stages), 0
        stages = min(max(two, min(one, 4)), MOST_STAGES, t.stages)
        return stages, max(self.tile.buffers, 2) if stages <= two else 1

    @property
    def _stage_bytes(self) -> int:
        t, by = self.tile, self.rows
        height = -(-t.m // by) * by if self.layouts[0] == "N" else -(-t.m // 64) * 64
        width = -(-t.n // by) * by if self.layouts[1] == "T" else -(-t.n // 64) * 64
        return (height + width) * LINE

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, in bytes; a tile of sums takes that of the ring."""
        return self.stages * self._stage_bytes + self.buffers * self.warps // WARPGROUP * BUFFER + BARRIER_BYTES

    def text(self, blocks: int, *, once: bool, clipped: bool = False) -> str:
        """The schedules on a device for `blocks` blocks at a time; `once` if each has one tile, or a part of its K.

        `clipped` if the tile has more rows than A.
        """
        t, cluster = self.tile, self.tile.sharing
        found = [
            "" if once else f"persistent(blocks={blocks})",
            "warpgroups(transposed=True)" if t.transposed else "warpgroups",
            f"exact(every={t.exact})" if t.exact else "",
            "" if self.split else f"copied_out(buffers={MORE_BUFFERS if once else self.buffers})",
            str(RingPipeline(self.stages, rounded=self.fused.rounded, rows=self.rows, clipped=clipped)),
            f"clusters(blocks={cluster})" if cluster > 1 else "",
            "overlay" if once else "",
            f"lockstep(every={t.lockstep})" if t.lockstep and not once else "",
            "roles",
            f"resident(blocks={t.resident})" if t.resident > 1 else "",
            "dependent" if t.dependent else "",
        ]
        return ", ".join(filter(None, found))

    def kernel(self, sizes: Sizes, clusters: int, epilogue: Epilogue | None = None) -> Kernel:
        """The kernel of these sizes, on a device that runs `clusters` clusters at a time.

        An `epilogue` takes the place of what is fused.
        """
        m, n, k = sizes
        t, (down, across), split = self.tile, self.tile.cluster, self.split
        rows, columns = lego.cdiv(m, t.m * down), lego.cdiv(n, t.n * across)
        order = clustered_order(rows, columns, t.group, t.cluster, snake=t.lockstep > 0)
        dims = ((m, k), (k, n))
        a, b = ((Row if letter == "N" else Col)(*extents) for letter, extents in zip(self.layouts, dims, strict=True))
        kernel = matmul.build(
            m, n, k, dtype_named(self.dtype), a=a, b=b, result=dtype_named(self.result),
            tiling=replace(t, k=LINE // ELEMENT_BYTES[self.dtype]), order=order,
            epilogue=epilogue or self.fused.build(m, n), split=split,
        )  # fmt: skip
        once = split is not None or (is_static((rows, columns)) and rows * columns <= clusters)
        clipped = isinstance(m, int) and m < t.m and across == 1  # blocks that share A divide all rows of its tile
        return kernel.schedule(self.text(clusters * down * across, once=once, clipped=clipped))


def clustered_order(
    rows: SizeLike, columns: SizeLike, group: int, cluster: tuple[int, int] = (1, 1), *, snake: bool = False
) -> Layout:
    """Groups of `group` rows of clusters' tiles, and inside of each the tiles of its blocks, column by column."""
    height = min(group, rows) if isinstance(rows, int) else group
    order = grouped(rows, columns, rows=height, snake=snake)
    return lego.as_layout(order) if cluster == (1, 1) else nested(order, Col(*cluster))
