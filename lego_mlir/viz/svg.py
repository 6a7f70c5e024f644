"""Panels as SVG, by drawsvg.

Every drawing has a title and a description for screen readers, each cell a tooltip. Panels stand side by side while
they fit a width, then below each other.
"""

from __future__ import annotations

import html
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lego_mlir.aliases import Drawing
from lego_mlir.errors import UsageError
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel, Panel, Place, TablePanel

FONT: Final = "DejaVu Sans Mono, Menlo, Consolas, monospace"
CHARACTER: Final = 7.3  # pixels, of the font at 12 px
SMALL: Final = 6.1  # of the font at 10 px, for the labels of grids with many columns
MANY_COLUMNS: Final = 16
BOLD: Final = 8.3  # of a title: bold, at 13 px
LINE: Final = 18
GAP: Final = 28
WIDTH: Final = 1280  # pixels, beyond which panels go below each other
HEAD: Final = 2.6  # pixels, half of an arrow head on a path
_DARK: Final = "#222222"
_PATH: Final = "#c2185b"


def drawing_library() -> Drawing:
    """The module drawsvg; raises UsageError with the remedy where it is not installed."""
    try:
        return importlib.import_module("drawsvg")
    except ImportError:
        raise UsageError("drawing needs drawsvg; pip install drawsvg, or use .text()") from None


@dataclass(frozen=True, slots=True)
class _Placed:
    panel: Panel
    x: float
    y: float


def svg(title: str, panels: Sequence[Panel]) -> str:
    """The whole picture as SVG text."""
    draw = drawing_library()
    placed, width, height = _arranged(panels)
    drawing = draw.Drawing(width, height, font_family=FONT, role="img", aria_label=_escaped(title))
    drawing.append_title(title)
    drawing.append(draw.Raw(f"<desc>{_escaped('. '.join(_described(panel) for panel in panels))}</desc>"))
    drawing.append(draw.Rectangle(0, 0, width, height, fill="#ffffff"))
    for item in placed:
        group = draw.Group(transform=f"translate({_n(item.x)},{_n(item.y)})")
        if isinstance(item.panel, GridPanel):
            _draw_grid(draw, group, item.panel)
        else:
            _draw_table(draw, group, item.panel)
        drawing.append(group)
    return str(drawing.as_svg(randomize_ids=False)).replace('<?xml version="1.0" encoding="UTF-8"?>\n', "")


def _arranged(panels: Sequence[Panel]) -> tuple[list[_Placed], int, int]:
    placed, x, y, tallest, widest = [], 16.0, 16.0, 0.0, 0.0
    for panel in panels:
        width, height = _extent(panel)
        if x > 16 and x + width > WIDTH:
            x, y, tallest = 16.0, y + tallest + GAP, 0.0
        placed.append(_Placed(panel, x, y))
        x, tallest, widest = x + width + GAP, max(tallest, height), max(widest, x + width)
    return placed, round(widest + 16), round(y + tallest + 16)


def _extent(panel: Panel) -> tuple[float, float]:
    text = max(len(panel.title) * BOLD, *(len(line) * CHARACTER for line in panel.caption), 0.0)
    if isinstance(panel, TablePanel):
        return max(text, sum(_columns(panel))), LINE * (len(panel.rows) + 2.4 + len(panel.caption))
    rows, columns = panel.shape
    width, height = _cell(panel)
    left = _margin(panel)
    return max(text, left + columns * width + 4), LINE * (2.4 + len(panel.caption)) + rows * height + 6


def _cell(grid: GridPanel) -> tuple[float, float]:
    rows, columns = grid.shape
    longest = max((len(cell.label) for row in grid.cells for cell in row), default=0)
    if not longest:
        side = 22.0 if max(rows, columns) <= 32 else max(3.0, 704 / max(rows, columns))
        return side, side
    if columns > MANY_COLUMNS:
        return max(18.0, longest * SMALL + 5), 18.0
    return max(24.0, longest * CHARACTER + 8), 24.0


def _margin(grid: GridPanel) -> float:
    return max(len(grid.row_label(r)) for r in range(grid.shape[0])) * CHARACTER * 0.85 + 8


def _draw_grid(draw: Drawing, group: Drawing, grid: GridPanel) -> None:
    width, height = _cell(grid)
    left, top = _margin(grid), LINE * 2.2
    group.append(draw.Text(grid.title, 13, 0, 12, fill=_DARK, font_weight="bold"))
    longest = max(len(grid.column_label(c)) for c in range(grid.shape[1]))
    for column in range(0, grid.shape[1], math.ceil((longest * SMALL + 3) / width)):
        label = grid.column_label(column)
        group.append(
            draw.Text(label, 10, _r(left + (column + 0.5) * width), _r(top - 5), text_anchor="middle", fill="#666666")
        )
    for row in range(0, grid.shape[0], math.ceil(12 / height)):
        y = _r(top + (row + 0.5) * height + 4)
        group.append(draw.Text(grid.row_label(row), 10, _r(left - 5), y, text_anchor="end", fill="#666666"))
    font = "10" if grid.shape[1] > MANY_COLUMNS else "12"
    boxes, labels = draw.Group(), draw.Group(font_size=font, text_anchor="middle", pointer_events="none")
    for r, line in enumerate(grid.cells):
        for c, cell in enumerate(line):
            x, y = left + c * width, top + r * height
            boxes.append(_box(draw, cell, x, y, width, height))
            if cell.label:
                labels.append(draw.Raw(_label(cell, x + width / 2, y + height / 2 + 4)))
    group.append(boxes)
    _draw_borders(draw, group, grid, left, top)
    _draw_lines(draw, group, grid, left, top)
    group.append(labels)
    for number, text in enumerate(grid.caption):
        y = _r(top + grid.shape[0] * height + LINE * (number + 1))
        group.append(draw.Text(text, 12, 0, y, fill=_DARK))


