"""The geometry of a launch: sizes and positions along x, y and z, and their linear ids, x fastest.

>>> coordinates(37, (8, 4, 2)), dim3(256, "block")
((5, 0, 1), (256, 1, 1))
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.values import Array

Dim3 = tuple[int, int, int]


def unravel(linear: Array, extent: Dim3, axis: int) -> Array:
    """One coordinate of an array of linear ids."""
    x, y, _ = extent
    match axis:
        case 0:
            return linear % x
        case 1:
            return linear // x % y
        case _:
            return linear // (x * y)


def coordinates(linear: int, extent: Dim3) -> Dim3:
    """The (x, y, z) of a linear id, x fastest."""
    x, y, _ = extent
    return linear % x, linear // x % y, linear // (x * y)


def dim3(value: int | Sequence[int], what: str) -> Dim3:
    """A grid or block size with its missing axes filled in: `256` is `(256, 1, 1)`."""
    axes = [int(value)] if isinstance(value, int | np.integer) else [int(v) for v in value]
    if not 1 <= len(axes) <= 3 or min(axes) < 1:
        raise InterpreterError(f"{what} must be 1 to 3 positive sizes (x, y, z), got {value}")
    x, y, z = axes + [1] * (3 - len(axes))
    return x, y, z
