"""SVG as PNG, by vl-convert, which brings its own fonts: a machine without any draws the same picture."""

from __future__ import annotations

import importlib

from lego_mlir.errors import UsageError


def png(svg: str, scale: float = 2.0) -> bytes:
    """The picture with `scale` pixels for each pixel of the SVG."""
    try:
        library = importlib.import_module("vl_convert")
    except ImportError:
        raise UsageError("PNG needs vl-convert; pip install vl-convert-python, or save as .svg") from None
    return bytes(library.svg_to_png(svg, scale=scale))