def _box(draw: Drawing, cell: GridCell, x: float, y: float, width: float, height: float) -> Drawing:
    stroke = {"stroke": palettes.WRONG, "stroke_width": 2.5} if cell.is_framed else {"stroke": "#d0d0d0"}
    inset = 1.5 if cell.is_framed else 0
    box = draw.Rectangle(
        _r(x + inset), _r(y + inset), _r(width - 2 * inset), _r(height - 2 * inset), fill=cell.colour, **stroke
    )
    if cell.title:
        box.append_title(cell.title)
    return box


def _label(cell: GridCell, x: float, y: float) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" fill="{palettes.ink(cell.colour)}">{_escaped(cell.label)}</text>'


def _draw_borders(draw: Drawing, group: Drawing, grid: GridPanel, left: float, top: float) -> None:
    width, height = _cell(grid)
    rows, columns = grid.shape
    for level, (tall, wide) in enumerate([*grid.borders, grid.shape]):
        weight = 1.2 + 0.7 * level
        for r in range(0, rows + 1, tall):
            y = _r(top + r * height)
            group.append(draw.Line(_r(left), y, _r(left + columns * width), y, stroke=_DARK, stroke_width=weight))
        for c in range(0, columns + 1, wide):
            x = _r(left + c * width)
            group.append(draw.Line(x, _r(top), x, _r(top + rows * height), stroke=_DARK, stroke_width=weight))


def _draw_lines(draw: Drawing, group: Drawing, grid: GridPanel, left: float, top: float) -> None:
    width, height = _cell(grid)

    def centre(place: Place) -> tuple[float, float]:
        return _r(left + (place[1] + 0.5) * width), _r(top + (place[0] + 0.5) * height)

    if len(grid.path) > 1:
        points = [n for place in grid.path for n in centre(place)]
        group.append(
            draw.Lines(*points, fill="none", stroke=_PATH, stroke_width=1.6, opacity=0.55, stroke_linejoin="round")
        )
        group.append(_heads(draw, [centre(place) for place in grid.path]))
        group.append(draw.Circle(*centre(grid.path[0]), 4, fill=_PATH))
        x, y = centre(grid.path[-1])
        group.append(draw.Rectangle(x - 4, y - 4, 8, 8, fill=_PATH))
    if grid.arrows:
        head = draw.Marker(-0.2, -0.5, 0.9, 0.5, scale=6, orient="auto")
        head.append(draw.Lines(-0.1, 0.5, -0.1, -0.5, 0.9, 0, fill=palettes.WRONG, close=True))
        for start, end in grid.arrows:
            line = draw.Line(*centre(start), *centre(end), stroke=palettes.WRONG, stroke_width=2.4, marker_end=head)
            group.append(line)


def _heads(draw: Drawing, points: Sequence[tuple[float, float]]) -> Drawing:
    """An arrow head in the middle of each step of a path, all of them one element."""
    shape = draw.Path(fill=_PATH)
    for (x, y), (to_x, to_y) in pairwise(points):
        length = math.hypot(to_x - x, to_y - y) or 1.0
        along, across = (to_x - x) / length, (to_y - y) / length
        tip_x, tip_y = (x + to_x) / 2 + HEAD * along, (y + to_y) / 2 + HEAD * across
        back_x, back_y = tip_x - 2 * HEAD * along, tip_y - 2 * HEAD * across
        shape.M(_r(tip_x), _r(tip_y))
        shape.L(_r(back_x - HEAD * across), _r(back_y + HEAD * along))
        shape.L(_r(back_x + HEAD * across), _r(back_y - HEAD * along)).Z()
    return shape


def _columns(table: TablePanel) -> list[float]:
    cells = [table.header, *table.rows]
    return [max(len(row[i]) for row in cells) * CHARACTER + 16 for i in range(len(table.header))]


def _draw_table(draw: Drawing, group: Drawing, table: TablePanel) -> None:
    group.append(draw.Text(table.title, 13, 0, 12, fill=_DARK, font_weight="bold"))
    widths = _columns(table)
    for number, row in enumerate([table.header, *table.rows]):
        x, y = 0.0, LINE * (number + 1) + 8
        for column, text in enumerate(row):
            colour = table.colours.get((number - 1, column), palettes.EMPTY)
            if colour != palettes.EMPTY:
                group.append(draw.Rectangle(_r(x), _r(y), _r(widths[column]), LINE, fill=colour))
            weight = "bold" if number == 0 else "normal"
            group.append(draw.Text(text, 12, _r(x + 4), _r(y + 13), fill=palettes.ink(colour), font_weight=weight))
            x += widths[column]
    below = LINE * (len(table.rows) + 2) + 8
    rule = LINE * 2 + 8
    group.append(draw.Line(0, rule, _r(sum(widths)), rule, stroke=_DARK, stroke_width=1))
    for number, line in enumerate(table.caption):
        group.append(draw.Text(line, 12, 0, _r(below + LINE * number + 13), fill=_DARK))


def _described(panel: Panel) -> str:
    if isinstance(panel, TablePanel):
        size = f"table of {len(panel.rows)} rows"
    else:
        size = f"grid of {panel.shape[0]} by {panel.shape[1]} cells"
    return ". ".join([f"{panel.title}: {size}", *panel.caption])


def _escaped(text: str) -> str:
    return html.escape(text)


def _r(value: float) -> float:
    return round(value, 1)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
