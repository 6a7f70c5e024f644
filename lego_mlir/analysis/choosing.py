"""Rank candidate layouts of a tile: fewest wavefronts first, then the cheapest index.

>>> from lego_mlir import Row, gallery
>>> from lego_mlir.analysis.patterns import AccessPattern
>>> uses = [TileAccess.of(AccessPattern("rows", lambda lane, i: (i, lane), {"i": 32})),
...         TileAccess.of(AccessPattern("columns", lambda lane, j: (lane, j), {"j": 32}))]
>>> tiles = {"plain": Row(32, 32), "padded": gallery.padded(32, 32), "swizzled": gallery.xor_swizzle(32, 32)}
>>> for candidate in ranked(tiles, uses, element_bytes=4):
...     print(candidate)
padded: 64 wavefronts, 2 operations an index, 4224 bytes
swizzled: 64 wavefronts, 3 operations an index, 4096 bytes
plain: 1056 wavefronts, 2 operations an index, 4096 bytes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_mlir.analysis.repair import TileAccess, wavefronts_of
from lego_mlir.errors import UsageError
from lego_mlir.expr.cost import operations
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.layout import as_layout

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout


@dataclass(frozen=True, slots=True)
class RankedLayout:
    """A layout and its cost: shared-memory wavefronts of all accesses, operations of one position, bytes."""

    name: str
    layout: Any
    wavefronts: int
    operations: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.name}: {self.wavefronts} wavefronts, {self.operations} operations an index, {self.bytes} bytes"


def ranked(layouts: Mapping[str, Layout], uses: Sequence[TileAccess], element_bytes: int) -> list[RankedLayout]:
    """The layouts of a tile, best first: by wavefronts, then operations, then bytes.

    All must have the logical sizes that the accesses index. Raises UsageError for layouts of different sizes.
    """
    made = {name: as_layout(layout) for name, layout in layouts.items()}
    if len({layout.dims() for layout in made.values()}) > 1:
        sizes = ", ".join(f"{name} {layout.dims()}" for name, layout in made.items())
        raise UsageError(f"layouts of one tile must have the same logical sizes, got {sizes}")
    found = [
        RankedLayout(
            name, layout, wavefronts_of(layout, uses, element_bytes)[0], index_operations(layout),
            int(layout.physical_size()) * element_bytes,
        )
        for name, layout in made.items()
    ]  # fmt: skip
    return sorted(found, key=lambda candidate: (candidate.wavefronts, candidate.operations, candidate.bytes))


def index_operations(layout: Layout) -> int:
    """The operations of the simplified position of a layout of fixed sizes."""
    symbols = [index_symbol(f"i{axis}") for axis in range(len(layout.dims()))]
    ranges = {symbol.expr: Range(0, size) for symbol, size in zip(symbols, layout.dims(), strict=True)}
    return operations(simplify(as_expr(layout.apply(*symbols)), ranges).expr)
