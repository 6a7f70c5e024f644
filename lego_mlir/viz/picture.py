"""A picture: panels with a title, drawn as text, SVG, HTML or PNG, shown by notebooks and saved whole or not at all.

>>> from lego_mlir.viz.panels import TablePanel
>>> picture = Picture("two rules", (TablePanel.of("rules", ("rule", "operations"), [("remainder", 4)]),))
>>> print(picture.text())
rules
  rule       operations
  remainder  4
"""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.store import replace_file
from lego_mlir.viz.characters import Colours, text
from lego_mlir.viz.panels import Panel

_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ font: 15px system-ui, sans-serif; margin: 2rem; }} svg {{ max-width: 100%; height: auto; }}</style>
</head>
<body><main><h1>{title}</h1>
{svg}
</main></body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels under a title. `str(picture)` is plain text."""

    title: str
    panels: tuple[Panel, ...]

    def text(self, colours: Colours = None, width: int = 100) -> str:
        """The picture in characters; `colours` is '16', '256' or 'truecolor' for a terminal that has them."""
        return text(self.panels, colours=colours, width=width)

    def svg(self) -> str:
        """The picture as SVG text."""
        from lego_mlir.viz.svg import svg

        return svg(self.title, self.panels)

    def html(self) -> str:
        """A page with the picture, without any other file."""
        return _PAGE.format(title=html.escape(self.title), svg=self.svg())

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG, `scale` pixels for each pixel of the SVG."""
        from lego_mlir.viz.png import png

        return png(self.svg(), scale)

    def as_format(self, suffix: str) -> bytes:
        """The contents of a file of this suffix: .svg, .html, .png or .txt."""
        makers: dict[str, Callable[[], str | bytes]] = {
            ".svg": self.svg, ".html": self.html, ".png": self.png, ".txt": lambda: self.text() + "\n",
        }  # fmt: skip
        if suffix not in makers:
            raise UsageError(f"a picture is saved as one of {', '.join(makers)}, not {suffix or 'without a suffix'}")
        made = makers[suffix]()
        return made if isinstance(made, bytes) else made.encode()

    def save(self, path: str | Path) -> Path:
        """Write the picture in the format of its suffix. An existing file is replaced whole or not at all."""
        path = Path(path)
        replace_file(path, self.as_format(path.suffix))
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text(), "image/svg+xml": self.svg()}

    def __str__(self) -> str:
        return self.text()


def terminal_colours() -> Colours:
    """The colours of standard output: none for a file, a pipe, `NO_COLOR` or a dumb terminal."""
    terminal = os.environ.get("TERM", "")
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or terminal in ("", "dumb"):
        return None
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in terminal else "16"
