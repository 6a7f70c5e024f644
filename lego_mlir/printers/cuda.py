"""Index expressions as C, for CUDA kernels and for the host.

The type of every operation is chosen by proved ranges: `int` if all its values fit, `unsigned` if they are non-negative
and fit 32 bits, otherwise `long long`. C's division truncates; ours floors. Where neither operand can be negative the
two agree, and the unsigned form is printed, which is cheaper on the hardware. Division by a constant power of two is a
shift or a mask for any sign. The remaining divisions call a helper. Only the square root uses floating point, and its
helper corrects the result to be exact.

A variable declared here, such as a size among a function's parameters, has the type of its range. A variable declared
elsewhere, such as a size that the kernel reads itself, may be an `int` whatever its range, and is cast where its range
does not fit one.

>>> from lego_mlir.expr.index import index_symbol, where
>>> from lego_mlir.expr.ranges import Range
>>> i, j = index_symbol("i"), index_symbol("j")
>>> printer = CudaPrinter({i.expr: Range(0, 1000), j.expr: Range(-8, 8)})
>>> printer.expression(i // 7 + j // 4), printer.expression(j % 7)
('(int)((unsigned)i / 7u) + (j >> 2)', 'lego_floor_mod<int>(j, 7)')
>>> CudaPrinter({i.expr: Range(0, 2**20)}).expression(i * 5000 + 3)
'(long long)i * 5000 + 3'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import sympy

from lego_mlir.aliases import Cond, Expr, IndexLike, Symbol
from lego_mlir.errors import PrintError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Divisor, ShiftLeft, Size
from lego_mlir.expr.reciprocal import DIVIDENDS
from lego_mlir.printers.target_functions import FUNCTIONS
from lego_mlir.printers.text_printer import ATOM, LOOSE, PRODUCT, SUM, Text, TextPrinter, Width, power_of_two

TYPES: Final[dict[Width, str]] = {"i32": "int", "u32": "unsigned", "i64": "long long"}
SUFFIX: Final[dict[Width, str]] = {"i32": "", "u32": "u", "i64": "LL"}
_KEYWORDS: Final = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq"
)
KEYWORDS: Final = frozenset(_KEYWORDS.split())
"""Reserved words of C++ up to C++20 (ISO/IEC 14882:2020, tables 5 and 6)."""

MACRO: Final = """\
#ifndef LEGO_DEVICE
#ifdef __CUDACC__
#define LEGO_DEVICE __host__ __device__ __forceinline__
#else
#define LEGO_DEVICE inline
#endif
#endif
"""
HELPERS: Final = {f.name: f.definition for f in FUNCTIONS["cuda"].values() if f.definition}
"""Functions that printed code may call, to be defined before it; they need MACRO, and <math.h> on the host."""


class CudaPrinter(TextPrinter):
    """Prints C that is valid in CUDA and in C++.

    `tables` collects the constant tables that the text indexes; `read` names the sizes that are not parameters.
    """

    target: ClassVar[str] = "cuda"
    reserved: ClassVar[frozenset[str]] = KEYWORDS
    widths: ClassVar[tuple[Width, ...]] = ("i32", "u32", "i64")

    def __init__(self, *args: Expr, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tables: dict[str, tuple[int, ...]] = {}
        self.read: Collection[str] = ()

    def is_declared(self, symbol: Symbol) -> bool:
        return (isinstance(symbol, Size) and str(symbol) not in self.read) or super().is_declared(symbol)

    def constant(self, value: int) -> Text:
        plain = super().constant(value)
        suffix = SUFFIX[plain.width]
        if value == -(2**31):
            return Text("(-2147483647 - 1)", ATOM, "i32")  # 2147483648 alone is a long long
        return Text(plain.text + suffix, plain.level, plain.width)

    def cast(self, text: Text, width: Width) -> Text:
        if text.text.isdigit() and width in ("u32", "i64"):
            return Text(text.text + SUFFIX[width], ATOM, width)
        return Text(f"({TYPES[width]}){text.at(ATOM)}", ATOM, width)

    def _unsigned(self, text: Text) -> Text:
        return text if text.width != "i32" else self.cast(text, "u32")

    def print_quotient(self, expr: Expr) -> Text:
        return self._divide(expr, "/")

    def print_remainder(self, expr: Expr) -> Text:
        return self._divide(expr, "%")

    def _divide(self, expr: Expr, operator: str) -> Text:
        x, d = expr.args
        width, (a, b) = self.operands(expr, (x, d))
        if isinstance(d, Divisor) and self.not_negative(x) and (self.bounds(x).hi or DIVIDENDS) < DIVIDENDS:
            quotient = self._scaled(expr, x, d, width)
            if operator == "/":
                return quotient
            return Text(f"{a.at(SUM)} - {quotient.at(PRODUCT)} * {b.at(ATOM)}", SUM, width)
        exponent = power_of_two(d)
        if exponent is not None:
            power = f"{a.at(ATOM)} >> {exponent}" if operator == "/" else f"{a.at(ATOM)} & {int(d) - 1}"
            return Text(power, LOOSE, width)
        if self.not_negative(x) and self.positive(d):
            divided = Text(f"{self._unsigned(a).at(PRODUCT)} {operator} {self._unsigned(b).at(ATOM)}", PRODUCT, width)
            if width != "i32":
                return divided
            return self.cast(Text(divided.text, PRODUCT, "u32"), "i32")
        if width == "u32":  # a divisor that may be 0 has no proof here; the helper is for signed types
            width, a, b = "i64", self.cast(a, "i64"), self.cast(b, "i64")
        return self.called(expr, width, a, b, suffix=f"<{TYPES[width]}>")

    def _scaled(self, expr: Expr, x: Expr, d: Divisor, width: Width) -> Text:
        """A quotient as a product with the reciprocal of its divisor, of words without sign."""
        n, packed = self.operand(x, expr), self.operand(d.reciprocal, expr).at(ATOM)
        product = f"(unsigned long long)(unsigned){n.at(ATOM)} * (unsigned){packed}"
        return Text(f"({TYPES[width]})({product} >> ({packed} >> 32))", ATOM, width)

    def print_shift(self, expr: Expr) -> Text:
        """A left shift of a possibly negative value, undefined in C, is printed as a product with a power of two."""
        x, n = expr.args
        if not isinstance(expr, ShiftLeft) or self.not_negative(x):
            return super().print_shift(expr)
        most = self.shifted_by(expr, 63)
        width = self.fit([self.interval(expr), self.interval(x), (1, 2**most)], expr)
        a, one = self.as_width(self.operand(x, expr), width), self.as_width(self.constant(1), width)
        power = self.constant(2**most).text if n.is_Integer else f"({one.text} << {self.operand(n, expr).at(ATOM)})"
        return Text(f"{a.at(PRODUCT)} * {power}", PRODUCT, width)

    def print_extreme(self, expr: Expr) -> Text:
        width, (a, b) = self.operands(expr, expr.args)
        operator = "<" if expr.symbol == "minimum" else ">"
        return Text(f"{a.at(SUM)} {operator} {b.at(SUM)} ? {a.at(SUM)} : {b.at(SUM)}", LOOSE, width)

    def print_select(self, expr: Expr) -> Text:
        condition = self.print_condition(expr.args[0])
        width, (a, b) = self.operands(expr, expr.args[1:])
        return Text(f"{condition.at(LOOSE)} ? {a.at(SUM)} : {b.at(SUM)}", LOOSE, width)

    def print_table(self, expr: Expr) -> Text:
        """A constant table becomes an array before the function; a run-time table is a pointer argument of its name."""
        self.require_table(expr)
        width = self.fit([self.interval(expr)], expr)
        if expr.entries:
            self.tables[expr.name] = expr.entries
        return Text(f"{expr.name}[{self.print(expr.index).text}]", ATOM, width)

    def print_logic(self, condition: Cond) -> Text:
        parts = [self.print_condition(c).at(ATOM) for c in sorted(condition.args, key=self.beginning)]
        if isinstance(condition, sympy.Not):
            return Text(f"!{parts[0]}", ATOM, "i32")
        return Text(f" {'&&' if isinstance(condition, sympy.And) else '||'} ".join(parts), LOOSE, "i32")

    def truth(self, value: bool) -> Text:
        return Text("true" if value else "false", ATOM, "i32")


def definitions(printer: CudaPrinter) -> str:
    """The definitions that printed code needs: helpers and constant tables."""
    parts = [MACRO] if printer.helpers else []
    for name in sorted(printer.helpers.keys() & HELPERS.keys()):
        guard = f"{name.upper()}_DEFINED"
        parts.append(f"#ifndef {guard}\n#define {guard}\n{HELPERS[name]}#endif\n")
    parts.extend(f"static __device__ const {table_definition(n, e)}\n" for n, e in printer.tables.items())
    return "".join(parts)


def table_definition(name: str, entries: Sequence[int]) -> str:
    """The definition of an array with these elements, of the narrowest type that holds them."""
    kind = TYPES[CudaPrinter().fit([(min(entries), max(entries))], name)]
    return f"{kind} {name}[{len(entries)}] = {{{', '.join(map(str, entries))}}};"


def function(
    name: str, parameters: Sequence[IndexLike], expr: IndexLike, printer: CudaPrinter, *, suffix: str = ""
) -> str:
    """A function that computes one expression of its parameters, with shared subexpressions named.

    Constant tables are part of the function. `suffix` follows the parameter list: " const" for a method.

    >>> from lego_mlir.expr.index import index_symbol
    >>> from lego_mlir.expr.ranges import Range
    >>> i = index_symbol("i")
    >>> q = (i + 1) // 3
    >>> print(function("f", [i], q * q + q, CudaPrinter({i.expr: Range(0, 99)})))
    LEGO_DEVICE int f(int i) {
      const int t0 = (int)((unsigned)(i + 1) / 3u);
      return t0 * t0 + t0;
    }
    <BLANKLINE>
    """
    names = [str(as_expr(p)) for p in parameters]
    for given in (name, *names):
        if given in KEYWORDS or names.count(given) > 1:
            why = "two parameters have that name" if names.count(given) > 1 else "C++ reserves that word"
            raise PrintError(f"cuda: {given} in the function {name}({', '.join(names)}): {why}; rename it")
    for p in map(as_expr, parameters):
        if p not in printer.names:
            printer.require_name(str(p), "a parameter", p)
    printer.helpers["LEGO_DEVICE"] = None
    printer.declared |= {as_expr(p) for p in parameters}
    code = c_statements([expr], printer)
    (text,) = code.results
    body = "\n".join(f"  {line}" for line in [*code.lines(), f"return {text.text};"])
    used = set(re.findall(r"\w+", body))
    named = {p: n if (n := str(as_expr(p))) in used else f"/*{n}*/" for p in parameters}  # compilers warn of the others
    arguments = ", ".join(f"{TYPES[printer.type_of(p)]} {name}" for p, name in named.items())
    return f"LEGO_DEVICE {TYPES[text.width]} {name}({arguments}){suffix} {{\n{body}\n}}\n"


@dataclass(frozen=True, slots=True)
class CStatements:
    """Constant tables, then named subexpressions in order, and the result texts that use them."""

    tables: tuple[str, ...]
    bindings: tuple[tuple[str, Text], ...]
    results: tuple[Text, ...]

    def lines(self) -> list[str]:
        """The statements as C declarations."""
        named = (f"const {TYPES[text.width]} {name} = {text.text};" for name, text in self.bindings)
        return [*(f"static constexpr {table}" for table in self.tables), *named]


def c_statements(exprs: Sequence[IndexLike], printer: CudaPrinter) -> CStatements:
    """Expressions computed together, with shared parts named; takes over the tables that printing them adds."""
    before = set(printer.tables)
    shared, results = printer.named(exprs)
    bindings = []
    for name, expr in shared:
        text = printer.print(expr)
        bindings.append((name, text))
        printer.bind(name, expr, text.width)
    texts = tuple(printer.print(result) for result in results)
    tables = tuple(table_definition(n, e) for n, e in printer.tables.items() if n not in before)
    for name in set(printer.tables) - before:
        del printer.tables[name]
    return CStatements(tables, tuple(bindings), texts)
