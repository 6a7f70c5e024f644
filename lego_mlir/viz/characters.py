"""Panels as text: plain characters, or colours by rich for terminals of 16, 256 or 2^24 colours.

Without colours a framed cell is written in brackets. A grid wider than the terminal is printed in bands of columns.

>>> from lego_mlir.viz.panels import GridCell, GridPanel
>>> cells = tuple(tuple(GridCell(str(4 * r + c), is_framed=r == c) for c in range(4)) for r in range(2))
>>> print(text([GridPanel("Row(2, 4)", cells, ("positions",), borders=((1, 2),))], colours=None, width=80))
Row(2, 4)
    0   1 | 2   3
0  [0]  1 | 2   3
1   4  [5]| 6   7
positions
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final, Literal

from lego_mlir.errors import UsageError
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel, Panel, TablePanel

Colours = Literal["16", "256", "truecolor"] | None
_SYSTEMS: Final = {"16": "standard", "256": "256", "truecolor": "truecolor"}


def text(panels: Sequence[Panel], *, colours: Colours, width: int) -> str:
    """The panels below each other, at most `width` characters wide where a cell's label allows it."""
    if colours is not None and colours not in _SYSTEMS:
        raise UsageError(f"colours must be '16', '256', 'truecolor' or None, not {colours!r}")
    lines: list[list[Piece]] = []
    for panel in panels:
        lines += _grid(panel, width) if isinstance(panel, GridPanel) else _table(panel)
        lines += [[(line, "")] for line in panel.caption]
        lines.append([])
    rendered = [_plain(line) if colours is None else line for line in lines[:-1]]
    if colours is None:
        return "\n".join(str(line) for line in rendered)
    return _styled(lines[:-1], colours)


Piece = tuple[str, str]
"""Characters, and the colour behind them or an empty string."""


def _grid(grid: GridPanel, width: int) -> list[list[Piece]]:
    rows, columns = grid.shape
    margin = max(len(grid.row_label(r)) for r in range(rows))
    widest = max(len(cell.label) for row in grid.cells for cell in row)
    size = max(widest, max(len(grid.column_label(c)) for c in range(columns)) if widest > 1 else 1) + 2
    band = max(1, (width - margin - 2) // (size + 1))
    outer = grid.borders[-1] if grid.borders else None
    lines: list[list[Piece]] = [[(grid.title, "")]]
    for first in range(0, columns, band):
        shown = range(first, min(columns, first + band))
        if columns > band and not any(grid.cells[r][c].label for r in range(rows) for c in shown):
            lines.append([(f"columns {grid.column_label(shown[0])} to {grid.column_label(shown[-1])}: empty", "")])
            continue
        heading = "".join(_fitted(grid.column_label(c), size) + _edge(outer, c, columns) for c in shown)
        lines.append([(" " * (margin + 2) + heading.rstrip(), "")])
        for r in range(rows):
            if outer and r and r % outer[0] == 0 and outer[0] > 1:
                lines.append([(" " * (margin + 2) + "-" * (len(shown) * (size + 1) - 1), "")])
            pieces: list[Piece] = [(grid.row_label(r).rjust(margin) + "  ", "")]
            for c in shown:
                cell = grid.cells[r][c]
                pieces.append((_cell_text(cell, size), cell.colour))
                pieces.append((_edge(outer, c, columns), ""))
            lines.append(pieces)
    return lines


def _edge(outer: tuple[int, int] | None, column: int, columns: int) -> str:
    """The separator after a column: a bar where a tile of the largest level ends, nothing without tiles."""
    if outer is None or outer[1] == 1:
        return ""
    return "|" if (column + 1) % outer[1] == 0 and column + 1 < columns else " "


def _cell_text(cell: GridCell, size: int) -> str:
    return _fitted(f"[{cell.label}]" if cell.is_framed else cell.label, size)


def _fitted(label: str, size: int) -> str:
    """A label at the right of its field; brackets do not move it."""
    return label.rjust(size) if label.startswith("[") else f" {label.rjust(size - 2)} "


def _table(table: TablePanel) -> list[list[Piece]]:
    cells = [table.header, *table.rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.header))]
    lines: list[list[Piece]] = [[(table.title, "")]]
    for number, row in enumerate(cells):
        pieces: list[Piece] = [("  ", "")]
        for column, (value, size) in enumerate(zip(row, widths, strict=True)):
            pieces += [(value.ljust(size), table.colours.get((number - 1, column), "")), ("  ", "")]
        lines.append(pieces)
    return lines


def _plain(line: Sequence[Piece]) -> str:
    return "".join(piece for piece, _ in line).rstrip()


def _styled(lines: Sequence[Sequence[Piece]], colours: str) -> str:
    try:
        from rich.console import Console
        from rich.style import Style
        from rich.text import Text
    except ImportError:
        raise UsageError("colours need rich; pip install 'lego-mlir[terminal]', or pass colours=None") from None

    out = io.StringIO()
    system = _SYSTEMS[colours]
    console = Console(file=out, force_terminal=True, color_system=system, width=10_000, highlight=False, no_color=False)  # type: ignore[arg-type]
    key = {"colours": colours}  # rich keeps the codes of an equal style, whatever the terminal
    for line in lines:
        shown = Text(no_wrap=True)
        for piece, colour in line:
            shown.append(piece, Style(color=palettes.ink(colour), bgcolor=colour, meta=key) if colour else None)
        console.print(shown, end="\n")
    return out.getvalue().removesuffix("\n")
