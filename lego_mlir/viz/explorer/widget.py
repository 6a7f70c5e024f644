"""The explorer as a widget of a notebook, by anywidget: the page's questions are answered by this session's machine."""

from __future__ import annotations

import importlib

from lego_mlir.aliases import Drawable, Json
from lego_mlir.errors import UsageError
from lego_mlir.layout.base import Layout
from lego_mlir.layout.notation_parser import parse_layout
from lego_mlir.layout.permutations import Row
from lego_mlir.viz.explorer.page import packaged, page
from lego_mlir.viz.explorer.worker import Worker


def explore(*layouts: Layout, access: str = "lane, 0") -> Drawable:
    """A widget that explores these layouts, and any other that is typed into it. Needs anywidget, the extra `notebook`.

    Raises UsageError for a layout made of Python functions, which has no text, and where anywidget is not installed.
    """
    try:
        library = importlib.import_module("anywidget")
        traits = importlib.import_module("traitlets")
    except ImportError:
        raise UsageError("explore needs anywidget; pip install anywidget") from None
    texts = {f"layout {number}": repr(layout) for number, layout in enumerate(layouts or (Row(32, 32),))}
    for text in texts.values():
        parse_layout(text)
    worker = Worker()

    def answer(widget: Drawable, content: Json, buffers: object) -> None:
        widget.send({"number": content.get("number"), "answer": worker.ask(content.get("question", {}))})

    members = {"_esm": packaged("widget.js"), "page": traits.Unicode(page("explorer", texts, access)).tag(sync=True)}
    made = type("ExplorerWidget", (library.AnyWidget,), members)()
    made.on_msg(answer)
    return made
