"""C functions and classes of a layout, for templates and headers.

>>> from lego_mlir.layout import Col
>>> from lego_mlir.templates import Template
>>> text = "{{ helpers }}{{ device_function('at', A) }}"
>>> print(Template.of(text, "at.cuh.jinja", A=Col(30, 7)).render().text.partition("#endif\\n#endif\\n")[2])
LEGO_DEVICE int at(int i, int j) {
  return j * 30 + i;
}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.layout.base import Layout
from lego_mlir.printers import cuda
from lego_mlir.printers.cuda import TYPES, CStatements, CudaPrinter
from lego_mlir.templates.render.indices import Bounded, ranges_of
from lego_mlir.templates.render.names import require_identifier
from lego_mlir.templates.render.require import require_language, require_text
from lego_mlir.templates.render.signature import ordered, sizes_of
from lego_mlir.templates.render.values import NamedLayout

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling

LETTERS: Final = "ijkl"
MEMBERS: Final = ("index", "apply", "inv", "size")
"""Members of a layout's class, besides its sizes, which end in `_`."""


class Declarations:
    """Template functions that declare a layout in C."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    def globals(self) -> dict[str, object]:
        return {f.__name__: f for f in (self.device_function, self.layout_class)}

    def device_function(self, name: str, layout: NamedLayout) -> str:
        """A C function from a logical index to its position; sizes are further parameters, as in a kernel."""
        self._require_c("device_function", "a function", name, layout)
        parameters = _parameters(layout)
        raw, expr, ranges = self._position(layout, parameters)
        sizes = _sizes(layout, [expr])
        printer = CudaPrinter(ranges)
        printer.declared |= {as_expr(p) for p in parameters}
        self._keep([raw], [expr], printer, (layout.layout, tuple(parameters)))
        return self.filling.lines(cuda.function(name, [*parameters, *sizes], expr, printer).split("\n"))

    def layout_class(self, name: str, layout: NamedLayout) -> str:
        """A C++ class with `apply`, `inv` and `size`; the layout's sizes are members, ordered as in a kernel."""
        self._require_c("layout_class", "a class", name, layout)
        if name in MEMBERS:
            raise TemplateError(f"layout_class: a class cannot be called {name!r}, as one of its members is; rename it")
        parameters, position = _parameters(layout), _position_name(layout)
        raw, expr, ranges = self._position(layout, parameters)
        index = layout.inv(position)
        raws, of_inverse = [as_expr(i) for i in index], ranges_of(*index)
        exprs = [self.filling.simplified(r, of_inverse) for r in raws]
        counted = as_expr(layout.size)
        sizes = _sizes(layout, [expr, counted, *exprs, *raws])
        members = {s: f"{s}_" for s in sizes}
        printer = CudaPrinter(ranges, members)
        printer.declared |= {as_expr(p) for p in parameters}
        kinds = {TYPES[printer.type_of(p)] for p in parameters}
        index_kind = "int" if kinds <= {"int"} else "long long"
        self._keep([raw], [expr], printer, (layout.layout, tuple(parameters)))
        apply = cuda.function("apply", parameters, expr, printer, suffix=" const")
        printer = CudaPrinter(of_inverse, members)
        printer.declared.add(as_expr(position))
        code = self._keep(raws, exprs, printer)
        lines = code.lines() + [f"{p} = {text.text};" for p, text in zip(parameters, code.results, strict=True)]
        given = [f"{TYPES[printer.type_of(position)]} {as_expr(position)}"]
        given += [f"{index_kind} &{p}" for p in parameters]
        size = printer.print(counted)
        methods = [
            apply,
            _method("void", "inv", ", ".join(given), lines),
            _method(TYPES[size.width], "size", "", [f"return {size.text};"]),
        ]
        return self.filling.lines(_class(name, index_kind, sizes, methods))

    def _require_c(self, word: str, what: str, name: str, layout: object) -> None:
        """Require a C template, a valid identifier and a layout."""
        require_language(f"{word} declares C", "cuda", self.filling.language, "write {{ A[i, j] }} itself")
        require_text(word, f"the name of {what}", name)
        require_identifier(f"{word}: {what}", name, "cuda")
        if not isinstance(layout, NamedLayout):
            raise TemplateError(f"{word}: a layout is needed, {word}({name!r}, A), got {brief(repr(layout))}")

    def _position(self, layout: NamedLayout, parameters: Sequence[Index]) -> tuple[Expr, Expr, dict[Symbol, Range]]:
        """A layout's position at these parameters: the expression before and after simplification, and its ranges."""
        position = layout[tuple(parameters)]
        raw, ranges = as_expr(position), ranges_of(position)
        return raw, self.filling.simplified(raw, ranges), ranges

    def _keep(
        self,
        raws: Sequence[Expr],
        exprs: Sequence[Expr],
        printer: CudaPrinter,
        origin: tuple[Layout, tuple[Index, ...]] | None = None,
    ) -> CStatements:
        """Print expressions as statements, and record them."""
        known = (dict(printer.names), dict(printer.tables))
        printer.helpers["LEGO_DEVICE"] = None
        code = cuda.c_statements(exprs, printer)
        self.filling.note(printer)
        printer.names, printer.tables = known
        shared = [(name, text.text) for name, text in code.bindings]
        declared = frozenset(printer.declared)
        for raw, expr, text in zip(raws, exprs, code.results, strict=True):
            members = [(name, str(s)) for s, name in printer.names.items() if s in raw.free_symbols]
            self.filling.record(
                text.text,
                False,
                raw,
                expr,
                printer.ranges,
                origin=origin,
                bindings=(*members, *shared),
                declared=declared,
            )
        return code


