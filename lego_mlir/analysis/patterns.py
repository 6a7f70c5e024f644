"""Access patterns: the logical index that each lane of a warp touches, for all values of the free variables.

A pattern is a function from `lane` (0..31) and named free variables to a logical index. It is called with arrays, for
all lanes and values at once, and with symbols, for proofs.

>>> from lego_mlir.layout import Row
>>> column = AccessPattern("column j", lambda lane, j: (lane, j), {"j": 32})
>>> positions(Row(32, 32), column).shape
(32, 32)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import ExpressionError, UsageError
from lego_mlir.expr import text as expressions
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import ACCESS_BYTES, ELEMENT_BYTES

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout

MAX_WARPS: Final = 1 << 14
"""Warps beyond which a pattern is not enumerated but proved or, failing that, sampled."""


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """`index(lane=..., **free)` is a tuple of indices; `free` gives the extent of every other variable."""

    name: str
    index: Callable[..., tuple[Any, ...]]
    free: Mapping[str, int] = field(default_factory=dict)

    @property
    def warps(self) -> int:
        """The number of different warps: one for each combination of the free variables."""
        total = 1
        for extent in self.free.values():
            total *= extent
        return total


def parse(text: str, free: Mapping[str, int] | None = None) -> AccessPattern:
    """A pattern from text, one expression an index: `"lane // 4, 8 * (lane % 4) + k"`.

    Raises UsageError for anything but integer arithmetic over `lane` and the free variables.
    """
    free = dict(free or {})
    for name, extent in free.items():
        if not isinstance(extent, int) or extent < 1:
            raise UsageError(f"free: {name} has the values 0 .. N-1 of a number N of at least 1, got {extent!r}")
    try:
        parsed = expressions.parse(text, ("lane", *free), (*expressions.ARITHMETIC, expressions.NEGATION))
    except ExpressionError as error:
        raise UsageError(
            f"access {error}; write one such as 'lane // 4, lane % 4 + k', and give each name an extent, k=8"
        ) from None

    def index(**values: IndexLike) -> tuple[IndexLike, ...]:
        return parsed.fold(values, int, expressions.PYTHON)

    return AccessPattern(text, index, free)


def require_inside(pattern: AccessPattern, name: str, dims: Sequence[int], width: int = 1) -> None:
    """Raise UsageError for a pattern whose number of indices differs from the layout's or that exceeds its sizes."""
    free, _ = values_of(pattern)
    exact = {name: np.asarray(values).astype(object) for name, values in free.items()}  # of any number of bits
    lane = np.arange(WARP).reshape(1, WARP).astype(object)
    try:
        index = [np.asarray(i) for i in pattern.index(lane=lane, **exact)]
    except ZeroDivisionError:
        raise UsageError(f"access {pattern.name!r} divides by zero") from None
    except ValueError as error:
        raise UsageError(f"access {pattern.name!r} cannot be computed: {error}") from None
    if len(index) != len(dims):
        raise UsageError(
            f"access {pattern.name!r} has {len(index)} of the {len(dims)} indices of {name}, whose sizes are "
            f"{list(dims)}; write one expression for each, such as {', '.join(['0'] * (len(dims) - 1) + ['lane'])!r}"
        )
    for axis, (i, n) in enumerate(zip(index, dims, strict=True)):
        reach = int(i.max()) + (width - 1 if axis == len(dims) - 1 else 0)
        if i.min() < 0 or reach >= n:
            raise UsageError(
                f"access {pattern.name!r}: index {axis} goes from {int(i.min())} to {reach}, and {name} has sizes "
                f"{list(dims)}; it must be within 0 .. {n - 1}"
            )


def require_width(width: int, dtype: str, option: str = "width=") -> None:
    """Raise UsageError for a width that no load or store instruction supports; `option` is how the width was given."""
    element = ELEMENT_BYTES[dtype]
    if width * element not in ACCESS_BYTES or width < 1:
        able = ", ".join(str(n // element) for n in ACCESS_BYTES if n >= element)
        raise UsageError(
            f"{option}{width}: a lane accesses 1, 2, 4, 8 or 16 bytes at once, not {width * element}; for {dtype}, "
            f"{option}{able}"
        )


def sweeps(dims: Sequence[int]) -> list[AccessPattern]:
    """Patterns that cover a whole tile, one for each axis: 32 consecutive elements along it, continued in the next row.

    Elements that do not fill a warp are omitted. Raises UsageError for a tile of fewer than 32 elements.
    """
    total = int(np.prod(dims, dtype=np.int64))
    if total < WARP:
        raise UsageError(
            f"a layout of {list(dims)} has {total} elements, fewer than a warp's {WARP} lanes; name the index of each "
            "lane with --access, or a larger layout with --layout"
        )
    names = {len(dims) - 1: "along the last axis", 0: "along the first axis"}
    found = []
    for axis in reversed(range(len(dims))):
        found.append(_sweep(names.get(axis, f"along axis {axis}"), dims, axis, total // WARP))
    return found


def _sweep(name: str, dims: Sequence[int], axis: int, warps: int) -> AccessPattern:
    order = [axis, *(a for a in reversed(range(len(dims))) if a != axis)]

    def index(lane: IndexLike, warp: IndexLike = 0) -> tuple[IndexLike, ...]:
        rest, found = lane + warp * WARP, {}
        for a in order:
            found[a] = rest % dims[a]
            rest = rest // dims[a]
        return tuple(found[a] for a in range(len(dims)))

    return AccessPattern(name, index, {"warp": warps})


def values_of(pattern: AccessPattern, limit: int = MAX_WARPS) -> tuple[dict[str, Array], bool]:
    """Values of the free variables, one row for each warp, and whether they are complete rather than a sample."""
    total = pattern.warps
    whole = total <= limit
    at = np.arange(total) if whole else np.random.default_rng(0).integers(0, total, limit)
    found: dict[str, Array] = {}
    for name, extent in reversed(list(pattern.free.items())):
        found[name] = (at % extent).reshape(-1, 1)
        at = at // extent
    return dict(reversed(found.items())), whole


def positions(layout: Layout, pattern: AccessPattern, limit: int = MAX_WARPS) -> Array:
    """The physical position of every lane's element, (warps, 32)."""
    free, _ = values_of(pattern, limit)
    lane = np.arange(WARP, dtype=np.int64).reshape(1, WARP)
    index = [np.asarray(i) for i in pattern.index(lane=lane, **free)]
    shape = np.broadcast_shapes((1, WARP), *(i.shape for i in index), *(v.shape for v in free.values()))
    placed = layout.apply(*[np.broadcast_to(i, shape) for i in index])
    return np.ascontiguousarray(np.broadcast_to(placed, shape), dtype=np.int64)
