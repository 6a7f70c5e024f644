"""Comparisons and numbers of index tiles: what all registers have in common is computed once.

The registers of `j * 64 + lego.arange(layout, 1) < S` compare  64*j + (tx & 7) + 8 < S,  64*j + (tx & 7) + 16 < S, ..
Both sides are integers without overflow, so each is  d < -8,  d < -16, ..  with  d = 64*j + (tx & 7) - S : one
subtraction for all of them, clamped to 32 bits, and one comparison with a constant each. What the range of d decides is
a constant. Where all values are integers that the type of a float has, `lego.f32(tile)` converts one number d for all,
and adds a constant to each: exactly the same numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

import sympy

from lego_mlir.aliases import Expr, Operand
from lego_mlir.expr.index import Condition, Index, as_expr, is_symbolic, maximum, minimum
from lego_mlir.expr.intervals import bounds
from lego_mlir.tracing.spread.distributed import Spread, each_element
from lego_mlir.tracing.trace.dtypes import DType, f32, f64, i32
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.scalar import convert

EXACT: Final = {f32: 24, f64: 53}
"""Bits of integers that a float has exactly, with one more at the end."""
LIMIT: Final = 2**30  # beyond every offset of a register, and within an i32


def compare_indices(function: Callable[..., object], a: Spread, b: object) -> Spread:
    """The comparison of a tile of indices with an index, a number, data or another tile."""
    if not _is_index(b):
        return a.map(function, a, b)
    tracer = current("a comparison")
    difference = a - b
    made = {r: value for r, value in enumerate(difference.registers) if value is not None}
    parts = {r: sympy.expand(as_expr(value)).as_coeff_Add() for r, value in made.items()}
    common = {rest: _narrow(tracer, rest) for _, rest in parts.values()}
    if 2 * len(common) > len(parts) or any(abs(constant) >= LIMIT for constant, _ in parts.values()):
        return a.map(function, a, b)

    def of_register(register: int) -> object:
        constant, rest = parts[register]
        value, least, most = common[rest]
        known = _known(function, least, most, -int(constant))
        return Condition(known) if known is not None else function(value, -int(constant))

    return each_element(difference.layout, of_register)


def index_numbers(tile: Spread, dtype: DType) -> Spread:
    """A tile of indices as floats."""
    tracer = current("a conversion")
    made = [value for value in tile.registers if value is not None]
    parts = {id(value): sympy.expand(as_expr(value)).as_coeff_Add() for value in made}
    common = {rest: bounds(rest, tracer.known(rest.free_symbols)) for _, rest in parts.values()}
    exact = 2 ** EXACT.get(dtype, 0) - max(abs(int(constant)) for constant, _ in parts.values())
    inside = all(b.lo is not None and b.hi is not None and -exact <= b.lo <= b.hi <= exact for b in common.values())
    if 2 * len(common) > len(parts) or not inside:
        return tile.map(lambda value: convert(value, dtype), tile)
    numbers = {rest: convert(Index(rest), dtype) for rest in common}

    def number(value: Operand) -> Operand:
        constant, rest = parts[id(value)]
        return numbers[rest] + float(constant) if constant else numbers[rest]

    return tile.map(number, tile)


def _narrow(tracer: Tracer, rest: Expr) -> tuple[Operand, int, int]:
    """An index as an i32, clamped to +-LIMIT where its range is wider, and its range then."""
    known = bounds(rest, tracer.known(rest.free_symbols))
    least = -LIMIT if known.lo is None else max(-LIMIT, known.lo)
    most = LIMIT if known.hi is None else min(LIMIT, known.hi)
    if least >= most:  # constant after clamping
        return None, least, least
    value = Index(rest) if known.lo == least else maximum(Index(rest), least)
    return convert(value if known.hi == most else minimum(value, most), i32), least, most


def _known(function: Callable[..., object], least: int, most: int, constant: int) -> bool | None:
    """The truth of the comparison if it is the same for all values in the range, else None."""
    if function in (operator.eq, operator.ne):
        if least <= constant <= most and least != most:
            return None
        return bool(function(least, constant))
    ends = bool(function(least, constant)), bool(function(most, constant))
    return ends[0] if ends[0] == ends[1] else None


def _is_index(value: object) -> bool:
    if isinstance(value, Spread):
        return value.dtype.family == "index"
    return isinstance(value, int) or (is_symbolic(value) and not isinstance(value, Condition))
