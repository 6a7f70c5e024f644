"""The two forms of the lego operations as text. The bindings, which lack the dialect, read only the generic one.

    %p = lego.apply #lego.layout<[M]: Row(M, 64)>(%i, %j)[%M]
    %p = "lego.apply"(%i, %j, %M) {layout = #lego.layout<[M]: Row(M, 64)>,
                                   operandSegmentSizes = array<i32: 2, 1>} : (index, index, index) -> index

`to_generic` rewrites each operation where it is and keeps its line, so that diagnostics still point to the given text.
`to_custom` prints the operations on indices for people; both forms parse with the plugin.

>>> text = "%p = lego.apply #lego.layout<[M]: Row(M, 64)>(%i, %j)[%M]"
>>> print(to_generic(text))
%p = "lego.apply"(%i, %j, %M) {layout = #lego.layout<[M]: Row(M, 64)>, \
operandSegmentSizes = array<i32: 2, 1>} : (index, index, index) -> index
>>> to_custom(to_generic(text)) == text
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from lego_mlir.transforms.modules import ModuleError

_NAMES: Final = "apply|inv|mask|genp|view|load|store|vector_load|vector_store|for_each"
_MENTIONED: Final = re.compile(rf"\blego\.(?:{_NAMES})\b(?!\s*=)|#lego\.layout\b")
_CUSTOM: Final = re.compile(rf'(?<![\w."$@!#%])lego\.({_NAMES}|yield)(?![\w"])(?!\s*=)')
_RESULTS: Final = re.compile(r"(%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*)\s*=\s*$")
_SKIPPED: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_DYNAMIC: Final = -(2**63)  # the size `?` in generic form


def mentions_lego(text: str) -> bool:
    """Whether a module uses the dialect."""
    return _MENTIONED.search(text) is not None


def to_generic(text: str, name: str = "-") -> str:
    """The text with every lego operation in generic form.

    Raises ModuleError, with the line, for an operation whose custom form is not that of docs/reference/dialect.md.
    """
    return _Reader(text, name).rewritten(0, len(text))


class _Reader:
    """A position in a text, and one method for each form of operation."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.at = text, name, 0

    def error(self, what: str) -> ModuleError:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - self.text.rfind("\n", 0, self.at)
        rest = self.text[self.at : self.at + 40].partition("\n")[0]
        return ModuleError(
            f"{self.name}:{line}:{column}: error: {what}, got {rest or 'the end'!r}; "
            "docs/reference/dialect.md has the syntax, and mlir-opt with the plugin prints the generic form "
            "(--mlir-print-op-generic), which is always read"
        )

    def rewritten(self, begin: int, end: int) -> str:
        """The text from `begin` to `end`."""
        made: list[str] = []
        self.at = begin
        while True:
            found = self._next(end)
            if found is None:
                return "".join([*made, self.text[begin:end]])
            made.append(self.text[begin : found.start()])
            results = _RESULTS.search(self.text, self.text.rfind("\n", 0, found.start()) + 1, found.start())
            self.at = found.end()
            made.append(_FORMS[found[1]](self, found[1], 0 if results is None else _count(results[1])))
            begin = self.at

    def _next(self, end: int) -> re.Match[str] | None:
        """The next operation in custom form, outside strings and comments."""
        while True:
            found = _CUSTOM.search(self.text, self.at, end)
            skipped = _SKIPPED.search(self.text, self.at, end)
            if skipped is None or found is None or found.start() < skipped.start():
                return found
            self.at = skipped.end()

    # -- tokens

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def accept(self, token: str) -> bool:
        self.space()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected {token!r}")

    def match(self, pattern: str, what: str) -> str:
        self.space()
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            raise self.error(f"expected {what}")
        self.at = found.end()
        return found[0]

    def enclosed(self, opening: str) -> str:
        """The text inside brackets, other brackets in it balanced."""
        self.expect(opening)
        begin, open_brackets = self.at, [_CLOSING[opening]]
        while open_brackets:
            skipped = _SKIPPED.match(self.text, self.at)
            if skipped is not None:
                self.at = skipped.end()
                continue
            mark = self.text[self.at : self.at + 1]
            if not mark:
                raise self.error(f"expected {open_brackets[-1]!r}")
            if self.text.startswith("->", self.at):
                self.at += 2
                continue
            if mark in _CLOSING:
                open_brackets.append(_CLOSING[mark])
            elif mark in _CLOSING.values() and mark != open_brackets.pop():
                raise self.error(f"unbalanced {mark!r}")
            self.at += 1
        return self.text[begin : self.at - 1]

    def operands(self, opening: str) -> list[str]:
        return [part.strip() for part in self.enclosed(opening).split(",") if part.strip()]

    def optional_operands(self) -> list[str]:
        return self.operands("[") if self.text[self.at : self.at + 1] == "[" else []

    def layout(self) -> str:
        word = self.match(r"#[\w.$]+", "a layout such as #lego.layout<Row(8, 8)>")
        return f"{word}<{self.enclosed('<')}>" if self.text[self.at : self.at + 1] == "<" else word

    def type(self) -> str:
        word = self.match(r"[!\w.$]+", "a type")
        return f"{word}<{self.enclosed('<')}>" if self.text[self.at : self.at + 1] == "<" else word

    def attributes(self, *own: str) -> str:
        """The attribute dictionary with the attributes of the form and those written after it."""
        self.space_on_line()
        more = self.enclosed("{").strip() if self.text[self.at : self.at + 1] == "{" else ""
        listed = ", ".join([*own, *filter(None, [more])])
        return f" {{{listed}}}" if listed else ""

    def space_on_line(self) -> None:
        """Skip blanks if a dictionary follows."""
        at = self.at
        while self.text[at : at + 1] in (" ", "\t"):
            at += 1
        if self.text[at : at + 1] == "{":
            self.at = at

    # -- operations

    def on_indices(self, name: str, results: int) -> str:
        """lego.apply, lego.inv and lego.mask."""
        layout, indices, sizes = self.layout(), self.operands("("), self.optional_operands()
        if name == "inv" and not results:
            raise self.error("lego.inv needs names for its results")
        types = {"apply": "index", "mask": "i1", "inv": f"({', '.join(['index'] * results)})"}[name]
        return _generic(
            name,
            [*indices, *sizes],
            self.attributes(f"layout = {layout}", _segments(len(indices), len(sizes))),
            ["index"] * (len(indices) + len(sizes)),
            types,
        )

    def view(self, name: str, results: int) -> str:
        source = self.match(r"%[\w$.#-]+", "a memref")
        sizes, attributes = self.optional_operands(), self.attributes()
        self.expect(":")
        made = self.type()
        return _generic(name, [source, *sizes], attributes, [self.memref_of(made), *["index"] * len(sizes)], made)

    def memref_of(self, view: str) -> str:
        inner = re.match(r"!lego\.view\s*<\s*(?=memref\s*<)", view)
        if inner is None:
            raise self.error(
                f"expected a type such as !lego.view<memref<8xf32>, #lego.layout<Row(8)>> instead of {view}"
            )
        reader = _Reader(view, self.name)
        reader.at = inner.end()
        return reader.type()

    def access(self, name: str, results: int) -> str:
        """lego.load, lego.store and their vector forms."""
        stored = [self.match(r"%[\w$.#-]+", "a value")] if name.endswith("store") else []
        if stored:
            self.expect(",")
        view, index, attributes = self.match(r"%[\w$.#-]+", "a view"), self.operands("["), self.attributes()
        self.expect(":")
        kind = self.type()
        if name.startswith("vector"):
            self.expect(",")
            element = self.type()
        else:
            element = _element(self.memref_of(kind))
        types = [*([element] if stored else []), kind, *["index"] * len(index)]
        return _generic(name, [*stored, view, *index], attributes, types, "()" if stored else element)

    def yielded(self, name: str, results: int) -> str:
        values: list[str] = []
        types: list[str] = []
        self.space_on_line()
        if re.compile(r"[ \t]*%").match(self.text, self.at):
            values.append(self.match(r"%[\w$.#-]+", "a value"))
            while self.accept(","):
                values.append(self.match(r"%[\w$.#-]+", "a value"))
            self.expect(":")
            types.append(self.type())
            while len(types) < len(values) and self.accept(","):
                types.append(self.type())
        return _generic(name, values, "", types, "()")

    def region(self, arguments: Sequence[str], ending: str = "") -> str:
        """A region in generic form; `ending` is its terminator where the custom form leaves it out."""
        self.space()
        begin = self.at + 1
        body = self.enclosed("{")
        end = self.at
        inner = self.rewritten(begin, begin + len(body))
        self.at = end
        return f"{{ ^bb0({', '.join(arguments)}): {inner}{ending}}}"

    def permutation(self, name: str, results: int) -> str:
        """lego.genp."""
        visibility = "".join(word for word in ("private", "public", "nested") if self.accept(word))
        symbol = self.match(r'@(?:[\w$.-]+|"[^"\n]*")', "a symbol")
        self.expect("sizes")
        sizes = [_DYNAMIC if part == "?" else part for part in self.operands("[")]
        regions = []
        for function in ("apply", "inv"):
            self.expect(function)
            arguments = [*self.operands("("), *self.optional_operands()]
            regions.append(self.region([f"{argument}: index" for argument in arguments]))
        own = [f"sizes = array<i64: {', '.join(map(str, sizes))}>", f'sym_name = "{symbol[1:].strip(chr(34))}"']
        own += [f'sym_visibility = "{visibility}"'] if visibility else []
        return f'"lego.genp"() ({", ".join(regions)}){self.attributes(*own)} : () -> ()'

    def loop(self, name: str, results: int) -> str:
        """lego.for_each."""
        index = self.operands("(")
        self.expect("in")
        layout, sizes = self.layout(), self.optional_operands()
        arguments, initial, types = [f"{i}: index" for i in index], [], []
        if self.accept("iter_args"):
            pairs = [part.partition("=") for part in self.operands("(")]
            self.expect("->")
            types = _top_level(self.enclosed("("))
            initial = [value.strip() for _, _, value in pairs]
            arguments += [f"{carried.strip()}: {kind}" for (carried, _, _), kind in zip(pairs, types, strict=False)]
        body = self.region(arguments, "" if initial else ' "lego.yield"() : () -> () ')
        attributes = self.attributes(f"layout = {layout}", _segments(len(sizes), len(initial)))
        given = ", ".join([*["index"] * len(sizes), *types])
        return (
            f'"lego.for_each"({", ".join([*sizes, *initial])}) ({body}){attributes} : ({given}) -> ({", ".join(types)})'
        )


