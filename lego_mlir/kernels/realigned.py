"""Transpose a tile through vectors of memory, wherever the rows of the matrices begin.

If a matrix has an odd number of columns, its rows begin at any element, and no vector of a row is aligned in every row.
But memory is aligned: the vectors of memory that contain a row's part of a tile begin up to w - 1 elements before it.

    row r of the tile     |   0 1 2 3 4 5 6 7   |       w = 4, q = 3 elements too early
    vectors of memory    . . . 0|1 2 3 4|5 6 7 .         thread 0 takes the ends: 0, and 5 6 7 of the vector after it

The q of a row is its first position modulo w. The rows of a thread are a multiple of w apart, and have the same q: a
thread computes its places once, and goes from row to row by constant strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.expr.index import Index
from lego_mlir.tracing.words.tensor import View


@dataclass(frozen=True, slots=True)
class Realigned:
    """Moves tiles of rows x columns of an M x N matrix, `source`, to `result`, N x M, with vectors of w elements."""

    source: View
    result: View
    tile: tuple[int, int]
    threads: int
    w: int

    def move(self, at: Sequence[IndexLike], stage: View) -> None:
        """Tile `at`, through the shared tile `stage`; tiles at the ends of the matrix element by element."""
        (rows, columns), (m, n) = self.tile, self.source.dims()
        below, right = (at[0] + 1) * rows, (at[1] + 1) * columns
        inside = (below < m) & (right < n) & (below * n + right <= m * n) & (right * m + below <= m * n)
        with lego.when(inside):  # its last two parts follow from the first two, and bound the vectors of memory
            self._load(at, stage)
            lego.barrier()
            self._store(at, stage)
        with lego.otherwise():
            self._ragged(at, stage)

    def _load(self, at: Sequence[IndexLike], stage: View) -> None:
        """All vectors of a thread, and then the vectors after the last ones of its rows, for their first q elements."""
        (rows, columns), w, n = self.tile, self.w, self.source.dims()[1]
        lane, row, step = self._share(columns)
        memory, early = self.source.flat(), row * n % w
        first = ((at[0] * rows + row) * n + at[1] * columns) // w * w + lane * w
        places = [(lane * w - early + k) % columns for k in range(w)]
        distances = range(0, rows, step)
        loaded = [memory.load(first + d * n, width=w) for d in distances]
        for d, vector in zip(distances, loaded, strict=True):
            for k, place in enumerate(places):
                stage[row + d, place] = vector[k]
        with lego.when((lane < 1) & (early > 0)):
            loaded = [memory.load(first + columns + d * n, width=w) for d in distances]
            for k, place in enumerate(places[:-1]):
                with lego.when(early > k):
                    for d, vector in zip(distances, loaded, strict=True):
                        stage[row + d, place] = vector[k]

    def _store(self, at: Sequence[IndexLike], stage: View) -> None:
        """The same in the other direction: the ends of a row of the result are stored element by element."""
        (rows, columns), w, m = self.tile, self.w, self.source.dims()[0]
        lane, column, step = self._share(rows)
        memory, early = self.result.flat(), column * m % w
        first = (at[1] * columns + column) * m + at[0] * rows
        places = [(lane * w - early + k) % rows for k in range(w)]
        with lego.when((lane > 0) | (early < 1)):
            for d in range(0, columns, step):
                vector = lego.vector(*(stage[place, column + d] for place in places))
                memory.store(vector, first // w * w + lane * w + d * m)
        with lego.otherwise():
            for distance in lego.range(0, columns, step):
                for place in places:
                    memory[first + distance * m + place] = stage[place, column + distance]

    def _ragged(self, at: Sequence[IndexLike], stage: View) -> None:
        """A tile that reaches past an end, which masks cut off, or that ends there: a vector could be outside."""
        (rows, columns), t = self.tile, lego.thread_id.x
        grid = [lego.cdiv(size, tile) for size, tile in zip(self.source.dims(), self.tile, strict=True)]
        source = self.source.tile_by(grid, self.tile)
        result = self.result.tile_by(grid[::-1], self.tile[::-1])
        for k in lego.range(t, rows * columns, self.threads):
            stage[k // columns, k % columns] = source[*at, k // columns, k % columns]
        lego.barrier()
        for k in lego.range(t, rows * columns, self.threads):
            result[*at[::-1], k // rows, k % rows] = stage[k % rows, k // rows]

    def _share(self, length: int) -> tuple[Index, Index, int]:
        """A thread's vector of a row of `length` elements, its first row, and the distance to its next one."""
        lanes = length // self.w
        return lego.thread_id.x % lanes, lego.thread_id.x // lanes, self.threads // lanes
