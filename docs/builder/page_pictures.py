"""Pictures of a page, made by the examples of the page itself.

A mark names a variable of the examples above it, which holds a picture or anything that `lego.show` draws; the caption
is also the text for those who cannot see the picture. In Markdown a mark is a comment, so code hosts do not show it.

    curves = lego.show(gallery.morton(8), gallery.hilbert(8), by="order")     (an example of the page)

    <!-- picture curves: Morton and Hilbert order -->

A page with a mark is run as a doctest, so a picture is made by code that was checked.

>>> print(with_pictures("no mark", "page.md"))
no mark
>>> marks("<!-- picture p: The caption -->")
[('p', 'The caption')]
"""

from __future__ import annotations

import doctest
import html
import re
from typing import Final

MARK: Final = re.compile(r"^<!-- picture (?P<name>\w+): (?P<caption>.+?) -->$", re.MULTILINE)
SMALLEST: Final = 0.55
"""Of a picture's size: its labels of 12 pixels remain legible."""
FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
"""Those of the tests, in pyproject.toml."""
_LIKE_A_MARK: Final = re.compile(r"^<!--\s*picture\b.*$", re.MULTILINE)


class PageError(Exception):
    """Code of a page failed, or a mark has no picture; the message begins with the file."""


def marks(text: str) -> list[tuple[str, str]]:
    """The variable and the caption of each picture of a page."""
    return [(found["name"], found["caption"]) for found in MARK.finditer(text)]


def with_pictures(text: str, name: str) -> str:
    """The page with its marks replaced. Raises PageError for a failing example or a mark without a picture."""
    for line in _LIKE_A_MARK.findall(text):
        if not MARK.fullmatch(line):
            raise PageError(f"{name}: {line!r} is not a mark; write '<!-- picture NAME: caption -->' on its own line")
    made: list[str] = []
    end = 0
    values: dict[str, object] = {"__name__": "__main__"}
    for found in MARK.finditer(text):
        _run(text, end, found.start(), name, values)
        made += [text[end : found.start()], _figure(found, values, name)]
        end = found.end()
    return "".join([*made, text[end:]])


def _run(text: str, start: int, end: int, name: str, values: dict[str, object]) -> None:
    """Run the examples between two marks, with the variables that those before have left."""
    examples = doctest.DocTestParser().get_doctest(text[start:end], {}, name, name, text.count("\n", 0, start))
    examples.globs = values
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    if runner.run(examples, out=report.append, clear_globs=False).failed:
        raise PageError(f"{name}: an example fails, so its pictures are not made\n{''.join(report)}")


def _figure(found: re.Match[str], values: dict[str, object], name: str) -> str:
    from lego_mlir.errors import LegoError
    from lego_mlir.viz import Picture, show

    if found["name"] not in values:
        raise PageError(f"{name}: no example above {found[0]!r} sets {found['name']}")
    value = values[found["name"]]
    try:
        picture = value if isinstance(value, Picture) else show(value)  # type: ignore[arg-type]  # refused with a message
    except LegoError as error:
        raise PageError(f"{name}: {found[0]!r} cannot be drawn: {error}") from error
    return figure(picture.svg(), found["caption"])


def figure(svg: str, caption: str = "") -> str:
    """SVG inside a page, so that its tooltips work; a wide one is scaled down to SMALLEST, and scrolls below that.

    Markdown leaves HTML without empty lines as it is.
    """
    width = float(svg.split('width="', 1)[1].split('"', 1)[0])
    style = f"max-width: 100%; min-width: {SMALLEST * width:.0f}px; height: auto"
    described = re.sub(r'aria-label="[^"]*"', lambda _: f'aria-label="{html.escape(caption)}"', svg, count=1)
    inside = (described if caption else svg).replace("<svg ", f'<svg style="{style}" ', 1)
    below = f"<figcaption>{html.escape(caption)}</figcaption>\n" if caption else ""
    lines = "\n".join(line for line in inside.splitlines() if line.strip())
    return f'<figure class="picture" tabindex="0" style="overflow-x: auto; width: auto">\n{lines}\n{below}</figure>'
