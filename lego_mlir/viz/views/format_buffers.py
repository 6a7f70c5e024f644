"""The first bytes of each buffer of a storage format: which element of which field is stored where.

A cell has the bits of the smallest element of its buffer, so a larger element takes several cells, the first of which
has its index. Rows are labelled by their first byte.

>>> from lego_mlir.formats import FORMATS
>>> from lego_mlir.viz.characters import text
>>> print(text(panels(FORMATS["gptoss.gate_up"](rows=2, columns=2)), colours=None, width=80))
gptoss.gate_up
        0       1       2       3       4       5       6       7
0  g[0,0]  g[0,1]  u[0,0]  u[0,1]  g[1,0]  g[1,1]  u[1,0]  u[1,1]
gate and up rows in turn
g: gate, u: up
"""

from __future__ import annotations

from typing import Final

from lego_mlir.formats.catalog import FORMATS
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel

ROWS: Final = 4
COLUMNS: Final = {1: 16, 2: 16}
"""Cells of a row by the axes of an element; 8 for more."""


def panels(format_: StorageFormat) -> list[GridPanel]:
    """A grid for each buffer."""
    return [_panel(format_, buffer) for buffer in format_.buffers]


def _panel(format_: StorageFormat, buffer: str) -> GridPanel:
    inside = [field for field in format_.fields if field.buffer == buffer]
    short, bits = _prefixes([field.name for field in inside]), min(field.bits for field in inside)
    total = int(format_.bits_of(buffer)) // bits
    columns = min(total, COLUMNS.get(max(len(field.shape) for field in inside), 8))
    colours = {field.name: palettes.CATEGORIES[k % len(palettes.CATEGORIES)] for k, field in enumerate(inside)}
    cells, last = [], None
    for number in range(columns * min(ROWS, total // columns)):
        found = format_.element(buffer, number * bits)
        if found is None:
            cells.append(GridCell("", mark=".", title="padding"))
        else:
            name, index = found
            label = f"{short[name]}[{','.join(map(str, index))}]" if found != last else ""
            title = f"{name}{list(index)} at bit {number * bits} of {buffer}"
            cells.append(GridCell(label, colours[name], title, mark="-"))
        last = found
    named = len(format_.buffers) > 1
    entry = FORMATS.get(format_.name)
    legend = ", ".join(f"{short[n]}: {n}" for n in colours if short[n] != n)
    caption = [line for line in ("" if entry is None else entry.title, legend) if line]
    return GridPanel(
        f"{format_.name}: {buffer}" if named else format_.name,
        tuple(tuple(cells[k : k + columns]) for k in range(0, len(cells), columns)),
        tuple(caption),
        row_labels=tuple(f"{k * columns * bits / 8:g}" for k in range(len(cells) // columns)),
    )


def _prefixes(names: list[str]) -> dict[str, str]:
    """The shortest beginning of each name that no other has."""
    return {
        name: next(
            (name[:k] for k in range(1, len(name)) if not any(o.startswith(name[:k]) for o in names if o != name)), name
        )
        for name in names
    }
