"""The words of the kernel language.

Sections:

- data: `scalar`, `functions`, `array_functions`, `bitcasts`, `packed_values`, `packed_variables`, `philox`, `printing`,
  `escape`, `claimed`, `in_place`
- memory: `tensor`, `declared_tensor`, `declared_range`, `places`, `atomics`, `cache_hints`, `prefetches`,
  `packed_views`, `repeated_views`, `distinct`
- threads: `control`, `while_loops`, `warps`, `warp_roles`, `barrier_rings`, `clustered_blocks`, `fences`, `reductions`,
  `interleaving`
- tiles: `staging`, `copy_plans`, `async_copies`, `tile_copies`, `element_functions`, `mma`
"""
