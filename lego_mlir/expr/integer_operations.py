"""The integer operations of index expressions as a table: what each computes, and what follows from that alone.

A row is the one place for an operation's meaning on ints. Constants fold by it, samples and evaluation compute by it,
texts are read by it, and its bounds and laws serve the proofs; the node classes (`expr.nodes`) take the row of their
name. Neither SymPy nor NumPy is loaded, so a machine that only runs kernels can read texts by the same table.

>>> OPERATIONS["FloorDiv"].compute(-7, 2), OPERATIONS["ISqrt"].symbol
(-4, 'isqrt')
>>> OPERATIONS["BitAnd"].interval((0, 100), (0, 7)), OPERATIONS["ISqrt"].interval((0, None))
((0, 7), (0, None))
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lego_mlir.aliases import Array
from lego_mlir.errors import ExpressionError

End = int | None  # an end of an interval; None is infinite
Interval = tuple[End, End]
WIDEST_SHIFT: Final = 64  # a shift by more than this has no useful bound
WORD: Final = 62
"""Bits of the largest magnitude that is computed in arrays of int64, so that no result wraps around."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """Operands for which an operation has no value: a test for ints and arrays, and the error of evaluating them."""

    where: Callable[..., Any]
    reason: str
    error: type[Exception]


@dataclass(frozen=True, slots=True)
class IntegerOperation:
    """An operation on integers.

    `compute` has Python ints as operands, for which it is defined; `interval` bounds the result by bounds of the
    operands. `symbol` is its operator or its function in texts, `name` its operator on data. Where `arrays` is left
    out, arrays are computed element by element; given, it has operands and results of at most WORD bits. `bits` is a
    bound on the result's bits by the operands' magnitudes; left out, it is one more than the widest operand's.
    `modular` operations have a result whose low bits depend on no more than as many low bits of the operands.
    """

    name: str
    symbol: str
    compute: Callable[..., int]
    interval: Callable[..., Interval]
    operands: int = 2
    arrays: Callable[..., Any] | None = None
    bits: Callable[..., int] | None = None
    undefined: Undefined | None = None
    commutes: bool = False
    modular: bool = False

    def of(self, *operands: int) -> int:
        """The result for ints. Raises the error of `undefined` where there is none."""
        if self.undefined is not None and self.undefined.where(*operands):
            raise self.undefined.error(self.undefined.reason)
        return self.compute(*operands)

    def of_arrays(self, *operands: Array) -> Array:
        """The result for arrays of int64, or for arrays and ints, none of which leaves that type."""
        if self.arrays is not None:
            return self.arrays(*operands)
        return self.by_element(*operands).astype("int64")

    def by_element(self, *operands: Array) -> Array:
        """The result for arrays as an array of Python ints."""
        import numpy

        return numpy.frompyfunc(self.compute, self.operands, 1)(*operands)

    def bits_of(self, *magnitudes: int) -> int:
        """A bound on the bits of the result."""
        if self.bits is not None:
            return self.bits(*magnitudes)
        return max(magnitude.bit_length() for magnitude in magnitudes) + 1


def _numpy(name: str) -> Callable[..., Array]:
    """NumPy's function of this name, looked up when it is called."""

    def called(*operands: Array) -> Array:
        import numpy

        return getattr(numpy, name)(*operands)

    return called


def _shifted_right(x: Array, n: Array) -> Array:
    """An arithmetic shift of arrays by any amount; C leaves one by the width of the type undefined."""
    import numpy

    return x >> numpy.minimum(n, WIDEST_SHIFT - 1)


def _roots(x: Array) -> Array:
    """The floors of the square roots of an array, in its type."""
    import numpy

    x = numpy.asarray(x)
    if x.dtype.kind not in "iu":
        raise ExpressionError(f"isqrt takes integers, got an array of {x.dtype}")
    if x.size and int(x.min()) < 0:
        raise ExpressionError(f"isqrt of the negative number {int(x.min())} in an array")
    root = numpy.sqrt(x.astype(numpy.float64)).astype(x.dtype)
    # A float64 root of a 64-bit number may be off by one, either way; no intermediate here exceeds the dtype.
    root = numpy.minimum(root, x.dtype.type(math.isqrt(int(numpy.iinfo(x.dtype).max))))
    root -= root * root > x
    root += x - root * root > 2 * root
    return root


# -- bounds of a result


def product(a: Interval, b: Interval) -> Interval:
    """The hull of the products; None is an infinite end."""
    (al, ah), (bl, bh) = a, b
    if a == (0, 0) or b == (0, 0):
        return 0, 0
    if None not in (al, ah, bl, bh):
        corners = [x * y for x in (al, ah) for y in (bl, bh)]  # type: ignore[operator]
        return min(corners), max(corners)
    if al is not None and al >= 0 and bl is not None and bl >= 0:
        return al * bl, None if ah is None or bh is None else ah * bh
    if al is not None and al >= 0 and bh is not None and bh <= 0:
        return None if ah is None or bl is None else ah * bl, al * bh
    if bl is not None and bl >= 0 and ah is not None and ah <= 0:
        return None if bh is None or al is None else al * bh, ah * bl
    return None, None


def _quotient(x: Interval, d: Interval) -> Interval:
    (lo, hi), (dlo, dhi) = x, d
    if dlo is None or dlo < 1:
        return None, None
    low: End = None
    high: End = None
    if lo is not None:
        low = lo // dlo if lo < 0 else (0 if dhi is None else lo // dhi)
    if hi is not None:
        high = hi // dlo if hi >= 0 else (-1 if dhi is None else hi // dhi)
    return low, high


