"""From the values of a template to text in the target's language, each with a record for the translation check.

While Jinja2 fills a template in, every value becomes a mark; when the text is whole, marks are replaced. Only then is
it known what stands around a placeholder, whether it needs parentheses, how far a statement is indented, and which
sizes and helper functions the whole kernel needs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Literal

from lego_mlir.errors import TemplateError
from lego_mlir.expr.cost import MODELS
from lego_mlir.expr.index import Condition, Index, as_condition, as_expr
from lego_mlir.expr.nodes import Le, Size, Table
from lego_mlir.expr.prove import prove
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Refuted
from lego_mlir.layout.slices import Colon
from lego_mlir.printers import cuda, triton
from lego_mlir.printers.cuda import TYPES, CudaPrinter
from lego_mlir.printers.text import ATOM, TextPrinter
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates.engine import is_undefined
from lego_mlir.templates.hints import contiguous_run
from lego_mlir.templates.refusals import require_ranges
from lego_mlir.templates.values import Coordinate, Offsets, Placed, Predicate, ranges_of

Language = Literal["triton", "cuda"]

MARK: Final = re.compile("\ue000(\\w+)\ue001")
INDENT: Final = "\ue002"  # at the start of a line: indented as the line of the placeholder
_STARTS: Final = re.compile(r"(?:^|[(\[{,:;]|\b(?:return|in)|(?<![=<>!+\-*/%&|^])=|//=|[+\-*%&|^]=)\s*$")
_ENDS: Final = re.compile(r"^\s*(?:$|[)\]},:;#])")

_WHERE: Final = {
    "helpers": "above the kernel, where functions and tables are defined",
    "sizes": "at the end of the kernel's parameters",
}


@dataclass(frozen=True, eq=False)
class Placeholder:
    """One filled-in place: the template's line, the text, and what the text must mean.

    `raw` is the expression or condition before simplification. `bindings` are the (name, text) pairs that are assigned
    before `text` is evaluated, `axes` the symbols that `tl.arange` stands for, `origin` the layout and index it came
    from, where it came from one.
    """

    line: int
    text: str
    raw: Any
    simplified: Any
    ranges: dict[Any, Any]
    axes: tuple[Any, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    origin: Any = None
    loose: bool = False


@dataclass
class Filling:
    """One filling-in of a template: its language, and what has been printed so far."""

    name: str
    language: Language
    placeholders: list[Placeholder] = field(default_factory=list)
    sizes: dict[str, Any] = field(default_factory=dict)
    bounds_of_arange: set[str] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)
    assigned: dict[str, Any] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    file_tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    temporaries: int = 0
    line_of: Callable[[], int] = lambda: 0

    # -- values

    def finalize(self, value: Any) -> Any:
        """The text, or the mark, of a value in a placeholder."""
        if is_undefined(value):
            return str(value)  # which raises, and says what is undefined
        match value:
            case str():
                return value
            case bool() | int():
                return str(value)
            case tuple() | list():
                return ", ".join(str(self.finalize(v)) for v in value)
            case Offsets():
                return self.offsets(value)
            case Predicate():
                return self.predicate(value)
            case Condition():
                return self.predicate(Predicate(value, ranges_of(value)))
            case Index():
                return self.scalar(value)
            case Placed():
                raise TemplateError(
                    f"{value.name} is a layout and has no text of its own; index it, {value.name}[...], or use its "
                    "mask, inv, shape or size"
                )
        if hasattr(value, "__index__"):
            return str(int(value))
        raise TemplateError(f"a value of type {type(value).__name__} has no text in a template: {value!r}")

    def printer(self, ranges: Any, axes: Sequence[Any] = ()) -> Any:
        """A printer for this language."""
        if self.language == "triton":
            return TritonPrinter(ranges, axes=axes)
        if axes:
            raise TemplateError("a slice with ':' is a block of offsets, which only Triton has; index every axis here")
        return CudaPrinter(ranges)

    def simplified(self, raw: Any, ranges: Any) -> Any:
        return simplify(raw, ranges, model=MODELS[self.language]).expr

    def scalar(self, value: Index) -> str:
        """An index expression."""
        raw, ranges = value.expr, ranges_of(value)
        expr = self.simplified(raw, ranges)
        printer = self.printer(ranges)
        text = printer.print(expr)
        self.note(printer)
        return self.record(text.text, text.level < ATOM, raw, expr, ranges)

    def offsets(self, value: Offsets) -> str:
        """A slice: a block of offsets."""
        raw = value.expr
        expr = self.simplified(raw, value.ranges)
        axes = self.axes(value.slice.colons)
        self.agrees_with_assignments(value)
        printer = self.printer(value.ranges, axes)
        text = self.hinted(printer.block(expr), expr, axes, value.ranges)
        self.note(printer)
        loose = not (expr.is_Symbol or expr.is_Integer)
        origin = None if value.relative else (value.slice.layout, value.slice.places)
        return self.record(text, loose, raw, expr, value.ranges, axes=axes, origin=origin)

    def hinted(self, text: str, expr: Any, axes: Sequence[Any], ranges: Any) -> str:
        """The offsets, with the runs of neighbours that Triton would not find by itself."""
        symbol, count = axes[-1]
        run = contiguous_run(expr, symbol, count, ranges) if isinstance(count, int) else None
        if run is None:
            return text
        shape = [1] * (len(axes) - 1)
        if run.multiple_of > 1:
            text = f"tl.multiple_of({text}, {[*shape, run.multiple_of]})"
        return f"tl.max_contiguous({text}, {[*shape, run.length]})"

    def agrees_with_assignments(self, value: Offsets) -> None:
        """Refuse an index that was assigned from a larger range than its axis has."""
        for place, n in zip(value.slice.places, value.slice.layout.dims(), strict=True):
            known = None if isinstance(place, Colon) else self.assigned.get(str(as_expr(place)))
            if known is not None and isinstance(prove(Le(as_expr(known), as_expr(n)), value.ranges), Refuted):
                raise TemplateError(
                    f"{place!r} was assigned from a layout where it runs to {known}, but {value.name} has {n} along "
                    "that axis; make the sizes of the two layouts agree"
                )

    def predicate(self, value: Predicate) -> str:
        """A condition, or a block of truth values; None and True where it always holds."""
        if self.always(value):
            return "None" if value.colons else "True" if self.language == "triton" else "true"
        raw = as_condition(value.condition)
        expr = self.simplified(raw, value.ranges)
        axes = self.axes(value.colons)
        printer = self.printer(value.ranges, axes)
        text = printer.block_condition(expr) if axes else printer.condition(expr)
        self.note(printer)
        return self.record(text, True, raw, expr, value.ranges, axes=axes)

    def always(self, value: Predicate) -> bool:
        """Whether a condition is proved to hold."""
        if isinstance(value.condition, bool):
            return value.condition
        return bool(self.simplified(as_condition(value.condition), value.ranges) == True)  # noqa: E712

    def axes(self, colons: Sequence[Any]) -> tuple[Any, ...]:
        """The symbols that a slice runs over, and how the target names how many values each takes."""
        axes = []
        for colon in colons:
            count = colon.count if isinstance(colon.count, int) else as_expr(colon.count)
            if not isinstance(count, int):
                if not count.is_Symbol:
                    raise TemplateError(
                        f"a slice over {count} values: tl.arange needs a number or a constexpr; make the tile's size "
                        "an int, or a lego.size that is a constexpr argument of the kernel"
                    )
                self.sizes[str(count)] = count
                self.bounds_of_arange.add(str(count))
                count = str(count)
            axes.append((colon.symbol.expr, count))
        return tuple(axes)

    # -- records

    def record(self, text: str, loose: bool, raw: Any, simplified: Any, ranges: Any, **more: Any) -> str:
        """Keep a placeholder and give its mark."""
        places = () if more.get("origin") is None else more["origin"][1]
        require_ranges([raw, *(as_expr(p.start if isinstance(p, Colon) else p) for p in places)], ranges)
        self.collect(raw, simplified)
        ranges = {as_expr(s): r for s, r in ranges.items()}
        self.placeholders.append(Placeholder(self.line_of(), text, raw, simplified, ranges, loose=loose, **more))
        return f"\ue000{len(self.placeholders) - 1}\ue001"

    def collect(self, raw: Any, printed: Any) -> None:
        """Sizes are arguments only where the printed text has them; tables wherever they occur."""
        for symbol in sorted(printed.free_symbols, key=str):
            if isinstance(symbol, Size):
                known = self.sizes.setdefault(str(symbol), symbol)
                if known != symbol:
                    raise TemplateError(f"two different sizes are called {symbol}; give one of them another name")
        for table in raw.atoms(Table):
            self.tables[table.name] = table.entries

    def note(self, printer: TextPrinter) -> None:
        """The helpers that a printed text calls, and the constant tables that it indexes."""
        self.helpers.update(printer.helpers)
        self.file_tables.update(getattr(printer, "tables", {}))

    # -- statements

    def assign(self, names: str, values: Any) -> str:
        """Statements that give names to values: `{{ assign("lpid_m, lpid_n", grid.inv(pid)) }}`."""
        targets = [n.strip() for n in names.split(",")]
        given = list(values) if isinstance(values, (tuple, list)) else [values]
        if len(targets) != len(given):
            raise TemplateError(f"assign: {len(targets)} names ({names}) for {len(given)} values")
        raws = [as_expr(v) for v in given]
        used = {str(s) for raw in raws for s in raw.free_symbols}
        if taken := sorted(used & set(targets)):
            raise TemplateError(f"assign: {', '.join(taken)} would change while the values are computed; rename it")
        ranges = ranges_of(*given)
        exprs = [self.simplified(raw, ranges) for raw in raws]
        printer = self.printer(ranges)
        shared, exprs = printer.named(exprs, prefix=f"t{self.temporaries or ''}_")
        self.temporaries += bool(shared)
        lines, bindings = [], []
        for name, expr in [*shared, *zip(targets, exprs, strict=True)]:
            text = printer.print(expr)
            lines.append(self.statement(name, text.text, text.width))
            bindings.append((name, text.text))
            if name not in targets:
                printer.bind(name, expr)
        self.note(printer)
        self.assigned.update({t: v.stop for t, v in zip(targets, given, strict=True) if isinstance(v, Coordinate)})
        for target, raw, expr in zip(targets, raws, exprs, strict=True):
            self.record(target, False, raw, expr, ranges, bindings=tuple(bindings))
        return self.lines(lines)

    @staticmethod
    def lines(lines: Sequence[str]) -> str:
        """Several lines in place of one, indented as it is."""
        return f"\n{INDENT}".join(lines).rstrip("\n" + INDENT)

    def statement(self, name: str, text: str, width: Any) -> str:
        return f"{name} = {text}" if self.language == "triton" else f"const {TYPES[width]} {name} = {text};"

    def load(self, pointer: str, block: Any, other: Any = None, **options: Any) -> str:
        """`tl.load` of a slice, with its mask where one is needed."""
        return f"tl.load({pointer} + {self.finalize(block)}{self.masked(block, other)}{_keywords(options)})"

    def store(self, pointer: str, block: Any, value: str, **options: Any) -> str:
        """`tl.store` to a slice, with its mask where one is needed."""
        return f"tl.store({pointer} + {self.finalize(block)}, {value}{self.masked(block)}{_keywords(options)})"

    def masked(self, block: Any, other: Any = None) -> str:
        """`, mask=..., other=...` where the slice needs a mask, else nothing: for a `tl.load` of one's own."""
        if not isinstance(block, Offsets):
            raise TemplateError(f"a slice such as A[i, :, :] is needed, got {type(block).__name__}: {block!r}")
        if self.always(block.mask):
            return ""
        return f", mask={self.predicate(block.mask)}" + ("" if other is None else f", other={other}")

    def local(self, size: Any) -> str:
        """A size that the kernel reads itself: its name, and no argument."""
        name = str(as_expr(size))
        self.locals.add(name)
        self.sizes.setdefault(name, as_expr(size))
        return name

    # -- the whole text

    def readable(self, message: str) -> str:
        """A message with the values that went into it, in place of their marks."""
        return MARK.sub(lambda m: self.placeholders[int(m[1])].text if m[1].isdigit() else m[1], message)

    def finish(self, text: str) -> str:
        """The text with every mark replaced and every statement indented."""
        self._require_words(text)
        lines: list[str] = []
        indent = ""
        for line in text.split("\n"):
            if line.lstrip(" ").startswith(INDENT):  # a filter may have indented the mark as well
                lines.append(indent + line.lstrip(" ")[len(INDENT) :])
                continue
            indent = line[: len(line) - len(line.lstrip(" \t"))]
            lines.append(line)
        filled = ((line, self._replaced(line)) for line in lines)
        return "\n".join(new for line, new in filled if new.strip() or not line.strip())

    def _require_words(self, text: str) -> None:
        """Refuse a template that leaves out what its own placeholders need."""
        sizes = list(self.arguments()) if self.language == "triton" else []
        for word, needed in (("helpers", [*self.helpers, *self.file_tables]), ("sizes", sizes)):
            if needed and f"\ue000{word}\ue001" not in text:
                where = f"write {{{{ {word} }}}} {_WHERE[word]}"
                raise TemplateError(f"{self.name}: the text needs {', '.join(needed)}; {where}")

    def _replaced(self, line: str) -> str:
        while (mark := MARK.search(line)) is not None:
            before, after = line[: mark.start()], line[mark.end() :]
            what = mark.group(1)
            if what.isdigit():
                text = self._in_context(self.placeholders[int(what)], before, after)
            else:
                text = getattr(self, f"_{what}_text")(before)
            line = before + text + after
        return line

    def _in_context(self, placeholder: Placeholder, before: str, after: str) -> str:
        if not placeholder.loose:
            return placeholder.text
        alone = _STARTS.search(before) and _ENDS.search(MARK.sub("", after))
        return placeholder.text if alone else f"({placeholder.text})"

    def arguments(self) -> dict[str, Any]:
        """The sizes that the kernel is given."""
        return {name: symbol for name, symbol in self.sizes.items() if name not in self.locals}

    def _sizes_text(self, before: str) -> str:
        """The sizes that the text uses, as further parameters."""
        parts = []
        for name, symbol in self.arguments().items():
            if self.language == "cuda":
                parts.append(f"{TYPES[CudaPrinter().width_of(symbol)]} {name}")
            else:
                parts.append(f"{name}: tl.constexpr" if name in self.bounds_of_arange else name)
        return "".join(f", {p}" for p in parts)

    def _helpers_text(self, before: str) -> str:
        if self.language == "triton":
            return "\n\n".join(triton.HELPERS[name].rstrip("\n") + "\n" for name in self.helpers)
        printer = CudaPrinter()
        printer.helpers, printer.tables = dict(self.helpers), dict(self.file_tables)
        return cuda.definitions(printer)

    def _hints_text(self, before: str) -> str:
        lines = []
        for name, symbol in self.sizes.items():
            if name in self.bounds_of_arange:
                continue
            if symbol.multiple_of > 1:
                lines.append(f"{name} = tl.multiple_of({name}, {symbol.multiple_of})")
            lines.append(f"tl.assume({name} >= {symbol.least})")
            if symbol.max is not None:
                lines.append(f"tl.assume({name} <= {symbol.max})")
        return f"\n{before}".join(lines)

    def globals(self) -> dict[str, Any]:
        """The functions and words that every template has."""
        words = {"sizes": "\ue000sizes\ue001", "helpers": "\ue000helpers\ue001", "hints": "\ue000hints\ue001"}
        functions = (self.assign, self.load, self.store, self.masked, self.always, self.local)
        return {**words, "all": slice(None), **{f.__name__: f for f in functions}}


def _keywords(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value}" for name, value in options.items())


def caller_line(template: Any) -> int:
    """The template's line that is being filled in: that of the innermost frame of the compiled template."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == template.filename and "environment" in frame.f_globals:
            return int(template.get_corresponding_lineno(frame.f_lineno))
        frame = frame.f_back
    return 0
