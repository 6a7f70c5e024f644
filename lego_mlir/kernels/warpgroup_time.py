"""The time of a product by warpgroups, fitted to 200 products of 512 to 8192 and of language models on an H200.

A step of 64 along K takes a tile of m x n the longest of three times: that of the matrix units at the clock that the
card's power allows, to which copied bytes contribute; that of the copies, one line of L2 at a time, where rows that are
not multiples of 128 bytes touch two lines each; and a share of the copies' latency, with few stages in flight. In a
cluster of two blocks, each copies half of the shared operand. Blocks run ceil(tiles / multiprocessors) tiles in
sequence: an odd size is best divided by a width that fills the last round. Measured times of large products deviate
from the model by 5 % (standard deviation); `product_time` covers other kernels as well, and less precisely these.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 64
BYTES: Final = 2
LINE: Final = 128
MULTIPLIED_NS: Final = 1 / 32 / 1.3  # a product of 64 along K: cycles, at the clock of an H200 that its power limits
ROW_NS: Final = 0.07  # the energy of copying a row of 128 bytes, as time at the limit of power
LINE_NS: Final = 1.3  # for an SM to copy a line of 128 bytes from L2
TILE_NS: Final = 1000.0  # to fill and drain a tile's pipeline
LAUNCH_NS, CLUSTER_NS = 300.0, 1200.0  # to begin and to end; more in clusters
AREA, MOST_FOR_AREA = 128 * 256, 0.03  # small tiles read more of shared memory for a product, up to this share of time
CROWDED: Final = 1.035  # where shared memory has no room for four stages beside two buffers for C
LATENCY_NS, ROW_LATENCY_NS, LINES_LATENCY_NS = 350.0, 3.5, 200.0  # of a stage's copies: all, each row, of two lines


def nanoseconds(
    sizes: tuple[int, int, int], multiprocessors: int, tile: tuple[int, int], cluster: tuple[int, int], stages: int,
    layouts: str = "NT", crowded: bool = False,
) -> float:  # fmt: skip
    """The time of a product in such tiles, with that many stages; `layouts` as for `lego_mlir.matmul`."""
    (m, n, k), (height, width), lines = sizes, tile, lines_of(sizes, layouts)
    rows = min(height, m) / cluster[1], columns_of(width, layouts) / cluster[0]
    multiplied = height * width * MULTIPLIED_NS + sum(rows) * ROW_NS
    copied = (rows[0] * lines[0] + rows[1] * lines[1]) * LINE_NS
    latency = LATENCY_NS + ROW_LATENCY_NS * (height + width) + LINES_LATENCY_NS * (max(lines) > 1)
    tiles = -(-m // (height * cluster[0])) * -(-n // (width * cluster[1]))
    rounds = -(-tiles // (multiprocessors // (cluster[0] * cluster[1])))
    small = max(0.0, min(0.08 * (AREA / (height * width) - 1), MOST_FOR_AREA))
    step = max(multiplied, copied, latency / (stages - 1)) * (CROWDED if crowded else 1) * (1 + small)
    return rounds * (-(-k // STEP) * step + TILE_NS) + LAUNCH_NS + CLUSTER_NS * (cluster != (1, 1))


def lines_of(sizes: tuple[int, int, int], layouts: str) -> tuple[int, int]:
    """The lines of L2 that 128 bytes of a row of A, and of B, touch."""
    m, n, k = sizes
    rows = (k if layouts[0] == "N" else m, n if layouts[1] == "N" else k)
    return 1 + (rows[0] * BYTES % LINE > 0), 1 + (rows[1] * BYTES % LINE > 0)


def columns_of(width: int, layouts: str) -> int:
    """The columns of B that are copied: whole columns of 128 bytes where N is contiguous."""
    return -(-width // STEP) * STEP if layouts[1] == "N" else width