def _remainder(x: Interval, d: Interval) -> Interval:
    (lo, hi), (dlo, dhi) = x, d
    if dlo is None or dlo < 1:
        return (None, 0) if dhi is not None and dhi < 0 else (None, None)
    high: End = None if dhi is None else dhi - 1
    if lo is not None and lo >= 0 and hi is not None:
        high = hi if high is None else min(hi, high)
        if hi < dlo:
            return lo, hi
    return 0, high


def _natural(a: Interval) -> bool:
    return a[0] is not None and a[0] >= 0


def _both(a: Interval, b: Interval) -> Interval:
    ends = [end[1] for end in (a, b) if _natural(end) and end[1] is not None]
    if _natural(a) or _natural(b):
        return 0, min(ends) if ends else None
    return _any_bits(a, b)


def _either(a: Interval, b: Interval) -> Interval:
    low, high = _differing(a, b)
    return (max(a[0] or 0, b[0] or 0) if low == 0 else low), high


def _differing(a: Interval, b: Interval) -> Interval:
    (ah, bh) = a[1], b[1]
    if not (_natural(a) and _natural(b)):
        return _any_bits(a, b)
    if ah is None or bh is None:
        return 0, None
    return 0, min((1 << max(ah, bh).bit_length()) - 1, ah + bh)


def _any_bits(a: Interval, b: Interval) -> Interval:
    """Bounds of a bitwise operation of negative numbers: the sign, and the bits that the wider operand has."""
    ends = [end for end in (*a, *b) if end is not None]
    if len(ends) < 4:
        return None, None
    bits = max((end if end >= 0 else ~end).bit_length() for end in ends)
    return -(1 << bits), (1 << bits) - 1


def _amounts(n: Interval) -> tuple[int, int] | None:
    """The least and the largest amount of a shift, None where they give no bound."""
    low, high = n
    return None if low is None or low < 0 or high is None or high > WIDEST_SHIFT else (low, high)


def _left(x: Interval, n: Interval) -> Interval:
    amounts = _amounts(n)
    if amounts is None:
        return (0 if _natural(x) else None), None
    return product(x, (1 << amounts[0], 1 << amounts[1]))


def _right(x: Interval, n: Interval) -> Interval:
    (lo, hi), amounts = x, _amounts(n)
    if amounts is None:
        return (0 if _natural(x) else None), (hi if (hi or -1) >= 0 else None)
    least, most = amounts
    low: End = None if lo is None else min(lo >> least, lo >> most)
    return low, None if hi is None else max(hi >> least, hi >> most)


def _root(x: Interval) -> Interval:
    lo, hi = x
    return math.isqrt(max(lo or 0, 0)), None if hi is None else math.isqrt(max(hi, 0))


def _smaller(a: Interval, b: Interval) -> Interval:
    return _end(min, a[0], b[0], False), _end(min, a[1], b[1], True)


def _larger(a: Interval, b: Interval) -> Interval:
    return _end(max, a[0], b[0], True), _end(max, a[1], b[1], False)


def _end(keep: Callable[[int, int], int], a: End, b: End, sure: bool) -> End:
    """An end of the smaller or larger of two; `sure` where one finite end is enough."""
    if a is None or b is None:
        return (a if b is None else b) if sure else None
    return keep(a, b)


def _chosen(condition: Interval, a: Interval, b: Interval) -> Interval:
    return _end(min, a[0], b[0], False), _end(max, a[1], b[1], False)


_NO_DIVISOR: Final = Undefined(lambda x, d: d == 0, "a divisor is 0", ZeroDivisionError)
_NO_SHIFT: Final = Undefined(lambda x, n: n < 0, "a negative shift", ValueError)
_NO_ROOT: Final = Undefined(lambda x: x < 0, "isqrt of a negative number", ValueError)

OPERATIONS: Final[dict[str, IntegerOperation]] = {
    "FloorDiv": IntegerOperation("floordiv", "//", operator.floordiv, _quotient, arrays=operator.floordiv,
                          undefined=_NO_DIVISOR),
    "FloorMod": IntegerOperation("mod", "%", operator.mod, _remainder, arrays=operator.mod, undefined=_NO_DIVISOR),
    "BitXor": IntegerOperation("xor", "^", operator.xor, _differing, arrays=operator.xor, commutes=True, modular=True),
    "BitAnd": IntegerOperation("and", "&", operator.and_, _both, arrays=operator.and_, commutes=True, modular=True),
    "BitOr": IntegerOperation("or", "|", operator.or_, _either, arrays=operator.or_, commutes=True, modular=True),
    "ShiftLeft": IntegerOperation("lshift", "<<", operator.lshift, _left, arrays=operator.lshift,
                           bits=lambda x, n: x.bit_length() + n, undefined=_NO_SHIFT, modular=True),
    "ShiftRight": IntegerOperation("rshift", ">>", operator.rshift, _right, arrays=_shifted_right, undefined=_NO_SHIFT),
    "ISqrt": IntegerOperation("isqrt", "isqrt", math.isqrt, _root, 1, arrays=_roots, undefined=_NO_ROOT),
    "Smaller": IntegerOperation("minimum", "minimum", min, _smaller, arrays=_numpy("minimum"), commutes=True),
    "Larger": IntegerOperation("maximum", "maximum", max, _larger, arrays=_numpy("maximum"), commutes=True),
    "Select": IntegerOperation("select", "where", lambda condition, a, b: a if condition else b, _chosen, 3,
                        arrays=_numpy("where"), modular=True),
}  # fmt: skip
"""The operations by the name of their node."""
CALLS: Final = {operation.symbol: operation for operation in OPERATIONS.values() if operation.symbol.isidentifier()}
"""The operations that texts write as calls, by their function."""
