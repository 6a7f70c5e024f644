"""Exact check of a permutation of concrete sizes: every element is visited, in blocks.

The positions are scattered into an array of owners, which shows collisions and holes at once. Then the inverse of every
position is compared with its owner.

>>> import numpy as np
>>> one_block = iter([(0, lambda: np.array([1, 0, 2, 2]))])
>>> enumerate_elements((2, 2), one_block, lambda p: (p // 2, p % 2)).explanation
'apply maps [1, 0] and [1, 1] both to position 2'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

import numpy as np

from lego_mlir.aliases import Array, IndexLike
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.layout.canonical import flatten, product, unflatten
from lego_mlir.layout.enumeration_limit import BLOCK
from lego_mlir.layout.values import show

T = TypeVar("T")

Blocks: TypeAlias = Iterator[tuple[int, Callable[[], Array]]]
"""Blocks of consecutive elements: the number of the first one, and a function that computes their positions."""
InverseMap: TypeAlias = Callable[[Array], Sequence[IndexLike]]
"""The index of each position of an array, one array or int a dimension."""


def enumerate_elements(dims: tuple[int, ...], blocks: Blocks, inverse: InverseMap) -> Verdict:
    """Exact verdict: the position of every index (blocks in flat order), then the index of every position."""
    elements = product(dims)
    owner = np.full(elements, -1, dtype=np.int32)

    def scatter(block: tuple[int, Callable[[], Array]]) -> Refuted | None:
        start, positions = block[0], block[1]()
        outside = int(positions.min()) < 0 or int(positions.max()) >= elements
        if outside:
            k = int(np.argmax((positions < 0) | (positions >= elements)))
            return out_of_range(unflatten(start + k, dims), int(positions[k]), elements)
        owner[positions] = np.arange(start, start + len(positions), dtype=np.int32)
        return None

    def invert(first: int) -> Refuted | None:
        position = np.arange(first, min(first + BLOCK, elements))
        index = [np.asarray(i) for i in inverse(position)]
        wrong = flatten(index, dims) != owner[first : first + len(position)]
        # An out-of-range coordinate may flatten to the right number: [0, 7] in [4, 4] is 7, and so is [1, 3].
        for i, n in zip(index[1:], dims[1:], strict=True):
            if int(i.min()) < 0 or int(i.max()) >= n:
                wrong = wrong | (i < 0) | (i >= n)
        if not np.any(wrong):
            return None
        k = int(np.argmax(np.broadcast_to(wrong, position.shape)))
        given = tuple(int(np.broadcast_to(i, position.shape)[k]) for i in index)
        return _wrong_inverse(unflatten(int(owner[first + k]), dims), first + k, given)

    work = list(blocks)
    refuted = _first(scatter, work)
    if refuted is None and int(owner.min()) < 0:
        refuted = _collision(dims, owner, work)
    if refuted is None:
        refuted = _first(invert, range(0, elements, BLOCK))
    return Proved(f"enumeration of {elements} elements") if refuted is None else refuted


def _first(search: Callable[[T], Refuted | None], work: Sequence[T]) -> Refuted | None:
    """The first refutation in work order. Two threads: NumPy releases the interpreter lock while it computes."""
    if len(work) == 1:
        return search(work[0])
    with ThreadPoolExecutor(2) as threads:
        return next((found for found in threads.map(search, work) if found is not None), None)


def out_of_range(index: tuple[int, ...], position: int, elements: int) -> Refuted:
    """The refutation by an index whose position is outside 0..elements-1."""
    return Refuted(
        {"index": index, "position": position}, f"apply maps {show(index)} to {position}, outside 0..{elements - 1}"
    )


def _collision(dims: tuple[int, ...], owner: Array, blocks: list[tuple[int, Callable[[], Array]]]) -> Refuted:
    """The first index whose position is owned by another index, given that some position has no owner."""
    for start, compute in blocks:
        positions = compute()
        lost = owner[positions] != np.arange(start, start + len(positions))
        if np.any(lost):
            k = int(np.argmax(lost))
            position = int(positions[k])
            if owner[position] < 0:
                break
            a, b = (unflatten(flat, dims) for flat in sorted((start + k, int(owner[position]))))
            return Refuted(
                {"index": a, "other": b, "position": position},
                f"apply maps {show(a)} and {show(b)} both to position {position}",
            )
    return Refuted({}, "f returns different positions when called again; it must depend on its arguments alone")


def _wrong_inverse(index: tuple[int, ...], position: int, given: tuple[int, ...]) -> Refuted:
    return Refuted(
        {"index": index, "position": position, "inverse": given},
        f"apply maps {show(index)} to position {position}, but f_inv maps {position} to {show(given)}",
    )
