"""Assignments, with common subexpressions computed once.

>>> from lego_mlir.layout import as_layout, gallery
>>> from lego_mlir.templates import Template, indices
>>> m, k = indices("m k")
>>> A = as_layout(gallery.morton(16)).tile_by([4, 4], [4, 4])
>>> print(Template.of('{{ assign("at", A[m, k, 0, :]) }}', "t.py.jinja", A=A, m=m, k=k).render().text)
t_0 = (m * 4096) | (k * 4 + tl.arange(0, 4))
t_1 = (t_0 | (t_0 << 2)) & 52275
t_2 = (t_1 | (t_1 << 1)) & 87125
at = ((t_2 >> 9) | t_2) & 255
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.index import Condition, as_expr
from lego_mlir.printers.cuda import TYPES
from lego_mlir.printers.text_printer import TextPrinter, Width
from lego_mlir.templates.render.indices import Coordinate, ranges_of
from lego_mlir.templates.render.names import require_identifier, temporary
from lego_mlir.templates.render.require import is_number, require_text
from lego_mlir.templates.render.values import BlockCondition, Offsets

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling


class Statements:
    """The template function that assigns."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    def globals(self) -> dict[str, object]:
        return {"assign": self.assign}

    def assign(self, names: str, values: IndexLike) -> str:
        """Assign values to variables: `{{ assign("lpid_m, lpid_n", grid.inv(pid)) }}`, or a block to one."""
        require_text("assign", "the first argument, the variables", names)
        filling = self.filling
        targets = [n.strip() for n in names.split(",")]
        given = list(values) if isinstance(values, (tuple, list)) else [values]
        raws = self._expressions(targets, given)
        block = given[0] if isinstance(given[0], Offsets) else None
        ranges = ranges_of(*given)
        axes = filling.lanes(raws) if block is None else filling.axes(block.axes)
        exprs = [filling.simplified(raw, ranges) for raw in raws]
        printer = filling.printer(ranges, axes, raws)
        lines, bindings = self._shared(printer, exprs)
        for target, expr in zip(targets, exprs, strict=True):
            text = printer.print(expr)
            shown = text.text if block is None else filling.hinted(printer.block(expr), expr, axes, ranges)
            width = printer.type_of(expr) if expr.is_Symbol else text.width  # a variable has the width of its range
            lines.append(self.statement(target, shown, width))
            bindings.append((target, self.value(shown, width)))
        filling.note(printer)
        filling.assigned.update({t: v.stop for t, v in zip(targets, given, strict=True) if isinstance(v, Coordinate)})
        filling.assigned_at.update(dict.fromkeys(targets, filling.line_of()))
        more = {"bindings": tuple(bindings), "axes": axes, "origin": None if block is None else filling.origin(block)}
        for target, raw, expr in zip(targets, raws, exprs, strict=True):
            filling.record(target, False, raw, expr, ranges, **more)
        return filling.lines([line + filling.here() for line in lines])

    def _expressions(self, targets: Sequence[str], given: Sequence[IndexLike]) -> list[Expr]:
        """The expressions of the values. Rejects invalid values, and targets that the values depend on."""
        if len(targets) != len(given):
            raise TemplateError(f"assign: {len(targets)} names ({', '.join(targets)}) for {len(given)} values")
        for target in targets:
            require_identifier("assign: a variable", target, self.filling.language)
        if len(set(targets)) < len(targets):
            raise TemplateError(f"assign: one name for two values in {', '.join(targets)}; use different names")
        for value in given:
            if not (is_number(value) or isinstance(value, Offsets)):
                what = "a condition" if isinstance(value, (Condition, BlockCondition)) else brief(repr(value))
                raise TemplateError(
                    f"assign: an index, a position or a block of positions is needed, got {what}; any other value can "
                    "be written as it is, as in inside = {{ A.mask[i, :] }}"
                )
            if isinstance(value, Offsets):
                self.filling.require_blocks()
                self.filling.agrees_with_assignments(value)
                if len(given) > 1:
                    raise TemplateError(
                        "assign: a block of positions is assigned on its own; write one assign for each"
                    )
        raws = [v.expr if isinstance(v, Offsets) else as_expr(v) for v in given]
        used = {str(s) for raw in raws for s in raw.free_symbols}
        if taken := sorted(used & set(targets)):
            raise TemplateError(f"assign: {', '.join(taken)} is both assigned and used in the values; rename it")
        return raws

    def _shared(self, printer: TextPrinter, exprs: Sequence[Expr]) -> tuple[list[str], list[tuple[str, str]]]:
        """Assignments of common subexpressions, and their (name, text) bindings."""
        shared, _ = printer.named(exprs, prefix=f"t{self.filling.temporaries or ''}_")
        self.filling.temporaries += bool(shared)
        lines, bindings = [], []
        for wanted, expr in shared:
            name, text = temporary(wanted), printer.print(expr)
            lines.append(self.statement(name, text.text, text.width))
            bindings.append((name, self.value(text.text, text.width)))
            printer.bind(name, expr, text.width)
        return lines, bindings

    def statement(self, name: str, text: str, width: Width) -> str:
        return f"{name} = {text}" if self.filling.language == "triton" else f"const {TYPES[width]} {name} = {text};"

    def value(self, text: str, width: Width) -> str:
        """The variable's value as text: in C converted to the declared type."""
        return text if self.filling.language == "triton" else f"({TYPES[width]})({text})"
