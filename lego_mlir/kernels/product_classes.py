"""Classes of products: one kernel for all sizes that take the same tile, layouts and types.

    4096 x 4096 x 4096    warpgroups, 128x256, lockstep 32     -> kernel A
    4095 x 4104 x 4096    the same                             -> kernel A
    2048 x 2048 x 2048    warpgroups, 128x256, dependent       -> kernel B

A class has what the code depends on. Its kernel takes M, N and K as arguments; their divisors and limits are part of
the class. A varying batch M has few classes: up to five tiles for each order of magnitude (`class_tiles`), of which the
model of the time takes the quickest for M itself. Short products of unaligned rows have as many in larger clusters.

>>> len({class_for((m, 4096, 4096), "NT", "f16", "f16", "sm_90a", 132) for m in range(2049, 4097, 64)}) <= 5
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.expr.index import Index
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels import choices, family_choices, matmul, split_choices, warpgroup_choices
from lego_mlir.kernels.choices import Choice
from lego_mlir.kernels.class_tiles import few_tiles, octave, rows_of
from lego_mlir.kernels.fused_epilogues import PLAIN, FusedParts
from lego_mlir.kernels.product_counts import BYTES, BlockTile, ProductSize
from lego_mlir.kernels.product_time import H200, ProductDevice, product_time
from lego_mlir.kernels.scheduled_products import ScheduledProduct
from lego_mlir.kernels.warpgroup_choices import WarpgroupTile
from lego_mlir.layout import Col, Row
from lego_mlir.schedule.named import SYMBOLIC
from lego_mlir.tracing.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition import Kernel

ALIGNED: Final = 8
"""16-bit elements of 16 bytes, of which rows are multiples."""
LARGEST: Final = 2**20
"""The largest M, N and K of a class by warpgroups: the number of tiles of 64 x 64 fits 32 bits."""
LARGEST_POSITION: Final = 2**15
"""The largest M, N and K of other classes: positions in the matrices fit 32 bits."""
TYPES: Final = ("f16", "bf16")
"""Those that mma.sync multiplies."""
FEWEST_ROWS: Final = 64
"""Rows of C of one instruction of warpgroups."""
CHOICES: Final = 1024
"""Choices of tiles that a process keeps."""
Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ProductClass:
    """Products by warpgroups with one kernel; `clusters` run at the same time, and share the tiles."""

    dtype: str
    result: str
    layouts: str
    tile: WarpgroupTile
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
    choice: Choice
    blocks: int | None
    deep: bool
    fused: FusedParts = PLAIN

    script = "matmul_sm80.mlir"

    @property
    def name(self) -> str:
        """The name of its kernel."""
        rows = "deep" if self.deep else "aligned"
        text = f"matmul_{self.dtype}_{self.result}_{self.layouts}_{rows}_{self.choice}{self.fused}"
        return text.replace(", ", "_").replace(" ", "_")

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of the script."""
        return {"stages": self.choice.stages}

    def kernel(self) -> Kernel:
        """The kernel of sizes M, N and K."""
        m_by, n_by, k_by = divisors(self.layouts)
        step = self.choice.tiling.k
        m, n, k = sizes_of((m_by, n_by, step if self.deep else k_by), least_depth(self.choice), LARGEST_POSITION)
        a, b = matrices(self.layouts, (m, n, k))
        return matmul.build(
            m, n, k, dtype_named(self.dtype), a=a, b=b, result=dtype_named(self.result), tiling=self.choice.tiling,
            order=self.choice.order, blocks=self.blocks, epilogue=self.fused.build(m, n),
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


def least_depth(choice: Choice) -> int:
    """The least K with as many steps as the pipeline has stages before the loop."""
    return max(1, (choice.stages - 2) * choice.tiling.k + 1)


@lru_cache(CHOICES)
def _tiles(
    top: int, n: int, k: int, multiprocessors: int, layouts: str, bytes_: int, exact: int, wide: bool, operands: int
) -> tuple[WarpgroupTile, ...]:
    """The tiles of warpgroups for M up to `top`; lockstep is that of the largest M, an early start that of the mean.

    K is in elements of 16 bits; the other arguments are those of `warpgroup_choices.candidates`.
    """

    def time(tile: WarpgroupTile, m: int) -> float:
        return warpgroup_choices.microseconds((m, n, k), tile, multiprocessors, layouts)

    tiles = warpgroup_choices.candidates(top, n, k, multiprocessors, layouts, bytes_, exact, wide, operands)
    found = few_tiles(tiles, time, top)
    early = [tile.lockstep == 0 and time(tile, 3 * top // 4) < warpgroup_choices.SHORT for tile in found]
    step = warpgroup_choices.STEP * BYTES // bytes_
    return tuple(
        replace(tile, dependent=dependent, step=step, exact=exact) for tile, dependent in zip(found, early, strict=True)
    )


@lru_cache(CHOICES)
def _clustered(top: int, n: int, k: int, multiprocessors: int, layouts: str) -> tuple[WarpgroupTile, ...]:
    """The tiles in clusters of 4 and 8 blocks for M from half of `top` to `top`, as far as such products are short."""

    def time(tile: WarpgroupTile, m: int) -> float:
        return warpgroup_choices.microseconds((m, n, k), tile, multiprocessors, layouts)

    rows = [m for m in rows_of(top) if warpgroup_choices.is_short_and_unaligned(m, n, k, layouts)]
    ends = dict.fromkeys([*rows[:1], *rows[-1:]])
    tiles = dict.fromkeys(
        tile for m in ends for tile in warpgroup_choices.clustered_tiles(m, n, k, multiprocessors, layouts)
    )
    fitting = [tile for tile in tiles if all(tile.fits(m, n, multiprocessors) for m in rows)]
    return tuple(replace(tile, dependent=True) for tile in few_tiles(fitting, time, top, rows)) if fitting else ()


@lru_cache(CHOICES)
def _pipelined(
    top: int, n: int, k: int, layouts: str, room: int, element: int, multiprocessors: int
) -> tuple[Choice, ...]:
    """The kernels by mma.sync for M up to `top`."""
    device = replace(H200, sms=multiprocessors)
    fitting = dict.fromkeys(choices.fitting(choice, k, room, element) for choice in choices.CANDIDATES)
    return few_tiles(
        list(fitting), lambda choice, m: _microseconds((m, n, k), layouts, choice.block_tile(element), device), top
    )


def _microseconds(size: Sizes, layouts: str, tile: BlockTile, device: ProductDevice) -> float:
    """The time of a product by the model."""
    return product_time(ProductSize(*size, layouts), tile, device, "steady").microseconds


def class_of(
    size: Sizes, layouts: str, dtype: str, result: str, multiprocessors: int, at_once: Sequence[int] = (),
    fused: FusedParts = PLAIN,
) -> ProductClass:  # fmt: skip
    """The class of a product by warpgroups, for a device with this many multiprocessors, and clusters `at_once`."""
    m, n, k = size
    bytes_, wide = ELEMENT_BYTES[dtype], fused.epilogue is not None or ELEMENT_BYTES[result] != BYTES
    timed = m, n, k * bytes_ // BYTES
    tiles = _tiles(octave(m), n, timed[2], multiprocessors, layouts, bytes_, fused.exact, wide, fused.operands)
    if bytes_ == BYTES and not (wide or fused.exact) and warpgroup_choices.is_short_and_unaligned(m, n, k, layouts):
        tiles += _clustered(octave(m), n, k, multiprocessors, layouts)
    tile = min(tiles, key=lambda tile: warpgroup_choices.microseconds(timed, tile, multiprocessors, layouts))
    return ProductClass(dtype, result, layouts, tile, tile.clusters(multiprocessors, at_once), fused)


def pipelined_class_of(
    size: Sizes, layouts: str, dtype: str, result: str, multiprocessors: int, room: int, fused: FusedParts = PLAIN
) -> PipelinedClass | None:
    """The class of a product by mma.sync, None where its kernel depends on the sizes otherwise.

    `room` is the shared memory of a block, in bytes.
    """
    m, n, k = size
    element = dtype_named(result if fused.epilogue is None else "f32").bytes  # of the tile of C
    device = replace(H200, sms=multiprocessors)
    chosen = min(
        _pipelined(octave(m), n, k, layouts, room, element, multiprocessors),
        key=lambda choice: _microseconds(size, layouts, choice.block_tile(element), device),
    )
    if split_choices.applies(m, k) or chosen.order not in SYMBOLIC or k < least_depth(chosen):
        return None
    deep = k % chosen.tiling.k == 0
    return PipelinedClass(dtype, result, layouts, chosen, chosen.blocks(multiprocessors), deep, fused)


def _of_exact_sizes(
    size: Sizes, layouts: str, dtype: str, result: str, multiprocessors: int, fused: FusedParts
) -> bool:  # fmt: skip
    """Whether a product by warpgroups has a kernel of exactly these sizes.

    Blocks and clusters that divide K compute one tile each. With fewer rows than an instruction has, a kernel of known
    sizes copies those alone: rows outside of A, which one for all sizes copies as zeros, took half as long again.
    """
    bytes_, wide = ELEMENT_BYTES[dtype], fused.epilogue is not None or ELEMENT_BYTES[result] != BYTES
    if size[0] < FEWEST_ROWS and (bytes_ == 1 or dtype in TYPES):
        return True
    tile = warpgroup_choices.choose(*size, multiprocessors, layouts, bytes_, fused.exact, wide, fused.operands)
    return tile.parts * tile.splits > 1 or (tile.transposed and size[0] <= warpgroup_choices.TRANSPOSED_ROWS[-1])


def class_for(
    size: Sizes, layouts: str, dtype: str, result: str, target: str, multiprocessors: int, fused: FusedParts = PLAIN,
    at_once: Sequence[int] = (),
) -> ProductClass | PipelinedClass | None:  # fmt: skip
    """The class whose kernel `lego_mlir.matmul` takes on a target; None for a kernel of exactly these sizes."""
    from lego_mlir.hardware.targets import target_named

    if any(extent % by for extent, by in zip(size, divisors(layouts, dtype, result), strict=True)):
        return None
    device = target_named(target)
    warpgroups = device.compute_capability == (9, 0) and device.specific
    if warpgroups and family_choices.warpgroups_compute(
        size, layouts, dtype, result, multiprocessors, fused.exact > 0, fused.epilogue is not None, fused.operands
    ):
        if _of_exact_sizes(size, layouts, dtype, result, multiprocessors, fused):
            return None
        found = class_of(size, layouts, dtype, result, multiprocessors, at_once, fused)
        return found if max(size) <= LARGEST else None
    if max(size) > LARGEST_POSITION or dtype not in TYPES or fused.exact:
        return None
    return pipelined_class_of(size, layouts, dtype, result, multiprocessors, device.shared_per_block, fused)
