"""A pass pipeline as a value that prints and parses back.

MLIR writes a pipeline as text, `builtin.module(cse,gpu.module(canonicalize))`. Here it is a tree of two small
dataclasses, so that a pass can be added, an option changed and two pipelines compared without cutting strings; the
text is what `mlir-opt --pass-pipeline='...'` takes:

>>> inner = Pipeline("gpu.module", (PipelinePass("canonicalize", {"max-iterations": 3}),))
>>> p = Pipeline("builtin.module", (PipelinePass("cse"), inner))
>>> str(p)
'builtin.module(cse,gpu.module(canonicalize{max-iterations=3}))'
>>> Pipeline.parse(str(p)) == p
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import UsageError

_NAME: Final = re.compile(r"[\w.\-]+")


@dataclass(frozen=True, slots=True, init=False)
class PipelinePass:
    """One pass with its options, in order: `PipelinePass("convert-gpu-to-nvvm", {"index-bitwidth": 64})`."""

    name: str
    options: tuple[tuple[str, str], ...]

    def __init__(self, name: str, options: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        pairs = options.items() if isinstance(options, Mapping) else options
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", tuple((key, _option_text(value)) for key, value in pairs))

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}{{{' '.join(f'{key}={value}' for key, value in self.options)}}}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes, and pipelines of operations inside, that run in order on every operation named `anchor`."""

    anchor: str
    items: tuple[PipelinePass | Pipeline, ...]

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(str, self.items))})"

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """The pipeline of this text. Raises UsageError with the column where it stops making sense."""
        parser = _Parser(text)
        item = parser.item()
        parser.end()
        if not isinstance(item, Pipeline):
            raise UsageError(f"pipeline {text!r}: must begin with what it runs on, as in builtin.module({item})")
        return item

    def passes(self) -> Iterator[PipelinePass]:
        """Every pass in the order in which it runs."""
        for item in self.items:
            if isinstance(item, PipelinePass):
                yield item
            else:
                yield from item.passes()


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Parser:
    """Recursive descent over `item := name '(' item,* ')' | name ['{' option* '}']`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def item(self) -> PipelinePass | Pipeline:
        name = self.name()
        if self.accept("("):
            return Pipeline(name, self.items_until_closed())
        return PipelinePass(name, self.options())

    def items_until_closed(self) -> tuple[PipelinePass | Pipeline, ...]:
        if self.accept(")"):
            return ()
        items = [self.item()]
        while self.accept(","):
            items.append(self.item())
        if not self.accept(")"):
            raise self.error("expected , or )")
        return tuple(items)

    def options(self) -> tuple[tuple[str, str], ...]:
        if not self.accept("{"):
            return ()
        pairs: list[tuple[str, str]] = []
        while not self.accept("}"):
            key = self.name()
            if not self.accept("="):
                raise self.error(f"expected = after the option {key}")
            pairs.append((key, self.value()))
        return tuple(pairs)

    def value(self) -> str:
        """Up to a blank or the closing brace; braces inside a value must balance."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            letter = self.text[self.at]
            if depth == 0 and letter in " }":
                return self.text[start : self.at]
            depth += (letter == "{") - (letter == "}")
            self.at += 1
        raise self.error("expected }")

    def name(self) -> str:
        self.blanks()
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.error("expected a name")
        self.at = match.end()
        return match.group()

    def accept(self, letter: str) -> bool:
        self.blanks()
        found = self.text.startswith(letter, self.at)
        self.at += len(letter) if found else 0
        return found

    def blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def end(self) -> None:
        self.blanks()
        if self.at != len(self.text):
            raise self.error("expected the end")

    def error(self, what: str) -> UsageError:
        return UsageError(f"pipeline {self.text!r}: {what} at column {self.at + 1}")
