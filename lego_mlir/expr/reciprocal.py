"""Division by a number that many threads share, as a product with its reciprocal.

For 0 <= n < 2**31 and a divisor d take the least shift s with d <= 2**(s - 31), and m = ceil(2**s / d), which is a word
without sign. Then n // d == n*m >> s: m*d exceeds 2**s by e < d, so n*m / 2**s is n/d plus n*e / (d * 2**s), and since
n*e < 2**31 * 2**(s - 31) that is less than 1/d, too little to reach the next integer. (T. Granlund, P. Montgomery,
"Division by Invariant Integers using Multiplication", 1994.) An argument of a kernel has both in one number of 64 bits,
m in its low word and s in its high word: one load, and one choice between two of them.

>>> m, s = reciprocal(10)
>>> (m, s), [n * m >> s for n in (9, 10, 2**31 - 1)]
((3435973837, 35), [0, 1, 214748364])
"""

from __future__ import annotations

from typing import Final

from lego_mlir.errors import ExpressionError

DIVIDENDS: Final = 2**31
"""Dividends are below this; divisors are at most this."""


def reciprocal(d: int) -> tuple[int, int]:
    """The multiplier, below 2**32, and the shift, 31 to 62, of a divisor. Raises ExpressionError for another int."""
    if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= DIVIDENDS:
        raise ExpressionError(f"reciprocal: the divisor must be an int from 1 to 2**31, got {d!r}")
    s = 31 + (d - 1).bit_length()
    return -(-(1 << s) // d), s


def packed_reciprocal(d: int) -> int:
    """The multiplier and the shift of a divisor in one number. Raises ExpressionError as `reciprocal` does.

    >>> packed_reciprocal(10) == 3435973837 + (35 << 32)
    True
    """
    m, s = reciprocal(d)
    return m + (s << 32)
