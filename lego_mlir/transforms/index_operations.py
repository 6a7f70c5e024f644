"""The integer operations of MLIR as a table: names, meaning, the operands for which it holds, bounds of the result.

The dialects arith and index have the same operations under two names. Passes narrow them by the bounds, and two readers
turn them into index expressions, of modules that are proved and of layouts that are simplified; each takes an operation
from its row here. The interpreter does not: it judges what is emitted, so its meanings are its own.

An interval is a pair of Python ints, both inclusive, so the exact bounds of a result are computed before anyone asks
whether a type holds them. `bounds` returns None if it knows nothing, also where a result would depend on how negative
numbers are represented:

>>> threads, blocks = (0, 255), (0, 4095)
>>> bounds("add", bounds("mul", blocks, (256, 256)), threads)
(0, 1048575)
>>> bounds("floordivs", (-5, 9), (4, 4)), bounds("mod", (-5, 9), (4, 4))
((-2, 2), (0, 3))
>>> bounds("divu", (-5, 9), (4, 4)) is None
True
>>> KIND_OF["arith.divui"], OPERATIONS["divu"].natural
('divu', True)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lego_mlir.aliases import Op
from lego_mlir.expr import integer_operations as integers
from lego_mlir.expr.index import cdiv, maximum, minimum

Interval = tuple[int, int]

I32: Final[Interval] = (-(2**31), 2**31 - 1)
I64: Final[Interval] = (-(2**63), 2**63 - 1)


def within(inner: Interval, outer: Interval) -> bool:
    """Whether every number of one interval is in the other."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both."""
    return min(a[0], b[0]), max(a[1], b[1])


def bounds(kind: str, a: Interval, b: Interval) -> Interval | None:
    """Bounds of `a kind b` over the integers, without wrap-around. A divisor of 0 is undefined, and left out."""
    return OPERATIONS[kind].bounds(a, b)


