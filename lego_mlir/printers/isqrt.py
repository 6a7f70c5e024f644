"""The exact integer square root, computed from the floating-point one.

Let r = isqrt(x) and n = r + 1, so that x <= n*n - 1 and sqrt(x) < n - 1/(2n). The hardware rounds sqrt(x) to a float
of p bits, correctly (IEEE 754; PTX `sqrt.rn`). Just below n such floats lie at most n * 2**(1-p) apart, so the root
rounds up to n only if 1/(2n) <= n * 2**-p, that is n*n >= 2**(p-1). Hence, for an x that is itself exact in p bits
and with (isqrt(x) + 1)**2 < 2**(p-1), truncating the rounded root gives isqrt(x):

    p = 24 (f32): x < 2**22          p = 53 (f64): x < 2**51

A larger x is rounded when converted to f64 and its root may be off by one either way, which two comparisons of integer
squares correct. r is below 2**32, so r*r and (r+1)**2 are exact as unsigned 64-bit integers.
"""

from __future__ import annotations

from typing import Final

from lego_mlir.aliases import Value
from lego_mlir.printers.builder import Builder

EXACT_IN_F32: Final = 2**22
EXACT_IN_F64: Final = 2**51
UNSIGNED_LESS, UNSIGNED_GREATER = "6 : i64", "8 : i64"  # arith.cmpi's predicates ult and ugt


def emit_isqrt(build: Builder, x: Value, kind: str, largest: int | None) -> Value:
    """isqrt(x) for an x >= 0 of type `kind` and at most `largest`, if a bound is known."""
    word = "i32" if largest is not None and largest < EXACT_IN_F32 else "i64"
    number = "f32" if word == "i32" else "f64"
    wide = build.cast_integer(x, word)
    root = build.value("math.sqrt", (build.value("arith.uitofp", (wide,), number),), number)
    result = build.value("arith.fptoui", (root,), word)
    if largest is None or largest >= EXACT_IN_F64:
        result = _correct(build, wide, result)
    return build.cast_integer(result, kind)


def _correct(build: Builder, x: Value, root: Value) -> Value:
    """Subtract one if root*root > x, then add one if (root+1)**2 <= x."""
    one = build.constant(1, "i64")
    less = build.value("arith.subi", (root, one), "i64")
    above = build.value("arith.cmpi", (_square(build, root), x), "i1", {"predicate": UNSIGNED_GREATER})
    root = build.value("arith.select", (above, less, root), "i64")
    more = build.value("arith.addi", (root, one), "i64")
    above = build.value("arith.cmpi", (x, _square(build, more)), "i1", {"predicate": UNSIGNED_LESS})
    return build.value("arith.select", (above, root, more), "i64")


def _square(build: Builder, x: Value) -> Value:
    return build.value("arith.muli", (x, x), "i64")
