"""Second pass: once all text is rendered, replace each mark; only now are the needed sizes and helpers known.

It decides parentheses and indentation, the size parameters and the helper functions. The final Triton text must parse
as Python:

>>> require_python("f.py.jinja", "def f(x):\\n    return x +\\n", [4, None], "")
Traceback (most recent call last):
lego_mlir.errors.TemplateError: f.py.jinja: line 2 of the rendered text is not Python (invalid syntax): return x +

Parentheses are where the characters around a placeholder's text need them: a sum needs none between `(` and `,` or
after an assignment, but does after `2 *`. The operator may be on another line, because a line break does not end an
expression inside brackets, nor anywhere in C:

>>> lines = ["x = f(2 *", "      HERE, y)", "z = (HERE", "     * 2)", "w = HERE", "for k in range(4):"]
>>> [stands_alone(lines, k, *lines[k].split("HERE"), "triton") for k in (1, 2, 4)]
[False, False, True]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir import syntax_tree
from lego_mlir.errors import TemplateError
from lego_mlir.expr.nodes import Size
from lego_mlir.printers import cuda, triton
from lego_mlir.printers.cuda import TYPES, CudaPrinter
from lego_mlir.templates.render.names import Language, chosen, named
from lego_mlir.templates.render.placeholder_marks import HELPERS, INDENT, MARK, SIZES
from lego_mlir.templates.render.ranks import require_declared, require_kept
from lego_mlir.templates.render.signature import ordered, require_room
from lego_mlir.templates.render.tile_limits import LONGEST

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling, Placeholder


INT32_MAX: Final = 2**31 - 1
_WORDS: Final = ("sizes", "helpers", "hints")
_WHERE: Final = {
    "helpers": "above the kernel, where functions and tables are defined",
    "sizes": "at the end of the kernel's parameters",
}


class WholeText:
    """A rendered text with marks, and the `Filling` that replaces them."""

    def __init__(self, filling: Filling, text: str) -> None:
        self.filling = filling
        self.text = text

    def finish(self) -> str:
        """The text with every mark replaced and every statement indented."""
        self._require_words()
        self._require_apart()
        lines: list[str] = []
        indent = ""
        for line in self.text.split("\n"):
            if line.lstrip(" ").startswith(INDENT):  # a filter may have indented the mark too
                lines.append(indent + line.lstrip(" ")[len(INDENT) :])
                continue
            indent = line[: len(line) - len(line.lstrip(" \t"))]
            lines.append(line)
        filled = [(self._line_of(line), self._replaced(lines, number), line) for number, line in enumerate(lines)]
        kept = [(at, new, line) for at, new, line in filled if new.strip() or not line.strip()]
        whole = "\n".join(new for _, new, _ in kept)
        names = chosen(whole)
        self.filling.placeholders = [_renamed(p, names) for p in self.filling.placeholders]
        whole = named(whole, names)
        if self.filling.language == "triton":
            written = [(at, line) for at, new, line in kept for _ in new.split("\n")]
            require_python(self.filling.name, whole, [at for at, _ in written], self.filling.source)
            used = {number: self._placed(line, number) for number, (_, line) in enumerate(written, 1)}
            require_kept(self.filling.name, whole, self.arguments())
            require_declared(self.filling.name, whole, used, self.filling.placeholders)
        return whole

    def _placed(self, line: str, written: int) -> list[Placeholder]:
        """The placeholders marked in a line; sets the text line of each."""
        placeholders = self.filling.placeholders
        found = [int(mark[1]) for mark in MARK.finditer(line) if mark[1].isdigit()]
        for k in found:
            placeholders[k] = replace(placeholders[k], written=placeholders[k].written or written)
        return [placeholders[k] for k in found]

    def _line_of(self, line: str) -> int | None:
        """The template line that produced a line of the text, if a mark records it."""
        for mark in MARK.finditer(line):
            if mark[1].isdigit():
                return self.filling.placeholders[int(mark[1])].line
            if mark[1].startswith("at"):
                return int(mark[1][2:])
        return None

    def _require_words(self) -> None:
        """Reject a template without the words that its placeholders need."""
        text = self.text
        if (at := text.find(SIZES)) >= 0:
            sized = text[text.rfind("\n", 0, at) + 1 :]
            try:
                if self.arguments():
                    require_room(MARK.sub("", text[:at]), self.arguments(), self.filling.language)
            except TemplateError as error:
                raise TemplateError(f"{self.filling.name}:{self._line_of(sized) or 0}: {error}") from error
        sizes = [n for n in self.arguments() if n in self.filling.sizes] if self.filling.language == "triton" else []
        for word, mark, needed in (
            ("helpers", HELPERS, [*self.filling.helpers, *self.filling.file_tables]),
            ("sizes", SIZES, sizes),
        ):
            if needed and mark not in text:
                where = f"write {{{{ {word} }}}} {_WHERE[word]}"
                raise TemplateError(f"{self.filling.name}: the text needs {', '.join(needed)}; {where}")

    def _require_apart(self) -> None:
        """Reject a variable of `assign` with the name of a size."""
        for name, line in self.filling.assigned_at.items():
            if name in self.filling.declared or name in self.filling.sizes:
                raise TemplateError(
                    f"{self.filling.name}:{line}: assign: {name} is a size of the kernel; take another name"
                )

    def _replaced(self, lines: Sequence[str], number: int) -> str:
        """A line with every mark replaced."""
        line = lines[number]
        while (mark := MARK.search(line)) is not None:
            before, after = line[: mark.start()], line[mark.end() :]
            around = (lines, number, before, after, self.filling.language)
            what = mark.group(1)
            if what.isdigit():
                placeholder = self.filling.placeholders[int(what)]
                bare = not placeholder.loose or stands_alone(*around)
                text = placeholder.text if bare else f"({placeholder.text})"
            elif what == "always":
                text = "None" if is_argument(*around) else "True"
            elif not what.startswith("at") and what not in _WORDS:
                raise TemplateError(
                    f"{self.filling.name}:{self._line_of(lines[number]) or 0}: a filter has changed a value that is "
                    "printed in the second pass; write it without the filter"
                )
            else:
                text = "" if what.startswith("at") else getattr(self, f"_{what}_text")(before)
            line = before + text + after
        return line

    def sizes(self) -> tuple[Size, ...]:
        """The sizes that `{{ sizes }}` expands to, in order; none if the text does not use it."""
        return tuple(self.arguments().values()) if SIZES in self.text else ()

    def arguments(self) -> dict[str, Size]:
        """The size parameters, in order."""
        given = ordered(self.filling.declared, self.filling.sizes, self.filling.constexprs)
        return {name: symbol for name, symbol in given.items() if name not in self.filling.locals}

    def _sizes_text(self, before: str) -> str:
        """The size parameters as text."""
        parts = []
        for name, symbol in self.arguments().items():
            if self.filling.language == "cuda":
                parts.append(f"{TYPES[CudaPrinter().width_of(symbol)]} {name}")
            else:
                parts.append(f"{name}: tl.constexpr" if name in self.filling.constexprs else name)
        return "".join(f", {p}" for p in parts)

    def _helpers_text(self, before: str) -> str:
        if self.filling.language == "triton":
            return "\n\n".join(triton.HELPERS[name].rstrip("\n") + "\n" for name in self.filling.helpers)
        printer = CudaPrinter()
        printer.helpers, printer.tables = dict(self.filling.helpers), dict(self.filling.file_tables)
        return cuda.definitions(printer)

    def _hints_text(self, before: str) -> str:
        """The declared facts of sizes. Triton 3.9 drops `tl.multiple_of` of a parameter, which is not the result of an
        operation, so the divisor is put on a maximum, which the assumed bound lets the compiler remove."""
        lines = []
        given = {name: symbol for name, symbol in self.arguments().items() if name not in self.filling.constexprs}
        for name in sorted(self.filling.constexprs & self.arguments().keys()):
            lines += _required(self.filling.sizes[name], self.filling.tuned.get(self.filling.sizes[name]))
        for name, symbol in given.items():
            if name not in self.filling.sizes:
                continue
            lines += _bounds_assumed(name, symbol)
            if symbol.multiple_of > 1:
                lines.append(f"{name} = tl.multiple_of(tl.maximum({name}, {symbol.least}), {symbol.multiple_of})")
        for name, symbol in self.filling.sizes.items():
            if name not in self.filling.locals:
                continue
            if symbol.multiple_of > 1:
                lines.append(f"{name} = tl.multiple_of({name}, {symbol.multiple_of})")
            lines += _bounds_assumed(name, symbol)
        return f"\n{before}".join(lines)


def _required(size: Size, tile: Size | None) -> list[str]:
    """The declared and assumed facts of a tile size, as compile-time assertions."""
    claims = [f"{size} >= {size.least}"] if size.least > 1 else []
    claims += [f"{size} <= {size.max}"] if size.max is not None else []
    claims += [f"{size} % {size.multiple_of} == 0"] if size.multiple_of > 1 else []
    if tile is not None and size.max is None and tile.max is not None and tile.max <= LONGEST:
        claims.append(f"{size} <= {tile.max}, \"for larger tiles give the size a max, lego.size('{size}', max=..)\"")
    return [f"tl.static_assert({claim})" for claim in claims]


def _bounds_assumed(name: str, symbol: Size) -> list[str]:
    """The interval of a size, as `tl.assume` statements."""
    if (
        symbol.max is None or symbol.max > INT32_MAX
    ):  # Triton passes a value that fits as int32, whatever its size's max
        return [f"tl.assume({name} >= {symbol.least})"]
    return [f"tl.assume({name} >= {symbol.least})", f"tl.assume({name} <= {symbol.max})"]


def _renamed(placeholder: Placeholder, names: Mapping[str, str]) -> Placeholder:
    """The placeholder with the final names of its temporaries."""
    bindings = tuple((named(name, names), named(text, names)) for name, text in placeholder.bindings)
    return replace(placeholder, text=named(placeholder.text, names), bindings=bindings)


def require_python(name: str, text: str, lines: Sequence[int | None], source: str) -> None:
    """Raise TemplateError if the text is not Python, with the template line if `lines` or the text identifies it."""
    try:
        syntax_tree.parse(text)
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        number = (error.lineno if isinstance(error, SyntaxError) else None) or 1
        given = text.split("\n")
        wrong = given[min(number, len(given)) - 1].strip()
        line = (lines[number - 1] if number <= len(lines) else None) or _only_line(source, wrong)
        where = f"{name}: line {number} of the rendered text" if line is None else f"{name}:{line}: the rendered text"
        raise TemplateError(f"{where} is not Python ({reason}): {wrong}") from error


def _only_line(source: str, text: str) -> int | None:
    """The number of the template line with this text, if it is unique."""
    found = [number for number, line in enumerate(source.split("\n"), 1) if text and line.strip() == text]
    return found[0] if len(found) == 1 else None


_STARTS: Final = re.compile(r"(?:^|[(\[{,:;]|\b(?:return|in)|(?<![=<>!+\-*/%&|^])=|//=|[+\-*%&|^]=)\s*$")
_ENDS: Final = re.compile(r"\s*(?:$|[)\]},:;])")
_ARGUMENT: Final = re.compile(r"(?:^|(?<![=<>!])=)\s*$")  # before the value of an assignment or keyword argument
_NEXT_STATEMENT: Final = re.compile(r"\s*(?!(?:in|is|not)\b)[\w@\"'\ue000]")  # of Python: not an operator or bracket
_COMMENT: Final[dict[Language, re.Pattern[str]]] = {
    "triton": re.compile(r"(?:^|\s)#.*$|\\\s*$"),
    "cuda": re.compile(r"//.*$"),
}


def stands_alone(lines: Sequence[str], number: int, before: str, after: str, language: Language) -> bool:
    """Whether an expression between these two parts of a line needs no parentheses, whatever its operator."""
    return _begins(lines, number, before, language) and _ends(lines, number, after, language)


def is_argument(lines: Sequence[str], number: int, before: str, after: str, language: Language) -> bool:
    """Whether it is the whole value of an assignment or keyword argument."""
    return bool(_ARGUMENT.search(before)) and stands_alone(lines, number, before, after, language)


def _begins(lines: Sequence[str], number: int, before: str, language: Language) -> bool:
    """Whether no operator before it, on its line or an earlier one, applies to it."""
    return bool(_STARTS.search(before if before.strip() else _nearest(reversed(lines[:number]), language)))


def _ends(lines: Sequence[str], number: int, after: str, language: Language) -> bool:
    """Whether no operator after it, on its line or a later one, applies to it."""
    rest = _bare(after, language)
    if rest.strip():
        return bool(_ENDS.match(rest))
    following = _nearest(lines[number + 1 :], language)
    return bool(_ENDS.match(following) or (language == "triton" and _NEXT_STATEMENT.match(following)))


def _nearest(lines: Iterable[str], language: Language) -> str:
    """The first line with code, ignoring comments and marks of whole lines."""
    return next((bare for line in lines if (bare := _bare(line, language)).strip()), "")


def _bare(text: str, language: Language) -> str:
    """A text without its comment and without marks other than those of expressions."""
    kept = MARK.sub(lambda mark: mark[0] if mark[1].isdigit() or mark[1] == "always" else "", text)
    return _COMMENT[language].sub("", kept)
