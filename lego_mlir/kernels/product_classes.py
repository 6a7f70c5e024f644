"""Classes of products: one kernel for all sizes that take the same tile, layouts and types.

    4096 x 4096 x 4096    warpgroups, 128x256, lockstep 32     -> kernel A
    4095 x 4104 x 4096    the same                             -> kernel A
    2048 x 2048 x 2048    warpgroups, 128x256, dependent       -> kernel B

A class has what the code depends on. Its kernel takes M, N and K as arguments; their divisors and limits are part of
the class. A varying batch M has few classes: up to five tiles for each order of magnitude (`class_tiles`), of which the
model of the time takes the quickest for M itself. Short products of unaligned rows have as many in larger clusters.

>>> from lego_mlir.choices.product_device import REFERENCE_DEVICE
>>> sizes = [(m, 4096, 4096) for m in range(2049, 4097, 64)]
>>> len({class_for(size, "NT", "f16", "f16", "sm_90a", REFERENCE_DEVICE) for size in sizes}) <= 5
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.choices import class_tiles, families, warp_tiles, warpgroup_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE_DEVICE, ProductDevice
from lego_mlir.choices.product_tile import BYTES, ProductTile
from lego_mlir.choices.warpgroup_tiles import Wanted
from lego_mlir.expr.index import Index
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels import matmul
from lego_mlir.kernels.fused_epilogues import PLAIN, FusedParts
from lego_mlir.kernels.scheduled_products import ScheduledProduct
from lego_mlir.layout import Col, Row
from lego_mlir.schedule.named import SYMBOLIC
from lego_mlir.tracing.trace.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition.kernel import Kernel

ALIGNED: Final = 8
"""16-bit elements of 16 bytes, of which rows are multiples."""
LARGEST: Final = 2**20
"""The largest M, N and K of a class by warpgroups: the number of tiles of 64 x 64 fits 32 bits."""
LARGEST_POSITION: Final = 2**15
"""The largest M, N and K of other classes: positions in the matrices fit 32 bits."""
TYPES: Final = ("f16", "bf16")
"""Those that mma.sync multiplies."""
FAR: Final = 1.5
"""The predicted time of the kernel of a class, relative to that of exactly these sizes, up to which it is taken."""
Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ProductClass:
    """Products by warpgroups with one kernel; `clusters` run at the same time, and share the tiles."""

    dtype: str
    result: str
    layouts: str
    tile: ProductTile
    clusters: int
    fused: FusedParts = PLAIN

    script = None

    @property
    def name(self) -> str:
        """The name of its kernel."""
        return f"matmul_{self.dtype}_{self.result}_{self.layouts}_aligned_{self.tile}{self.fused}".replace(" ", "_")

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of a script: none, the kernel is scheduled."""
        return {}

    def kernel(self) -> Kernel:
        """The kernel of sizes M, N and K."""
        found = ScheduledProduct(self.tile, self.layouts, self.dtype, self.result, self.fused)
        return found.kernel(sizes_of(divisors(self.layouts, self.dtype, self.result), 1, LARGEST), self.clusters)


