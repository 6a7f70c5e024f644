"""The moves along one axis of an array: which elements go from which source rank to which target rank, as strided runs.

Two chains of splits divide the n elements of an axis. Both are piecewise affine and, where a chain deals blocks in
turn, periodic: on an interval that no split cuts, elements repeat every lcm of the two periods. So a million blocks are
a few runs:

    run = `repeats` times `length` elements, `period` apart; on a side, the local index advances by 1 and by `step`

>>> from lego_mlir.distributions import Chunks, Cyclic
>>> moves = axis_moves(1024, [Cyclic(2, 4)], [Chunks(2)])
>>> moves.counts.tolist()
[[256, 256], [256, 256]]
>>> [(run.first, run.length, run.repeats, run.period, run.source.step, run.target.step) for run in moves.runs[0, 1]]
[(512, 4, 64, 8, 4, 8)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.distributions.splits import Cyclic, Split
from lego_mlir.errors import LayoutError

MOST_RUNS = 1 << 22
"""Runs of one axis beyond which a plan would not be smaller than its array."""


class RunSide(NamedTuple):
    """Where a run begins in the local indices of its rank, and how far each repetition is from the one before."""

    first: int
    step: int


@dataclass(frozen=True, slots=True)
class MovedRun:
    """`repeats` times `length` neighbouring elements from `first` on, `period` apart, on both sides."""

    first: int
    length: int
    repeats: int
    period: int
    source: RunSide
    target: RunSide

    @property
    def elements(self) -> int:
        """How many elements move."""
        return self.length * self.repeats

    def indices(self) -> Array:
        """The elements of the axis, in the order in which they move."""
        starts = self.first + self.period * np.arange(self.repeats)
        return (starts[:, None] + np.arange(self.length)).reshape(-1)


@dataclass(frozen=True)
class AxisMoves:
    """The runs between the ranks of two divisions of an axis, by (source rank, target rank)."""

    ranks: tuple[int, int]
    runs: dict[tuple[int, int], list[MovedRun]]

    @cached_property
    def counts(self) -> Array:
        """Elements from each source rank to each target rank, [sources, targets]."""
        found = np.zeros(self.ranks, np.int64)
        for (s, t), runs in self.runs.items():
            found[s, t] = sum(run.elements for run in runs)
        return found


class SplitChain(NamedTuple):
    """Successive splits of an axis, the first outermost; ranks are numbered in row-major order of theirs."""

    splits: tuple[Split, ...]
    n: int

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return prod(int(split.ranks) for split in self.splits)

    def place(self, i: Array) -> tuple[Array, Array]:
        """The rank and the local index of elements, as arrays."""
        rank, n = np.zeros_like(i), np.full_like(i, self.n)
        for split in self.splits:
            at, inner = (np.broadcast_to(np.asarray(x), i.shape) for x in split.split(i, n))
            n, i = np.broadcast_to(np.asarray(split.size(at, n)), i.shape), inner
            rank = rank * int(split.ranks) + at
        return rank, i

    def cuts(self) -> Array:
        """Where neighbours are on another rank or not local neighbours, but for the blocks of an only cyclic split."""
        if len(self.splits) == 1 and isinstance(self.splits[0], Cyclic):
            return np.array([0, self.n])
        return np.unique(np.concatenate([[0, self.n], *_cuts(self.splits, 0, self.n)]))

    @property
    def block(self) -> tuple[int, int]:
        """The blocks that repeat on an interval between cuts, and their period: (1, 1) for one rank throughout."""
        if len(self.splits) == 1 and isinstance(self.splits[0], Cyclic):
            split = self.splits[0]
            return int(split.block), int(split.block) * int(split.ranks)
        return 0, 1


def _cuts(splits: Sequence[Split], first: int, n: int) -> Iterator[Array]:
    """The cuts of a chain on n elements from `first` on."""
    if not splits or n == 0:
        return
    split = splits[0]
    if isinstance(split, Cyclic) or (len(splits) > 1 and not _is_contiguous(split)):
        yield from _compared(splits, first, n)
        return
    starts = _starts(split, n)
    yield first + starts
    for start, end in pairwise(starts):
        yield from _cuts(splits[1:], first + int(start), int(end - start))


def _is_contiguous(split: Split) -> bool:
    return not hasattr(split, "pieces")


def _starts(split: Split, n: int) -> Array:
    """The first elements of the parts of a split, and n."""
    if not _is_contiguous(split):
        return _compared([split], 0, n)[0]
    ranks = np.arange(int(split.ranks))
    return np.unique(np.concatenate([[0], np.cumsum(np.broadcast_to(np.asarray(split.size(ranks, n)), ranks.shape))]))


def _compared(splits: Sequence[Split], first: int, n: int) -> list[Array]:
    """The cuts of any chain, found by comparing neighbours."""
    if n > MOST_RUNS * 8:
        raise LayoutError(
            f"the splits {list(splits)} of {n} elements are compared element by element, which is too many"
        )
    i = np.arange(n)
    rank, local = SplitChain(tuple(splits), n).place(i)
    jumps = (np.diff(rank) != 0) | (np.diff(local) != 1)
    return [first + np.concatenate([[0], 1 + np.flatnonzero(jumps), [n]])]


def axis_moves(n: int, source: Sequence[Split], target: Sequence[Split]) -> AxisMoves:
    """The runs between two divisions of n elements. Raises LayoutError for more than MOST_RUNS."""
    chains = SplitChain(tuple(source), n), SplitChain(tuple(target), n)
    runs: dict[tuple[int, int], list[MovedRun]] = {}
    bounds = np.unique(np.concatenate([chain.cuts() for chain in chains])) if n else np.array([0])
    period = lcm(*(chain.block[1] for chain in chains))
    blocks = [chain.block[0] for chain in chains if chain.block[0]]
    pieces = list(_pieces(bounds, blocks, period))
    if not pieces:
        return AxisMoves((chains[0].ranks, chains[1].ranks), runs)
    first, length, repeats = (np.concatenate(column) for column in zip(*pieces, strict=True))
    if len(first) > MOST_RUNS:
        raise LayoutError(f"moves of {n} elements from {list(source)} to {list(target)} are {len(first)} runs")
    placed = [chain.place(first) for chain in chains]
    later = [chain.place(np.where(repeats > 1, first + period, first))[1] for chain in chains]
    for k in range(len(first)):
        (s, u), (t, v) = ((int(rank[k]), int(local[k])) for rank, local in placed)
        sides = RunSide(u, int(later[0][k]) - u), RunSide(v, int(later[1][k]) - v)
        runs.setdefault((s, t), []).append(MovedRun(int(first[k]), int(length[k]), int(repeats[k]), period, *sides))
    return AxisMoves((chains[0].ranks, chains[1].ranks), runs)


def _pieces(bounds: Array, blocks: Sequence[int], period: int) -> Iterator[tuple[Array, Array, Array]]:
    """First elements, lengths and repetitions of the runs between bounds, in the order of the elements.

    Of an interval of several periods, the whole ones are one run for each part of a period. Neighbouring shorter
    intervals are cut together.
    """
    several = np.diff(bounds) >= 2 * period if blocks else np.zeros(len(bounds) - 1, bool)
    at = 0
    for k in np.flatnonzero(several):
        yield _cut(bounds[at : k + 1], blocks, 1)
        start, end = int(bounds[k]), int(bounds[k + 1])
        whole = (end - start) // period
        yield _cut(np.array([start, start + period]), blocks, whole)
        yield _cut(np.array([start + whole * period, end]), blocks, 1)
        at = int(k) + 1
    yield _cut(bounds[at:], blocks, 1)


def _cut(bounds: Array, blocks: Sequence[int], repeats: int) -> tuple[Array, Array, Array]:
    """The parts between bounds that no multiple of a block cuts."""
    start, end = int(bounds[0]), int(bounds[-1])
    inner = [np.arange(-(-start // block) * block, end, block) for block in blocks]
    cuts = np.unique(np.concatenate([bounds, *inner]))
    return cuts[:-1], np.diff(cuts), np.full(len(cuts) - 1, repeats)
