"""Positions of elements: bank, sector, or place in an order, with the borders of the tiles.

A tile is a block of the grid whose elements are contiguous in memory; the borders of nested tiles are found from the
positions, so they are right for a layout of any algebra.

>>> import numpy as np
>>> tiles(np.array([[0, 1, 4, 5], [2, 3, 6, 7]]))
[(2, 2)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.memory import BANK_BYTES, BANKS, SECTOR_BYTES
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel, Place
from lego_mlir.viz.views.subjects import Subject

By = Literal["position", "order", "bank", "sector"]
_ALONE: Final = {"position": "position", "order": "place", "bank": "bank", "sector": "sector"}


def grid(subject: Subject, by: By, element_bytes: int) -> GridPanel:
    """The layout as a grid, labelled and coloured by one property of the positions."""
    place, block = subject.sample()
    value = measured(place, by, element_bytes)
    colours, top = (palettes.BANKS_CYCLE, BANKS) if by == "bank" else (palettes.BLUES, int(value.max()) or 1)
    whole = block == (1, 1)
    cells = tuple(
        tuple(
            GridCell(
                str(value[r, c]),
                colours.at(value[r, c] / top),
                _title(subject, (r * block[0], c * block[1]), int(place[r, c]), element_bytes),
            )
            for c in range(place.shape[1])
        )
        for r in range(place.shape[0])
    )
    path = _path(place) if by == "order" and whole else ()
    borders = tuple(tiles(place)) if whole else ()
    return GridPanel(
        subject.name, cells, tuple(_caption(by, element_bytes, block, place)), borders, path,
        row_labels=tuple(str(r * block[0]) for r in range(place.shape[0])),
        column_labels=tuple(str(c * block[1]) for c in range(place.shape[1])),
    )  # fmt: skip


def measured(place: Array, by: By, element_bytes: int) -> Array:
    """The property of positions that a drawing shows."""
    if by == "bank":
        return place * element_bytes // BANK_BYTES % BANKS
    if by == "sector":
        return place * element_bytes // SECTOR_BYTES
    return place


def tiles(place: Array) -> list[tuple[int, int]]:
    """The shapes of nested tiles, the smallest first: at least two rows and columns, and not the whole grid.

    Bands of whole rows are tiles only if their rows are not contiguous by themselves, and bands of columns likewise.
    """
    rows, columns = place.shape
    lines = {(rows, 1): _contiguous(place, rows, 1), (1, columns): _contiguous(place, 1, columns)}
    shapes = [(r, c) for r in _divisors(rows) for c in _divisors(columns) if (r, c) != (rows, columns)]
    found: list[tuple[int, int]] = []
    for tall, wide in sorted(shapes, key=lambda shape: shape[0] * shape[1]):
        inner = found[-1] if found else (1, 1)
        band = not found and ((tall == rows and lines[rows, 1]) or (wide == columns and lines[1, columns]))
        if band or tall % inner[0] or wide % inner[1] or not _contiguous(place, tall, wide):
            continue
        found.append((tall, wide))
    return found


def _divisors(n: int) -> list[int]:
    return [d for d in range(2, n + 1) if n % d == 0]


def _contiguous(place: Array, tall: int, wide: int) -> bool:
    """Whether every block of this shape holds consecutive positions, in any order."""
    rows, columns = place.shape
    blocks = place.reshape(rows // tall, tall, columns // wide, wide).swapaxes(1, 2).reshape(-1, tall * wide)
    low = blocks.min(axis=1)
    inside = bool((blocks.max(axis=1) - low == tall * wide - 1).all())
    return inside and len(np.unique(low)) == len(low)


def _path(place: Array) -> tuple[Place, ...]:
    """The cells in the order of their positions."""
    order = np.argsort(place, axis=None, kind="stable")
    return tuple((int(n) // place.shape[1], int(n) % place.shape[1]) for n in order)


def _title(subject: Subject, at: Place, position: int, element_bytes: int) -> str:
    index = ", ".join(map(str, subject.index(*at)))
    byte = position * element_bytes
    return (
        f"[{index}]: position {position}, byte {byte}, bank {byte // BANK_BYTES % BANKS}, sector {byte // SECTOR_BYTES}"
    )


def _caption(by: By, element_bytes: int, block: tuple[int, int], place: Array) -> Iterator[str]:
    if by in ("bank", "sector"):
        yield f"{_ALONE[by]} of each element of {element_bytes} bytes"
    else:
        yield f"{_ALONE[by]} of each element in memory"
    if block != (1, 1):
        yield f"each cell is the first element of a block of {block[0]} x {block[1]}"
    elif by == "order":
        yield "the line follows memory from the dot to the square"
