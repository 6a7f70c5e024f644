"""Operations on data that MLIR has no operation for, expanded into those it has.

-a            0 - a
a % b         the hardware's remainder, and b added where its sign is not b's
sign(x)       1, -1, or 0; NaN of a NaN, as NumPy's
isnan(x)      x is unordered with itself
isinf(x)      |x| == inf
isfinite(x)   |x| < inf, which a NaN is not
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from lego_mlir.aliases import Value as SsaValue
from lego_mlir.printers.builder import Builder
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.trace import Value

SLT, SGT, NE = 2, 4, 1  # of arith.cmpi
OEQ, OGT, OLT, UNO = 1, 2, 4, 14  # of arith.cmpf


def number(build: Builder, value: int | float, like: Value) -> SsaValue:
    """A constant in the type of `like`, repeated in a vector."""
    ir, kind, dtype = build.ir, build.type(like.dtype.mlir), like.dtype
    if dtype.family == "int" and value > dtype.span[1] >> dtype.is_unsigned:
        value -= 2**dtype.bits  # the same bits as a signed number
    attribute = ir.FloatAttr.get(kind, value) if dtype.is_float else ir.IntegerAttr.get(kind, int(value))
    if like.width is not None:
        attribute = ir.DenseElementsAttr.get_splat(build.type(like.mlir), attribute)
    return ir.Operation.create(
        "arith.constant", results=[build.type(like.mlir)], attributes={"value": attribute}
    ).results[0]


def truth_of(like: Value) -> str:
    """The MLIR type of a comparison of such values."""
    return replace(like, dtype=dtypes.i1).mlir


def compare(build: Builder, predicate: int, a: SsaValue, b: SsaValue, like: Value) -> SsaValue:
    """A comparison by its number in arith.cmpf or arith.cmpi."""
    name = "arith.cmpf" if like.dtype.is_float else "arith.cmpi"
    return build.value(name, (a, b), truth_of(like), {"predicate": f"{predicate} : i64"})


def _negation(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
    return build.value("arith.subi", (number(build, 0, like), given[0]), like.mlir)


def _absolute(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
    return build.value("arith.maxsi", (given[0], _negation(build, given, like)), like.mlir)


def _floor_remainder(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
    """Python's remainder, with the sign of b. The hardware's has that of a; where they differ, b is added."""
    a, b = given
    kind, zero = like.mlir, number(build, 0, like)
    remainder = build.value("arith.remsi", (a, b), kind)
    signs = build.value("arith.xori", (remainder, b), kind)
    opposite = compare(build, SLT, signs, zero, like)
    some = compare(build, NE, remainder, zero, like)
    wrong = build.value("arith.andi", (opposite, some), truth_of(like))
    moved = build.value("arith.addi", (remainder, b), kind)
    return build.value("arith.select", (wrong, moved, remainder), kind)


def _sign_of_integer(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
    (x,) = given
    zero, one = number(build, 0, like), number(build, 1, like)
    if like.dtype.is_unsigned:
        return build.value("arith.select", (compare(build, NE, x, zero, like), one, zero), like.mlir)
    below = compare(build, SLT, x, zero, like)
    above = compare(build, SGT, x, zero, like)
    positive = build.value("arith.select", (above, one, zero), like.mlir)
    return build.value("arith.select", (below, number(build, -1, like), positive), like.mlir)


def _sign_of_float(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
    (x,) = given
    zero, found = number(build, 0.0, like), x
    for predicate, result in ((OEQ, 0.0), (OLT, -1.0), (OGT, 1.0)):
        holds = compare(build, predicate, x, zero, like)
        found = build.value("arith.select", (holds, number(build, result, like), found), like.mlir)
    return found


def _is_nan(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
    return compare(build, UNO, given[0], given[0], like)


def _beside_infinity(predicate: int) -> Expansion:
    def expand(build: Builder, given: Sequence[SsaValue], like: Value) -> SsaValue:
        size = build.value("math.absf", given, like.mlir)
        return compare(build, predicate, size, number(build, float("inf"), like), like)

    return expand


Expansion = Callable[[Builder, Sequence[SsaValue], Value], SsaValue]
EXPANSIONS: Final[dict[str, Expansion]] = {
    "integer negation": _negation,
    "absolute value": _absolute,
    "the number itself": lambda build, given, like: given[0],
    "floor remainder": _floor_remainder,
    "sign of integer": _sign_of_integer,
    "sign of float": _sign_of_float,
    "test for NaN": _is_nan,
    "test for infinity": _beside_infinity(OEQ),
    "test for finite": _beside_infinity(OLT),
}
"""What each emits, from the operands and a value of their type."""