def _corners(compute: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """The bounds of a function that is monotone in each operand."""

    def hull(a: Interval, b: Interval) -> Interval:
        values = [compute(x, y) for x in a for y in b]
        return min(values), max(values)

    return hull


def _divided(compute: Callable[[int, int], int], signed: bool) -> Callable[[Interval, Interval], Interval | None]:
    """A quotient, for positive divisors, and for dividends of either sign if it is `signed`."""

    def hull(a: Interval, b: Interval) -> Interval | None:
        if b[0] < 0 or b[1] < 1 or (a[0] < 0 and not signed):
            return None
        return _corners(compute)(a, (max(b[0], 1), b[1]))

    return hull


def _truncated(x: int, y: int) -> int:
    return x // y if x >= 0 else -(-x // y)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    """The remainder with the sign of the dividend."""
    if b[0] < 0 or b[1] < 1:
        return None
    if a[0] >= 0 and a[1] < b[0]:
        return a
    most = b[1] - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _not_negative(
    compute: Callable[[Interval, Interval], Interval | None],
) -> Callable[[Interval, Interval], Interval | None]:
    """An unsigned operation agrees with the signed one on non-negative operands."""
    return lambda a, b: compute(a, b) if a[0] >= 0 and b[0] >= 0 else None


def _of(node: str) -> Callable[[Interval, Interval], Interval | None]:
    """The bounds of an operation of index expressions, where both ends are known."""
    interval = integers.OPERATIONS[node].interval

    def known(a: Interval, b: Interval) -> Interval | None:
        low, high = interval(a, b)
        return None if low is None or high is None else (low, high)

    return known


def _by_positive(node: str) -> Callable[[Interval, Interval], Interval | None]:
    """The same for divisions, whose divisor is not negative, and not 0."""
    of = _of(node)
    return lambda a, b: None if b[0] < 0 or b[1] < 1 else of(a, (max(b[0], 1), b[1]))


@dataclass(frozen=True, slots=True)
class IndexOperation:
    """An operation of two integers: its name in arith, empty where that has none, and what it computes.

    `meaning` takes ints, arrays and index expressions. It holds for all operands for which the operation is defined, or
    only where none is negative, if `natural`. A divisor is not 0.
    """

    arith: str
    meaning: Callable[[Any, Any], Any]
    bounds: Callable[[Interval, Interval], Interval | None]
    natural: bool = False


OPERATIONS: Final = {
    "add": IndexOperation("arith.addi", operator.add, _corners(lambda x, y: x + y)),
    "sub": IndexOperation("arith.subi", operator.sub, _corners(lambda x, y: x - y)),
    "mul": IndexOperation("arith.muli", operator.mul, _corners(lambda x, y: x * y)),
    "divu": IndexOperation("arith.divui", operator.floordiv, _not_negative(_by_positive("FloorDiv")), True),
    "divs": IndexOperation("arith.divsi", operator.floordiv, _divided(_truncated, signed=True), True),
    "floordivs": IndexOperation("arith.floordivsi", operator.floordiv, _by_positive("FloorDiv")),
    "ceildivs": IndexOperation("arith.ceildivsi", cdiv, _divided(lambda x, y: -(-x // y), signed=True), True),
    "ceildivu": IndexOperation("arith.ceildivui", cdiv, _divided(lambda x, y: -(-x // y), signed=False), True),
    "remu": IndexOperation("arith.remui", operator.mod, _not_negative(_remainder), True),
    "rems": IndexOperation("arith.remsi", operator.mod, _remainder, True),
    "mod": IndexOperation("", operator.mod, _by_positive("FloorMod")),
    "and": IndexOperation("arith.andi", operator.and_, _of("BitAnd")),
    "or": IndexOperation("arith.ori", operator.or_, _of("BitOr")),
    "xor": IndexOperation("arith.xori", operator.xor, _of("BitXor")),
    "shl": IndexOperation("arith.shli", operator.lshift, _of("ShiftLeft"), True),
    "shrs": IndexOperation("arith.shrsi", operator.rshift, _of("ShiftRight"), True),
    "shru": IndexOperation("arith.shrui", operator.rshift, _not_negative(_of("ShiftRight")), True),
    "mins": IndexOperation("arith.minsi", minimum, _of("Smaller")),
    "maxs": IndexOperation("arith.maxsi", maximum, _of("Larger")),
    "minu": IndexOperation("arith.minui", minimum, _not_negative(_of("Smaller")), True),
    "maxu": IndexOperation("arith.maxui", maximum, _not_negative(_of("Larger")), True),
}
"""By the name in the dialect index; `mod` is that of affine maps, with the divisor's sign."""
KIND_OF: Final = {row.arith: kind for kind, row in OPERATIONS.items() if row.arith} | {
    f"index.{kind}": kind for kind, row in OPERATIONS.items() if row.arith
}
"""The row of an operation by its name in either dialect."""
FLOORS: Final = ("floordivs", "ceildivs", "ceildivu")
"""Divisions that take several instructions; passes emit them by others."""
DIVISIONS: Final = ("divu", "divs", "remu", "rems", *FLOORS)
AFFINE: Final = {
    "AffineAddExpr": "add", "AffineMulExpr": "mul", "AffineModExpr": "mod", "AffineFloorDivExpr": "floordivs",
    "AffineCeilDivExpr": "ceildivs",
}  # fmt: skip
"""The row of a node of an affine map, by its class in the bindings."""
COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt,
    "sge": operator.ge, "ult": operator.lt, "ule": operator.le, "ugt": operator.gt, "uge": operator.ge,
}  # fmt: skip
"""Predicates in the order of arith.cmpi's numbers; those with u hold of operands that are not negative."""
PREDICATES: Final = tuple(COMPARISONS)
SIGNED_CASTS: Final = frozenset({"arith.index_cast", "arith.extsi", "index.casts"})
ZERO_EXTENSIONS: Final = frozenset({"arith.index_castui", "arith.extui", "index.castu"})
"""A negative number becomes a large one."""


def predicate_of(operation: Op) -> str:
    """The predicate of an arith.cmpi or index.cmp."""
    if operation.name == "arith.cmpi":
        return PREDICATES[int(str(operation.attributes["predicate"]).split()[0])]
    return str(operation.attributes["pred"]).rstrip(">)").split()[-1].split("(")[-1]
