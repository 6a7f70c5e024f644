"""The requests of a kernel's lines, as the interpreter recorded them: banks of a shared tile, sectors of a tensor.

Each caption ends with what the request costs: the bank that serves most words, or the bytes fetched and not used.

A `LineRecorder` is passed as `observe` to a run. It keeps the most expensive request of each line and buffer: most
wavefronts in shared memory, most sectors in global memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.hardware import banks
from lego_mlir.hardware import sectors as coalescing
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS, SECTOR_BYTES
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel
from lego_mlir.viz.views.warp_request import lanes_of_words, wavefront_of, wavefronts

if TYPE_CHECKING:
    from lego_mlir.interp.report import Site

MOST_ROWS: Final = 64


class LineRecorder:
    """Keeps the worst request of each buffer that a source line accesses; of all lines if none is named."""

    def __init__(self, line: int | None = None) -> None:
        self.line = line
        self.worst: dict[tuple[str, int, str, str, str], tuple[int, Array, Array, int]] = {}

    def __call__(self, site: Site, address: Array, active: Array | None, width: int) -> None:
        """Compare the requests of some blocks with the worst so far: byte addresses shaped `(blocks, warps, 32)`."""
        if self.line is not None and site.place.line != self.line:
            return
        rows = address.reshape(-1, WARP)
        taking = (
            np.ones(rows.shape, bool) if active is None else np.broadcast_to(active, address.shape).reshape(-1, WARP)
        )
        if site.space == "shared":
            cost = banks.wavefronts(rows, width, taking)
        else:
            cost = coalescing.requests(rows, width, taking, look_for_wider=False).sectors
        at = int(np.argmax(cost))
        key = (site.place.file, site.place.line, site.space, site.kind, site.buffer)
        if key not in self.worst or int(cost[at]) > self.worst[key][0]:
            self.worst[key] = int(cost[at]), rows[at].copy(), taking[at].copy(), width

    def by_line(self) -> dict[tuple[str, int], list[GridPanel]]:
        """The grids of each file and line: one for each buffer and direction, in the order of the accesses."""
        drawn: dict[tuple[str, int], list[GridPanel]] = {}
        for (file, line, space, kind, buffer), found in self.worst.items():
            draw = _banks if space == "shared" else _sectors
            drawn.setdefault((file, line), []).append(draw(f"{kind} of {buffer}, line {line}", *found))
        return drawn

    def grids(self) -> list[GridPanel]:
        """The grids of all recorded lines."""
        return [grid for grids in self.by_line().values() for grid in grids]


def _banks(title: str, cost: int, address: Array, taking: Array, width: int) -> GridPanel:
    holders = lanes_of_words(address, taking, width)
    collision = banks.worst_collision(address, width, taking)
    colliding = set(collision.lanes) if collision.ways > 1 else set()
    wavefront = wavefront_of(address, width, taking)
    ideal = int(banks.ideal_wavefronts(width, taking))
    served = np.bincount([word % BANKS for word in holders], minlength=BANKS)
    idle, number, most = int(np.sum(served == 0)), len(holders), served.max()
    return _grid(
        title, holders, BANKS, wavefront, colliding, GridCell(""),
        f"{wavefronts(cost)}, {ideal} at best, {collision.ways}-way; columns are banks, light wavefronts come first",
        f"bank {served.argmax()} serves {most} of {number} words, one by one; {idle} of {BANKS} banks serve none"
        if idle
        else f"all {BANKS} banks serve, each at most {most} of {number} words",
    )  # fmt: skip


def _sectors(title: str, cost: int, address: Array, taking: Array, width: int) -> GridPanel:
    holders = lanes_of_words(address, taking, width)
    ideal = int(coalescing.requests(address, width, taking, look_for_wider=False).ideal)
    sector = address // SECTOR_BYTES
    rank = {s: i for i, s in enumerate(sorted(set(sector[taking].tolist())))}
    order = np.array([rank.get(s, 0) for s in sector.tolist()])
    used, fetched = used_bytes(address, taking, width), cost * SECTOR_BYTES
    unused = GridCell("", palettes.BLUES.at(0.3), "fetched with its sector, and used by no lane", mark=".")
    return _grid(
        title, holders, SECTOR_BYTES // BANK_BYTES, order, set(), unused,
        f"{cost} sectors of {SECTOR_BYTES} bytes, {ideal} at best; a row is a sector, a column a word of 4 bytes",
        f"{used} of {fetched} bytes that this request fetches are used: {used / fetched:.0%}"
        + ("; blue, .: the others" if used < fetched else ""),
    )  # fmt: skip


def used_bytes(address: Array, taking: Array, width: int) -> int:
    """How many bytes the active lanes of some requests access, each counted once.

    >>> used_bytes(np.array([0, 4, 4, 64]), np.array([True, True, True, False]), 4)
    8
    """
    return int(np.unique(address[taking].reshape(-1, 1) + np.arange(width)).size)


def _grid(
    title: str,
    holders: dict[int, list[int]],
    across: int,
    order: Array,
    colliding: set[int],
    empty: GridCell,
    counts: str,
    conclusion: str,
) -> GridPanel:
    """Words in rows of `across`; `empty` is a word that no lane accesses."""
    rows = sorted({word // across for word in holders})
    most = max(1, int(order.max()))
    cells = []
    for row in rows[:MOST_ROWS]:
        line = []
        for column in range(across):
            lanes = holders.get(row * across + column, [])
            if not lanes:
                line.append(empty)
                continue
            label = str(lanes[0]) if len(lanes) == 1 else f"{lanes[0]}+"
            colour = palettes.HEAT.at(int(order[lanes[0]]) / most)
            line.append(GridCell(label, colour, f"lanes {', '.join(map(str, lanes))}", not colliding.isdisjoint(lanes)))
        cells.append(tuple(line))
    step = across * BANK_BYTES
    caption = (f"number of a lane, beside the byte of its row; {counts}", conclusion)
    return GridPanel(title, tuple(cells), caption, row_labels=tuple(str(row * step) for row in rows))
