"""Bank conflicts and sectors of a layout under an access pattern, without a kernel, with the method that found them.

Three exact methods, cheapest first, and an inexact one:

- *closed form*: lane l touches word p + s l, so the busiest bank of a pass of 32 words has gcd(s, 32) words;
- *enumeration* of every warp that the pattern's free variables allow, if they are few enough;
- *proof* that the free variables only shift the lanes' positions, P(lane, free) = P(lane, 0) + P(0, free) - P(0, 0):
  banks and sectors depend on that shift modulo a word or a sector, so a few shifts represent all warps;
- a sample of warps, reported as such.

>>> from lego_mlir import Row, gallery
>>> column = AccessPattern("a column", lambda lane, j: (lane, j), {"j": 32})
>>> shared(Row(32, 32), column, 4).ways, shared(gallery.xor_swizzle(32, 32), column, 4).ways
(32, 1)
>>> shared(Row(32, 32), column, 4).by
'closed form: lanes 32 words apart, gcd(32, 32) = 32'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.analysis.patterns import MAX_WARPS, AccessPattern, positions
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.nodes import Eq
from lego_mlir.expr.ranges import Range
from lego_mlir.hardware import banks
from lego_mlir.hardware import sectors as coalescing
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS, SECTOR_BYTES
from lego_mlir.layout.contiguity import stride

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout

PROOF_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """Bank conflicts of a pattern: the worst warp's busiest pass, totals over the warps, and the method `by`."""

    pattern: str
    ways: int
    wavefronts: int
    ideal: int
    warps: int
    lanes: tuple[int, ...]
    bank: int | None
    by: str

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal

    @property
    def sure(self) -> bool:
        return not self.by.startswith("sample")

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "pattern": self.pattern, "memory": "shared", "ways": self.ways, "wavefronts": self.wavefronts,
            "ideal": self.ideal, "warps": self.warps, "lanes": list(self.lanes), "bank": self.bank, "by": self.by,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """Sectors of a pattern, the fewest possible, the widest access that alignment allows, and the method `by`."""

    pattern: str
    sectors: int
    ideal: int
    warps: int
    width: int
    widest: int
    by: str

    @property
    def coalescing(self) -> float:
        return self.ideal / self.sectors

    @property
    def sure(self) -> bool:
        return not self.by.startswith("sample")

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "pattern": self.pattern, "memory": "global", "sectors": self.sectors, "ideal": self.ideal,
            "warps": self.warps, "width": self.width, "widest": self.widest, "coalescing": self.coalescing,
            "by": self.by,
        }  # fmt: skip


def shared(layout: Layout, pattern: AccessPattern, element_bytes: int, width: int = 1) -> SharedAccess:
    """The bank conflicts if each lane accesses `width` elements of a shared tile, starting at its index."""
    place, by = _places(layout, pattern, element_bytes, max(BANK_BYTES, width * element_bytes))
    address = place * element_bytes
    bytes_ = width * element_bytes
    per_pass = banks.wavefronts_per_pass(address, bytes_)
    row = int(per_pass.max(axis=-1).argmax())
    collision = banks.worst_collision(address[row], bytes_)
    words = _words_apart(place, element_bytes)
    if words is not None and width == 1 and element_bytes == BANK_BYTES and not by.startswith("sample"):
        apart = "1 word" if words == 1 else f"{words} words"
        by = f"closed form: lanes {apart} apart, gcd({words}, {BANKS}) = {math.gcd(words, BANKS)}"
    return SharedAccess(
        pattern.name, int(per_pass.max()), int(per_pass.sum()), int(banks.ideal_wavefronts(bytes_)) * len(address),
        len(address), collision.lanes if collision.ways > 1 else (), collision.bank if collision.ways > 1 else None, by,
    )  # fmt: skip


def through_cache(layout: Layout, pattern: AccessPattern, element_bytes: int, width: int = 1) -> GlobalAccess:
    """The sectors if each lane accesses `width` elements of a global array, starting at its index."""
    place, by = _places(layout, pattern, element_bytes, SECTOR_BYTES)
    bytes_ = width * element_bytes
    found = coalescing.requests(place * element_bytes, bytes_)
    return GlobalAccess(
        pattern.name, int(found.sectors.sum()), int(found.ideal.sum()), len(place), bytes_, found.widest, by
    )


def _words_apart(place: Array, element_bytes: int) -> int | None:
    """The stride in words between consecutive lanes, if it is the same for all lanes and warps."""
    step = stride(place * element_bytes)
    return step // BANK_BYTES if step is not None and step > 0 and step % BANK_BYTES == 0 else None


def _places(layout: Layout, pattern: AccessPattern, element_bytes: int, unit: int) -> tuple[Array, str]:
    """Positions of representative warps, and the method; a shift of all lanes by `unit` bytes has no effect."""
    if pattern.warps <= MAX_WARPS:
        what = "the one warp" if pattern.warps == 1 else f"all {pattern.warps} warps"
        return positions(layout, pattern), f"enumeration of {what}"
    shift = _shift(layout, pattern)
    if shift is None:
        return positions(layout, pattern), f"sample of {MAX_WARPS} of {pattern.warps} warps"
    divides = math.gcd(shift * element_bytes, unit)
    alone = AccessPattern(pattern.name, lambda lane: pattern.index(lane=lane, **dict.fromkeys(pattern.free, 0)))
    shifts = np.arange(0, unit, max(divides, element_bytes)).reshape(-1, 1) // element_bytes
    few = "1 warp represents" if len(shifts) == 1 else f"{len(shifts)} shifts of a warp represent"
    return positions(layout, alone) + shifts, f"proof: {few} all {pattern.warps}, which differ by a shift"


def _shift(layout: Layout, pattern: AccessPattern) -> int | None:
    """A divisor of the shift that the free variables add to all lanes' positions, if proved; None otherwise."""
    from lego_mlir.expr.intervals import bounds
    from lego_mlir.expr.prove import prove
    from lego_mlir.expr.simplify import simplify

    lane, free = index_symbol("lane"), {name: index_symbol(name) for name in pattern.free}
    ranges = {as_expr(lane): Range(0, WARP), **{as_expr(free[n]): Range(0, size) for n, size in pattern.free.items()}}
    zero = Index(0)
    zeros = dict.fromkeys(pattern.free, zero)

    def position(lane: IndexLike, free: dict[str, IndexLike]) -> Expr:
        return simplify(as_expr(layout.apply(*pattern.index(lane=lane, **free))), ranges).expr

    added = position(zero, free) - position(zero, zeros)
    if not prove(Eq(position(lane, free), position(lane, zeros) + added), ranges, timeout_ms=PROOF_MS):
        return None
    return int(bounds(added, ranges).multiple_of)
