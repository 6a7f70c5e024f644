"""C functions and classes of a layout, for a template or a header to declare.

>>> from lego_mlir.layout import Col
>>> from lego_mlir.templates import Template
>>> text = "{{ helpers }}{{ device_function('at', A) }}"
>>> print(Template.of(text, "at.cuh.jinja", A=Col(30, 7)).render().text.partition("#endif\\n#endif\\n")[2])
LEGO_DEVICE int at(int i, int j) {
  return j * 30 + i;
}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.nodes import Size
from lego_mlir.printers import cuda
from lego_mlir.printers.cuda import TYPES, CudaPrinter, StraightLine
from lego_mlir.templates.values import Bounded, Placed, ranges_of

if TYPE_CHECKING:
    from lego_mlir.templates.placeholders import Filling

LETTERS = "ijkl"


class Declarations:
    """The template's functions that declare a layout in C."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    def globals(self) -> dict[str, Any]:
        return {f.__name__: f for f in (self.device_function, self.layout_class)}

    def device_function(self, name: str, layout: Placed) -> str:
        """A C function from a logical index to its position; sizes are further parameters."""
        parameters = _parameters(len(layout.layout.dims()))
        expr, printer = self._position(layout, parameters)
        sizes = sorted((s for s in expr.free_symbols if isinstance(s, Size)), key=str)
        return self.filling.lines(cuda.function(name, [*parameters, *sizes], expr, printer).split("\n"))

    def layout_class(self, name: str, layout: Placed) -> str:
        """A C++ class with `apply`, `inv` and `size`; the layout's sizes are its members."""
        parameters = _parameters(len(layout.layout.dims()))
        expr, printer = self._position(layout, parameters)
        apply = cuda.function("apply", parameters, expr, printer, suffix=" const")
        inverse, of_inverse = self._inverse(layout, parameters)
        size = as_expr(layout.size)
        counted = CudaPrinter().print(size)
        methods = [apply, inverse, _method(TYPES[counted.width], "size", "", [f"return {counted.text};"])]
        used = {s for e in (expr, size, *of_inverse) for s in e.free_symbols if isinstance(s, Size)}
        self.filling.locals.update(map(str, used))
        return self.filling.lines(_class(name, sorted(used, key=str), methods))

    def _position(self, layout: Placed, parameters: Sequence[Any]) -> tuple[Any, CudaPrinter]:
        """A layout's position of some parameters, simplified; its text is kept for the translation check."""
        position = layout[tuple(parameters)]
        raw, ranges = as_expr(position), ranges_of(position)
        expr = self.filling.simplified(raw, ranges)
        self._keep([raw], [expr], ranges, (layout.layout, tuple(parameters)))
        return expr, CudaPrinter(ranges)

    def _inverse(self, layout: Placed, parameters: Sequence[Any]) -> tuple[str, list[Any]]:
        """The method `inv`, and the expressions in it."""
        position = Bounded(index_symbol("p"))
        index = layout.inv(position)
        raws, ranges = [as_expr(i) for i in index], ranges_of(*index)
        exprs = [self.filling.simplified(raw, ranges) for raw in raws]
        code = self._keep(raws, exprs, ranges)
        lines = code.lines() + [f"{p} = {text.text};" for p, text in zip(parameters, code.results, strict=True)]
        references = ", ".join(f"int &{p}" for p in parameters)
        kind = TYPES[CudaPrinter(ranges).width_of(position)]
        return _method("void", "inv", f"{kind} p, {references}", lines), [*raws, *exprs]

    def _keep(self, raws: Sequence[Any], exprs: Sequence[Any], ranges: Any, origin: Any = None) -> StraightLine:
        """The statements of some expressions, recorded as they are printed."""
        printer = CudaPrinter(ranges)
        printer.helpers["LEGO_DEVICE"] = None
        code = cuda.straight_line(exprs, printer)
        self.filling.note(printer)
        bindings = tuple((name, text.text) for name, text in code.bindings)
        for raw, expr, text in zip(raws, exprs, code.results, strict=True):
            self.filling.record(text.text, False, raw, expr, ranges, origin=origin, bindings=bindings)
        return code


def _parameters(rank: int) -> list[Any]:
    """Names for the coordinates of an index."""
    return [index_symbol(n) for n in (LETTERS[:rank] if rank <= len(LETTERS) else [f"i{k}" for k in range(rank)])]


def _method(result: str, name: str, parameters: str, lines: Sequence[str]) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"LEGO_DEVICE {result} {name}({parameters}) const {{\n{body}}}\n"


def _class(name: str, sizes: Sequence[Any], methods: Sequence[str]) -> list[str]:
    """The lines of a class with these sizes as members and constructor arguments."""
    kinds = [f"{TYPES[CudaPrinter().width_of(s)]} {s}" for s in sizes]
    lines = [f"struct {name} {{", *(f"  {kind};" for kind in kinds)]
    if sizes:
        members = ", ".join(f"{s}({s})" for s in sizes)
        lines.append(f"  LEGO_DEVICE constexpr explicit {name}({', '.join(kinds)}) : {members} {{}}")
    for method in methods:
        lines += [f"  {line}" for line in method.rstrip("\n").split("\n")]
    return [*lines, "};"]
