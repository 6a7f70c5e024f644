"""One warp's request: the wavefront that serves each lane, the lanes that collide, the sectors.

The counts are those of `analysis`; the picture shows the first warp of the pattern, the caption all of them.

>>> import numpy as np
>>> from lego_mlir.viz.views.warp_request import wavefront_of
>>> wavefront_of(np.arange(32) * 4, 4).max(), wavefront_of(np.arange(32) * 64, 4).tolist()[:4]
(np.int64(0), [0, 0, 1, 1])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.analysis import layouts as counts
from lego_mlir.analysis.patterns import AccessPattern, positions, require_inside, values_of
from lego_mlir.hardware import banks
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS, SECTOR_BYTES
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel
from lego_mlir.viz.views.element_positions import measured
from lego_mlir.viz.views.subjects import MOST_CELLS, Subject

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout


_FAINT = 0.3  # of the scale: elements that the request does not touch


def wavefront_of(address: Array, width: int) -> Array:
    """The wavefront of each lane of a request, (32,) byte addresses: that of the last word that it waits for.

    Within a pass the distinct words of a bank are served one a wavefront, in the order of the lanes.
    """
    found = np.zeros(WARP, np.int64)
    per_lane, together = max(1, width // BANK_BYTES), banks.lanes_per_pass(width)
    first = 0
    for number, words in enumerate(banks.words(address, width)):
        served: dict[int, dict[int, int]] = {}
        for at, word in enumerate(words.tolist()):
            in_bank = served.setdefault(word % BANKS, {})
            wavefront = in_bank.setdefault(word, len(in_bank))
            lane = number * together + at // per_lane
            found[lane] = max(found[lane], first + wavefront)
        first += max(len(in_bank) for in_bank in served.values())
    return found


def request(
    layout: Layout, subject: Subject, pattern: AccessPattern, element_bytes: int, width: int
) -> list[GridPanel]:
    """The tile with the lanes of the first warp in it, and the banks with the same lanes."""
    require_inside(pattern, subject.name, subject.dims, width)
    place = positions(layout, pattern)[0]
    wavefront = wavefront_of(place * element_bytes, width * element_bytes)
    counted = counts.shared(layout, pattern, element_bytes, width)
    colliding = set(counted.lanes)
    most = max(1, int(wavefront.max()))
    caption = (
        f"access {pattern.name}: number of a lane, coloured by its wavefront; light is first",
        f"{counted.wavefronts} wavefronts for {counted.warps} warp{'s' if counted.warps != 1 else ''}, "
        f"{counted.ideal} at best; {counted.ways}-way ({counted.by})",
    )
    colours = [palettes.HEAT.at(w / most) for w in wavefront]
    return [
        _in_tile(subject, pattern, place, wavefront, colours, colliding, (element_bytes, width), caption),
        _in_banks(subject, place * element_bytes, width * element_bytes, wavefront, colours, colliding),
    ]


def _in_tile(
    subject: Subject, pattern: AccessPattern, place: Array, wavefront: Array, colours: list[str],
    colliding: set[int], access: tuple[int, int], caption: tuple[str, ...],
) -> GridPanel:  # fmt: skip
    """The logical tile: cells of the request carry their lane. `access` is the bytes of an element, and the width."""
    element_bytes, width = access
    rows, columns = (min(n, MOST_CELLS) for n in subject.grid)
    free, _ = values_of(pattern)
    lane = np.arange(WARP, dtype=np.int64)
    index = [np.asarray(i) for i in pattern.index(lane=lane, **{name: v[0, 0] for name, v in free.items()})]
    flat = [np.broadcast_to(i, (WARP,)) for i in index]
    row = np.ravel_multi_index(flat[:-1], subject.dims[:-1]) if len(flat) > 1 else np.zeros(WARP, np.int64)
    holders: dict[tuple[int, int], list[int]] = {}
    for number in range(WARP):
        for step in range(width):
            holders.setdefault((int(row[number]), int(flat[-1][number]) + step), []).append(number)
    bank = measured(subject.at(*np.indices((rows, columns))), "bank", element_bytes)
    cells = tuple(
        tuple(
            _cell(holders[r, c], wavefront, colours, colliding, place)
            if (r, c) in holders
            else GridCell("", palettes.BLUES.at(int(bank[r, c]) / BANKS * _FAINT), f"bank {int(bank[r, c])}")
            for c in range(columns)
        )
        for r in range(rows)
    )
    return GridPanel(subject.name, cells, (*caption, "other elements are shaded by their bank"))


def _in_banks(
    subject: Subject, address: Array, width: int, wavefront: Array, colours: list[str], colliding: set[int]
) -> GridPanel:
    """Memory, a row for each 128 bytes that the request touches and a column for each bank."""
    holders: dict[tuple[int, int], list[int]] = {}
    for number in range(WARP):
        for word in range(int(address[number]) // BANK_BYTES, (int(address[number]) + width - 1) // BANK_BYTES + 1):
            holders.setdefault((word // BANKS, word % BANKS), []).append(number)
    lines = sorted({line for line, _ in holders})
    cells = tuple(
        tuple(_cell(holders.get((line, bank), []), wavefront, colours, colliding, None) for bank in range(BANKS))
        for line in lines
    )
    sectors = len({int(a + b) // SECTOR_BYTES for a in address for b in (0, width - 1)})
    return GridPanel(
        f"banks under {subject.name}", cells,
        (f"columns are banks, rows lines of 128 bytes; the request touches {sectors} sectors of 32 bytes",),
        row_labels=tuple(str(line * BANKS * BANK_BYTES) for line in lines),
    )  # fmt: skip


def _cell(lanes: list[int], wavefront: Array, colours: list[str], colliding: set[int], place: Array | None) -> GridCell:
    if not lanes:
        return GridCell("")
    latest = max(lanes, key=lambda lane: int(wavefront[lane]))
    label = str(lanes[0]) if len(lanes) == 1 else f"{lanes[0]}+"
    where = "" if place is None else f", position {int(place[latest])}"
    title = (
        f"lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}: wavefront {int(wavefront[latest])}{where}"
    )
    return GridCell(label, colours[latest], title, not colliding.isdisjoint(lanes))
