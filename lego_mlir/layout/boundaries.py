"""Boundaries: an index outside an axis is masked, or mapped to an element inside.

On an axis of n elements, with i in -2 .. 5 and n = 4 (`-` is masked):

| boundary | index i outside 0 .. n-1 | elements |
|---|---|---|
| `"zero"` | masked | `- - 0 1 2 3 - -` |
| `"clamp"` | the nearest element | `0 0 0 1 2 3 3 3` |
| `"mirror"` | mirrored at the last element, which is not repeated | `2 1 0 1 2 3 2 1` |
| `"wrap"` | i modulo n | `2 3 0 1 2 3 0 1` |

>>> {name: [mapped(name, i, 4, True, True, near=False) for i in range(-2, 6)] for name in ("clamp", "mirror", "wrap")}
{'clamp': [0, 0, 0, 1, 2, 3, 3, 3], 'mirror': [2, 1, 0, 1, 2, 3, 2, 1], 'wrap': [2, 3, 0, 1, 2, 3, 0, 1]}
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from lego_mlir.aliases import IndexLike
from lego_mlir.expr.index import maximum, minimum, where
from lego_mlir.layout.canonical import Size

Boundary = Literal["zero", "clamp", "mirror", "wrap"]
BOUNDARIES: Final[tuple[Boundary, ...]] = get_args(Boundary)


def mapped(boundary: Boundary, i: IndexLike, n: Size, low: bool, high: bool, *, near: bool) -> IndexLike:
    """A coordinate mapped into 0 .. n-1; `low` and `high` are the sides that it may leave, at least one.

    Where it is `near`, at most n (`"mirror"`: n-1) elements outside, comparisons replace a remainder. A masked index is
    clamped.
    """
    if boundary == "wrap":
        if not near:
            return i % n
        below = where(i < n, i, i - n) if high else i
        return where(i < 0, i + n, below) if low else below
    if boundary == "mirror":
        if not near:
            back = i % maximum(2 * n - 2, 1)  # one way there and back
            return minimum(back, 2 * n - 2 - back)
        below = where(i < n, i, 2 * n - 2 - i) if high else i
        return where(i < 0, -i, below) if low else below
    i = maximum(i, 0) if low else i
    return minimum(i, n - 1) if high else i
