"""A template and its names; the rendered text and its placeholders.

>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, indices
>>> m, k = indices("m k")
>>> tile = Template.of("a = tl.load(a_ptr + {{ A[m, k, :, :] }})\\n", "tile.py.jinja",
...                    A=Row(128, 64).tile_by([4, 2], [32, 32]), m=m, k=k)
>>> print(tile.render().text, end="")
a = tl.load(a_ptr + (m * 2048 + k * 32 + (tl.arange(0, 32) * 64)[:, None] + tl.arange(0, 32)[None, :]))

A template's name ends in the target's suffix and `.jinja`: `.py.jinja` is Triton, `.cu.jinja`, `.cuh.jinja`, `.h.jinja`
and `.cpp.jinja` are C.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lego_mlir.errors import TemplateError
from lego_mlir.expr.nodes import Size
from lego_mlir.templates.render import engine
from lego_mlir.templates.render.finish import WholeText
from lego_mlir.templates.render.indices import printing
from lego_mlir.templates.render.names import Language
from lego_mlir.templates.render.placeholders import Filling, Placeholder, caller_line
from lego_mlir.templates.render.signature import sizes_of
from lego_mlir.templates.render.tile_limits import tile_sizes
from lego_mlir.templates.render.values import visible
from lego_mlir.templates.words.assign import Statements
from lego_mlir.templates.words.declarations import Declarations
from lego_mlir.templates.words.descriptors import Descriptors
from lego_mlir.templates.words.load_store import Accesses

LANGUAGES: Final[dict[str, Language]] = {
    ".py": "triton",
    ".cu": "cuda",
    ".cuh": "cuda",
    ".h": "cuda",
    ".hpp": "cuda",
    ".cpp": "cuda",
}
SHIPPED: Final = Path(__file__).parents[1] / "library"


@dataclass(frozen=True, eq=False)
class Template:
    """A template's text with the layouts, indices and plain values to render it with."""

    text: str
    name: str
    names: Mapping[str, Any]

    @classmethod
    def of(cls, text: str, name: str, /, **names: Any) -> Template:
        """A template from its text; `name` determines its language and appears in messages."""
        return cls(text, name, names)

    @classmethod
    def read(cls, path: str | Path, names: Mapping[str, Any] | None = None, **more: Any) -> Template:
        """A template from a file. Raises TemplateError if it cannot be read."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"{path}: the template cannot be read ({error})") from error
        return cls(text, str(path), {**(names or {}), **more})

    @classmethod
    def shipped(cls, name: str, /, **names: Any) -> Template:
        """A shipped template, such as `matmul.py.jinja`."""
        if not (SHIPPED / name).is_file():
            known = ", ".join(sorted(p.name for p in SHIPPED.glob("*.jinja")))
            raise TemplateError(f"no template {name!r} is shipped; there are: {known}")
        return cls((SHIPPED / name).read_text(encoding="utf-8"), name, names)

    @property
    def language(self) -> Language:
        """The target language, from the suffix of the name."""
        suffix = Path(self.name.removesuffix(".jinja")).suffix
        if suffix not in LANGUAGES or not self.name.endswith(".jinja"):
            raise TemplateError(
                f"{self.name}: a template's name must end in its language's suffix and .jinja: kernel.py.jinja "
                f"(Triton), kernel.cu.jinja (CUDA); the suffix before .jinja is one of {', '.join(LANGUAGES)}"
            )
        return LANGUAGES[suffix]

    def render(self, **names: Any) -> Rendered:
        """Render the template. Raises TemplateError with the template's line."""
        first = self._filled(names, {})
        return first if not first.tiles else self._filled(names, first.tiles)

    def _filled(self, names: Mapping[str, object], tuned: Mapping[Size, Size]) -> Rendered:
        """One rendering; `tuned` are the tile sizes found by an earlier one."""
        filling = Filling(self.name, self.language, self.text, tuned=dict(tuned))
        compiled = engine.compile_text(self.text, self.name, filling.finalize)
        filling.line_of = lambda: caller_line(compiled)
        given = {
            name: visible(name, value, self.language == "triton") for name, value in {**self.names, **names}.items()
        }
        words = filling.globals()
        for more in (Statements(filling), Accesses(filling), Descriptors(filling), Declarations(filling)):
            words |= more.globals()
        if taken := sorted(words.keys() & given.keys()):
            raise TemplateError(
                f"{self.name}: {', '.join(taken)}: this name is reserved in every template; rename yours"
            )
        self._declare_sizes(filling, given)
        token = printing.set(filling.finalize)
        try:
            text = engine.fill(compiled, given, words)
        except TemplateError as error:
            raise TemplateError(filling.readable(str(error))) from error.__cause__
        finally:
            printing.reset(token)
        whole = WholeText(filling, text)
        finished = whole.finish()
        return Rendered(
            self, finished, tuple(filling.placeholders), dict(filling.tables), whole.sizes(), tile_sizes(filling, text)
        )

    def _declare_sizes(self, filling: Filling, given: Mapping[str, object]) -> None:
        """Declare the sizes of all names that the template mentions in any branch, used or not."""
        mentioned = engine.mentioned(self.text)
        for name, value in given.items():
            for size in sizes_of(value).values() if name in mentioned else ():
                try:
                    filling.know(size, filling.declared)
                except TemplateError as error:
                    raise TemplateError(f"{self.name}: {name}: {error}") from error


@dataclass(frozen=True, eq=False)
class Rendered:
    """The text of a rendered template, with a record of every placeholder.

    `tables` are the tables of its layouts: in Triton, kernel arguments of the same names. `sizes` are the sizes that
    `{{ sizes }}` expanded to, in order. `tiles` are those that are constexprs, each with its upper bound.
    """

    template: Template
    text: str = field(repr=False)
    placeholders: tuple[Placeholder, ...] = field(repr=False)
    tables: dict[str, tuple[int, ...]] = field(repr=False)
    sizes: tuple[Any, ...]
    tiles: Mapping[Any, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def digest(self) -> str:
        """The cache key of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()
