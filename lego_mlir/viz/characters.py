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
import textwrap
from collections.abc import Sequence
from typing import Final, Literal

from lego_mlir.errors import UsageError
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridPanel, Panel, TablePanel

Colours = Literal["16", "256", "truecolor"] | None
NARROWEST: Final = 8
"""Characters of a column of a table that is wrapped."""
_SYSTEMS: Final = {"16": "standard", "256": "256", "truecolor": "truecolor"}


def text(panels: Sequence[Panel], *, colours: Colours, width: int) -> str:
    """The panels below each other, at most `width` characters wide where a cell's label allows it."""
    if colours is not None and colours not in _SYSTEMS:
        raise UsageError(f"colours must be '16', '256', 'truecolor' or None, not {colours!r}")
    lines: list[list[Piece]] = []
    for panel in panels:
        lines += [[(line, "")] for line in _wrapped(panel.title, width)]
        lines += _grid(panel, width) if isinstance(panel, GridPanel) else _table(panel, width)
        lines += [[(line, "")] for caption in panel.caption for line in _wrapped(caption, width)]
        lines.append([])
    rendered = ["".join(piece for piece, _ in line).rstrip() if colours is None else line for line in lines[:-1]]
    if colours is None:
        return "\n".join(str(line) for line in rendered)
    return _styled(lines[:-1], colours)


Piece = tuple[str, str]
"""Characters, and the colour behind them or an empty string."""


def _grid(grid: GridPanel, width: int) -> list[list[Piece]]:
    rows, columns = grid.shape
    margin = max(len(grid.row_label(r)) for r in range(rows))
    widest = max(len(cell.text) for row in grid.cells for cell in row)
    size = max(widest, max(len(grid.column_label(c)) for c in range(columns)) if widest > 1 else 1) + 2
    band = max(1, (width - margin - 2) // (size + 1))
    outer = grid.borders[-1] if grid.borders else None
    lines: list[list[Piece]] = []
    begin: int | None = None  # of the empty bands before this one
    for first in range(0, columns, band):
        shown = range(first, min(columns, first + band))
        if columns > band and not any(grid.cells[r][c].text for r in range(rows) for c in shown):
            begin = shown[0] if begin is None else begin
            if shown[-1] + 1 == columns:
                lines.append(_empty(grid, begin, shown[-1]))
            continue
        if begin is not None:
            lines.append(_empty(grid, begin, first - 1))
        begin = None
        heading = "".join(_fitted(grid.column_label(c), size) + _edge(outer, c, columns) for c in shown)
        lines.append([(" " * (margin + 2) + heading.rstrip(), "")])
        for r in range(rows):
            if outer and r and r % outer[0] == 0 and outer[0] > 1:
                lines.append([(" " * (margin + 2) + "-" * (len(shown) * (size + 1) - 1), "")])
            pieces: list[Piece] = [(grid.row_label(r).rjust(margin) + "  ", "")]
            for c in shown:
                cell = grid.cells[r][c]
                pieces.append((_fitted(f"[{cell.text}]" if cell.is_framed else cell.text, size), cell.colour))
                pieces.append((_edge(outer, c, columns), ""))
            lines.append(pieces)
    return lines


def _empty(grid: GridPanel, first: int, last: int) -> list[Piece]:
    return [(f"columns {grid.column_label(first)} to {grid.column_label(last)}: empty", "")]


def _edge(outer: tuple[int, int] | None, column: int, columns: int) -> str:
    """The separator after a column: a bar where a tile of the largest level ends, nothing without tiles."""
    if outer is None or outer[1] == 1:
        return ""
    return "|" if (column + 1) % outer[1] == 0 and column + 1 < columns else " "


def _fitted(label: str, size: int) -> str:
    """A label at the right of its field; brackets do not move it."""
    return label.rjust(size) if label.startswith("[") else f" {label.rjust(size - 2)} "


def _table(table: TablePanel, width: int) -> list[list[Piece]]:
    """Columns as wide as their cells; on a narrower terminal the widest are wrapped, or each row is a list of names."""
    cells = [table.header, *table.rows]
    if sum(_least(table)) + 2 * len(table.header) + 2 > width:
        return _records(table, width)
    widths = _fitting(table, width)
    lines: list[list[Piece]] = []
    for number, row in enumerate(cells):
        wrapped = [_wrapped(value, size) for value, size in zip(row, widths, strict=True)]
        for part in range(max(map(len, wrapped))):
            pieces: list[Piece] = [("  ", "")]
            for column, (value, size) in enumerate(zip(wrapped, widths, strict=True)):
                shown = value[part] if part < len(value) else ""
                pieces += [(shown.ljust(size), table.colours.get((number - 1, column), "")), ("  ", "")]
            lines.append(pieces)
    return lines


def _records(table: TablePanel, width: int) -> list[list[Piece]]:
    lines: list[list[Piece]] = []
    for number, row in enumerate(table.rows):
        lines += [[("", "")]] if number else []
        for column, (name, value) in enumerate(zip(table.header, row, strict=True)):
            colour = table.colours.get((number, column), "")
            lines += [[("  ", ""), (part, colour)] for part in _wrapped(f"{name}: {value}", width - 2)]
    return lines


def _fitting(table: TablePanel, width: int) -> list[int]:
    """Widths of columns that fit together: long headers give way first, then the widest columns."""
    least = _least(table)
    bodies = [max(least[i], *(len(row[i]) for row in table.rows)) for i in range(len(least))]
    found = [max(len(name), body) for name, body in zip(table.header, bodies, strict=True)]
    while sum(found) + 2 * len(found) + 2 > width:
        headed = [i for i, size in enumerate(found) if size > bodies[i]]
        wide = headed or [i for i, size in enumerate(found) if size > least[i]]
        found[max(wide, key=found.__getitem__)] -= 1
    return found


def _least(table: TablePanel) -> list[int]:
    """The narrowest that each column may become: a word of its header is not broken."""
    return [max(NARROWEST, *map(len, name.split() or [""])) for name in table.header]


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width; breaks within a word only where it is longer than a line."""
    return textwrap.wrap(text, max(width, NARROWEST), drop_whitespace=True) or [""]


def _styled(lines: Sequence[Sequence[Piece]], colours: str) -> str:
    try:
        from rich.console import Console
        from rich.style import Style
        from rich.text import Text
    except ImportError:
        raise UsageError("colours need rich; pip install rich, or pass colours=None") from None

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
