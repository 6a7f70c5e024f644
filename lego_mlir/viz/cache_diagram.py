"""The spatial-temporal diagram of an order: lines downwards, tasks to the right, coloured by the level of the cache.

A pale cell is a line that a cache holds, a strong cell one that the task reads: from a cache, or from the memory. There
are too many cells for a grid with labels: each contiguous segment of cells along the time is one rectangle.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir import store
from lego_mlir.errors import UsageError
from lego_mlir.viz.png import png
from lego_mlir.viz.svg import drawing_library

if TYPE_CHECKING:
    from lego_mlir.caches.space_time import SpaceTime

    Array = np.ndarray[Any, Any]

HELD: Final = ("#c6dbef", "#e3d7ef", "#d9ead3")
READ: Final = ("#2171b5", "#8856a7", "#4a8f3c")
MEMORY: Final = "#cb181d"
CELL: Final = 3
LEFT, TOP, RIGHT, BELOW = 34, 30, 10, 58
FONT: Final = "sans-serif"
SUFFIXES: Final = (".svg", ".png")


class CacheDiagram:
    """A drawing of rectangles and texts, in pixels, on white."""

    def __init__(self, width: float, height: float) -> None:
        self._library = drawing_library()
        self._drawing = self._library.Drawing(width, height)
        self.rectangle(0, 0, width, height, "#ffffff")

    def rectangle(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A filled rectangle; (x, y) is its upper left corner."""
        self._drawing.append(self._library.Rectangle(x, y, width, height, fill=fill))

    def text(
        self, text: str, x: float, y: float, size: float = 12, *, anchor: str = "start", turned: bool = False
    ) -> None:
        """A text whose baseline begins (`anchor` "start") or is centred ("middle") at (x, y)."""
        turn = {"transform": f"rotate(-90 {x} {y})"} if turned else {}
        self._drawing.append(
            self._library.Text(text, size, x, y, fill="#222222", font_family=FONT, text_anchor=anchor, **turn)
        )

    def svg(self) -> str:
        """The picture as SVG text."""
        return str(self._drawing.as_svg(randomize_ids=False))

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG, `scale` pixels for each pixel of the SVG."""
        return png(self.svg(), scale)

    def save(self, path: Path) -> None:
        """Write the picture. Raises UsageError unless the suffix is .svg or .png."""
        require_suffix(path)
        store.replace_file(path, self.png() if path.suffix == ".png" else self.svg().encode())


def require_suffix(path: Path) -> None:
    """Raise UsageError unless a diagram can be written to a file of this name."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a diagram is written as {' or '.join(SUFFIXES)}, got {path.suffix!r}")


def draw(found: SpaceTime, title: str = "") -> CacheDiagram:
    """Draw a diagram with its legend and counts."""
    tasks, lines = found.served.shape
    width, height = LEFT + tasks * CELL + RIGHT, TOP + lines * CELL + BELOW
    legend = LEFT + sum(_advance(text) for _, text in _entries(found))
    picture = CacheDiagram(max(width, legend), height)
    picture.rectangle(LEFT, TOP, tasks * CELL, lines * CELL, "#f7f7f7")
    for colour, cells in _layers(found):
        for line, begin, end in _runs(cells):
            picture.rectangle(LEFT + begin * CELL, TOP + line * CELL, (end - begin) * CELL, CELL, colour)
    picture.text(title or found.title, LEFT, TOP - 10, 13)
    picture.text("line of the memory", LEFT - 12, TOP + lines * CELL / 2, 11, anchor="middle", turned=True)
    picture.text("task in order", LEFT + tasks * CELL / 2, TOP + lines * CELL + 16, 11, anchor="middle")
    _legend(picture, found, TOP + lines * CELL + 28)
    return picture


def _layers(found: SpaceTime) -> list[tuple[str, Array]]:
    levels = range(len(found.levels))
    held = [(HELD[k % len(HELD)], (found.held == k) & (found.served < 0)) for k in levels]
    read = [(READ[k % len(READ)], found.served == k) for k in levels]
    return [*held, *read, (MEMORY, found.served == len(found.levels))]


def _runs(cells: Array) -> list[tuple[int, int, int]]:
    """(line, first task, end) of each contiguous segment of marked tasks."""
    padded = np.zeros((cells.shape[1], cells.shape[0] + 2), np.int8)
    padded[:, 1:-1] = cells.T
    change = np.diff(padded, axis=1)
    lines, begins = np.nonzero(change == 1)
    _, ends = np.nonzero(change == -1)
    return [(int(line), int(b), int(e)) for line, b, e in zip(lines, begins, ends, strict=True)]


def _entries(found: SpaceTime) -> list[tuple[str, str]]:
    """The colours of the legend and their texts."""
    read = [(READ[k % len(READ)], f"read from {name}") for k, name in enumerate(found.levels)]
    held = [(HELD[k % len(HELD)], f"held by {name}") for k, name in enumerate(found.levels)]
    return [*read, (MEMORY, "fetched from memory"), *held]


def _advance(text: str) -> float:
    """The pixels that an entry of the legend takes."""
    return 24 + 6.2 * len(text)


def _legend(picture: CacheDiagram, found: SpaceTime, y: float) -> None:
    x = float(LEFT)
    for colour, text in _entries(found):
        picture.rectangle(x, y, 9, 9, colour)
        picture.text(text, x + 13, y + 9, 11)
        x += _advance(text)
    counts = ", ".join(f"{name}: {n} lines fetched" for name, n in zip(found.levels, found.fetched, strict=True))
    picture.text(f"{counts}; compulsory: {found.compulsory}", LEFT, y + 25, 11)
