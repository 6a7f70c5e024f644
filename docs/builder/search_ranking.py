"""What the search of the site answers: any word of a query matches, and pages that say how to do a thing come first.

The generator's search wants every word of a query in one section, and its index begins with the decisions. Here the
index is put into the order of RANKS, and three things change in the worker's script, which ranks:

- "and" becomes "or", without words that every page has;
- sections with more of the words come first;
- of those with as many, results and decisions come last; the worker's own order follows: by the field of a match
  (title, path, text), its words and their distance, and the place in the index.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

RANKS: Final = ("how-to/", "learn/", "index.html", "SKILL.html", "reference/", "notebooks/", "results/", "decisions/")
LAST: Final = "reference/api"
"""Entries of single names, after the pages of the reference."""
COMMON: Final = (
    "a|an|and|are|as|at|be|by|can|do|does|for|from|have|how|i|in|into|is|it|my|of|on|or|the|to|use|"
    "what|when|which|why|with"
)
BACKGROUND: Final = ("results/", "decisions/")
"""What comes after pages with as many words of the query."""
_COUNT: Final = """self.wordsOf=(item,values)=>item.words??=values.filter(({value})=>item.matches.some(match=>{
let has=false;match.value.text.forEach((place,term)=>{has||=value.get(term)!==undefined&&!!value.get(term)});return has
})).length;
"""
_SORT: Final = re.compile(r"(\w+)\.items\.sort\((\w+)\(\.\.\.(\w+)\)\)")
_PARSER: Final = re.compile(r'(\w+\(\w+,)"and",(\w+)=>\((\{field:"\*",value:\w+\(\2\.value\))')


class RankingError(Exception):
    """The generator's search has another form."""


def rank(location: str) -> float:
    """The place of a section: lower comes first.

    >>> rank("how-to/softmax.html") < rank("reference/gallery.html") < rank("reference/api.html") < rank("results/")
    True
    """
    place = next((i for i, start in enumerate(RANKS) if location.startswith(start)), len(RANKS))
    return place + 0.5 * location.startswith(LAST)


def ordered(index: dict[str, Any]) -> dict[str, Any]:
    """The index with its sections by rank, beginnings of pages first; otherwise as they were."""
    return {**index, "items": sorted(index["items"], key=lambda item: (rank(item["location"]), item["level"] > 1))}


def ranking(script: str, background: int) -> str:
    """The worker's script with the rules above; sections from the number `background` on are results and decisions.

    Raises RankingError for another script.
    """
    found, parsers = _PARSER.subn(rf'\1"or",\2=>/^({COMMON})$/i.test(\2.value)?void 0:(\3', script)
    order = (
        r"\1.items.sort((a,b)=>wordsOf(b,\1.query.values)-wordsOf(a,\1.query.values)"
        rf"||(a.id>={background})-(b.id>={background})||\2(...\3)(a,b))"
    )
    found, sorts = _SORT.subn(order, found)
    if (parsers, sorts) != (1, 1):
        raise RankingError(
            "the script of the generator's search has changed: look for where it parses a query and sorts what it "
            "found, and change _PARSER and _SORT"
        )
    return _COUNT + found


def arrange(site: Path) -> None:
    """Change the index and the worker of a built site."""
    background = 0
    for name in ("search.json", "search.js"):  # the second assigns the same to a variable, for pages read as files
        path = site / name
        text = path.read_text(encoding="utf-8")
        begin = text.index("{")
        index, end = json.JSONDecoder().raw_decode(text, begin)
        changed = ordered(index)
        background = sum(not item["location"].startswith(BACKGROUND) for item in changed["items"])
        path.write_text(text[:begin] + json.dumps(changed, separators=(",", ":")) + text[end:], encoding="utf-8")
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    worker.write_text(ranking(worker.read_text(encoding="utf-8"), background), encoding="utf-8")
