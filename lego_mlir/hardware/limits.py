"""Launch limits that are the same on every supported GPU, and the message for a launch that exceeds them.

>>> refusal("grid", (1, 70000))
'grid y = 70000: a launch takes at most 65535 blocks along y, and 2147483647 along x; put the long axis there, or let \
each block do several in a loop'
>>> refusal("block", (32, 64, 1))
'block (32, 64, 1) has 2048 threads: a block has at most 1024 threads; do more work per thread, and launch more \
blocks'
>>> refusal("grid", (70000, 1, 65535))
''
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; x, y, z.
WARP: Final = 32  # threads; same guide, "SIMT Architecture"
THREADS_PER_BLOCK: Final = 1024
STATIC_SHARED_BYTES: Final = 48 * 1024  # declared by a block; more is dynamic and must be requested at launch
LARGEST_SHARED_BYTES: Final = 227 * 1024  # dynamic limit of a block on the largest target, sm_90
REGISTERS_PER_SM: Final = 64 * 1024  # of 32 bits; a block's most as well
BLOCKS_PER_SM: Final = 32  # resident at once, on the target with most, as the next two
THREADS_PER_SM: Final = 2048
SHARED_PER_SM: Final = 228 * 1024
RESERVED_SHARED_BYTES: Final = 1024  # of each resident block, for the system; same guide, "Compute Capability 9.0"
LARGEST_BLOCK: Final = (1024, 1024, 64)
LARGEST_GRID: Final = (2**31 - 1, 65535, 65535)


def refusal(what: str, extents: Sequence[int]) -> str:
    """Why no GPU can launch a `"grid"` or `"block"` of these sizes, and the remedy; empty for a valid launch."""
    if what == "block" and prod(extents) > THREADS_PER_BLOCK:
        return (
            f"block {tuple(extents)} has {prod(extents)} threads: a block has at most {THREADS_PER_BLOCK} threads; "
            "do more work per thread, and launch more blocks"
        )
    largest, of = (LARGEST_GRID, "blocks") if what == "grid" else (LARGEST_BLOCK, "threads")
    for axis, n, limit in zip("xyz", extents, largest, strict=False):
        if n < 1:
            return f"{what} {axis} = {n}: a launch takes at least 1; skip the launch if there is no work"
        if n > limit:
            elsewhere = "" if axis == "x" else f", and {largest[0]} along x; put the long axis there"
            instead = f"let each {of[:-1]} do several in a loop"
            return f"{what} {axis} = {n}: a launch takes at most {limit} {of} along {axis}" + (
                f"{elsewhere}, or {instead}" if elsewhere else f"; {instead}"
            )
    return ""


BLOCKS_PER_CLUSTER: Final = 16  # sm_90; 8 where the launch must be portable; CUDA C++ Programming Guide, same section

PORTABLE_CLUSTER: Final = 8  # blocks of a cluster on every GPU with clusters; same section


def refused_cluster(cluster: Sequence[int], grid: Sequence[int]) -> str:
    """Why no GPU can launch clusters of these blocks in this grid, and the remedy; empty for a valid launch.

    >>> refused_cluster((2, 1, 1), (5, 1, 1))
    'clusters of (2, 1, 1) blocks do not divide the grid (5, 1, 1); launch a multiple along each axis'
    """
    if prod(cluster) > BLOCKS_PER_CLUSTER or min(cluster) < 1:
        return f"clusters of {tuple(cluster)} blocks: a cluster has 1 to {BLOCKS_PER_CLUSTER} blocks"
    if any(n % c for n, c in zip(grid, cluster, strict=True)):
        return (
            f"clusters of {tuple(cluster)} blocks do not divide the grid {tuple(grid)}; "
            "launch a multiple along each axis"
        )
    return ""
