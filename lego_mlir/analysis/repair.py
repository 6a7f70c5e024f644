"""Find the cheapest repair of a bank conflict: verified candidates in the order of their cost.

A shared tile may be padded (costs memory) or swizzled (costs an exclusive or for each access). A candidate is accepted
only if its layout is proved a bijection and every vector access of the tile remains contiguous and aligned; its
wavefronts are counted for every warp of every access.

>>> from lego_mlir import Row
>>> from lego_mlir.analysis.patterns import AccessPattern
>>> uses = [TileAccess.of(AccessPattern("rows", lambda lane, i: (i, lane), {"i": 32})),
...         TileAccess.of(AccessPattern("columns", lambda lane, j: (lane, j), {"j": 32}))]
>>> for repair in repairs((32, 32), uses, 4):
...     print(repair)
gallery.xor_swizzle(32, 32): no conflict in 64 wavefronts, no extra memory
Padded(Row(32, 33), [32, 32]): no conflict in 64 wavefronts, 128 bytes more
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.analysis.patterns import AccessPattern, values_of
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware import banks
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS
from lego_mlir.layout import OrderBy, Row, gallery
from lego_mlir.layout.contiguity import is_vector
from lego_mlir.layout.padded import Padded

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout

ROW_OF_BANKS: Final = BANKS * BANK_BYTES


@dataclass(frozen=True)
class TileAccess:
    """One access of a tile: the logical index of every lane, (warps, 32) an axis, elements a lane, active lanes.

    `line` is its line in the spec, for accesses of kernels.
    """

    name: str
    index: tuple[Array, ...]
    width: int = 1
    active: Array | None = None
    line: int | None = None

    @classmethod
    def of(cls, pattern: AccessPattern, width: int = 1) -> TileAccess:
        """The access of a pattern, for all values of its free variables."""
        free, _ = values_of(pattern)
        lane = np.arange(WARP, dtype=np.int64).reshape(1, WARP)
        index = [np.asarray(i) for i in pattern.index(lane=lane, **free)]
        shape = np.broadcast_shapes((1, WARP), *(v.shape for v in free.values()), *(i.shape for i in index))
        return cls(pattern.name, tuple(np.broadcast_to(i, shape) for i in index), width)

    @property
    def warps(self) -> int:
        return int(self.index[0].shape[0])


@dataclass(frozen=True, slots=True)
class Repair:
    """A layout for the tile and its cost: wavefronts of all accesses, the fewest possible, bytes beyond the tile."""

    kind: str
    layout: Any
    wavefronts: int
    ideal: int
    extra_bytes: int
    by: str

    @property
    def is_free_of_conflicts(self) -> bool:
        return self.wavefronts == self.ideal

    def __str__(self) -> str:
        found = "no conflict" if self.is_free_of_conflicts else f"{self.wavefronts - self.ideal} conflicts left"
        memory = "no extra memory" if self.extra_bytes == 0 else f"{self.extra_bytes} bytes more"
        return f"{self.layout!r}: {found} in {self.wavefronts} wavefronts, {memory}"

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "kind": self.kind, "layout": repr(self.layout), "wavefronts": self.wavefronts, "ideal": self.ideal,
            "extra_bytes": self.extra_bytes, "by": self.by,
        }  # fmt: skip


def repairs(dims: Sequence[int], uses: Sequence[TileAccess], element_bytes: int) -> list[Repair]:
    """The best swizzle and the best padding for a tile of these logical sizes, the cheaper of the two first.

    Ordered by wavefronts, then memory. Empty if no candidate is better than the plain tile.
    """
    if len(dims) < 2:
        return []
    whole = max(use.width for use in uses)
    plain = _tried("plain", Row(*dims), uses, element_bytes, 0)
    found = []
    for candidates in (_swizzles(dims, whole), _paddings(dims, whole, element_bytes)):
        best: Repair | None = None
        for kind, layout, extra in candidates:
            tried = _tried(kind, layout, uses, element_bytes, extra * element_bytes)
            if tried is not None and (best is None or tried.wavefronts < best.wavefronts):
                best = tried
            if best is not None and best.is_free_of_conflicts:
                break
        if best is not None and (plain is None or best.wavefronts < plain.wavefronts):
            found.append(best)
    return sorted(found, key=lambda repair: (repair.wavefronts, repair.extra_bytes))


def wavefronts_of(layout: Layout, uses: Sequence[TileAccess], element_bytes: int) -> tuple[int, int]:
    """Wavefronts of all accesses under a layout, and the fewest possible."""
    total = ideal = 0
    for use in uses:
        address = np.asarray(layout.apply(*use.index), np.int64) * element_bytes
        total += int(banks.wavefronts(address, use.width * element_bytes, use.active).sum())
        fewest = banks.ideal_wavefronts(use.width * element_bytes, use.active)
        ideal += int(fewest.sum()) if fewest.ndim else int(fewest) * use.warps
    return total, ideal


def _tried(kind: str, layout: Layout, uses: Sequence[TileAccess], element_bytes: int, extra: int) -> Repair | None:
    """The candidate with its count, or None if it is not proved or splits a vector access."""
    verdict = layout.check()
    if not isinstance(verdict, Proved) or not all(_keeps_vectors_contiguous(layout, use) for use in uses):
        return None
    total, ideal = wavefronts_of(layout, uses, element_bytes)
    warps = sum(use.warps for use in uses)
    return Repair(kind, layout, total, ideal, extra, f"bijection by {verdict.by}; wavefronts by counting {warps} warps")


def _keeps_vectors_contiguous(layout: Layout, use: TileAccess) -> bool:
    """Whether the elements of each vector access are contiguous and aligned to their number."""
    if use.width == 1:
        return True
    if (np.asarray(layout.apply(*use.index)) % use.width != 0).any():
        return False  # the elements of an unaligned vector may exceed the layout
    *outer, last = (i[..., np.newaxis] for i in use.index)
    return is_vector(np.asarray(layout.apply(*outer, last + np.arange(use.width))))


def _swizzles(dims: Sequence[int], whole: int) -> Iterator[tuple[str, Layout, int]]:
    """Exclusive-or swizzles that keep vectors of `whole` elements contiguous; the simplest first."""
    rows, columns = int(np.prod(dims[:-1], dtype=int)), int(dims[-1])
    for vec in _powers(whole, columns // 2):
        if columns % vec:
            continue
        groups = columns // vec
        largest = groups & -groups
        for per_phase in _powers(1, max(1, rows // 2)):
            for phases in reversed(_powers(2, largest)):
                requested = None if phases == largest else phases
                tile = gallery.xor_swizzle(rows, columns, vec, per_phase, requested)
                yield "xor swizzle", tile if len(dims) == 2 else OrderBy(tile).GroupBy(list(dims)), 0


def _paddings(dims: Sequence[int], whole: int, element_bytes: int) -> Iterator[tuple[str, Layout, int]]:
    """Row paddings by multiples of `whole` elements, up to a row of all banks; the smallest first."""
    *outer, columns = dims
    for pad in range(whole, ROW_OF_BANKS // element_bytes + 1, whole):
        yield "padding", Padded(Row(*outer, columns + pad), list(dims)), int(np.prod(outer, dtype=int)) * pad


def _powers(low: int, high: int) -> list[int]:
    """The powers of two from low to high."""
    found = []
    at = 1 << (low - 1).bit_length()
    while at <= high:
        found.append(at)
        at *= 2
    return found


def widest_vector(place: Array, element_bytes: int, limit: int = 16) -> int:
    """The elements that one lane could take at once: those of w consecutive lanes form an aligned contiguous segment.

    `place` is the position of every lane's element, (warps, 32). 1 if no two lanes are contiguous.
    """
    width = 1
    while 2 * width * element_bytes <= limit:
        if not is_vector(place.reshape(place.shape[0], -1, 2 * width)):
            break
        width *= 2
    return width
