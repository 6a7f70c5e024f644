"""Transpose a tile through vectors of memory, wherever the rows of the matrices begin.

If a matrix has an odd number of columns, its rows begin at any element, and no vector of a row is aligned in every row.
But memory is aligned: the vectors of memory that contain a row's part of a tile begin up to w - 1 elements before it.

    row r of the tile     |   0 1 2 3 4 5 6 7   |       w = 4, q = 3 elements too early
    vectors of memory    . . . 0|1 2 3 4|5 6 7 .         thread 0 takes the ends: 0, and 5 6 7 of the vector after it

The q of a row is its first position modulo w. The rows of a thread are a multiple of w apart, and have the same q: a
thread computes its places once, and goes from row to row by constant strides.

A tile covers whole sectors of the result: its part of column c begins at one, up to a sector's elements before its own
first row. Two tiles read these rows, which the L2 cache then has, no two write one sector, and all stores are vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.expr.index import Index
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.layout import gallery
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View


@dataclass(frozen=True, slots=True)
class Realigned:
    """Moves tiles of rows x columns of an m x n matrix, `source`, to `result`, n x m, with vectors of w elements.

    Tile 0 begins up to a sector early in some columns, so the grid covers `early` rows more. The sides of a tile are
    multiples of a sector's elements.
    """

    source: View
    result: View
    tile: tuple[int, int]
    threads: int
    w: int

    @property
    def sector(self) -> int:
        """Elements of a sector."""
        return sector_of(self.source.dtype)

    @property
    def before(self) -> int:
        """Rows in shared memory before those of the tile: of sectors that begin there, as many as threads load."""
        step = self._share(self.tile[1])[2]
        return -(-self.sector // step) * step

    def stage(self) -> View:
        """The rows of a tile and those before it."""
        return lego.shared(self.source.dtype, gallery.padded(self.before + self.tile[0], self.tile[1]))

    def move(self, at: Sequence[IndexLike], stage: View) -> None:
        """Tile `at`, through the shared tile `stage`; at the ends of the matrix with conditions for each vector."""
        (rows, columns), (m, n) = self.tile, self.source.dims()
        row, column = at[0] * rows, at[1] * columns
        below, right = row + rows, column + columns
        inside = (at[0] > 0) & (below < m) & (right < n) & (below * n + right <= m * n) & (right * m + below <= m * n)
        with lego.when(inside):  # its last two parts follow from others, and bound the vectors of memory
            self._load(row, column, stage, self._vector)
            lego.barrier()
            self._store(row, column, stage)
        with lego.otherwise():
            self._load(row, column, stage, self._vector_at_end)
            lego.barrier()
            self._store_at_end(row, column, stage)

    def _load(
        self, row: IndexLike, column: IndexLike, stage: View, vector: Callable[[Index], Sequence[Scalar]]
    ) -> None:
        """All vectors of a thread, and then the vectors after the last ones of its rows, for their first q elements."""
        columns, w, n = self.tile[1], self.w, self.source.dims()[1]
        lane, local, step = self._share(columns)
        early = local * n % w
        first = ((row - self.before + local) * n + column) // w * w + lane * w
        places = [(lane * w - early + k) % columns for k in range(w)]
        distances = range(0, self.before + self.tile[0], step)
        loaded = [vector(first + d * n) for d in distances]
        for d, elements in zip(distances, loaded, strict=True):
            for k, place in enumerate(places):
                stage[local + d, place] = elements[k]
        with lego.when((lane < 1) & (early > 0)):
            loaded = [vector(first + columns + d * n) for d in distances]
            for k, place in enumerate(places[:-1]):
                with lego.when(early > k):
                    for d, elements in zip(distances, loaded, strict=True):
                        stage[local + d, place] = elements[k]

    def _vector(self, at: Index) -> Sequence[Scalar]:
        return self.source.flat().load(at, width=self.w)

    def _vector_at_end(self, at: Index) -> Sequence[Scalar]:
        """The elements of a vector of the source, zeros outside."""
        memory, (m, n) = self.source.flat(), self.source.dims()
        cells = [lego.register(memory.dtype, 0) for _ in range(self.w)]
        with lego.when((at >= 0) & (at + self.w <= m * n)):
            for cell, element in zip(cells, memory.load(at, width=self.w), strict=True):
                cell.set(element)
        with lego.otherwise():
            for k, cell in enumerate(cells):
                with lego.when((at + k >= 0) & (at + k < m * n)):
                    cell.set(memory[at + k])
        return [cell.get() for cell in cells]

    def _results(self, row: IndexLike, column: IndexLike, stage: View) -> Iterator[tuple[Index, Index, Index, Scalar]]:
        """A thread's vectors of the result: position, column, first row and value.

        A thread's columns that are a multiple of a sector's elements apart begin equally early.
        """
        (rows, columns), w, sector = self.tile, self.w, self.sector
        m, (lane, local, step) = self.source.dims()[0], self._share(rows)
        for near in range(0, max(sector, step), step):
            here = local + near
            early = here * m % sector
            first = lane * w + self.before - early
            for far in range(0, columns, max(sector, step)):
                value = lego.vector(*(stage[first + k, here + far] for k in range(w)))
                position = (column + far) * m + here * m // sector * sector + row + lane * w
                yield position, column + far + here, row - early + lane * w, value

    def _store(self, row: IndexLike, column: IndexLike, stage: View) -> None:
        memory = self.result.flat()
        for position, _, _, value in self._results(row, column, stage):
            memory.store(value, position)

    def _store_at_end(self, row: IndexLike, column: IndexLike, stage: View) -> None:
        """Vectors inside of the result, and the elements inside of those that cross an end of a row of it."""
        memory, (m, n) = self.result.flat(), self.source.dims()
        for position, c, r, value in self._results(row, column, stage):
            with lego.when((c < n) & (r >= 0) & (r + self.w <= m)):
                memory.store(value, position)
            with lego.otherwise():
                for k in range(self.w):
                    with lego.when((c < n) & (r + k >= 0) & (r + k < m)):
                        memory[position + k] = value[k]

    def _share(self, length: int) -> tuple[Index, Index, int]:
        """A thread's vector of a row of `length` elements, its first row, and the distance to its next one."""
        lanes = length // self.w
        return lego.thread_id.x % lanes, lego.thread_id.x // lanes, self.threads // lanes


def sector_of(dtype: DType) -> int:
    """Elements of a sector."""
    return SECTOR_BYTES // dtype.bytes
