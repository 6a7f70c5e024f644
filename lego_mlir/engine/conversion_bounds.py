"""Lower bounds of conversions between all layouts of a value, in slots of a warp, without their plans.

Every word is stored once and loaded once. Where no element leaves its warp, those that stay in their lane are a proper
subspace, at most half of them: at least half of the words are shuffled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from lego_mlir.f2.banks import WORD_BITS
from lego_mlir.f2.conversion import BARRIER_SLOTS, WARP_BARRIER_SLOTS
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.devices import reference

FITTED: Final = reference("layouts")
SHUFFLED_SLOTS: Final[float] = FITTED["moved_shuffle"]
"""A shuffle of a conversion, in those of `f2.conversion`."""
WAVEFRONT_SLOTS: Final[float] = FITTED["wavefront"]
"""A wavefront of shared memory."""
MOVED_SLOTS: Final[float] = FITTED["moved_request"]
"""The address of an access to shared memory."""
_VECTOR_BITS = 128


class ConversionBounds(NamedTuple):
    """Tables over sources and targets: slots, and whether no element leaves its thread, or its warp."""

    slots: np.ndarray
    free: np.ndarray
    inside: np.ndarray


@lru_cache(maxsize=4096)
def conversion_bounds(layouts: tuple[LinearLayout, ...], bits: int) -> ConversionBounds:
    """The bounds for a value with elements of this many bits; 0 where the conversion is free."""
    free, inside = _staying(layouts)
    words = np.array([max(1.0, (1 << len(x.columns_of("register"))) * bits / WORD_BITS) for x in layouts])
    moved = (words[:, None] + words) * (WAVEFRONT_SLOTS + MOVED_SLOTS * WORD_BITS / _VECTOR_BITS)
    shuffled = np.minimum(moved + WARP_BARRIER_SLOTS, SHUFFLED_SLOTS * np.maximum(1.0, words / 2))
    return ConversionBounds(np.where(free, 0.0, np.where(inside, shuffled, moved + BARRIER_SLOTS)), free, inside)


def is_free(source: LinearLayout, target: LinearLayout) -> bool:
    """Whether each thread has the elements that it needs."""
    return bool(_staying((source, target))[0][0, 1])


@lru_cache(maxsize=4096)
def _staying(layouts: tuple[LinearLayout, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each thread, and each warp, of a target has elements of the same one of a source only."""
    spans = [_spans(layout) for layout in layouts]
    return _stays([thread for thread, _ in spans]), _stays([warp for _, warp in spans])


class _Span(NamedTuple):
    """The elements that one place holds, as the one basis in which each lowest bit is that of no other vector.

    `others` are the first elements of the other places, up to what is held.
    """

    basis: tuple[tuple[int, int], ...]
    others: tuple[int, ...]

    @classmethod
    def of(cls, inner: tuple[int, ...], outer: tuple[int, ...]) -> _Span:
        basis: dict[int, int] = {}
        for column in inner:
            if rest := _rest(basis.items(), column):
                low = rest & -rest
                basis = {bit: row ^ rest if row & low else row for bit, row in basis.items()} | {low: rest}
        found = tuple(sorted(basis.items()))
        return cls(found, tuple(_rest(found, column) for column in outer))

    def holds(self, there: _Span) -> bool:
        """Whether each place of a target with fewer elements has those of the same place only."""
        return not any(_rest(self.basis, row) for _, row in there.basis) and all(
            a == _rest(self.basis, b) for a, b in zip(self.others, there.others, strict=True)
        )


def _rest(basis: Iterable[tuple[int, int]], column: int) -> int:
    """An element up to those of a basis."""
    for bit, row in basis:
        if column & bit:
            column ^= row
    return column


@lru_cache(maxsize=65536)
def _spans(layout: LinearLayout) -> tuple[_Span, _Span]:
    """The elements of a thread, and of a warp."""
    registers, lanes, warps = (layout.columns_of(name) for name in ("register", "lane", "warp"))
    return _Span.of(registers, (*lanes, *warps)), _Span.of((*registers, *lanes), warps)


def _stays(spans: Sequence[_Span]) -> np.ndarray:
    numbers = {span: k for k, span in enumerate(dict.fromkeys(spans))}
    of = np.array([numbers[span] for span in spans])
    found: np.ndarray = of[:, None] == of
    for (i, here), (j, there) in product(enumerate(spans), repeat=2):
        if len(there.basis) < len(here.basis):
            found[i, j] = here.holds(there)
    return found
