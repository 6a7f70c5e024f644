"""The pages of the documentation: sizes, widths, links, and examples that stand in fences."""

import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TOP = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "AGENTS.md", "docs/llms.txt")
]
PAGE_BYTES = 20_000
CODE_COLUMNS = 88  # what fits beside the navigation at 1280 px


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    """The fenced blocks of a page: the language and the lines of each with their numbers."""
    found, inside = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            if inside is None:
                inside = (line.strip().strip("`"), [])
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside[1].append((number, line))
    assert inside is None, f"{page}: a fence is not closed"
    return found


def prose(page):
    """The lines outside of fences."""
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        fenced ^= (mark := line.lstrip().startswith("```"))
        if not fenced and not mark:
            yield line


def anchors(page):
    """The addresses of a page's headings, as Python-Markdown's toc makes them."""
    found = set()
    for line in prose(page):
        if match := re.match(r"#+ (.*)", line):
            text = unicodedata.normalize("NFKD", match[1].replace("`", "")).encode("ascii", "ignore").decode()
            slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
            base, count = slug, 0
            while slug in found:
                count += 1
                slug = f"{base}_{count}"
            found.add(slug)
        found.update(re.findall(r'<a id="([^"]+)"', line))
    return found


def links(page):
    return [link for line in prose(page) for link in re.findall(r"\]\(([^)\s]+)\)", line)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_stand_in_fences(page):
    outside = [line for line in prose(page) if line.lstrip().startswith((">>> ", "... "))]
    assert not outside


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_is_short_enough_to_read(page):
    assert page.stat().st_size <= PAGE_BYTES


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=name_of)
def test_code_is_not_cut_off(page):
    wide = [(number, len(line)) for _, lines in blocks(page) for number, line in lines if len(line) > CODE_COLUMNS]
    assert not wide


@pytest.mark.parametrize("page", [*PAGES, *(page for page in TOP if page.is_file())], ids=name_of)
def test_links_lead_somewhere(page):
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(link)
    assert not broken


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": ([\w/.-]+\.md)$", nav, re.MULTILINE)
    written = [*PAGES, *(path.with_suffix(".md") for path in DOCS.rglob("*.ipynb"))]  # docs/builder writes the latter
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in written)


def test_the_site_loads_nothing_from_a_network():
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings  # else fonts come from Google
    assert "polyfills: [assets/iframe-worker.js]" in settings  # else search in files loads a script of this name
    scripts = [path.read_text() for path in (DOCS / "assets").iterdir()]
    pages = [line for page in PAGES for line in prose(page)]
    assert not [text for text in (*scripts, *pages) if re.search(r"(src|href|url)\s*[=(]\s*[\"']?https?:", text)]
    assert not [line for line in pages if re.search(r"!\[[^]]*\]\(https?:", line)]
