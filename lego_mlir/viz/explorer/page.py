"""The page as one file: HTML with its style, script and data inside, so that it needs no network and no other file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from lego_mlir.aliases import Json
from lego_mlir.hardware.memory import BANK_BYTES, BANKS, ELEMENT_BYTES, SECTOR_BYTES
from lego_mlir.viz import palettes

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"
)
"""The content security policy: only what is in the page, and answers from where it came from."""


def page(title: str, layouts: Mapping[str, str], access: str, answers: Sequence[Json] | None = None) -> str:
    """The explorer for these layouts, given as text by name; with `answers` it works without a server."""
    data: dict[str, Any] = {
        "title": title,
        "layouts": layouts,
        "access": access,
        "answers": answers,
        "dtypes": ELEMENT_BYTES,
        "banks": BANKS,
        "bankBytes": BANK_BYTES,
        "sectorBytes": SECTOR_BYTES,
        "blues": palettes.BLUES.anchors,
        "heat": palettes.HEAT.anchors,
    }
    parts = {
        "{{title}}": html.escape(title),
        "{{policy}}": html.escape(POLICY),
        "{{style}}": packaged("explorer.css"),
        "{{data}}": json.dumps(data).replace("<", "\\u003c"),
        "{{script}}": packaged("explorer.js"),
    }
    text = packaged("explorer.html")
    return re.sub("|".join(map(re.escape, parts)), lambda mark: parts[mark[0]], text)


def packaged(name: str) -> str:
    """The text of a file beside this module."""
    return resources.files("lego_mlir.viz.explorer").joinpath(name).read_text(encoding="utf-8")