def _sizes(layout: NamedLayout, exprs: Iterable[Expr]) -> list[Size]:
    """The sizes of a layout and of expressions of it, in the order of a kernel's parameters."""
    used = {str(s): s for e in exprs for s in e.free_symbols if isinstance(s, Size)}
    return list(ordered(sizes_of(layout), used, ()).values())


def _parameters(layout: NamedLayout) -> list[Index]:
    """Index variables for the coordinates, with names different from any size."""
    rank = len(layout.layout.dims())
    names = LETTERS[:rank] if rank <= len(LETTERS) else [f"i{k}" for k in range(rank)]
    probe = as_expr(layout[tuple(index_symbol(f"lego_{n}") for n in names)])
    taken = {str(s) for s in _sizes(layout, [probe])}
    return [index_symbol(_free(name, taken)) for name in names]


def _position_name(layout: NamedLayout) -> Bounded:
    """An index variable for a position, with a name different from any size."""
    probe = layout.inv(Bounded(index_symbol("lego_p")))
    return Bounded(index_symbol(_free("p", {str(s) for s in _sizes(layout, map(as_expr, probe))})))


def _free(name: str, taken: Collection[str]) -> str:
    """A name different from any size or member."""
    tried = name
    number = 0
    while tried in taken or tried.removesuffix("_") in taken:
        tried, number = f"{name}{number}", number + 1
    return tried


def _method(result: str, name: str, parameters: str, lines: Sequence[str]) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"LEGO_DEVICE {result} {name}({parameters}) const {{\n{body}}}\n"


def _class(name: str, index: str, sizes: Sequence[Size], methods: Sequence[str]) -> list[str]:
    """The lines of a class whose members and constructor arguments are these sizes."""
    kinds = [(TYPES[CudaPrinter().type_of(s)], str(s)) for s in sizes]
    lines = [f"struct {name} {{", f"  using index = {index};", *(f"  {kind} {s}_;" for kind, s in kinds)]
    if sizes:
        given, members = (", ".join(f"{k} {s}" for k, s in kinds), ", ".join(f"{s}_({s})" for _, s in kinds))
        lines.append(f"  LEGO_DEVICE constexpr explicit {name}({given}) : {members} {{}}")
    for method in methods:
        lines += [f"  {line}" for line in method.rstrip("\n").split("\n")]
    return [*lines, "};"]
