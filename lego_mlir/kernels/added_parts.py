"""The sums of a tile's parts of K, added in a fixed order and stored through the epilogue, a vector at a time.

The parts are in memory, row by row: in a workspace (`split_k`), or in the shared memory of a cluster's blocks
(`cluster_k`). The threads of a block share the vectors of some rows, each the vectors `threads` apart; the loads of
several parts and vectors are in flight at once, since their latency is most of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row
from lego_mlir.aliases import IndexLike, Operand, Traced
from lego_mlir.kernels.matmul import VectorPlace
from lego_mlir.tracing.words.element_functions import ElementFunction

if TYPE_CHECKING:
    from lego_mlir.tracing.words.tensor import View

VECTOR: Final = 4
"""Sums of a vector: 16 bytes."""
LOADS: Final = 32
"""Vectors that a thread has in flight: half of the registers that warpgroups have."""


@dataclass(frozen=True, slots=True)
class SharedVectors:
    """The vectors of `shape` = rows x columns elements that `threads` threads share: those of part `part` of `parts`.

    Vectors have `width` elements of a row. A part has as many vectors as any other, or beyond the last one none.
    """

    shape: tuple[int, int]
    width: int
    threads: int
    part: IndexLike = 0
    parts: int = 1

    def place(self, number: IndexLike) -> tuple[IndexLike, IndexLike]:
        """The row and the first column of a vector."""
        row, chunk = Row(self.shape[0], self.shape[1] // self.width).inv(number)
        return row, chunk * self.width

    @property
    def division(self) -> tuple[int, int]:
        """Vectors of a part for each thread, and threads that have some: all as many, where few more allow it.

        >>> SharedVectors((64, 40), 4, 128, parts=4).division, SharedVectors((16, 64), 4, 128, parts=2).division
        ((2, 80), (1, 128))
        """
        count = -(-self.total // self.parts)
        fewest = -(-count // self.threads)
        turns = next((n for n in range(fewest, 2 * fewest + 1) if count % n == 0), fewest)
        return turns, -(-count // turns)

    @property
    def total(self) -> int:
        """The vectors of all parts."""
        return prod(self.shape) // self.width

    def visit(self, work: Callable[[list[IndexLike]], None], most: int) -> None:
        """Trace `work` for at most `most` of the thread's vectors at a time."""
        (turns, threads), thread = self.division, lego.thread_id.x
        together = max(n for n in range(1, max(1, most) + 1) if turns % n == 0)
        count = turns * threads
        whole = count * self.parts == self.total
        with nullcontext() if threads == self.threads else lego.when(thread < threads):
            if whole and turns == together:
                work([self.part * count + thread + threads * turn for turn in range(turns)])
                return
            for batch in lego.range(turns // together):
                first = self.part * count + thread + threads * together * batch
                for numbers in [[first + threads * turn for turn in range(together)]] if whole else []:
                    work(numbers)
                for turn in [] if whole else range(together):
                    with lego.when(first + threads * turn < self.total):
                        work([first + threads * turn])


def store_added(
    plan: Traced, c: View, operands: tuple[Operand, ...], at: tuple[IndexLike, IndexLike], vectors: SharedVectors,
    parts: int, read: Callable[[int, IndexLike], Operand],
) -> None:  # fmt: skip
    """Add the `parts` of some vectors of a tile, 0, 1, 2, .., and store them; `read` gives a part's vector.

    A tile inside of C has no branch around a store: LLVM would move the loads into each, and wait for them in turn.
    """
    target, width, (rows, columns) = plan.target(c), vectors.width, plan.shape

    def add(by: ElementFunction, numbers: list[IndexLike]) -> None:
        totals: list[Operand] = [None] * len(numbers)
        at_once = max(1, LOADS // len(numbers))
        for begin in range(0, parts, at_once):
            loaded = [[read(part, n) for part in range(begin, min(begin + at_once, parts))] for n in numbers]
            for i, values in enumerate(loaded):
                for value in values:
                    totals[i] = value if totals[i] is None else totals[i] + value
        for number, total in zip(numbers, totals, strict=True):
            row, column = vectors.place(number)
            place = VectorPlace(at[0] * rows + row, at[1] * columns + column, width)
            with lego.when(target.layout.mask(*at, row, column)):
                target.store(by(total, place), *at, row, column)

    (m, n), most = c.dims(), LOADS // parts
    with plan.epilogue_with(operands) as by:
        work = partial(add, by)
        if n % columns == 0 and m % vectors.shape[0] == 0:
            vectors.visit(work, most)
        else:
            with lego.when(target.layout.mask(*at, vectors.shape[0] - 1, columns - 1)):
                vectors.visit(work, most)
            with lego.otherwise():
                vectors.visit(work, most)
