"""Index expressions as Triton's Python, slices as blocks of offsets.

Triton computes integers in int32 unless an operand is int64, and divides as C does. So an operand is cast where a
result is not proved to fit 32 bits, and the plain `//` and `%` are printed only if both operands are proved
non-negative; division by a constant power of two becomes a shift or a mask.

A slice runs over axes. A subexpression that depends on one axis is computed as a vector and broadcast once, as late as
possible; one that depends on no axis is a scalar and comes first, so that `ptr + <text>` offsets the scalar pointer:

>>> from lego_mlir.expr.index import index_symbol
>>> from lego_mlir.expr.sizes import size
>>> from lego_mlir.expr.ranges import Range
>>> m, i, j = (index_symbol(n) for n in ("pid_m", "i", "j"))
>>> K = size("K", max=4096)
>>> ranges = {m.expr: Range(0, 64), i.expr: Range(0, 32), j.expr: Range(0, 64)}
>>> TritonPrinter(ranges, axes=[(i, 32), (j, 64)]).block((m * 32 + i) * K + j)
'(K * (pid_m * 32 + tl.arange(0, 32)))[:, None] + tl.arange(0, 64)[None, :]'
>>> TritonPrinter(ranges).expression((m + 5) // 8 - m % 3)
'((pid_m + 5) >> 3) - pid_m % 3'
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final

import sympy

from lego_mlir.aliases import Cond, Expr, IndexLike, Symbol
from lego_mlir.errors import PrintError
from lego_mlir.expr.index import as_condition, as_expr
from lego_mlir.expr.intervals import bounds, within
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.target_functions import FUNCTIONS
from lego_mlir.printers.text_printer import (
    ATOM,
    HOLDS,
    LOOSE,
    PRODUCT,
    SUM,
    Interval,
    Text,
    TextPrinter,
    Width,
    is_subtracted,
    power_of_two,
)

HELPERS: Final = {f.name: f.definition for f in FUNCTIONS["triton"].values() if f.definition}
"""Functions that printed code may call, to be defined in the module of the kernel."""

CALLED: Final = frozenset(("abs", "bool", "float", "int", "isinstance", "len", "max", "min", "print", "range", "tuple"))
"""Builtins of Python that a Triton kernel may call."""
RESERVED: Final = frozenset(keyword.kwlist) | {"tl", "triton"} | CALLED

AxisSize = int | str
Axis = tuple[Any, AxisSize]  # a symbol and its number of values: an int or the name of a constexpr
MOST_ELEMENTS: Final = 2**20  # elements of a block; triton.language.TRITON_MAX_TENSOR_NUMEL


def _ends(known: Range) -> tuple[IndexLike, IndexLike]:
    return known.lo, known.hi


def _fits_int32(interval: Interval) -> bool:
    (lo, hi), (low, high) = interval, HOLDS["i32"]
    return lo is not None and hi is not None and low <= lo and hi <= high


DTYPES: Final[dict[Width, str]] = {"i32": "tl.int32", "u32": "tl.int64", "i64": "tl.int64"}


class TritonPrinter(TextPrinter):
    """Prints for a Triton kernel. `axes` are the symbols that a slice runs over, outermost first, and their sizes.

    `lanes` maps variables that hold vectors to their axis. `tuned` maps tile sizes that are constexprs to sizes with
    the maximum that Triton's block limit allows.
    """

    target: ClassVar[str] = "triton"
    reserved: ClassVar[frozenset[str]] = RESERVED

    def __init__(
        self,
        ranges: Mapping[IndexLike, Range] | None = None,
        names: Mapping[IndexLike, str] | None = None,
        *,
        axes: Sequence[Axis] = (),
        lanes: Mapping[Symbol, Symbol] | None = None,
        tuned: Mapping[Symbol, Symbol] | None = None,
    ) -> None:
        super().__init__(ranges, names)
        self.tuned = dict(tuned or {})
        self.axes: dict[Any, AxisSize] = {as_expr(symbol): size for symbol, size in axes}
        self.lanes = dict(lanes or {})
        self._rank: dict[Any, int] = {}
        for symbol, size in self.axes.items():
            if isinstance(size, int) and (size < 1 or size & (size - 1)):
                raise PrintError(
                    f"triton: a slice over {symbol} has {size} values, and tl.arange needs a power of two; tile by "
                    f"{1 << size.bit_length()} and use the mask"
                )
        sizes = [size for size in self.axes.values() if isinstance(size, int)]
        if prod(sizes) > MOST_ELEMENTS:
            shape = " x ".join(map(str, sizes))
            raise PrintError(
                f"triton: a block of {shape} exceeds the limit of {MOST_ELEMENTS} elements; use smaller tiles"
            )

    # -- blocks: the texts of slices

    def block(self, expr: IndexLike) -> str:
        """The offsets of a slice as a block with one dimension per axis."""
        return self._spread(as_expr(expr), self.print)

    def block_condition(self, condition: Cond) -> str:
        """A condition over the axes as a block of truth values that broadcasts against the offsets."""
        condition = as_condition(condition)
        if condition in (sympy.true, sympy.false):
            return self.truth(bool(condition)).text
        return self._spread(condition, self.print_condition)

    def _spread(self, expr: Expr, show: Callable[[Expr], Text]) -> str:
        text: Text = show(expr)
        if self.rank(expr) == 1 and len(self.axes) > 1:
            return text.at(ATOM) + self._expander(expr)
        return text.text

    def rank(self, expr: Expr) -> int:
        """The number of axes an expression depends on: 0 is a scalar, 1 a vector, more a block of the whole shape."""
        found = self._rank.get(expr)
        if found is None:
            found = self._rank[expr] = len(self._used(expr))
        return found

    def _used(self, expr: Expr) -> tuple[Symbol, ...]:
        """The axes that an expression depends on, outermost first."""
        along = {self.lanes.get(symbol, symbol) for symbol in expr.free_symbols}
        return tuple(axis for axis in self.axes if axis in along)

    def _expander(self, expr: Expr) -> str:
        """`[:, None]` for a vector along the first of two axes."""
        used = self._used(expr)
        return f"[{', '.join(':' if axis in used else 'None' for axis in self.axes)}]"

    def operand(self, expr: Expr, whole: Expr) -> Text:
        """An operand of `whole`: a vector is broadcast if the whole has more axes."""
        text = super().operand(expr, whole)
        if self.rank(expr) == 1 and self.rank(whole) > 1:
            return Text(text.at(ATOM) + self._expander(expr), ATOM, text.width)
        return text

    def print(self, expr: Expr) -> Text:
        if expr in self.axes and expr not in self.names:
            return Text(f"tl.arange(0, {self.axes[expr]})", ATOM, "i32")
        return super().print(expr)

    def print_sum(self, expr: Expr) -> Text:
        """Scalars first, then one vector per axis, summed before it is broadcast, then terms in several axes."""
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for term in expr.args:
            used = self._used(term)
            groups.setdefault(used if len(used) < 2 else tuple(self.axes), []).append(term)
        if len(groups) == 1:
            return super().print_sum(expr)
        parts = []
        for used in sorted(groups, key=lambda axes: (len(axes), [list(self.axes).index(a) for a in axes])):
            terms = self.ordered(groups[used])
            if len(used) == 1 and len(terms) > 1 and self.rank(expr) > 1 and not all(map(is_subtracted, terms)):
                parts.append(sympy.Add(*terms))
            else:
                parts.extend(terms)
        if is_subtracted(parts[0]):
            parts.sort(key=is_subtracted)  # stable: preserves the order of the groups
        return self.print_terms(expr, parts)

    # -- ranges: tile size times tile count does not exceed the tiled size, although each alone may be large

    def interval(self, expr: Expr) -> Interval:
        found = super().interval(expr)
        if not self.tuned or _fits_int32(found) or not self._depends_on_tuned(expr):
            return found
        expr, ranges = expr.xreplace(self.tuned), self._tuned_ranges
        known = bounds(expr, ranges)
        if _fits_int32((known.lo, known.hi)) or not within(expr, ranges, *HOLDS["i32"]):
            return known.lo, known.hi
        low, high = HOLDS["i32"]
        return max(low, low if known.lo is None else known.lo), min(high, high if known.hi is None else known.hi)

    def partial_sum(self, terms: Sequence[Expr], added: Interval) -> Interval:
        return self.interval(sympy.Add(*terms)) if self.tuned and not _fits_int32(added) else added

    def _depends_on_tuned(self, expr: Expr) -> bool:
        ends = (as_expr(end) for s in expr.free_symbols & self.ranges.keys() for end in _ends(self.ranges[s]))
        free = expr.free_symbols.union(*(end.free_symbols for end in ends))
        return not free.isdisjoint(self.tuned)

    @cached_property
    def _tuned_ranges(self) -> dict[Symbol, Range]:
        ends = {s: [as_expr(end).xreplace(self.tuned) for end in _ends(r)] for s, r in self.ranges.items()}
        return {s: Range(low, high, self.ranges[s].step) for s, (low, high) in ends.items()}

    # -- types: Triton's own promotions need no cast; it makes a kernel argument int32 whenever its value fits

    def operands(self, expr: Expr, args: Sequence[Expr]) -> tuple[Width, list[Text]]:
        parts = [self.operand(a, expr) for a in args]
        return "i64" if any(p.width != "i32" for p in parts) else "i32", parts

    def print_comparison(self, whole: Expr, symbol: str, a: Expr, b: Expr) -> Text:
        left, right = (self.operand(e, whole) for e in (a, b))
        return Text(f"{left.at(SUM)} {symbol} {right.at(SUM)}", LOOSE, "i32")

    def constant(self, value: int) -> Text:
        """A number. Triton gives a literal the type of the other operand, which must hold it."""
        plain = super().constant(value)
        return plain if plain.width == "i32" else self.cast(plain, plain.width)

    # -- division, shifts and calls

    def print_quotient(self, expr: Expr) -> Text:
        x, d = expr.args
        exponent = power_of_two(d)
        width, (a, b) = self.operands(expr, (x, d))
        if exponent is not None and not self.rank(expr):
            return Text(f"{a.at(ATOM)} >> {exponent}", LOOSE, width)
        if self.not_negative(x) and self.positive(d):
            return Text(f"{a.at(PRODUCT)} // {b.at(ATOM)}", PRODUCT, width)
        if exponent is not None:
            return Text(f"{a.at(ATOM)} >> {exponent}", LOOSE, width)
        return self.called(expr, width, a, b)

    def print_remainder(self, expr: Expr) -> Text:
        x, d = expr.args
        exponent = power_of_two(d)
        width, (a, b) = self.operands(expr, (x, d))
        if exponent is not None and not (self.rank(expr) and self.not_negative(x)):
            return Text(f"{a.at(ATOM)} & {int(d) - 1}", LOOSE, width)
        if self.not_negative(x) and self.positive(d):
            return Text(f"{a.at(PRODUCT)} % {b.at(ATOM)}", PRODUCT, width)
        return self.called(expr, width, a, b)

    def print_select(self, expr: Expr) -> Text:
        condition = self.operand(expr.args[0], expr)
        width, (a, b) = self.operands(expr, expr.args[1:])
        return self.called(expr, width, condition, a, b)

    def print_table(self, expr: Expr) -> Text:
        """A table is a kernel argument of its name: a pointer to int32, or to int64 for larger entries."""
        self.require_table(expr)
        width = self.fit([self.interval(expr)], expr)
        index = self.operand(expr.index, expr)
        return Text(f"tl.load({expr.name} + {index.at(PRODUCT)})", ATOM, width)

    def cast(self, text: Text, width: Width) -> Text:
        return Text(f"tl.cast({text.text}, {DTYPES[width]})", ATOM, width)

    # -- conditions

    def print_logic(self, condition: Cond) -> Text:
        parts = [self.operand(c, condition).at(ATOM) for c in sorted(condition.args, key=self.beginning)]
        if isinstance(condition, sympy.Not):
            return Text(f"{parts[0]} == 0", LOOSE, "i32")
        return Text(f" {'&' if isinstance(condition, sympy.And) else '|'} ".join(parts), LOOSE, "i32")

    def truth(self, value: bool) -> Text:
        return Text(str(value), ATOM, "i32")
