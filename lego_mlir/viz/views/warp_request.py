"""One warp's request: the wavefront that serves each lane, the lanes that collide, the sectors.

The counts are those of `analysis`; the picture shows the worst warp of the pattern, the caption all of them.

>>> import numpy as np
>>> from lego_mlir.viz.views.warp_request import wavefront_of
>>> wavefront_of(np.arange(32) * 4, 4).max(), wavefront_of(np.arange(32) * 64, 4).tolist()[:4]
(np.int64(0), [0, 0, 1, 1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.analysis import layouts as counts
from lego_mlir.analysis.layouts import GlobalAccess, SharedAccess
from lego_mlir.analysis.patterns import AccessPattern, require_inside
from lego_mlir.analysis.repair import TileAccess
from lego_mlir.hardware import banks
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS, SECTOR_BYTES
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel, TablePanel
from lego_mlir.viz.views.element_positions import measured
from lego_mlir.viz.views.subjects import MOST_CELLS, Subject

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout


_FAINT: Final = 0.3  # of the scale: elements that the request does not touch


@dataclass(frozen=True, slots=True)
class WarpRequest:
    """The logical index of each lane, (32,) an axis, `width` elements of `element_bytes` a lane, the active lanes.

    `line` is that of the spec, for a request of a kernel.
    """

    index: tuple[Array, ...]
    width: int
    element_bytes: int
    active: Array
    line: int | None = None

    @classmethod
    def of(cls, use: TileAccess, element_bytes: int, warp: int = 0) -> WarpRequest:
        """The request of one warp of an access."""
        active = np.ones(WARP, bool) if use.active is None else np.asarray(use.active[warp])
        return cls(tuple(i[warp] for i in use.index), use.width, element_bytes, active, use.line)

    @property
    def bytes(self) -> int:
        """Of a lane."""
        return self.width * self.element_bytes

    @property
    def lanes(self) -> list[int]:
        """The active ones."""
        return [int(lane) for lane in np.flatnonzero(self.active)]

    def cells(self, dims: Sequence[int]) -> tuple[Array, Array]:
        """The row and column of each lane in the drawing of a tile: leading dimensions are counted downwards."""
        *outer, column = self.index
        row = np.ravel_multi_index(outer, tuple(dims[:-1])) if outer else np.zeros(WARP, np.int64)
        return np.asarray(row), column

    def address(self, subject: Subject) -> Array:
        """The byte address of each lane."""
        return np.asarray(subject.position(*self.index), np.int64) * self.element_bytes


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request under a layout: byte addresses, wavefronts, and the lanes of the busiest bank if they collide."""

    subject: Subject
    request: WarpRequest
    address: Array
    wavefront: Array
    colliding: frozenset[int]

    @classmethod
    def of(cls, subject: Subject, request: WarpRequest) -> ServedRequest:
        address = request.address(subject)
        collision = banks.worst_collision(address, request.bytes, request.active)
        return cls(
            subject, request, address, wavefront_of(address, request.bytes, request.active),
            frozenset(collision.lanes if collision.ways > 1 else ()),
        )  # fmt: skip

    @property
    def last(self) -> int:
        """The last wavefront: the scale of a picture without others to compare with."""
        return int(self.wavefront[self.request.active].max(initial=0))


def worst_warp(subject: Subject, uses: Sequence[TileAccess], element_bytes: int) -> WarpRequest:
    """The request with the most wavefronts among all warps of some accesses."""
    found: list[tuple[int, WarpRequest]] = []
    for use in uses:
        address = np.asarray(subject.position(*use.index), np.int64) * element_bytes
        cost = banks.wavefronts(address, use.width * element_bytes, use.active)
        found.append((int(cost.max()), WarpRequest.of(use, element_bytes, int(cost.argmax()))))
    return max(found, key=lambda pair: pair[0])[1]


