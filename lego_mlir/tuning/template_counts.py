"""Counts of the shipped templates, which have no trace: what `lego.tune(counts=..)` takes for them.

A template's text leaves registers and staging to Triton or nvcc, so the counts follow from what the kernel must do: the
bytes that it moves, the elements that a thread holds, the steps that wait for each other.

>>> counts = softmax(4096, 1000, rows=2, warps=4)
>>> counts.blocks, counts.threads, counts.held
(2048, 128, 16)
"""

from __future__ import annotations

from typing import Final

from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES, WIDEST_ACCESS
from lego_mlir.templates.library.rows import block_of
from lego_mlir.templates.library.stencil import STENCILS, rows_read
from lego_mlir.tuning.launch_counts import LaunchCounts

SOFTMAX_OPERATIONS: Final = 8
"""Instructions for an element of a softmax: maximum, difference, exponential, sum, product, and their conversions."""
REDUCTION: Final = 0.25
"""Rounds that two reductions across the warps of a block take, each through shared memory."""
STEP: Final = 0.065
"""Rounds of a step between two barriers that reads and writes shared memory once."""


def softmax(total: int, columns: int, *, rows: int, warps: int, bytes: int = 4) -> LaunchCounts:
    """Row-wise softmax of `total` rows, `rows` at a time by `warps` warps; each thread holds its elements."""
    block, threads = rows * block_of(columns), warps * WARP
    held = max(block // threads, 1)
    vector = max(min(WIDEST_ACCESS // bytes, block // threads, columns & -columns), 1)
    sectors = rows * columns * bytes / SECTOR_BYTES
    loads = max(block / vector / WARP, warps)
    reductions = 2 * warps * (5 * rows + 4)
    return LaunchCounts(
        -(-total // rows), threads, shared_bytes=rows * warps * bytes, registers=min(24 + held, 255), held=held,
        requests=2 * loads, loads=loads, places=loads * vector * bytes / 4, passes=loads, sectors=2 * sectors,
        fills=sectors, stores=sectors, packed=sectors,
        instructions=warps * held * SOFTMAX_OPERATIONS + 2 * loads + reductions,
        rounds=1 + (REDUCTION if warps > 1 else 0.1), touched=2.0 * total * columns * bytes,
    )  # fmt: skip


def needleman_wunsch(n: int, *, b: int, wavefronts: float, bytes: int = 4) -> LaunchCounts:
    """The score matrix of two sequences of `n`, in blocks of b x b: one launch for each diagonal of blocks.

    `wavefronts` are those of shared memory for a block, by the layout of its buffer. The counts are those of a diagonal
    of average length; a block has 2 b - 1 steps, each after a barrier.
    """
    across = max(n // b, 1)
    launches = 2 * across - 1
    blocks = -(-across * across // launches)
    sectors = b * b * bytes / SECTOR_BYTES
    warps = -(-b // WARP)
    return LaunchCounts(
        blocks, b, shared_bytes=2 * (b + 1) ** 2 * bytes, registers=40, requests=2 * b * warps, loads=b * warps,
        places=b * warps, passes=b * warps, sectors=2 * sectors, fills=sectors, stores=sectors, packed=sectors,
        wavefronts=wavefronts, instructions=warps * (2 * b - 1) * 20, rounds=2 + STEP * (2 * b - 1),
        touched=2.0 * blocks * b * b * bytes, launches=launches,
    )  # fmt: skip


ADDRESS: Final = 4
"""Instructions for the address of a load whose row is not that of the previous one."""


def stencil(
    n: int, name: str, *, block: tuple[int, int, int], each: tuple[int, int] = (1, 1), bricks: bool, bytes: int = 4
) -> LaunchCounts:
    """One of `STENCILS` over an n^3 cube, row-major or in bricks; `block` threads (z, y, x), `each` (planes, width).

    A thread loads each row that its outputs need once; a warp's rows of x threads are separate lines unless they are in
    one brick.

    >>> one = stencil(128, "7-point", block=(1, 4, 32), bricks=False)
    >>> wide = stencil(128, "7-point", block=(1, 4, 32), each=(4, 4), bricks=False)
    >>> one.blocks // wide.blocks, one.loads, wide.loads
    (16, 28.0, 88.0)
    """
    (planes, width), points = each, STENCILS[name]
    radius = max(abs(d) for point in points for d in point[:3])
    outputs = block[0] * planes, block[1], block[2] * width
    threads = block[0] * block[1] * block[2]
    warps = -(-threads // WARP)
    rows = [last - first + 1 for _, _, first, last in rows_read(points, planes, width)]
    scalars = sum(row - width if row > width else 0 for row in rows) if width > 1 else sum(rows)
    vectors = len(rows) if width > 1 else 0
    loads = float(warps * (scalars + vectors))
    across = max(WARP // block[2], 1)
    lines = -(-WARP * width * bytes // LINE_BYTES) if bricks else across * -(-block[2] * width * bytes // LINE_BYTES)
    halo = (outputs[0] + 2 * radius) * (outputs[1] + 2 * radius)
    fills = halo * (-(-outputs[2] * bytes // SECTOR_BYTES) + 2)
    stores = outputs[0] * outputs[1] * outputs[2] * bytes / SECTOR_BYTES
    moved = warps * (scalars + vectors * width) * WARP * bytes / SECTOR_BYTES
    work = planes * width * len(points) + scalars + vectors + ADDRESS * len(rows)
    return LaunchCounts(
        n**3 // (outputs[0] * outputs[1] * outputs[2]), threads, registers=min(24 + sum(rows) + planes * width, 255),
        held=planes * width, requests=loads + warps * planes, loads=loads,
        places=float(warps * (scalars + vectors * width)), passes=loads * lines, sectors=max(moved, fills) + stores,
        fills=float(fills), stores=stores, packed=stores, instructions=float(warps * work), rounds=2.0,
        touched=2.0 * n**3 * bytes,
    )  # fmt: skip
