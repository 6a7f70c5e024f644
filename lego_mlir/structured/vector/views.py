"""Operands of the vector generator as two tables: the kind and the position of each element.

Structure, storage and transposition reduce to these tables: `kinds` is zero, stored or one, `at` is the position in a
buffer. Contiguous segments and the lanes that a load may touch follow from them, so a new structure or storage needs no
code in the generator:

>>> from lego_mlir.structured.lower import Factor, Leaf
>>> from lego_mlir.structured.storage import Full
>>> from lego_mlir.structured.structures import symmetric
>>> view = of(Factor(Leaf("S", symmetric(3, "L"), Full())))
>>> view.at.tolist()
[[0, 3, 6], [3, 4, 7], [6, 7, 8]]
>>> [piece.lanes for piece in pieces(view, 1, 0, 3)]    # row 1: 3 and 4 are contiguous, 7 is separate
[(True, True, False), (False, False, True)]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lego_mlir.structured import structures
from lego_mlir.structured.lower import Factor
from lego_mlir.structured.structures import ONE, STORED, ZERO

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class OperandView:
    """A matrix, or a part of one, in a buffer."""

    buffer: str
    kinds: NDArray[np.int8]
    at: NDArray[np.int64]

    @property
    def rows(self) -> int:
        return int(self.kinds.shape[0])

    @property
    def columns(self) -> int:
        return int(self.kinds.shape[1])

    @property
    def T(self) -> OperandView:
        return OperandView(self.buffer, self.kinds.T, self.at.T)

    def part(self, rows: slice, columns: slice) -> OperandView:
        """A block of the view."""
        return OperandView(self.buffer, self.kinds[rows, columns], self.at[rows, columns])

    def masked(self, keep: NDArray[np.bool_]) -> OperandView:
        """The view with all other elements zero."""
        return OperandView(self.buffer, np.where(keep, self.kinds, ZERO).astype(np.int8), np.where(keep, self.at, -1))

    def padded(self, columns: int) -> OperandView:
        """The view padded with zero columns to this number."""
        extra = ((0, 0), (0, columns - self.columns))
        return OperandView(self.buffer, np.pad(self.kinds, extra), np.pad(self.at, extra, constant_values=-1))

    @property
    def contiguous_rows(self) -> bool:
        """Whether the stored elements of every row form one contiguous segment."""
        there = self.kinds == STORED
        first = np.argmax(there, axis=1)
        base = np.take_along_axis(self.at, first[:, None], axis=1) - first[:, None]
        return bool((np.where(there, self.at - base - np.arange(self.columns), 0) == 0).all())

    @property
    def contiguous_pairs(self) -> int:
        """The number of horizontally adjacent pairs that are contiguous in memory."""
        both = (self.kinds[:, 1:] == STORED) & (self.kinds[:, :-1] == STORED)
        return int(((self.at[:, 1:] - self.at[:, :-1] == 1) & both).sum())


class MaskedLoad(NamedTuple):
    """The lanes of a row read by one masked load at `base` (the position of lane 0), or lanes that are one."""

    lanes: tuple[bool, ...]
    base: int
    ones: bool = False


def of(factor: Factor) -> OperandView:
    """The view of a factor."""
    leaf = factor.leaf
    view = OperandView(leaf.name, leaf.structure.kinds, leaf.positions)
    return view.T if factor.transposed else view


def stored_in_place(factor: Factor) -> NDArray[np.bool_]:
    """The elements that a statement writing this leaf computes: those stored in place."""
    leaf = factor.leaf
    rows, columns = leaf.structure.sources
    i, j = np.indices(rows.shape)
    mask = (leaf.structure.kinds == structures.STORED) & (rows == i) & (columns == j)
    return mask.T if factor.transposed else mask


class Pattern(NamedTuple):
    """The lanes of each contiguous segment, longest first, and of the ones; bases relative to the first element."""

    runs: tuple[tuple[bool, ...], ...]
    bases: tuple[int, ...]
    ones: tuple[bool, ...] | None


def pieces(view: OperandView, row: int, column: int, width: int) -> list[MaskedLoad]:
    """The row's lanes from `column` on as a minimal set of contiguous segments, longest first; then the ones."""
    found, first = pattern_at(view, row, column, width)
    stored = [MaskedLoad(lanes, first + base) for lanes, base in zip(found.runs, found.bases, strict=True)]
    return stored if found.ones is None else [*stored, MaskedLoad(found.ones, first, ones=True)]


def pattern_at(view: OperandView, row: int, column: int, width: int) -> tuple[Pattern, int]:
    """The pattern of the row's lanes from `column` on, and the position that its bases are relative to."""
    kinds = view.kinds[row, column : column + width]
    at = view.at[row, column : column + width]
    there = kinds == STORED
    first = int(at[there.argmax()])
    return pattern(kinds.tobytes(), ((at - first) * there).tobytes(), width), first


@lru_cache(maxsize=16384)
def pattern(kinds: bytes, relative: bytes, width: int) -> Pattern:
    """The pattern of these kinds and positions. Few are distinct, hence the cache."""
    at = np.frombuffer(relative, np.int64).tolist()
    runs: dict[int, list[int]] = {}
    for lane, kind in enumerate(kinds):
        if kind == STORED:
            runs.setdefault(at[lane] - lane, []).append(lane)
    longest = sorted(runs.items(), key=lambda item: -len(item[1]))
    return Pattern(
        tuple(tuple(lane in lanes for lane in range(width)) for _, lanes in longest),
        tuple(base for base, _ in longest),
        tuple(kind == ONE for kind in kinds) if ONE in kinds else None,
    )
