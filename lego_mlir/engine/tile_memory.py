"""A tile in memory as the engine sees it: the address of each bit of an element, and what an access of it costs.

Addresses are linear over F2 where the strides of a view are powers of two; along an axis with another stride, rows
start at distinct lines. Counts are of a warp: requests, lines of 128 bytes and sectors of 32 bytes.

>>> rows = TileMemory((64, 64), 32, (64, 1), 16, "global")
>>> from lego_mlir.f2.encodings import Blocked
>>> from lego_mlir.f2.queries import canonical
>>> counted = rows.accesses(canonical(Blocked((1, 4), (2, 16), (4, 1), (1, 0)).layout((64, 64))), stored=False)
>>> counted.requests, counted.vector, counted.lines, counted.sectors
(8, 4, 32, 128.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from lego_mlir.f2.banks import ROW_BITS, WORD_BITS, wavefronts, words_of
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine, rank
from lego_mlir.hardware.memory import WIDEST_ACCESS

LINE_BYTES: Final = 128
"""Bytes of a line of the first cache (CUDA C++ best practices guide, 10.2)."""
SECTOR_BYTES: Final = 32
"""Bytes of a sector, the unit of transfers between caches (as above)."""
_FAR: Final = 40
"""The first bit of addresses along an axis whose stride is no power of two."""

Coordinate = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WarpAccesses:
    """Counts of a warp for a tile: requests of `vector` elements, lines and sectors of all of them.

    `parts` are sectors of which a request writes less than all bytes.
    """

    requests: float
    vector: int
    lines: float
    sectors: float
    parts: float = 0


@dataclass(frozen=True)
class TileMemory:
    """A tile of `shape`, padded to powers of two, of elements of so many bits.

    `strides` are distances in elements, 0 for one that is not known; `widest` is the number of bytes that one access is
    proved to take; `space` is "global" or "workgroup". The axes `masked` may reach past the end of the tensor.
    `offsets` are those of each bit of an element, axis by axis, in a shared tile that is swizzled, or shuffled.
    """

    shape: tuple[int, ...]
    bits: int
    strides: tuple[int, ...]
    widest: int
    space: str
    masked: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()

    @cached_property
    def order(self) -> tuple[Coordinate, ...]:
        """The unit vectors of the tile, lowest address first."""
        rank_ = len(self.shape)
        if self.offsets:
            units = [
                tuple(1 << k if d == axis else 0 for d in range(rank_))
                for axis in range(rank_)
                for k in range(self.shape[axis].bit_length() - 1)
            ]
            return tuple(unit for _, unit in sorted(zip(self.offsets, units, strict=True)))
        axes = sorted(range(rank_), key=lambda k: (self.strides[k] or 1 << 60, -k))
        return tuple(
            tuple(1 << k if d == axis else 0 for d in range(rank_))
            for axis in axes
            for k in range(self.shape[axis].bit_length() - 1)
        )

    @cached_property
    def _columns(self) -> tuple[int, ...]:
        """The address of each bit of an element, in the order of a layout's outputs."""
        if self.offsets:
            return self.offsets
        found, far = [], _FAR
        for size, stride in zip(self.shape, self.strides, strict=True):
            bits = size.bit_length() - 1
            if stride > 0 and stride & (stride - 1) == 0:
                found += [stride << k for k in range(bits)]
            else:
                found += [1 << (far + k) for k in range(bits)]
                far += bits
        return tuple(found)

    def accesses(self, layout: LinearLayout, *, stored: bool) -> WarpAccesses:
        """The counts of a warp for a tile in this layout.

        Loads that meet a sector again find it in the first cache: different sectors of the block count. Of stores those
        of each request count, and of the warps that hold an element the first stores it.
        """
        return _counted(self, layout, stored)

    def wavefronts(self, layout: LinearLayout, vector: int) -> int:
        """The wavefronts of an access of `vector` elements of a shared tile, at least.

        Where rows are at unknown places there may be more. Elements of 64 bits are two words.
        """
        words = max(1, self.bits // WORD_BITS)
        lanes = [words * combine(self._columns, c) for c in layout.columns_of("lane")]
        if any(c >> _FAR for c in lanes):
            return max(words_of(vector, self.bits), ((vector * self.bits) << rank(lanes)) // ROW_BITS)
        return wavefronts(lanes, self.bits // words, words * vector)

    def masks(self, layout: LinearLayout) -> int:
        """The conditions under which a thread accesses memory: one for each distance of its vectors along such axes."""
        vector = self.accesses(layout, stored=False).vector
        bits = [b for b in layout.bases["register"] if b not in self.order[: vector.bit_length() - 1]]
        along = {tuple(b[axis] for axis in self.masked) for b in bits}
        return 1 << sum(1 for b in along if any(b)) if self.masked else 0

    def divides_bytes(self, vector: int) -> bool:
        """Whether two neighbouring accesses of `vector` elements share a byte."""
        return vector * self.bits % 8 != 0

    def vectors(self) -> list[int]:
        """The numbers of elements that an access may take, the widest first."""
        most = max(1, min(self.widest, WIDEST_ACCESS) * 8 // self.bits)
        return [1 << k for k in reversed(range(most.bit_length()))]


@lru_cache(maxsize=65536)
def _counted(memory: TileMemory, layout: LinearLayout, stored: bool) -> WarpAccesses:
    places = {
        name: [combine(memory._columns, c) for c in layout.columns_of(name)] for name in ("register", "lane", "warp")
    }
    registers, lanes = places["register"], places["lane"]
    threads = (*lanes, *places["warp"])
    widest = memory.vectors()[0]
    vector = 0
    while 2 << vector <= widest and 1 << vector in registers:
        vector += 1
    while vector and any(c & ((1 << vector) - 1) for c in (*threads, *(r for r in registers if r >> vector))):
        vector -= 1
    count = (1 << len(registers)) >> vector
    reach = [*lanes, *(1 << k for k in range(vector))]
    line, sector = (max(0, (n * 8 // memory.bits).bit_length() - 1) for n in (LINE_BYTES, SECTOR_BYTES))
    lines, sectors = (1 << rank([c >> bits for c in reach]) for bits in (line, sector))
    if not stored:
        every = 1 << rank([c >> sector for c in (*registers, *threads)])
        return WarpAccesses(count, 1 << vector, count * lines, every / (1 << len(places["warp"])))
    own = rank(layout.columns) - rank([*layout.columns_of("register"), *layout.columns_of("lane")])
    share = (1 << own) / (1 << len(places["warp"]))
    written = (1 << rank(lanes)) * (1 << vector) * memory.bits / 8
    whole = sectors * SECTOR_BYTES <= written
    total = count * sectors * share
    return WarpAccesses(count * share, 1 << vector, count * lines * share, total, 0 if whole else total)


def row_major(shape: Sequence[int], bits: int) -> TileMemory:
    """A tile of whole rows in row-major memory, aligned to the widest access."""
    strides, n = [], 1
    for size in reversed(shape):
        strides.append(n)
        n *= size
    return TileMemory(tuple(shape), bits, tuple(reversed(strides)), WIDEST_ACCESS, "global")