def wavefront_of(address: Array, width: int, active: Array | None = None) -> Array:
    """The wavefront of each lane of a request, (32,) byte addresses: that of the last word that it waits for.

    Within a pass the distinct words of a bank are served one a wavefront, in the order of the lanes. 0 for lanes that
    are not active.
    """
    found = np.zeros(WARP, np.int64)
    per_lane, together = max(1, width // BANK_BYTES), banks.lanes_per_pass(width)
    first = 0
    for number, words in enumerate(banks.words(address, width, active)):
        served: dict[int, dict[int, int]] = {}
        for at, word in enumerate(words.tolist()):
            if word < 0:
                continue
            in_bank = served.setdefault(word % BANKS, {})
            wavefront = in_bank.setdefault(word, len(in_bank))
            lane = number * together + at // per_lane
            found[lane] = max(found[lane], first + wavefront)
        first += max((len(in_bank) for in_bank in served.values()), default=0)
    return found


def lanes_of_words(address: Array, active: Array, width: int) -> dict[int, list[int]]:
    """The active lanes that access each 4-byte word with `width` bytes a lane."""
    found: dict[int, list[int]] = {}
    for lane in np.flatnonzero(active).tolist():
        for word in range(int(address[lane]) // BANK_BYTES, (int(address[lane]) + width - 1) // BANK_BYTES + 1):
            found.setdefault(word, []).append(lane)
    return found


def request(
    layout: Layout, subject: Subject, pattern: AccessPattern, element_bytes: int, width: int
) -> list[GridPanel]:
    """The tile with the lanes of the worst warp in it, and the banks with the same lanes."""
    asked = request_of(subject, pattern, element_bytes, width)
    served = ServedRequest.of(subject, asked)
    return [in_tile(served, served.last, counted(layout, pattern, asked)), in_banks(served, served.last)]


def request_of(subject: Subject, pattern: AccessPattern, element_bytes: int, width: int) -> WarpRequest:
    """The worst warp of a pattern. Raises UsageError for a pattern outside the layout."""
    require_inside(pattern, subject.name, subject.dims, width)
    return worst_warp(subject, [TileAccess.of(pattern, width)], element_bytes)


def counted(layout: Layout, pattern: AccessPattern, asked: WarpRequest) -> tuple[str, ...]:
    """The caption of an access: what is drawn, and the counts of `analyze` for all warps."""
    found = counts.shared(layout, pattern, asked.element_bytes, asked.width)
    warps = f"{found.warps} warp{'s' if found.warps != 1 else ''}"
    return (
        f"lanes of access {pattern.name}; light wavefronts come first",
        f"{wavefronts(found.wavefronts)} for {warps}, {found.ideal} at best; {found.ways}-way ({found.by})",
    )


def wavefronts(count: int) -> str:
    """A number of wavefronts in words."""
    return f"{count} wavefront{'s' if count != 1 else ''}"


def counts_table(found: SharedAccess | GlobalAccess) -> TablePanel:
    """What `analysis` counted for an access of a layout, without its drawing."""
    values = found.to_dict()
    return TablePanel.of(f"access {values.pop('pattern')}", ("count", "value"), list(values.items()))


def in_tile(served: ServedRequest, most: int, caption: tuple[str, ...]) -> GridPanel:
    """The logical tile: cells of the request carry their lane, coloured by wavefront on a scale that ends at `most`.

    Of a tile of more than 64 rows or columns, the part that holds the request's first lane.
    """
    subject, asked = served.subject, served.request
    row, column = asked.cells(subject.dims)
    holders: dict[tuple[int, int], list[int]] = {}
    for lane in asked.lanes:
        for step in range(asked.width):
            holders.setdefault((int(row[lane]), int(column[lane]) + step), []).append(lane)
    rows, columns = (
        _window([at[axis] for at in holders], extent) for axis, extent in enumerate(subject.grid)
    )  # fmt: skip
    bank = measured(subject.at(*np.meshgrid(rows, columns, indexing="ij")), "bank", asked.element_bytes)
    cells = tuple(
        tuple(
            _cell(holders[r, c], served, most, is_placed=True)
            if (r, c) in holders
            else GridCell("", palettes.BLUES.at(int(bank[i, j]) / BANKS * _FAINT), f"bank {int(bank[i, j])}")
            for j, c in enumerate(columns)
        )
        for i, r in enumerate(rows)
    )
    notes = ["other elements are shaded by their bank"]
    if (len(rows), len(columns)) != subject.grid:
        notes.append(f"{len(rows)} x {len(columns)} of {subject.grid[0]} x {subject.grid[1]} elements")
    return GridPanel(
        subject.name, cells, (*caption, *notes),
        row_labels=tuple(map(str, rows)), column_labels=tuple(map(str, columns)),
    )  # fmt: skip


def _window(places: Sequence[int], extent: int) -> range:
    """The rows or columns to draw: all that fit, or those from the first lane on."""
    first = min(places, default=0) if max(places, default=0) >= MOST_CELLS else 0
    first = max(0, min(first, extent - MOST_CELLS))
    return range(first, min(extent, first + MOST_CELLS))


def in_banks(served: ServedRequest, most: int) -> GridPanel:
    """Memory, a row for each 128 bytes that the request touches and a column for each bank."""
    width = served.request.bytes
    holders = {
        divmod(w, BANKS): lanes for w, lanes in lanes_of_words(served.address, served.request.active, width).items()
    }
    lines = sorted({line for line, _ in holders})
    cells = tuple(tuple(_cell(holders.get((line, bank), []), served, most) for bank in range(BANKS)) for line in lines)
    begins = served.address[served.request.active]
    sectors = len({int(a + b) // SECTOR_BYTES for a in begins for b in (0, width - 1)})
    return GridPanel(
        f"banks under {served.subject.name}", cells,
        (f"columns are banks, rows lines of 128 bytes; the request touches {sectors} sectors of 32 bytes",),
        row_labels=tuple(str(line * BANKS * BANK_BYTES) for line in lines),
    )  # fmt: skip


def _cell(lanes: list[int], served: ServedRequest, most: int, is_placed: bool = False) -> GridCell:
    if not lanes:
        return GridCell("")
    latest = max(lanes, key=lambda lane: int(served.wavefront[lane]))
    label = str(lanes[0]) if len(lanes) == 1 else f"{lanes[0]}+"
    where = f", position {int(served.address[latest]) // served.request.element_bytes}" if is_placed else ""
    wavefront = int(served.wavefront[latest])
    title = f"lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}: wavefront {wavefront}{where}"
    return GridCell(label, palettes.HEAT.at(wavefront / max(1, most)), title, not served.colliding.isdisjoint(lanes))
