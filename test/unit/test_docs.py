"""The pages of the documentation: what is run as an example is also shown as one."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_examples_stand_in_fences(page):
    fenced, outside = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and line.lstrip().startswith((">>> ", "... ")):
            outside.append(number)
    assert not outside
    assert not fenced
