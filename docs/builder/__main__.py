"""Build the documentation: make its pictures, run its notebooks, then run the site generator.

    python docs/builder                 the site, in build/site
    python docs/builder --pages-only    only the pages that the generator reads, in build/docs

The generator reads `build/docs`, a copy of `docs` in which each mark of a picture is replaced by the picture that the
code of the page makes (`page_pictures`), and each notebook has a page with its outputs (`notebook_pages`). Code that
fails is printed with its page and line, and the build fails. What the site's search finds is put into order at the end
(`search_ranking`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from notebook_pages import notebook_page
from page_pictures import PageError, with_pictures
from search_ranking import arrange

ROOT: Final = Path(__file__).resolve().parents[2]
GENERATOR: Final = (str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean")
"""Reads `docs_dir` and writes `site_dir` of mkdocs.yml."""
_NOTEBOOK_LINK: Final = re.compile(r"(\]\([^)\s]*)\.ipynb(#[^)\s]*)?\)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder of the pages (default: docs)")
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "docs", help="the copy (default: build/docs)")
    parser.add_argument("--pages-only", action="store_true", help="do not run the site generator")
    options = parser.parse_args()
    errors = prepare(options.docs, options.into)
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        return 1
    if options.pages_only:
        return 0
    failed = subprocess.run(GENERATOR, cwd=ROOT, check=False).returncode
    if not failed:
        arrange(ROOT / "build" / "site")
    return failed


def prepare(docs: Path, into: Path) -> list[PageError]:
    """Copy `docs` to `into` with pictures and pages of notebooks. Returns what failed, for all pages."""
    if into.exists():
        shutil.rmtree(into)
    shutil.copytree(docs, into, ignore=shutil.ignore_patterns(Path(__file__).parent.name, "__pycache__", ".*"))
    errors = []
    for page in sorted(into.rglob("*.md")):
        try:
            text = with_pictures(page.read_text(encoding="utf-8"), str(docs / page.relative_to(into)))
            page.write_text(_NOTEBOOK_LINK.sub(r"\1.md\2)", text), encoding="utf-8")
        except PageError as error:
            errors.append(error)
    for notebook in sorted(into.rglob("*.ipynb")):
        try:
            notebook.with_suffix(".md").write_text(notebook_page(notebook), encoding="utf-8")
        except PageError as error:
            errors.append(error)
    return errors


if __name__ == "__main__":
    sys.exit(main())
