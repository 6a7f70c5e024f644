"""The tables of words: what a row gives is code that runs, or a link."""

import doctest
import re

import page_commands
import pytest

import lego_mlir
from lego_mlir.templates import Template
from lego_mlir.templates.render import engine

HOW_TO = page_commands.ROOT / "docs" / "how-to"
PAGES = [HOW_TO / f"{name}.md" for name in ("from-cute", "from-linear-layouts", "from-mlir")]
# Code on values of a kernel, which has no meaning outside of one.
EXCERPTS = re.compile(r"lego\.convert\(x|lego\.(commit|wait)_copies|x\.|lego\.load\(x|\(\.\.\)|--|mlir-opt|lego-mlir")


def rows(page):
    """The cells of the last column of the first table, and the names that the page's examples define."""
    text = page.read_text()
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    doctest.DocTestRunner(verbose=False, optionflags=page_commands.FLAGS).run(test, clear_globs=False)
    found = re.findall(r"^\| (.+) \| (.+) \|$", text, re.MULTILINE)[1:]
    return [(left, right, test.globs) for left, right in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_is_code_that_runs_or_a_link(page):
    found = rows(page)
    assert len(found) >= 15
    for left, right, names in found:
        if left.startswith("---"):
            continue
        spans = [span for span in re.findall(r"`([^`]+)`", right) if not EXCERPTS.search(span)]
        ran = 0
        for span in spans:
            if re.fullmatch(r"lego(\.\w+)+", span):
                assert hasattr(lego_mlir, span.split(".")[1]), f"{page.name}: {span}"
                ran += 1
            elif "(" in span:
                eval(span, dict(names))
                ran += 1
        assert ran or "](" in right, f"{page.name}: {left} has neither code nor a link"


@pytest.mark.parametrize("name", ["t.py.jinja", "t.cu.jinja"])
def test_every_word_of_templates_is_in_a_table(name, monkeypatch):
    words = {}
    monkeypatch.setattr(engine, "fill", lambda compiled, given, known: words.update(known) or "")
    Template.of("", name).render()
    text = (page_commands.ROOT / "docs" / "reference" / "templates.md").read_text()
    tables = " ".join(re.findall(r"^\| (`.+?) \|", text, re.MULTILINE))
    assert len(words) > 10
    assert [word for word in words if not re.search(rf"\b{word}\b", tables)] == []