@dataclass(frozen=True, slots=True)
class PipelinedClass:
    """Products by mma.sync with one kernel. `deep` tells that K is a multiple of the tile's step."""

    dtype: str
    result: str
    layouts: str
    tile: ProductTile
    blocks: int | None
    deep: bool
    fused: FusedParts = PLAIN

    script = "matmul_sm80.mlir"

    @property
    def name(self) -> str:
        """The name of its kernel."""
        rows = "deep" if self.deep else "aligned"
        text = f"matmul_{self.dtype}_{self.result}_{self.layouts}_{rows}_{self.tile}{self.fused}"
        return text.replace(", ", "_").replace(" ", "_")

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of the script."""
        return {"stages": self.tile.stages}

    def kernel(self) -> Kernel:
        """The kernel of sizes M, N and K."""
        m_by, n_by, k_by = divisors(self.layouts)
        step = self.tile.k
        m, n, k = sizes_of((m_by, n_by, step if self.deep else k_by), least_depth(self.tile), LARGEST_POSITION)
        a, b = matrices(self.layouts, (m, n, k))
        return matmul.build(
            m, n, k, dtype_named(self.dtype), a=a, b=b, result=dtype_named(self.result), tiling=self.tile,
            order=self.tile.order, blocks=self.blocks, epilogue=self.fused.build(m, n),
        )  # fmt: skip


def sizes_of(multiples: Sizes, least: int, largest: int) -> tuple[Index, Index, Index]:
    """M, N and K of a class: multiples of some numbers, K at least `least`."""
    m, n, k = (
        lego.size(name, min=least if name == "K" else 1, max=largest, multiple_of=divisor)
        for name, divisor in zip("MNK", multiples, strict=True)
    )
    return m, n, k


def matrices(layouts: str, sizes: tuple[Index, Index, Index]) -> tuple[Layout, Layout]:
    """The layouts of A and B."""
    m, n, k = sizes
    a, b = ((Col if letter == "T" else Row)(*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    return lego.as_layout(a), lego.as_layout(b)


def divisors(layouts: str, dtype: str = "f16", result: str = "f16") -> Sizes:
    """What M, N and K must be multiples of, so that rows of A, B and C are multiples of 16 bytes.

    >>> divisors("NT"), divisors("TN"), divisors("NT", "f8e4m3fn", "bf16"), divisors("NT", "f32", "f32")
    ((1, 8, 8), (8, 8, 1), (1, 8, 16), (1, 4, 4))
    """
    if dtype not in TYPES:  # along K only
        return 1, CHUNK // ELEMENT_BYTES[result], CHUNK // ELEMENT_BYTES[dtype]
    return ALIGNED if layouts[0] == "T" else 1, ALIGNED, 1 if layouts == "TN" else ALIGNED


def least_depth(tile: ProductTile) -> int:
    """The least K with as many steps as the pipeline has stages before the loop."""
    return max(1, (tile.stages - 2) * tile.k + 1)


def _wanted(size: Sizes, layouts: str, dtype: str, result: str, device: ProductDevice, fused: FusedParts) -> Wanted:
    """What the choice of a tile of warpgroups takes."""
    bytes_, wide = ELEMENT_BYTES[dtype], fused.epilogue is not None or ELEMENT_BYTES[result] != BYTES
    m, n, k = size
    return Wanted(m, n, k * bytes_ // BYTES, device, layouts, bytes_, fused.exact, wide, fused.operands)


def class_of(
    size: Sizes, layouts: str, dtype: str, result: str, device: ProductDevice = REFERENCE_DEVICE,
    at_once: Sequence[int] = (), fused: FusedParts = PLAIN,
) -> ProductClass:  # fmt: skip
    """The class of a product by warpgroups, on a device with room for clusters `at_once`, by size."""
    tile = class_tiles.by_warpgroups(_wanted(size, layouts, dtype, result, device, fused))
    return ProductClass(dtype, result, layouts, tile, tile.clusters(device.sms, at_once), fused)


def pipelined_class_of(
    size: Sizes, layouts: str, dtype: str, result: str, device: ProductDevice, room: int, fused: FusedParts = PLAIN
) -> PipelinedClass | None:
    """The class of a product by mma.sync, None where its kernel depends on the sizes otherwise.

    `room` is the shared memory of a block, in bytes.
    """
    m, _, k = size
    element = ELEMENT_BYTES[result if fused.epilogue is None else "f32"]  # of the tile of C
    tile = class_tiles.by_warps(ProductSize(*size, layouts, element), room, device)
    if warp_tiles.is_parted(m, k) or tile.order not in SYMBOLIC or k < least_depth(tile):
        return None
    return PipelinedClass(dtype, result, layouts, tile, tile.blocks(device.sms), k % tile.k == 0, fused)


def _of_exact_sizes(
    size: Sizes, layouts: str, dtype: str, result: str, device: ProductDevice, fused: FusedParts
) -> bool:  # fmt: skip
    """Whether the first call of a product by warpgroups compiles a kernel of exactly these sizes.

    Blocks and clusters that divide K compute one tile each, of sizes that are known. Where they are not predicted to be
    far quicker than the kernel of a class, they come after some calls (`runtime.exact_kernels`): a new M compiles
    nothing.
    """
    w = _wanted(size, layouts, dtype, result, device, fused)
    exact = warpgroup_tiles.choose(*size, device, layouts, w.bytes_, w.exact, w.fused, w.operands)
    return FAR * w.microseconds(exact) < w.microseconds(class_tiles.by_warpgroups(w))


def class_for(
    size: Sizes, layouts: str, dtype: str, result: str, target: str, device: ProductDevice = REFERENCE_DEVICE,
    fused: FusedParts = PLAIN,
    at_once: Sequence[int] = (),
) -> ProductClass | PipelinedClass | None:  # fmt: skip
    """The class whose kernel `lego_mlir.matmul` takes on a target; None for a kernel of exactly these sizes."""
    from lego_mlir.hardware.targets import target_named

    if any(extent % by for extent, by in zip(size, divisors(layouts, dtype, result), strict=True)):
        return None
    on = target_named(target)
    warpgroups = on.compute_capability == (9, 0) and on.specific
    if warpgroups and families.warpgroups_compute(
        size, layouts, dtype, result, device, fused.exact > 0, fused.epilogue is not None, fused.operands
    ):
        if _of_exact_sizes(size, layouts, dtype, result, device, fused):
            return None
        found = class_of(size, layouts, dtype, result, device, at_once, fused)
        return found if max(size) <= LARGEST else None
    if max(size) > LARGEST_POSITION or dtype not in TYPES or fused.exact:
        return None
    return pipelined_class_of(size, layouts, dtype, result, device, on.shared_per_block, fused)
