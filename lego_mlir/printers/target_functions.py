"""The functions that printed code calls: a row for each node, with the function of each target and its definition.

A node that no operator of the target computes is printed as a call. A function with a definition is one of ours, which
goes in front of the printed code; one without is the language's. In MLIR the operation of a row is emitted, and a node
without one has a method of `printers.mlir.MlirPrinter`.

>>> CALLS["Smaller"].triton
TargetFunction(name='tl.minimum', definition='')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.printers.mlir_names import Names


@dataclass(frozen=True, slots=True)
class TargetFunction:
    """A function of a target's language, by name, and its definition unless the language has it."""

    name: str
    definition: str = ""


@dataclass(frozen=True, slots=True)
class NodeCall:
    """What computes a node in C, in Triton and in MLIR; None where the printer has a form of its own."""

    cuda: TargetFunction | None = None
    triton: TargetFunction | None = None
    mlir: Names | None = None


CALLS: Final[dict[str, NodeCall]] = {
    "FloorDiv": NodeCall(
        TargetFunction(
            "lego_floor_div",
            """\
// x / d rounded down; C's own division rounds towards zero.
template <class T> LEGO_DEVICE constexpr T lego_floor_div(T x, T d) {
  return x / d - (x % d != 0 && (x % d < 0) != (d < 0));
}
""",
        ),
        TargetFunction(
            "_lego_floor_div",
            '''\
@triton.jit
def _lego_floor_div(x, d):
    """x // d rounded down; Triton's own division rounds towards zero."""
    q = x // d
    r = x - q * d
    return tl.where((r != 0) & ((r < 0) != (d < 0)), q - 1, q)
''',
        ),
    ),
    "FloorMod": NodeCall(
        TargetFunction(
            "lego_floor_mod",
            """\
// x % d with the sign of d; C's own remainder has the sign of x.
template <class T> LEGO_DEVICE constexpr T lego_floor_mod(T x, T d) {
  return x % d + ((x % d != 0 && (x % d < 0) != (d < 0)) ? d : 0);
}
""",
        ),
        TargetFunction(
            "_lego_floor_mod",
            '''\
@triton.jit
def _lego_floor_mod(x, d):
    """x % d with the sign of d; Triton's own remainder has the sign of x."""
    r = x - x // d * d
    return tl.where((r != 0) & ((r < 0) != (d < 0)), r + d, r)
''',
        ),
    ),
    "ISqrt": NodeCall(
        TargetFunction(
            "lego_isqrt",
            """\
// The floor of the square root of x >= 0. A rounded root is off by one at most, which two squares repair.
LEGO_DEVICE int lego_isqrt(int x) {
  int r = (int)sqrtf((float)x);
  r -= (long long)r * r > x;
  return r + ((long long)(r + 1) * (r + 1) <= x);
}
LEGO_DEVICE unsigned lego_isqrt(unsigned x) {
  unsigned r = (unsigned)sqrt((double)x);
  r -= (unsigned long long)r * r > x;
  return r + ((unsigned long long)(r + 1ull) * (r + 1ull) <= x);
}
LEGO_DEVICE long long lego_isqrt(long long x) {
  unsigned long long y = (unsigned long long)x, r = (unsigned long long)sqrt((double)x);
  r -= r * r > y;
  return (long long)(r + ((r + 1) * (r + 1) <= y));
}
""",
        ),
        TargetFunction(
            "_lego_isqrt",
            '''\
@triton.jit
def _lego_isqrt(x):
    """The floor of the square root of x >= 0: a rounded float root is off by one at most, which is repaired."""
    r = tl.sqrt(x.to(tl.float64)).to(tl.int64)
    r = tl.where(r * r > x, r - 1, r)
    return tl.where(x - r * r > 2 * r, r + 1, r).to(x.dtype)  # (r + 1) * (r + 1) may exceed int64
''',
        ),
    ),
    "Smaller": NodeCall(triton=TargetFunction("tl.minimum")),
    "Larger": NodeCall(triton=TargetFunction("tl.maximum")),
    "Select": NodeCall(triton=TargetFunction("tl.where")),
}
"""The calls by the name of their node."""
FUNCTIONS: Final[dict[str, dict[str, TargetFunction]]] = {
    "cuda": {node: call.cuda for node, call in CALLS.items() if call.cuda is not None},
    "triton": {node: call.triton for node, call in CALLS.items() if call.triton is not None},
}
"""The functions of a target by the name of their node."""
