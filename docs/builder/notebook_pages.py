"""A notebook as a page: its cells in order, with the outputs of a run of this build.

A notebook is kept without outputs and is run in a new process. Pictures stay SVG, tables stay HTML, everything else is
text.

>>> print(output({"output_type": "stream", "name": "stdout", "text": "one line\\n"}))
```text
one line
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from page_pictures import PageError, figure

SECONDS: Final = 300
"""Of one cell."""
_CELL_FILE: Final = re.compile(r"[^\s\"'<>]*ipykernel_\d+[/\\]\d+\.py")
"""The name that IPython gives to the source of a cell, another one in each run."""
QUIET: Final = ["--IPKernelApp.log_level=ERROR"]


def notebook_page(path: Path) -> str:
    """Run a notebook and write it as Markdown. Raises PageError, with the cell, where a cell fails."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    try:
        NotebookClient(notebook, timeout=SECONDS, resources=folder, extra_arguments=QUIET).execute()
    except (CellExecutionError, CellTimeoutError) as error:
        raise PageError(f"{path}: a cell fails\n{error}") from error
    first, *rest = [cell(found) for found in notebook.cells]
    return _CELL_FILE.sub("cell", "\n\n".join([first, f"[This page as a notebook]({path.name})", *rest]) + "\n")


def cell(found: Mapping[str, Any]) -> str:
    """A cell of text as it is, a cell of code with its outputs below."""
    if found["cell_type"] != "code":
        return str(found["source"])
    return "\n\n".join([fenced(found["source"], "python"), *map(output, found["outputs"])])


def output(found: Mapping[str, Any]) -> str:
    """An output: the drawing or the table of a value where it has one, else its text."""
    if found["output_type"] == "stream":
        return fenced(found["text"], "text")
    shown = found["data"]
    if "image/svg+xml" in shown:
        return figure(shown["image/svg+xml"])
    if "text/html" in shown:
        return f'<div class="output">\n{shown["text/html"]}\n</div>'
    return fenced(shown["text/plain"], "text")


def fenced(text: str, language: str) -> str:
    """A block of code, with a fence longer than any inside."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
