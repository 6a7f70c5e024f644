"""Schedules: functions from a kernel to a kernel that rewrite its trace statement by statement.

    fast = product.schedule("warpgroups, pipeline(stages=4), roles")

A schedule works on anybody's kernel, refuses by the statement that stands in its way, and composes with others in any
order that its input allows. What it returns is a kernel: it is printed, interpreted, checked and counted without a GPU.

    warpgroups            accumulators of warps become one of the block, in the layout of `wgmma`
    warps                 the same in the layout of `mma.sync`, in the parts that the kernel gives to warps
    exact(every)          sums begin anew every few steps, and are added to totals
    pipeline(stages)      staged tiles become rings that tile copies fill ahead of the products
    roles                 copies and products get warps of their own
    ahead                 in place of roles: each thread copies some steps ahead of its products
    clusters(blocks)      blocks copy the tiles that they have in common once
    lockstep(every)       copies of all blocks meet every few steps, and read the same tiles from L2
    persistent(blocks)    few blocks compute all tiles
    overlay               tiles of the epilogue take the memory of the rings
    copied_out(buffers)   results leave by tile copies
    resident(blocks)      registers of several blocks fit a multiprocessor
    dependent             the kernel begins while the one before it ends

`scheduled` is a kernel made by a schedule, `replay` copies a trace, `rings`, `staged_uses` and `sides` serve `pipeline`
and `roles`, `own_numbers` writes statements a second time, `composition` reads the text.

Sections:

- mechanism: `composition`, `scheduled`, `replay`, `own_numbers`
- rings and roles: `ring_pipeline`, `staged_uses`, `whole_fills`, `rings`, `sides`, `copying_roles`,
  `side_by_side`, `overlay`
- clusters: `common_copies`, `cluster_values`, `one_way`
- accumulators: `block_sums`, `promoted_sums`, `copied_out`
- when blocks run: `persistent`, `resident`, `ahead`, `dependent`, `producer_lockstep`
"""
