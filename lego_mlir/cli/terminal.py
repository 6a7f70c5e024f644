"""Tables and colours on a terminal, drawn by rich (`pip install '.[terminal]'`); plain text everywhere else.

`show` prints the parts of a result. Output is plain text if standard output is not a terminal, if `NO_COLOR` is set, or
if rich is not installed: a file, a pipe and a log always get the same characters.

>>> show("kernel copy", ResultTable(("access", "sectors"), [("read of x", 128), ("write of y", 1024)]))
kernel copy
  access      sectors
  read of x       128
  write of y     1024
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from typing import Final

# Words at the beginning of a line, and how rich shows them.
STYLES: Final = {
    "proved": "green",
    "ok": "green",
    "REFUTED": "bold red",
    "WRONG": "bold red",
    "FAULT": "bold red",
    "MISSING": "bold red",
    "unknown": "yellow",
    "missing": "yellow",
    "note": "cyan",
    "remedy": "cyan",
}


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table under a header; the first column is left-aligned, the others right-aligned."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __str__(self) -> str:
        cells = [list(self.header), *([str(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.header))]
        return "\n".join("  " + "  ".join(_padded(row, widths)) for row in cells)


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]


def is_styled() -> bool:
    """Whether results are drawn by rich: on a terminal with rich installed, unless `NO_COLOR` is set."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return not plain and util.find_spec("rich") is not None


def show(*parts: str | ResultTable) -> None:
    """Print texts and tables on standard output, each beginning on a new line."""
    if is_styled():
        _draw(parts)
    else:
        print("\n".join(map(str, parts)))


def _draw(parts: Sequence[str | ResultTable]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    for part in parts:
        if isinstance(part, str):
            text = Text(part)
            for word, style in STYLES.items():
                text.highlight_regex(rf"(?m)^ *\b{word}\b", style)
            console.print(text, soft_wrap=True)
            continue
        table = Table(box=box.SIMPLE_HEAD, header_style="bold")
        for i, name in enumerate(part.header):
            table.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
        for row in part.rows:
            table.add_row(*(Text(str(cell)) for cell in row))
        console.print(table)
