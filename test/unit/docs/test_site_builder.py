"""The builder of the documentation: pictures from the examples of a page, pages from notebooks, failures by name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir import Row, gallery

from notebook_pages import cell, fenced
from page_pictures import PageError, marks, with_pictures

ROOT = Path(__file__).parents[3]
PAGE = """# Title

```python
>>> import lego_mlir as lego
>>> L = lego.Row(2, 3)
>>> shown = lego.show(L, by="order")

```

<!-- picture shown: rows & "columns" -->

Text between.

>>> L = L.transpose()

<!-- picture L: transposed -->

After.
"""


def test_a_mark_becomes_the_picture_of_its_variable():
    page = with_pictures(PAGE, "page.md")
    first, second = page.split("Text between.")
    for text, drawn in ((first, lego.show(Row(2, 3), by="order")), (second, lego.show(Row(2, 3).transpose()))):
        assert drawn.svg().split("<title>", 1)[1].split("</desc>")[0] in text
    assert "<figcaption>rows &amp; &quot;columns&quot;</figcaption>" in first
    assert 'aria-label="rows &amp; &quot;columns&quot;"' in first
    assert "<!--" not in page and page.endswith("After.\n")
    inside = first.split("<figure", 1)[1].split("</figure>")[0]
    assert "\n\n" not in inside  # an empty line would end the HTML for Markdown


def test_a_page_without_marks_is_copied_and_not_run():
    assert with_pictures(">>> 1 / 0\n", "page.md") == ">>> 1 / 0\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (">>> p = 1 / 0\n\n<!-- picture p: it -->", r"page.md: an example fails(.|\n)*line 1(.|\n)*ZeroDivisionError"),
        ("a\n\n>>> 1 + 1\n3\n\n<!-- picture p: it -->", r"line 3(.|\n)*Expected:\n    3\nGot:\n    2"),
        ("<!-- picture p: it -->", "no example above '<!-- picture p: it -->' sets p"),
        (">>> p = 3\n\n<!-- picture p: it -->", "cannot be drawn: 3 has no positions"),
        ("<!-- picture p -->", "is not a mark; write '<!-- picture NAME: caption -->'"),
    ],
)
def test_what_fails_names_the_page_and_the_fault(page, message):
    with pytest.raises(PageError, match=message):
        with_pictures(page, "page.md")


def test_an_example_after_a_picture_fails_with_its_own_line():
    with pytest.raises(PageError, match=r'File "page.md", line 20'):
        with_pictures(PAGE + "\n>>> 1\n2\n\n<!-- picture L: again -->\n", "page.md")


def test_cells_of_a_notebook_as_markdown():
    svg = '<svg width="10" aria-label="x"></svg>'
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "```\n"},
        {"output_type": "display_data", "data": {"image/svg+xml": svg, "text/plain": "x"}},
        {"output_type": "execute_result", "data": {"text/html": "<table></table>", "text/plain": "y"}},
        {"output_type": "execute_result", "data": {"text/plain": "(1, 2)"}},
    ]
    text = cell({"cell_type": "code", "source": "x", "outputs": outputs})
    assert text.startswith("```python\nx\n```\n\n````text\n```\n````")
    assert "<figure" in text and "<table></table>" in text and text.endswith(fenced("(1, 2)", "text"))
    assert cell({"cell_type": "markdown", "source": "# T"}) == "# T"


def notebook(*sources):
    made = [{"cell_type": "markdown", "id": "t", "metadata": {}, "source": "# Title"}]
    made += [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": made})


def build(docs, into):
    return subprocess.run(
        [sys.executable, str(ROOT / "docs" / "builder"), "--docs", str(docs), "--into", str(into), "--pages-only"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_folder_is_built_with_its_notebooks(tmp_path):
    pytest.importorskip("ipykernel")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "page.md").write_text(PAGE + "\n[one](one.ipynb), [part](one.ipynb#title)\n")
    (docs / "one.ipynb").write_text(notebook("import lego_mlir as lego; lego.Row(2, 2)", "print(__file__, 6 * 7)"
        .replace("__file__", "(lambda: 0).__code__.co_filename")))  # fmt: skip
    done = build(docs, tmp_path / "into")
    assert done.returncode == 0, done.stderr
    page, made = ((tmp_path / "into" / name).read_text() for name in ("page.md", "one.md"))
    assert page.endswith("[one](one.md), [part](one.md#title)\n") and page.count("<figure") == 2
    assert made.startswith("# Title\n\n[This page as a notebook](one.ipynb)")
    assert lego.show(Row(2, 2)).svg().split("<title>")[1].split("</desc>")[0] in made
    assert "```text\ncell 42\n```" in made


def test_a_failing_page_or_notebook_fails_the_build(tmp_path):
    pytest.importorskip("ipykernel")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "bad.md").write_text("<!-- picture p: it -->")
    (docs / "worse.ipynb").write_text(notebook("1 / 0"))
    done = build(docs, tmp_path / "into")
    assert done.returncode == 1
    assert f"{docs / 'bad.md'}: no example above" in done.stderr
    assert "worse.ipynb: a cell fails" in done.stderr and "ZeroDivisionError" in done.stderr


def test_the_gallery_draws_every_layout_and_order():
    text = (ROOT / "docs" / "reference" / "gallery.md").read_text()
    drawn = {name for name, _ in marks(text)}
    for name in set(gallery.__all__) - {"tabulated", "xor_swizzle"}:
        assert name in drawn and f"## {name}\n" in text and f"gallery.{name}(" in text, name
    assert "gallery.tabulated(" in text and "gallery.xor_swizzle(" in text


def test_every_notebook_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").rglob("*.ipynb"):
        assert str(path.relative_to(ROOT / "docs").with_suffix(".md")) in nav