_FORMS: Final[dict[str, Callable[[_Reader, str, int], str]]] = {
    "apply": _Reader.on_indices,
    "inv": _Reader.on_indices,
    "mask": _Reader.on_indices,
    "view": _Reader.view,
    "load": _Reader.access,
    "store": _Reader.access,
    "vector_load": _Reader.access,
    "vector_store": _Reader.access,
    "yield": _Reader.yielded,
    "genp": _Reader.permutation,
    "for_each": _Reader.loop,
}


def _generic(name: str, operands: Sequence[str], attributes: str, types: Sequence[str], results: str) -> str:
    return f'"lego.{name}"({", ".join(operands)}){attributes} : ({", ".join(types)}) -> {results}'


def _segments(*counts: int) -> str:
    return f"operandSegmentSizes = array<i32: {', '.join(map(str, counts))}>"


def _count(names: str) -> int:
    """The number of results that `%a, %b:2` names."""
    parts = (part.partition(":")[2].strip() for part in names.split(","))
    return sum(int(part) if part else 1 for part in parts)


def _element(memref: str) -> str:
    """The element type of `memref<?x4xf32, 3>`."""
    (first, *_) = _top_level(memref.strip()[len("memref") :].strip()[1:-1])
    return re.sub(r"^(?:(?:\?|\d+)\s*x\s*)*", "", first)


def _top_level(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for at, mark in enumerate(text):
        if mark in _CLOSING:
            depth += 1
        elif mark in _CLOSING.values() and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif mark == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()] if text.strip() else []


# -- printing

_GENERIC: Final = re.compile(
    r'"lego\.(apply|inv|mask)"\(([^()]*)\) (?:<?\{)layout = (#lego\.layout<[^\n]*?>), '
    r"operandSegmentSizes = array<i32: (\d+), \d+>\}>? : \([^()]*\) -> (?:index|i1|\([^()]*\))"
)


def to_custom(text: str) -> str:
    """The text with the operations on indices in custom form; others remain generic."""

    def printed(found: re.Match[str]) -> str:
        name, operands, layout, indices = found.groups()
        values = [value.strip() for value in operands.split(",") if value.strip()]
        sizes = values[int(indices) :]
        listed = f"[{', '.join(sizes)}]" if sizes else ""
        return f"lego.{name} {layout}({', '.join(values[: int(indices)])}){listed}"

    return _GENERIC.sub(printed, text)
