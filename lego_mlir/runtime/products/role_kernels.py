"""The kernel of a batched or grouped product: built here, or from a folder of packed kernels.

    grouped_matmul-bf16-f16-NT-8-128x256x4-132      [T, K] in rows, [G, N, K], N a multiple of 8, on 132 multiprocessors

The kernel takes all sizes of its types, orders and tile, so that a folder has few of them. Those of a folder need
neither MLIR nor SymPy; `lego-mlir pack grouped_matmul` and `pack batched_matmul` write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.choices import role_tiles
from lego_mlir.choices.product_tile import ProductTile
from lego_mlir.hardware.targets import target_named
from lego_mlir.runtime import packs
from lego_mlir.runtime.calls import BuiltCalls, Calls
from lego_mlir.runtime.products import backends
from lego_mlir.runtime.products.operands import ALIGNED
from lego_mlir.runtime.products.problem import Problem, kernels_folder
from lego_mlir.tracing.trace.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.runtime.arrays import Device
    from lego_mlir.tracing.definition.kernel import Kernel

BATCHED: Final = "batched_matmul"
GROUPED: Final = "grouped_matmul"
SCALED: Final = "scaled_matmul"
ORDERS: Final = {BATCHED: ("NN", "NT", "TN", "TT"), GROUPED: ("NN", "NT", "TN")}
"""The orders of a and b, T for columns; TN of a grouped product has groups along K."""
CLUSTERS: Final = (9, 0)
"""The first compute capability with clusters."""
CHECKED_TILE: Final = role_tiles.role_tile(64, 128, 2)
CHECKED_BLOCKS: Final = 4
"""Blocks in the interpreter."""
_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class RoleKernel:
    """A kernel by what it is compiled for: types by their names, orders, the multiple that N is, tile and blocks.

    An `early` one begins while the kernel before it runs.
    """

    what: str
    dtype: str
    result: str
    layouts: str
    multiple: int = ALIGNED
    tile: ProductTile = CHECKED_TILE
    blocks: int = CHECKED_BLOCKS
    early: bool = False

    @property
    def name(self) -> str:
        """Its name in a folder of packed kernels."""
        form = f"{self.what}-{self.dtype}-{self.result}-{self.layouts}-{self.multiple}"
        return f"{form}-{role_tiles.label(self.tile)}-{self.blocks}{'-early' * self.early}"

    def build(self) -> Kernel:
        """The kernel."""
        return _built(self)

    def tiles(self, room: int, clusters: bool) -> Iterator[RoleKernel]:
        """The same kernel in every tile that a call may choose with this much shared memory, and with clusters."""
        for tile in role_tiles.shapes(room, clusters and self.may_pair):
            yield replace(self, tile=tile)

    @property
    def may_pair(self) -> bool:
        """Whether tiles of clusters are for this kernel: groups along K have none."""
        return (self.what, self.layouts) != (GROUPED, "TN")


def multiple_of(columns: int) -> int:
    """The largest power of two up to 8 that divides the columns of a result."""
    return next(n for n in (ALIGNED, 4, 2, 1) if columns % n == 0)


def kernel_for(problem: Problem, device: Device, check: bool) -> Calls:
    """The kernel of a batch or of groups in the tile that its size takes, or a small one for arrays of the host.

    With `check` its calls run in the interpreter. Raises UsageError where a folder of packed kernels is named and lacks
    the kernel.
    """
    p = problem
    wanted = RoleKernel(BATCHED if p.batch else GROUPED, p.dtype, p.result, p.layouts, multiple_of(p.n))
    if device[0] != "cuda" or check:
        return calls_of(wanted)
    room, lines = target_named(p.target).shared_per_block, 1 if p.whole_lines else 2
    clusters = wanted.may_pair and pairs_blocks(p.target, p.multiprocessors)
    size, folder, in_columns = (p.m, p.batch or p.groups, p.n, p.k), kernels_folder(None), p.layouts[1] == "T"
    unpacked = folder is None and wanted.what == BATCHED
    more = unpacked and wanted.multiple == ALIGNED
    tile = role_tiles.choose(size, p.place, room, lines, clusters, more, in_columns)
    early = unpacked and role_tiles.starts_early(size, tile, p.place, lines, in_columns)
    chosen = replace(wanted, tile=tile, blocks=p.multiprocessors, early=early)
    return calls_of(chosen) if folder is None else _packed(chosen, p.target, folder)


@lru_cache(_KEPT)
def calls_of(wanted: RoleKernel) -> Calls:
    """The calls of a kernel that is compiled here, or was before."""
    return BuiltCalls((wanted.what, wanted), wanted.build)


def pairs_blocks(target: str, blocks: int) -> bool:
    """Whether a target has clusters, and the blocks are pairs."""
    return target_named(target).compute_capability >= CLUSTERS and blocks % 2 == 0


@lru_cache(_KEPT)
def _packed(chosen: RoleKernel, target: str, folder: Path) -> Calls:
    """The kernel of a folder."""
    remedy = (
        f"add it with lego-mlir pack {chosen.what} --dtype {chosen.dtype} --result {chosen.result} --layouts "
        f"{chosen.layouts} --multiprocessors {chosen.blocks} --target {target} -o {folder}"
        if chosen.multiple == ALIGNED
        else f"let N be a multiple of {ALIGNED}, for which kernels are packed"
    )
    return packs.PackedCalls(backends.packed(folder, chosen.name, remedy))


@lru_cache(_KEPT)
def _built(wanted: RoleKernel) -> Kernel:
    from lego_mlir.kernels import batched_products, grouped_depths, grouped_products, scaled_products
    from lego_mlir.kernels.role_products import RoleForm

    types, tile, blocks = (dtype_named(wanted.dtype), dtype_named(wanted.result)), wanted.tile, wanted.blocks
    if wanted.what.endswith(SCALED):
        of_rows: scaled_products.Form = "grouped" if wanted.what.startswith("grouped") else "dense"
        return scaled_products.build(of_rows, tile, blocks, types[1], wanted.multiple)
    form = RoleForm(*types, wanted.layouts, wanted.multiple)
    along_k = wanted.layouts == "TN"
    kind = batched_products if wanted.what == BATCHED else grouped_depths if along_k else grouped_products
    kernel = kind.build(form, tile, blocks)
    return kernel.schedule("dependent") if wanted.early else kernel
