"""Panels: the parts of a picture, independent of how it is drawn: grids of cells, and tables.

A grid has a label and a colour for each cell, borders of the tiles of each level, a path through the cells in the order
of memory, and arrows. The drawings (`svg`, `characters`) decide sizes and characters only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lego_mlir.errors import UsageError
from lego_mlir.viz import palettes

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GridCell:
    """A label on a colour; `title` is shown when the pointer is over it, `is_framed` marks a collision.

    `mark` replaces the colour of a cell without a label where a picture is text.
    """

    label: str
    colour: str = palettes.EMPTY
    title: str = ""
    is_framed: bool = False
    mark: str = ""

    @property
    def text(self) -> str:
        """What is written in characters."""
        return self.label or self.mark


@dataclass(frozen=True, slots=True)
class GridPanel:
    """Rows of cells of equal length. `borders` are tile shapes in cells, the smallest first."""

    title: str
    cells: tuple[tuple[GridCell, ...], ...]
    caption: tuple[str, ...] = ()
    borders: tuple[tuple[int, int], ...] = ()
    path: tuple[Place, ...] = ()
    arrows: tuple[tuple[Place, Place], ...] = ()
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.cells}
        if not self.cells or len(lengths) != 1 or 0 in lengths:
            raise UsageError(f"{self.title}: a grid needs rows of equal length with at least one cell each")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.cells), len(self.cells[0])

    def row_label(self, row: int) -> str:
        return self.row_labels[row] if self.row_labels else str(row)

    def column_label(self, column: int) -> str:
        return self.column_labels[column] if self.column_labels else str(column)


@dataclass(frozen=True, slots=True)
class TablePanel:
    """Rows of text under a header; `colours` gives a background to single cells, by row and column."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: tuple[str, ...] = ()
    colours: dict[Place, str] = field(default_factory=dict)

    @classmethod
    def of(cls, title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *caption: str) -> TablePanel:
        """A table of anything that `str` can write."""
        return cls(title, tuple(header), tuple(tuple(map(str, row)) for row in rows), caption)


Panel = GridPanel | TablePanel
