"""First pass: print each value of a template in the target language, and record it for the translation check.

While Jinja2 renders, every value becomes a mark. The surrounding operators and the kernel's parameters are known only
once all text is rendered: `finish` replaces the marks then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.cost import MODELS
from lego_mlir.expr.index import Condition, Index, as_condition, as_expr
from lego_mlir.expr.nodes import Le, Size, tables_of
from lego_mlir.expr.prove import prove
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Refuted
from lego_mlir.layout.base import Layout
from lego_mlir.layout.slices import Colon
from lego_mlir.printers.cuda import CudaPrinter
from lego_mlir.printers.text_printer import ATOM, TextPrinter
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates.render.blocks import axes_of, blocks_in, lanes
from lego_mlir.templates.render.engine import is_undefined
from lego_mlir.templates.render.hints import contiguous_run
from lego_mlir.templates.render.indices import Ranges, ranges_of
from lego_mlir.templates.render.names import Language, named, require_identifier, words_of
from lego_mlir.templates.render.placeholder_marks import HELPERS, HINTS, INDENT, MARK, NO_MASK, SIZES
from lego_mlir.templates.render.require import require_language, require_ranges
from lego_mlir.templates.render.values import BlockCondition, NamedLayout, Offsets

Axis = tuple[Symbol, "int | str"]
"""A symbol that is printed as `tl.arange`, and its length: a number, or the name of a constexpr."""
Origin = tuple[Layout, tuple[IndexLike, ...]]
"""A layout and an index of it."""


@dataclass(frozen=True, eq=False)
class Placeholder:
    """One rendered placeholder: the template's line, the text, and the meaning of the text.

    `raw` is the expression or condition before simplification. `bindings` are (name, text) pairs assigned before `text`
    is evaluated, `axes` the symbols printed as `tl.arange`, `origin` the layout and index of a position, or None,
    `declared` the variables that the text declares with the type of their range, `read` the sizes that the kernel loads
    into variables of any type, `written` the line of the rendered text, 0 for an assigned variable, `tuned` the tile
    sizes with their upper bounds.
    """

    line: int
    text: str
    raw: Any
    simplified: Any
    ranges: dict[Any, Any]
    axes: tuple[Any, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    origin: Any = None
    declared: frozenset[Any] = frozenset()
    read: frozenset[str] = frozenset()
    loose: bool = False
    written: int = 0
    tuned: Mapping[Any, Any] = field(default_factory=dict)


@dataclass
class Filling:
    """The state of one rendering of a template: its language, and what has been printed so far.

    `declared` are the sizes of its layouts' dims, `sizes` those that the text uses, `shapes` the shapes of its blocks.
    `tuned` are tile sizes that an earlier rendering found to be constexprs.
    """

    name: str
    language: Language
    source: str = ""
    declared: dict[str, Any] = field(default_factory=dict)
    placeholders: list[Placeholder] = field(default_factory=list)
    sizes: dict[str, Any] = field(default_factory=dict)
    constexprs: set[str] = field(default_factory=set)
    shapes: list[tuple[Any, ...]] = field(default_factory=list)
    tuned: dict[Any, Any] = field(default_factory=dict)
    locals: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    assigned: dict[str, Any] = field(default_factory=dict)
    assigned_at: dict[str, int] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    file_tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    temporaries: int = 0
    line_of: Callable[[], int] = lambda: 0

    # -- values

    def finalize(self, value: Any) -> Any:
        """The text, or the mark, of a value in a placeholder."""
        if is_undefined(value):
            return str(value)  # raises with the name that is undefined
        match value:
            case str():
                return self.word(value)
            case bool() | int():
                return str(value)
            case tuple() | list():
                return ", ".join(str(self.finalize(v)) for v in value)
            case Offsets():
                return self.offsets(value)
            case BlockCondition():
                return self.predicate(value)
            case Condition():
                return self.predicate(BlockCondition(value, ranges_of(value)))
            case Index():
                return self.scalar(value)
            case NamedLayout():
                raise TemplateError(
                    f"{value.name} is a layout and cannot be printed; index it, {value.name}[...], or use its "
                    "mask, inv, shape or size"
                )
        if hasattr(value, "__index__"):
            return str(int(value))
        raise TemplateError(f"a value of type {type(value).__name__} cannot be printed in a template: {value!r}")

    def word(self, value: str) -> str:
        """Text unchanged; a word of the template with a mark of its line."""
        if value == HINTS:
            require_language("hints are promises to Triton's compiler", "triton", self.language, "leave them out")
        return self.here() + value if MARK.fullmatch(value) else value

    def here(self) -> str:
        """A mark of the template's line, removed from the final text."""
        return f"\ue000at{self.line_of()}\ue001"

    def printer(self, ranges: Ranges, axes: Sequence[Axis] = (), exprs: Sequence[Expr] = ()) -> Any:
        """A printer for this language, ranges and axes."""
        if axes:
            self.require_blocks()
        if self.language == "triton":
            along = lanes(exprs, (axis for axis, _ in axes))
            printer: Any = TritonPrinter(ranges, axes=axes, lanes=along, tuned=self.tuned)
        else:
            printer = CudaPrinter(ranges)
            printer.read = self.locals
        printer.checks_names = False  # `collect` checks them for the whole template
        return printer

    def require_blocks(self) -> None:
        """Reject a slice in a language without blocks."""
        if self.language != "triton":
            raise TemplateError("a slice with ':' is a block of offsets, which only Triton has; index every axis here")

    def simplified(self, raw: Expr, ranges: Ranges) -> Expr:
        return simplify(raw, ranges, model=MODELS[self.language]).expr

    def scalar(self, value: Index) -> str:
        """An index expression."""
        raw, ranges = value.expr, ranges_of(value)
        expr = self.simplified(raw, ranges)
        axes = self.lanes([raw])
        printer = self.printer(ranges, axes, [raw])
        text = printer.print(expr)
        self.note(printer)
        return self.record(text.text, text.level < ATOM, raw, expr, ranges, axes=axes)

    def lanes(self, raws: Sequence[Expr]) -> tuple[Axis, ...]:
        """The axes of block variables in expressions, with their lengths, if the language has vectors."""
        varying = blocks_in(*raws) if self.language == "triton" else ()
        return self.axes(axes_of([sum(varying, as_expr(0))]))

    def offsets(self, value: Offsets) -> str:
        """A slice: a block of offsets."""
        raw = value.expr
        expr = self.simplified(raw, value.ranges)
        axes = self.axes(value.axes)
        self.agrees_with_assignments(value)
        printer = self.printer(value.ranges, axes, [raw])
        text = self.hinted(printer.block(expr), expr, axes, value.ranges)
        self.note(printer)
        loose = not (expr.is_Symbol or expr.is_Integer)
        return self.record(text, loose, raw, expr, value.ranges, axes=axes, origin=self.origin(value))

    @staticmethod
    def origin(value: Offsets) -> Origin | None:
        """The layout and index of a block's positions; None if they are relative to its first."""
        return None if value.relative else (value.slice.layout, value.slice.places)

    def hinted(self, text: str, expr: Expr, axes: Sequence[Axis], ranges: Ranges) -> str:
        """The offsets, with contiguity hints where Triton would not find the contiguity."""
        symbol, count = axes[-1]
        run = contiguous_run(expr, symbol, count, ranges) if isinstance(count, int) else None
        if run is None:
            return text
        shape = [1] * (len(axes) - 1)
        if run.multiple_of > 1:
            text = f"tl.multiple_of({text}, {[*shape, run.multiple_of]})"
        return f"tl.max_contiguous({text}, {[*shape, run.length]})"

    def agrees_with_assignments(self, value: Offsets) -> None:
        """Reject an index assigned from a range larger than its axis."""
        for place, n in zip(value.slice.places, value.slice.layout.dims(), strict=True):
            known = None if isinstance(place, Colon) else self.assigned.get(str(as_expr(place)))
            if known is not None and isinstance(prove(Le(as_expr(known), as_expr(n)), value.ranges), Refuted):
                raise TemplateError(
                    f"{place!r} was assigned from a layout with range {known}, but {value.name} has {n} along "
                    "that axis; make the sizes of the two layouts agree"
                )

    def predicate(self, value: BlockCondition) -> str:
        """A condition or a block of Booleans; if proved, True, or None for a whole `mask` argument."""
        along = value.axes if self.language == "triton" or value.places else {}
        if along:
            self.require_blocks()
        if self.always(value):
            return NO_MASK if along else "True" if self.language == "triton" else "true"
        raw = as_condition(value.condition)
        expr = self.simplified(raw, value.ranges)
        axes = self.axes(along)
        printer = self.printer(value.ranges, axes, [raw])
        text = printer.block_condition(expr) if axes else printer.condition(expr)
        self.note(printer)
        return self.record(text, True, raw, expr, value.ranges, axes=axes)

    def always(self, value: object) -> bool:
        """Whether a condition is proved true."""
        if isinstance(value, (bool, Condition)):
            value = BlockCondition(value, ranges_of(value))
        if not isinstance(value, BlockCondition):
            raise TemplateError(
                f"always: a mask or a condition is needed, always(A.mask[i, :]), got {brief(repr(value))}"
            )
        if isinstance(value.condition, bool):
            return value.condition
        return bool(self.simplified(as_condition(value.condition), value.ranges) == True)  # noqa: E712

    def axes(self, along: Mapping[Symbol, IndexLike]) -> tuple[Axis, ...]:
        """The symbols of a slice's axes, each with its length as a number or the name of a constexpr."""
        axes = []
        for symbol, given in along.items():
            count = given if isinstance(given, int) else as_expr(given)
            if not isinstance(count, int):
                count = self.constexpr(count, f"a slice over {count} values", "tl.arange")
            axes.append((symbol, count))
        self.shapes.append(tuple(count for _, count in axes))
        return tuple(axes)

    def constexpr(self, count: Expr, what: str, word: str) -> str:
        """The name of a size that becomes a constexpr parameter, because Triton's `word` requires a constant."""
        if not isinstance(count, Size):
            raise TemplateError(
                f"{what}: {word} needs a number or a constexpr; make the tile's size an int, or a lego.size that is a "
                "constexpr argument of the kernel"
            )
        self.sizes[str(count)] = count
        self.constexprs.add(str(count))
        return str(count)

    # -- records

    def record(self, text: str, loose: bool, raw: Expr, simplified: Any, ranges: Ranges, **more: Any) -> str:
        """Record a placeholder and return its mark."""
        places = () if more.get("origin") is None else more["origin"][1]
        require_ranges([raw, *(as_expr(p.start if isinstance(p, Colon) else p) for p in places)], ranges)
        self.collect(raw, simplified)
        ranges = {as_expr(s): r for s, r in ranges.items()}
        more["bindings"] = _needed(text, more.get("bindings", ()))
        more |= {"loose": loose, "read": frozenset(self.locals), "tuned": self.tuned}
        self.placeholders.append(Placeholder(self.line_of(), text, raw, simplified, ranges, **more))
        return f"\ue000{len(self.placeholders) - 1}\ue001"

    def collect(self, raw: Expr, printed: Expr) -> None:
        """Collect the sizes of the printed text and all tables; reject name collisions."""
        for symbol in sorted(printed.free_symbols, key=str):
            if isinstance(symbol, Size):
                self.know(symbol, self.sizes)
            else:
                require_identifier("an index", str(symbol), self.language)
        for table in tables_of(raw):
            self.know_table(table)
        symbols = raw.free_symbols | printed.free_symbols
        if taken := sorted({str(s) for s in symbols} & self.tables.keys()):
            raise TemplateError(f"a table and an index or size are both called {taken[0]}; give one another name")
        self.indices |= {str(s) for s in symbols if not isinstance(s, Size)} - self.tables.keys()
        if both := sorted(self.indices & (self.declared.keys() | {str(s) for s in symbols if isinstance(s, Size)})):
            raise TemplateError(f"a size and an index are both called {both[0]}; give one of them another name")

    def know_table(self, table: Expr) -> None:
        """Add a table of the kernel. Raises TemplateError if its name is taken or invalid."""
        require_identifier("a table", table.name, self.language)
        if self.tables.setdefault(table.name, table.entries) != table.entries:
            raise TemplateError(
                f"two different tables are called {table.name}; name one of them, as in lego.gallery.table(.., "
                f"name='{table.name}_2')"
            )

    def know(self, size: Size, sizes: dict[str, Size]) -> None:
        """Add a size. Raises TemplateError if its name is taken or invalid."""
        require_identifier("a size", str(size), self.language)
        known = self.declared.get(str(size)) or self.sizes.get(str(size)) or size
        if known != size:
            raise TemplateError(f"two different sizes are called {size}; give one of them another name")
        sizes[str(size)] = size

    def note(self, printer: TextPrinter) -> None:
        """Collect the helpers and constant tables that a printed text uses."""
        self.helpers.update(printer.helpers)
        self.file_tables.update(getattr(printer, "tables", {}))

    # -- lines and words

    @staticmethod
    def lines(lines: Sequence[str]) -> str:
        """Several lines in place of one, with its indentation."""
        return f"\n{INDENT}".join(lines).rstrip("\n" + INDENT)

    def local(self, size: IndexLike) -> str:
        """A size that the kernel loads itself: a variable instead of a parameter."""
        symbol = size.expr if isinstance(size, Index) else None
        if not isinstance(symbol, Size):
            raise TemplateError(f"local: a size is needed, a lego.size of the spec, got {brief(repr(size))}")
        self.locals.add(str(symbol))
        self.know(symbol, self.sizes)
        return str(symbol)

    def readable(self, message: str) -> str:
        """A message with the marks replaced by their values."""
        shown = MARK.sub(lambda m: self.placeholders[int(m[1])].text if m[1].isdigit() else "", message)
        return named(shown, {})

    def globals(self) -> dict[str, object]:
        """The names available in every template."""
        words = {"sizes": SIZES, "helpers": HELPERS, "hints": HINTS}
        functions = (self.always, self.local)
        return {**words, "all": slice(None), **{f.__name__: f for f in functions}}


def _needed(text: str, bindings: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The bindings that a text needs, directly or through other bindings."""
    words = words_of(text)
    kept = []
    for name, bound in reversed(bindings):
        if name in words:
            kept.append((name, bound))
            words |= words_of(bound)
    return tuple(reversed(kept))


def caller_line(template: Any) -> int:
    """The template line being rendered: that of the innermost frame of the compiled template."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == template.filename and "environment" in frame.f_globals:
            return int(template.get_corresponding_lineno(frame.f_lineno))
        frame = frame.f_back
    return 0
