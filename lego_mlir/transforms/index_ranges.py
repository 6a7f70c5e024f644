"""Interval arithmetic on the integer operations of MLIR: bounds of a result from bounds of its operands.

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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Interval = tuple[int, int]

I32: Final[Interval] = (-(2**31), 2**31 - 1)
I64: Final[Interval] = (-(2**63), 2**63 - 1)
_WIDEST_SHIFT: Final = 63


def within(inner: Interval, outer: Interval) -> bool:
    """Whether every number of one interval is in the other."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both."""
    return min(a[0], b[0]), max(a[1], b[1])


def bounds(kind: str, a: Interval, b: Interval) -> Interval | None:
    """Bounds of `a kind b` over the integers, without wrap-around. A divisor of 0 is undefined, and left out."""
    return _BOUNDS[kind](a, b)


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


def _modulo(a: Interval, b: Interval) -> Interval | None:
    """The remainder with the sign of the divisor, here positive."""
    if a[0] >= 0:
        return _remainder(a, b)
    return None if b[0] < 0 or b[1] < 1 else (0, b[1] - 1)


def _not_negative(
    compute: Callable[[Interval, Interval], Interval | None],
) -> Callable[[Interval, Interval], Interval | None]:
    """An unsigned operation agrees with the signed one on non-negative operands."""
    return lambda a, b: compute(a, b) if a[0] >= 0 and b[0] >= 0 else None


def _both_bits(a: Interval, b: Interval) -> Interval:
    """Bounds of every bitwise operation: the sign and the bits that the wider operand has."""
    bits = max(end.bit_length() if end >= 0 else (~end).bit_length() for end in (*a, *b))
    return (0 if a[0] >= 0 and b[0] >= 0 else -(1 << bits)), (1 << bits) - 1


def _and(a: Interval, b: Interval) -> Interval:
    least = [end[1] for end in (a, b) if end[0] >= 0]
    return (0, min(least)) if least else _both_bits(a, b)


def _shifted(compute: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval | None]:
    return lambda a, b: _corners(compute)(a, b) if b[0] >= 0 and b[1] <= _WIDEST_SHIFT else None


_BOUNDS: Final[dict[str, Callable[[Interval, Interval], Interval | None]]] = {
    "add": _corners(lambda x, y: x + y),
    "sub": _corners(lambda x, y: x - y),
    "mul": _corners(lambda x, y: x * y),
    "divu": _divided(lambda x, y: x // y, signed=False),
    "divs": _divided(_truncated, signed=True),
    "floordivs": _divided(lambda x, y: x // y, signed=True),
    "ceildivs": _divided(lambda x, y: -(-x // y), signed=True),
    "ceildivu": _divided(lambda x, y: -(-x // y), signed=False),
    "remu": _not_negative(_remainder),
    "rems": _remainder,
    "mod": _modulo,
    "and": _and,
    "or": _both_bits,
    "xor": _both_bits,
    "shl": _shifted(lambda x, y: x << y),
    "shrs": _shifted(lambda x, y: x >> y),
    "shru": _not_negative(_shifted(lambda x, y: x >> y)),
    "mins": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maxs": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minu": _not_negative(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "maxu": _not_negative(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
}
KINDS: Final = tuple(_BOUNDS)
