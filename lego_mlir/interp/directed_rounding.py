"""Arithmetic rounded once towards zero (`rz`), down (`rm`) or up (`rp`).

A result rounded to nearest is one of the two neighbours of the exact one. The sign of its error says which, and so
whether to step to the other. For f32 the error is found in f64, in which a product of two f32 is exact: a sum has an
exact error (Knuth), a quotient has one through its product with the divisor, a root through its square. For f64 the
exact result is a fraction.

>>> tenth = np.array([0.1], np.float32)
>>> [float(directed("mul", mode, [tenth, tenth])[0]) for mode in ("rm", "rp")]
[0.009999999776482582, 0.010000000707805157]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from lego_mlir.aliases import Array

F32: Final = np.dtype(np.float32)
F64: Final = np.dtype(np.float64)
MODES: Final = ("rz", "rm", "rp")


def directed(operation: str, mode: str, values: list[Array]) -> Array:
    """add, sub, mul, div, rcp, sqrt or fma of f32 or f64 arrays, rounded once in a direction."""
    if values[0].dtype == F64:
        columns = np.broadcast_arrays(*values)
        rows = zip(*(c.tolist() for c in columns), strict=True)
        return np.array([_one(operation, mode, row) for row in rows], F64).reshape(columns[0].shape)
    near, above = _nearest(operation, mode, [v.astype(F64) for v in values])
    down, up = np.nextafter(near, F32.type(-np.inf)), np.nextafter(near, F32.type(np.inf))
    step_down = (above > 0) & ((near > 0) if mode == "rz" else mode == "rm")
    step_up = (above < 0) & ((near < 0) if mode == "rz" else mode == "rp")
    return np.where(step_down, down, np.where(step_up, up, near))


def directed_integers(mode: str, value: Array, target: np.dtype[np.floating]) -> Array:
    """Integers as f32 or f64, rounded once in a direction.

    >>> directed_integers("rm", np.array([2**24 + 1, -(2**24) - 1]), np.dtype(np.float32)).tolist()
    [16777216.0, -16777218.0]
    """
    near = value.astype(target)
    above = np.array([int(n) - int(v) for n, v in zip(near.tolist(), value.tolist(), strict=True)], object)
    down, up = np.nextafter(near, target.type(-np.inf)), np.nextafter(near, target.type(np.inf))
    step_down = (above > 0) & ((near > 0) if mode == "rz" else mode == "rm")
    step_up = (above < 0) & ((near < 0) if mode == "rz" else mode == "rp")
    return np.where(step_down.astype(np.bool_), down, np.where(step_up.astype(np.bool_), up, near))


def _nearest(operation: str, mode: str, values: list[Array]) -> tuple[Array, Array]:
    """The f32 nearest to the exact result, and the sign of its error: 1 where it is above."""
    x, *rest = values
    if operation == "sqrt":
        near = np.sqrt(x).astype(F32)
        return near, np.sign(near.astype(F64) ** 2 - x)
    if operation in ("div", "rcp"):
        top, under = (np.ones_like(x), x) if operation == "rcp" else (x, rest[0])
        near = (top / under).astype(F32)
        return near, np.sign(near * under - top) * np.sign(under)
    if operation == "mul":
        exact = x * rest[0]
        near = exact.astype(F32)
        return near, np.sign(near - exact)
    left = x * rest[0] if operation == "fma" else x
    right = rest[1] if operation == "fma" else -rest[0] if operation == "sub" else rest[0]
    total = left + right
    back = total - left
    error = (left - (total - back)) + (right - back)
    near = total.astype(F32)
    above = np.sign(near - total)
    above = np.where(above == 0, -np.sign(np.nan_to_num(error)), above)
    if mode == "rm":  # numbers that cancel give -0
        near = np.where((total == 0) & (np.signbit(left) != np.signbit(right)), F32.type(-0.0), near)
    return near, above


_EXACT: Final[dict[str, Callable[..., Fraction]]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip
_PLAIN: Final[dict[str, Callable[..., float]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": np.reciprocal, "sqrt": np.sqrt,
    "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


def _one(operation: str, mode: str, given: tuple[float, ...]) -> float:
    with np.errstate(all="ignore"):
        near = float(_PLAIN[operation](*map(F64.type, given)))
    divisor = given[-1] if operation in ("div", "rcp") else 1.0
    if not all(map(math.isfinite, given)) or divisor == 0 or (operation == "sqrt" and given[0] <= 0):
        return near
    numbers = [Fraction(v) for v in given]
    if operation == "sqrt":
        error = Fraction(near) ** 2 - numbers[0]
    else:
        exact = _EXACT[operation](*numbers)
        if exact == 0:
            return -0.0 if mode == "rm" and _cancels(operation, given) else near
        sign = 1 if exact > 0 else -1
        try:
            near = math.copysign(float(exact), sign)
            error = Fraction(near) - exact
        except OverflowError:
            near, error = math.copysign(math.inf, sign), Fraction(sign)
    if error > 0 and (mode == "rm" or (mode == "rz" and near > 0)):
        return math.nextafter(near, -math.inf)
    if error < 0 and (mode == "rp" or (mode == "rz" and near < 0)):
        return math.nextafter(near, math.inf)
    return near


def _cancels(operation: str, given: tuple[float, ...]) -> bool:
    """Whether the two terms of a sum have opposite signs."""
    match operation, given:
        case ("add", (x, y)):
            left, right = x, y
        case ("sub", (x, y)):
            left, right = x, -y
        case ("fma", (x, y, z)):
            left, right = math.copysign(1, x) * math.copysign(1, y), z
        case _:
            return False
    return math.copysign(1, left) != math.copysign(1, right)
