"""Passes for what no upstream pass or transform operation does. A script's `lego.pipeline` names them.

| pass | what it does |
|---|---|
| `lego-shared-to-alloc` | turns shared tiles of a loop into `memref.alloc`, as multi-buffering and the swizzle need |
| `lego-masked-reads` | turns a branch around a wide read into a masked read, which can become an asynchronous copy |
| `lego-check-pipeline` | reports why a loop cannot be pipelined as deep as requested |
| `lego-bypass-l1` | restores the L1-bypass mark of 16-byte asynchronous copies, which pipelining drops |
| `lego-merge-barriers` | removes the barrier before the copies of a loop with two or more buffers |
| `lego-drain-copies` | waits for all copies after a pipelined loop that is inside another loop |
| `lego-rotate-fragments` | loads the next iteration's first fragments before this iteration's last products |
| `lego-load-ahead` | interleaves the loads of a step's fragments with the products of the previous step |
| `lego-spread-copies` | interleaves the copies of a loop with its products |
| `lego-defer-rounding`, `lego-round-at-store` | move the rounding of a result from the tile to the lanes' stores |
| `lego-bf16-as-f16`, `lego-bf16-again` | distribute bf16 tiles to lanes, which upstream supports for f16 only |
| `lego-hide-scalars`, `lego-restore-scalars` | hide scalar arithmetic from upstream's conversion |
| `lego-order-fragments` | orders the tiles of an ldmatrix as the product expects them |
| `lego-next-tile-ahead` | prefetches the next tile's first copies before this tile's result is stored |
| `lego-swizzle` | applies a tile's order to every access to it, which avoids bank conflicts |
| `lego-place-shared-memory` | static memory if all tiles fit, else dynamic; disjoint lifetimes share memory |

A pass is a frozen dataclass whose fields are its options; `run` changes a parsed module in place. A pass that finds
nothing to do raises `PassError`, which names what it looked for and what the kernel has instead, unless finding
nothing is allowed.
"""

from __future__ import annotations

from typing import Final

from lego_mlir.transforms.passes.allocate_shared import AllocateShared
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.bypass_l1 import BypassL1
from lego_mlir.transforms.passes.check_pipeline import CheckPipeline
from lego_mlir.transforms.passes.hide_scalars import HideScalars, RestoreScalars
from lego_mlir.transforms.passes.load_ahead import LoadAhead
from lego_mlir.transforms.passes.mask_reads import MaskReads
from lego_mlir.transforms.passes.merge_barriers import DrainCopies, MergeBarriers
from lego_mlir.transforms.passes.order_fragments import OrderFragments
from lego_mlir.transforms.passes.place_shared import PlaceShared
from lego_mlir.transforms.passes.prefetch_next_tile import PrefetchNextTile
from lego_mlir.transforms.passes.rotate_fragments import RotateFragments
from lego_mlir.transforms.passes.round_at_store import DeferRounding, RoundAtStore
from lego_mlir.transforms.passes.spread_copies import SpreadCopies
from lego_mlir.transforms.passes.swizzle import Swizzle
from lego_mlir.transforms.passes.treat_bf16_as_f16 import RestoreBf16, TreatBf16AsF16

__all__ = ["PASSES", "Pass", "PassError"]

_ORDER: Final[tuple[type[Pass], ...]] = (
    AllocateShared,
    MaskReads,
    CheckPipeline,
    BypassL1,
    MergeBarriers,
    DrainCopies,
    RotateFragments,
    Swizzle,
    PrefetchNextTile,
    LoadAhead,
    SpreadCopies,
    DeferRounding,
    HideScalars,
    RestoreScalars,
    TreatBf16AsF16,
    OrderFragments,
    RestoreBf16,
    RoundAtStore,
    PlaceShared,
)
PASSES: Final = {pass_.name: pass_ for pass_ in _ORDER}
