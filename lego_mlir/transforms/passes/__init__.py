"""Passes for what no upstream pass or transform operation does. A script's `lego.pipeline` names them.

| pass | what it does |
|---|---|
| `lego-shared-to-alloc` | turns shared tiles of a loop into `memref.alloc`, as multi-buffering and the swizzle need |
| `lego-masked-reads` | turns a branch around a wide read into a masked read, which can become an asynchronous copy |
| `lego-check-pipeline` | reports why a loop cannot be pipelined as deep as requested |
| `lego-fix-trip-counts`, `lego-restore-trip-counts` | let loops be pipelined whose bounds are known at launch |
| `lego-bypass-l1` | restores the L1-bypass mark of 16-byte asynchronous copies, which pipelining drops |
| `lego-merge-barriers` | removes the barrier before the copies of a loop with two or more buffers |
| `lego-drain-copies` | waits for all copies after a pipelined loop that is inside another loop |
| `lego-rotate-fragments` | loads the next iteration's first fragments before this iteration's last products |
| `lego-load-ahead` | interleaves the loads of a step's fragments with the products of the previous step |
| `lego-load-tiles-early` | loads the next tile into registers during the products, where rows are too narrow to copy |
| `lego-spread-copies` | interleaves the copies of a loop with its products |
| `lego-defer-rounding`, `lego-round-at-store` | move the rounding of a result from the tile to the lanes' stores |
| `lego-bf16-as-f16`, `lego-bf16-again` | distribute bf16 tiles to lanes, which upstream supports for f16 only |
| `lego-hide-scalars`, `lego-restore-scalars` | hide scalar arithmetic from upstream's conversion |
| `lego-order-fragments` | orders the tiles of an ldmatrix as the product expects them |
| `lego-next-tile-ahead` | prefetches the next tile's first copies before this tile's result is stored |
| `lego-swizzle` | applies a tile's order to every access to it, which avoids bank conflicts |
| `lego-place-shared-memory` | static memory if all tiles fit, else dynamic; disjoint lifetimes share memory |
| `lego-lower-bf16-products`, `lego-lower-bf16-integers` | lower products of bf16, and integers converted to bf16 |
| `lego-lower-f8-conversions`, `lego-lower-packed-halves` | lower conversions of f8, and multiply-adds of 16 bits |
| `lego-lower-byte-transposes` | lowers words of bytes of four words to shuffles of pairs |
| `lego-lower-f8-matrix-loads` | lowers an `ldmatrix` of f8 to one of bytes |
| `lego-lower-float-to-integer` | gives conversions to integers a value for numbers outside of their range |
| `lego-lower-subgroup-reduce`, `lego-lower-shuffles` | lower reductions over lanes to shuffles of 32-bit words |
| `lego-lower-warp-reductions` | lowers reductions of integers over a warp to `redux.sync` |
| `lego-narrow-indices` | computes indices in 32 bits where that is proved to be exact |
| `lego-unroll-exchanges` | unrolls loops whose turns exchange values within warps only |
| `lego-lower-fast-functions` | lowers functions of f32 that may be approximate to single instructions |
| `lego-lower-atomics` | lowers atomic updates to single LLVM instructions |
| `lego-join-scratch` | makes one block of the tiles that conversions, scans and reductions exchange through |
| `lego-lower-cache-hints` | lowers accesses with hints to the caches, and prefetches |
| `lego-lower-tile-copies` | lowers tile copies and rings of barriers to what the target has; the toolchain runs it |
| `lego-lower-clusters` | lowers memory and barriers of other blocks of a cluster; the toolchain runs it |
| `lego-lower-wide-products` | lowers 64-bit products of truncated words to single instructions |

A pass is a frozen dataclass whose fields are its options; `run` changes a parsed module in place. A pass that finds
nothing to do raises `PassError`, which names what it looked for and what the kernel has instead, unless finding
nothing is allowed. The lowering to NVVM runs the `lego-lower` passes, `lego-unroll-exchanges` and
`lego-narrow-indices` itself, on every kernel.

Sections:

- parts of passes: `base`, `operations`, `elementwise`, `element_pointers`, `index_numbers`
- indices: `narrow_indices`, `known_ranges`, `access_positions`, `carried_values`, `trip_counts`, `lower_wide_products`
- shared tiles: `allocate_shared`, `place_shared`, `swizzle`, `bypass_l1`
- pipelines: `check_pipeline`, `load_ahead`, `load_tiles_early`, `spread_copies`, `merge_barriers`,
  `prefetch_next_tile`, `mask_reads`
- fragments: `order_fragments`, `rotate_fragments`, `round_at_store`, `hide_scalars`, `treat_bf16_as_f16`,
  `bf16_products`
- numbers: `bf16_integers`, `f8_conversions`, `packed_conversions`, `packed_halves`, `byte_transposes`,
  `float_to_integer`, `fast_functions`
- what upstream does not lower: `join_scratch`, `lower_atomics`, `lower_cache_hints`, `lower_clusters`,
  `lower_shuffles`, `lower_tile_copies`, `copy_fences`, `subgroup_reduce`, `unroll_exchanges`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lego_mlir.transforms.passes.base import Pass

# The class of each pass and its module here, which is loaded when the pass is first used.
PASSES: Final = {
    "lego-shared-to-alloc": "allocate_shared.AllocateShared",
    "lego-masked-reads": "mask_reads.MaskReads",
    "lego-check-pipeline": "check_pipeline.CheckPipeline",
    "lego-fix-trip-counts": "trip_counts.FixTripCounts",
    "lego-restore-trip-counts": "trip_counts.RestoreTripCounts",
    "lego-bypass-l1": "bypass_l1.BypassL1",
    "lego-merge-barriers": "merge_barriers.MergeBarriers",
    "lego-drain-copies": "merge_barriers.DrainCopies",
    "lego-rotate-fragments": "rotate_fragments.RotateFragments",
    "lego-swizzle": "swizzle.Swizzle",
    "lego-next-tile-ahead": "prefetch_next_tile.PrefetchNextTile",
    "lego-load-ahead": "load_ahead.LoadAhead",
    "lego-load-tiles-early": "load_tiles_early.LoadTilesEarly",
    "lego-narrow-indices": "narrow_indices.NarrowIndices",
    "lego-spread-copies": "spread_copies.SpreadCopies",
    "lego-defer-rounding": "round_at_store.DeferRounding",
    "lego-hide-scalars": "hide_scalars.HideScalars",
    "lego-restore-scalars": "hide_scalars.RestoreScalars",
    "lego-bf16-as-f16": "treat_bf16_as_f16.TreatBf16AsF16",
    "lego-order-fragments": "order_fragments.OrderFragments",
    "lego-bf16-again": "treat_bf16_as_f16.RestoreBf16",
    "lego-round-at-store": "round_at_store.RoundAtStore",
    "lego-place-shared-memory": "place_shared.PlaceShared",
    "lego-lower-bf16-products": "bf16_products.LowerBf16Products",
    "lego-lower-bf16-integers": "bf16_integers.LowerBf16Integers",
    "lego-lower-f8-conversions": "f8_conversions.LowerF8Conversions",
    "lego-lower-byte-transposes": "byte_transposes.LowerByteTransposes",
    "lego-lower-f8-matrix-loads": "f8_conversions.LowerF8MatrixLoads",
    "lego-lower-float-to-integer": "float_to_integer.LowerFloatToInteger",
    "lego-lower-packed-halves": "packed_halves.LowerPackedHalves",
    "lego-lower-subgroup-reduce": "subgroup_reduce.LowerSubgroupReduce",
    "lego-lower-warp-reductions": "subgroup_reduce.LowerWarpReductions",
    "lego-unroll-exchanges": "unroll_exchanges.UnrollExchanges",
    "lego-lower-shuffles": "lower_shuffles.LowerShuffles",
    "lego-lower-fast-functions": "fast_functions.LowerFastFunctions",
    "lego-lower-atomics": "lower_atomics.LowerAtomics",
    "lego-join-scratch": "join_scratch.JoinScratch",
    "lego-lower-cache-hints": "lower_cache_hints.LowerCacheHints",
    "lego-lower-tile-copies": "lower_tile_copies.LowerTileCopies",
    "lego-lower-clusters": "lower_clusters.LowerClusters",
    "lego-lower-wide-products": "lower_wide_products.LowerWideProducts",
}


def named(name: str) -> type[Pass]:
    """The pass of a name in `PASSES`."""
    module, _, class_name = PASSES[name].partition(".")
    found: type[Pass] = getattr(import_module(f"{__name__}.{module}"), class_name)
    return found
