"""Numbering the ranks of a target anew, so that as many elements as possible stay where they are.

Where the caller is free to say which process is which rank of the target, the best numbering is an assignment of ranks
to processes that keeps most elements: a maximal matching of a matrix with a row for each process and a column for each
rank, found by shortest augmenting paths (Jonker and Volgenant, 1987) in n^3 steps.

>>> import numpy as np
>>> best_assignment(np.array([[1, 5], [4, 6]])).tolist()
[1, 0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import LayoutError

if TYPE_CHECKING:
    from lego_mlir.mesh.redistribution import RedistributionPlan

MOST_RANKS: Final = 2048
"""Ranks up to which the best numbering is searched."""


def best_assignment(kept: Array) -> Array:
    """The column of each row of a square matrix of integers, each column once, whose sum is the largest."""
    costs = kept.max(initial=0) - kept
    n = len(costs)
    by_row, by_column = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)  # the prices, and 0 for the start
    row_of = np.full(n + 1, -1)  # of each column; the last column is that of the row to be placed
    for row in range(n):
        row_of[n] = row
        column, least = n, np.full(n, np.iinfo(np.int64).max)
        before, reached = np.full(n, n), np.zeros(n + 1, bool)
        while row_of[column] >= 0:
            reached[column] = True
            at = row_of[column]
            open_ = ~reached[:n]
            found = costs[at] - by_row[at] - by_column[:n]
            shorter = open_ & (found < least)
            least[shorter], before[shorter] = found[shorter], column
            column = int(np.where(open_, least, np.iinfo(np.int64).max).argmin())
            step = least[column]
            by_row[row_of[reached]] += step
            by_column[reached] -= step
            least[open_] -= step
        while column != n:  # along the path back to the new row
            row_of[column] = row_of[before[column]]
            column = before[column]
    columns = np.empty(n, np.int64)
    columns[row_of[:n]] = np.arange(n)
    return columns


def best_ranks(plan: RedistributionPlan) -> tuple[int, ...]:
    """For each process, the rank of the target that it should be, so that most elements stay.

    Numbers stay as they are where no others are better. Raises LayoutError if source and target have different numbers
    of ranks, or more than MOST_RANKS.
    """
    n = plan.source.count
    if n != plan.target.count:
        raise LayoutError(f"ranks are numbered anew among equally many, got {n} and {plan.target.count}")
    if n > MOST_RANKS:
        raise LayoutError(f"the best numbering of {n} ranks is not searched; at most {MOST_RANKS}")
    kept = held_by(plan)
    found = best_assignment(kept)
    same = np.arange(n)
    if kept[same, same].sum() >= kept[same, found].sum():
        return tuple(same.tolist())
    return tuple(found.tolist())


def held_by(plan: RedistributionPlan) -> Array:
    """The elements that each rank of the source has of each rank of the target's part, copies included."""
    ranks = np.arange(plan.source.count), np.arange(plan.target.count)
    found = np.ones((len(ranks[0]), len(ranks[1])), np.int64)
    for axis, s, t in zip(plan.axes, plan.source.along(ranks[0]), plan.target.along(ranks[1]), strict=True):
        found *= axis.counts[np.ix_(s, t)]
    return found
