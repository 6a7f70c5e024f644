"""The tile of a product: what a block computes, the blocks that share it, and their schedule, as data.

    mma.sync      blocks of any warps; a pipeline of stages; K may be in parts of different blocks
    warpgroups    wgmma: warps that copy and warps that multiply, in clusters; K in parts within or among clusters

One record describes the kernels of both families, those of batches and groups included. It is hashable, prints for
names and tables, and is JSON of the fields that differ from the defaults:

>>> tile = ProductTile(128, 256, 64, (2, 4), stages=3, resident=1)
>>> str(tile), tile.threads
('128x256x64, 2x4 warps, 3 stages, grouped, 1 resident', 256)
>>> tile.to_json()
{'m': 128, 'n': 256, 'k': 64, 'warps': [2, 4], 'stages': 3, 'resident': 1}
>>> ProductTile.from_json(tile.to_json()) == tile
True
>>> str(warpgroup_tile(128, 256, 4, cluster=(2, 1), group=8, lockstep=32))
'128x256 cluster 2x1 group 8 every 32'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final, Literal

from lego_mlir.aliases import Json
from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import WARP

Family = Literal["mma.sync", "warpgroups"]
Knob = int | str | tuple[int, int]
"""A value of a field of a tile."""
BYTES: Final = 2
"""Of an element of A or B of 16 bits, the unit of candidates and of the model of time."""
STEP: Final = 64
"""Elements of 16 bits along K of a step of warpgroups: rows of 128 bytes."""
WARPGROUP: Final = 4
"""Warps of a group that multiplies."""
ROWS: Final = 64
"""Rows of the unit, of which two warpgroups have TALL or more."""
TALL: Final = 2 * ROWS
OUT_PAD: Final = 8
"""Padding elements after each row of C's shared tile, 16 bytes or more: a fragment's rows are in different banks."""
LEAST_STEPS: Final = 2
"""The minimum of steps along K, the last one of zeros if one tile is deep enough: pipelining needs a loop."""
BUFFERS: Final = 2
"""Buffers of a warpgroup for C, in turn."""


@dataclass(frozen=True, slots=True)
class ProductTile:
    """How a product is divided: a block's tile of C, its step `k` along K, its warps along M and N, and its stages.

    A block is persistent with `resident` ones per SM; with 0, there is one block per tile. Tiles are in an `order`,
    `group` rows of them at a time. Blocks of a `cluster`, its size along M and N, fetch shared operands once. Different
    blocks sum `parts` of K, those of a cluster by warpgroups, where as many clusters as `splits` do the same. With
    `lockstep`, producers meet after as many steps; a `dependent` kernel starts before the previous one has ended.
    `exact` sums are promoted after as many steps. A `transposed` product is computed as B^T A^T, whose rows are columns
    of C. Each group of warps stores C through `buffers`.
    """

    m: int = 128
    n: int = 128
    k: int = 32
    warps: tuple[int, int] = (2, 2)
    stages: int = 1
    family: Family = "mma.sync"
    resident: int = 0
    order: str = "grouped"
    group: int = 16
    cluster: tuple[int, int] = (1, 1)
    parts: int = 1
    splits: int = 1
    lockstep: int = 0
    dependent: bool = False
    exact: int = 0
    transposed: bool = False
    buffers: int = BUFFERS

    def __post_init__(self) -> None:
        m, n, k, warps = self.m, self.n, self.k, self.warps
        if len(warps) != 2:
            raise UsageError(f"matmul: a tile's warps are two numbers, along m and along n, got {warps}")
        for name, size, of_side, unit in (("m", m, warps[0], 16), ("n", n, warps[1], 8), ("k", k, 1, 16)):
            given = isinstance(size, int) and isinstance(of_side, int)
            if not given or of_side < 1 or size < 1 or size % (unit * of_side):
                raise UsageError(
                    f"matmul: a tile's {name}={size} must be a multiple of {unit} for each of its {of_side} warps"
                )

    @property
    def threads(self) -> int:
        """Threads that multiply."""
        return WARP * self.warps[0] * self.warps[1]

    @property
    def sharing(self) -> int:
        """Blocks that fetch operands together."""
        return self.cluster[0] * self.cluster[1]

    @property
    def clustered(self) -> int:
        """Blocks of a cluster: those that share operands, times the parts of K of warpgroups."""
        return self.sharing * (self.parts if self.family == "warpgroups" else 1)

    def turned(self) -> ProductTile:
        """Of a transposed product, the tile of B^T A^T."""
        return replace(
            self, m=self.n, n=self.m, warps=self.warps[::-1], cluster=self.cluster[::-1], transposed=False
        )  # fmt: skip

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """The grid of clusters' tiles."""
        return -(-m // (self.m * self.cluster[0])), -(-n // (self.n * self.cluster[1]))

    def blocks(self, multiprocessors: int) -> int | None:
        """The number of blocks of a persistent kernel; None otherwise."""
        return self.resident * multiprocessors or None

    def clusters(self, multiprocessors: int, at_once: Sequence[int] = ()) -> int:
        """Clusters that run at the same time: `resident` blocks on each multiprocessor.

        A device may run fewer, since a cluster is on one group of its multiprocessors: `at_once` has, with one block on
        each, those of 2, 4 and 8 blocks, where they are known.
        """
        blocks = self.clustered
        found = multiprocessors * self.resident // blocks
        number = blocks.bit_length() - 2  # of these among clusters of 2, 4 and 8
        known = at_once[number] * self.resident if 0 <= number < len(at_once) else found
        return min(found, known) or found

    def shared_bytes(self, element: int = 4) -> int:
        """Shared memory of a block by warps: its staged tiles, and the tile of C with `element` bytes per element.

        The tile of C reuses the staged tiles' memory, except in a persistent block, which prefetches its next tiles.
        """
        staged = self.stages * (self.m + self.n) * self.k * BYTES
        result = (self.m + OUT_PAD) * (self.n + OUT_PAD) * element
        return staged + result if self.resident and self.parts == 1 else max(staged, result)

    def __str__(self) -> str:
        parts = f" in {self.parts} parts" * (self.parts > 1)
        if self.family == "mma.sync":
            tile = f"{self.m}x{self.n}x{self.k}, {self.warps[0]}x{self.warps[1]} warps, {self.stages} stages"
            return f"{tile}, {self.order}{f', {self.resident} resident' * (self.resident > 0)}{parts}"
        words = (
            f" cluster {self.cluster[0]}x{self.cluster[1]}" * (self.cluster != (1, 1)), f" group {self.group}",
            f" every {self.lockstep}" * (self.lockstep > 0), parts, f" by {self.splits} clusters" * (self.splits > 1),
            " transposed" * self.transposed, " dependent" * self.dependent,
            f" resident {self.resident}" * (self.resident > 1), f" buffers {self.buffers}" * (self.buffers > BUFFERS),
        )  # fmt: skip
        return f"{self.m}x{self.n}{''.join(words)}"

    def to_json(self) -> Json:
        """The fields that differ from the defaults, and the sides."""
        plain, sides = _defaults(), ("m", "n", "k", "warps", "stages")
        given = {name: getattr(self, name) for name in plain}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if name in sides or value != plain[name]
        }

    @classmethod
    def from_json(cls, data: Json) -> ProductTile:
        """The tile of JSON data. Raises UsageError for fields that a tile does not have."""
        if unknown := data.keys() - _defaults().keys():
            raise UsageError(f"a tile has no {', '.join(sorted(unknown))}; it has {', '.join(_defaults())}")
        given: Json = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        return cls(**given)


@cache
def _defaults() -> Json:
    return {field.name: field.default for field in fields(ProductTile)}


def warpgroup_tile(m: int, n: int, stages: int, **schedule: Knob) -> ProductTile:
    """A tile of warpgroups: one to three groups of warps divide the rows of the unit, which are columns if
    transposed."""
    transposed = schedule.get("transposed", False)
    rows = n if transposed else m
    warps = WARPGROUP * (rows // ROWS if rows % TALL else 2)
    sides = (1, warps) if transposed else (warps, 1)
    given: Json = {"k": STEP, "resident": 1, **schedule}
    return ProductTile(m, n, warps=sides, stages=stages, family="warpgroups", **given)


def exchanged(layouts: str) -> str:
    """The layouts of B^T and A^T.

    >>> exchanged("NT"), exchanged("NN"), exchanged("TT")
    ('NT', 'TT', 'NN')
    """
    return "".join("T" if letter == "N" else "N" for letter in reversed(layouts))
