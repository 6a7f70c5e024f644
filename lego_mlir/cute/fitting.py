"""Layouts fitted to the offsets of a function, and the comparison of a layout with its definition.

A shape:stride is linear in the digits of a flat index, so its offsets along each mode determine it. It is fitted to
these and compared with all offsets; with a swizzle, which is its own inverse, it is fitted after the swizzle is undone.

>>> import numpy as np
>>> fitted(8, np.array([0, 1, 4, 5, 2, 3, 6, 7]), [None], "example")
CuteLayout('(2,2,2):(1,4,2)')
>>> fitted((2, 4), np.array([0, 1, 3, 2, 4, 5, 7, 6]), [None, CuteSwizzle(1, 0, 1)], "example")
CuteLayout('Sw<1,0,1> o _0 o (2,4):(1,2)')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from random import Random
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.cute.layout import CuteLayout, CuteSwizzle, IntTuple, leaves
from lego_mlir.errors import LayoutError
from lego_mlir.layout.values import ARRAY_LIMIT

ALL: Final = 2**20
"""Flat indices up to which `sample` has each one."""
SAMPLED: Final = 2**10
"""Flat indices at the start, at the end and in between that `sample` has of more."""


def fitted(shape: IntTuple, offsets: IntArray, swizzles: Iterable[CuteSwizzle | None], what: str) -> CuteLayout:
    """The layout whose modes refine `shape` and whose offsets are these, with the first of the swizzles that has one.

    Every offset is compared. Raises LayoutError, with a coordinate, if no shape:stride after these swizzles has them.
    """
    refusals = []
    for swizzle in dict.fromkeys(swizzles):
        plain = offsets if swizzle is None else swizzle(offsets)
        subject = what if swizzle is None else f"{what}, before {swizzle!r}"
        try:
            found = CuteLayout(*_refined(shape, _unit_steps(shape, plain), subject))
            require_equal(found.offsets(), plain, subject)
            return CuteLayout(found.shape, found.stride, swizzle)
        except LayoutError as refused:
            refusals.append(refused)
    raise refusals[0]


def _unit_steps(shape: IntTuple, offsets: IntArray) -> list[IntArray]:
    """For each leaf of a shape the offsets along it, the other coordinates at 0."""
    found, at = [], 1
    for size in leaves(shape):
        found.append(offsets[: at * size : at])
        at *= size
    return found


def _refined(shape: IntTuple, steps: list[IntArray], what: str) -> tuple[IntTuple, IntTuple]:
    """The shape with each leaf refined into the modes that give its offsets, and the strides."""
    if isinstance(shape, int):
        modes = modes_of(steps.pop(0), what)
        if len(modes) == 1:
            return modes[0]
        return tuple(n for n, _ in modes), tuple(d for _, d in modes)
    parts = [_refined(part, steps, what) for part in shape]
    return tuple(s for s, _ in parts), tuple(d for _, d in parts)


def modes_of(offsets: IntArray, what: str) -> list[tuple[int, int]]:
    """The (size, stride) modes whose colexicographic offsets these are. Raises LayoutError with the offsets."""
    total, modes, block = len(offsets), [], 1
    if total == 1:
        return [(1, 0)]
    while block < total:
        stride = int(offsets[block])
        starts = offsets[::block]
        count = len(starts)
        differs = np.flatnonzero(starts != stride * np.arange(count))
        size = int(differs[0]) if differs.size else count
        expected = (offsets[:block][None, :] + stride * np.arange(size)[:, None]).ravel()
        if size < 2 or total // block % size or not np.array_equal(expected, offsets[: block * size]):
            raise LayoutError(
                f"{what}: no shape:stride gives its offsets {_some(offsets)}; size {total} is not divided by {size} "
                f"where the stride changes"
            )
        modes.append((size, stride))
        block *= size
    return modes


def _some(offsets: IntArray) -> str:
    shown = ", ".join(map(str, offsets[:12]))
    return f"[{shown}{', ..' if len(offsets) > 12 else ''}]"


def require_equal(found: IntArray, defined: IntArray, what: str, at: IntArray | None = None) -> None:
    """Raise LayoutError with the first coordinate (of `at`; by default all) where a layout is not its definition."""
    wrong = np.flatnonzero(found != defined)
    if wrong.size:
        k = int(wrong[0])
        raise LayoutError(
            f"{what}: no shape:stride gives its offsets; at coordinate {k if at is None else at[k]} the offset is "
            f"{defined[k]}, the strides of the modes give {found[k]}"
        )


def require_same(found: CuteLayout, definition: Callable[[IntArray], IntArray], what: str) -> None:
    """Raise LayoutError where a layout differs from its definition, for each flat index of a `sample`."""
    at = sample(found.size(), exact=found.without_swizzle().cosize() > ARRAY_LIMIT)
    require_equal(found.at(at), definition(at), what, at)


def sample(size: int, exact: bool = False) -> Array:
    """All flat indices of up to 2**20; of more, those at both ends and some drawn in between.

    They are Python's ints if they do not fit into an array of int64, or if this must be exact.
    """
    kind = object if exact or size > ARRAY_LIMIT else "int64"
    if size <= ALL:
        return np.arange(size).astype(kind, copy=False)
    inner = Random(size)
    drawn = [inner.randrange(size) for _ in range(SAMPLED)]
    return np.array([*range(SAMPLED), *drawn, *range(size - SAMPLED, size)], dtype=kind)


def size_of(shape: IntTuple) -> int:
    """The number of coordinates of a shape."""
    return prod(leaves(shape))
