"""Transpose a matrix of 2-byte elements through 4-byte words, wherever its rows begin.

If a matrix of m x n elements has odd sizes, every other row begins in the middle of a word, in the source and in the
result. In shared memory a word contains two rows of one column, so that it is a word of the result:

    column 2j        rows 2i, 2i + 1     in a row of the result that begins with a word
    column 2j + 1    rows 2i - 1, 2i     in one that begins in the middle of a word

A thread packs both from halves of the words of the source that contain these elements.

A tile covers whole sectors of the result: its part of column c begins c m mod 16 elements early, at a sector. Two tiles
read the rows before a tile, which the L2 cache then has, and no two write one sector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.errors import UsageError
from lego_mlir.expr.index import Index
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.layout import Row
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View

BYTES: Final = 2
"""Bytes of an element: two are a word, which shared memory transfers at once."""
SECTOR: Final = SECTOR_BYTES // BYTES
"""Elements of a sector."""
BATCH: Final = 8
"""Pairs of rows whose words a thread loads before its first store."""


def in_words(M: object, N: object, dtype: DType) -> bool:
    """Whether `WordPairs` takes such a matrix: sizes must be known, since the parity of a row decides its words."""
    return isinstance(M, int) and isinstance(N, int) and dtype.bytes == BYTES


def require_even(tile: tuple[int, int], threads: int) -> None:
    """Raises UsageError for a tile that the threads do not share evenly."""
    rows, columns = tile
    if min(rows, columns, threads) < 1 or rows % SECTOR or columns % SECTOR:
        raise UsageError(
            f"transpose: the sides of the tile {rows} x {columns} must be multiples of {SECTOR} elements, a sector, "
            f"and {threads=} positive"
        )
    step = threads // (rows // 2)
    even = threads % (rows // 2) == threads % (columns // 2) == 0
    if not even or (SECTOR % step and step % SECTOR) or columns % step:
        raise UsageError(
            f"transpose: {threads=} must divide the tile {rows} x {columns} evenly: a power of two, and a multiple of "
            f"the words along both sides, {rows // 2} and {columns // 2}"
        )


@dataclass(frozen=True, slots=True)
class WordPairs:
    """Moves tiles of rows x columns of an m x n matrix, `source`, to `result`, n x m.

    Tile 0 begins `SECTOR - 1` rows early in some columns, so the grid covers m + SECTOR - 1 rows.
    """

    source: View
    result: View
    tile: tuple[int, int]
    threads: int

    @property
    def _sizes(self) -> tuple[int, int]:
        m, n = (int(size) for size in self.source.dims())
        return m, n

    @property
    def _pairs(self) -> int:
        """Pairs of rows in shared memory: those of the tile, and those of the sectors that begin before it."""
        return (self.tile[0] + SECTOR) // 2 - 1

    @property
    def _step(self) -> int:
        """Rows of the result that the threads store at once."""
        return self.threads // (self.tile[0] // 2)

    def stage(self) -> View:
        """Words of even columns, and those of odd ones. Columns are an odd number of words apart: in other banks."""
        return lego.shared(self.source.dtype, Row(2, self.tile[1] // 2, 2 * (self._pairs | 1)))

    def move(self, at: Sequence[IndexLike], stage: View) -> None:
        """Tile `at`, through the shared tile `stage`; at the ends of the matrix with conditions for each word."""
        (rows, columns), (m, n) = self.tile, self._sizes
        row, column = at[0] * rows, at[1] * columns
        with lego.when((at[0] > 0) & (at[1] > 0) & (row + rows < m) & (column + columns < n)):
            self._load(row, column, stage, self._word)
            lego.barrier()
            self._store(row, column, stage)
        with lego.otherwise():
            self._load(row, column, stage, self._word_at_end)
            lego.barrier()
            self._store_at_end(row, column, stage)

    def _load(self, row: IndexLike, column: IndexLike, stage: View, word: Callable[[Index], Scalar]) -> None:
        """All pairs of rows, some at a time."""
        lanes = self.tile[1] // 2
        lane, first, step = lego.thread_id.x % lanes, lego.thread_id.x // lanes, self.threads // lanes
        begin = (row + 2 - SECTOR) * self._sizes[1] + column + 2 * lane
        whole = self._pairs // step
        for start in range(0, whole, BATCH):
            pairs = [first + k * step for k in range(start, min(start + BATCH, whole))]
            self._load_pairs(begin, lane, pairs, stage, word)
        if self._pairs % step:
            with lego.when(first + whole * step < self._pairs):
                self._load_pairs(begin, lane, [first + whole * step], stage, word)

    def _load_pairs(
        self, begin: Index, lane: Index, pairs: Sequence[Index], stage: View, word: Callable[[Index], Scalar]
    ) -> None:
        """Pairs of rows at the columns 2 lane and 2 lane + 1; `begin` is the position of the first element."""
        loaded = [self._words(begin + 2 * pair * self._sizes[1], word) for pair in pairs]
        for pair, (even, odd) in zip(pairs, loaded, strict=True):
            stage.store(even, 0, lane, 2 * pair)
            stage.store(odd, 1, lane, 2 * pair)

    def _words(self, at: Index, word: Callable[[Index], Scalar]) -> tuple[Scalar, Scalar]:
        """The words of an even column, whose first element is at position `at`, and of the next one."""
        m, n = self._sizes
        here, late = word(at), n % 2
        below = word(at + n - late)  # contains the element below; of an odd row, in its second half
        even = lego.vector(here[0], below[late])
        if m % 2:
            return even, lego.vector(word(at - n + late)[1 - late], here[1])
        return even, lego.vector(here[1], word(at + n + late)[0] if late else below[1])

    def _word(self, at: Index) -> Scalar:
        return self.source.flat().load(at, width=2)

    def _word_at_end(self, at: Index) -> Scalar:
        """A word of the source, zeros outside; of the last word of an odd number of elements, its first half."""
        memory, (m, n) = self.source.flat(), self._sizes
        cell = lego.register(memory.dtype, 0, 2)
        with lego.when((at >= 0) & (at + 1 < m * n)):
            cell.set(memory.load(at, width=2))
        if m * n % 2:
            with lego.when((at >= m * n - 1) & (at < m * n)):
                last = memory[at]
                cell.set(lego.vector(last, last))
        return cell.get()

    def _results(self, row: IndexLike, column: IndexLike, stage: View) -> Iterator[tuple[Index, Index, Index, Scalar]]:
        """A thread's words of the result: position, column, first row and value.

        A thread's columns that are a multiple of a sector apart begin equally early.
        """
        m, words, step = self._sizes[0], self.tile[0] // 2, self._step
        lane, group = lego.thread_id.x % words, lego.thread_id.x // words
        for near in range(0, max(SECTOR, step), step):
            local = group + near
            early = local * m % SECTOR
            pair = lane + SECTOR // 2 - 1 - early // 2
            for far in range(0, self.tile[1], max(SECTOR, step)):
                value = stage.load(local % 2, local // 2 + far // 2, 2 * pair, width=2)
                position = (column + far) * m + local * m // SECTOR * SECTOR + row + 2 * lane
                yield position, column + far + local, row - early + 2 * lane, value

    def _store(self, row: IndexLike, column: IndexLike, stage: View) -> None:
        memory = self.result.flat()
        for position, _, _, value in self._results(row, column, stage):
            memory.store(value, position)

    def _store_at_end(self, row: IndexLike, column: IndexLike, stage: View) -> None:
        """Words inside the result, and the elements inside of those that cross an end of a row of it."""
        memory, (m, n) = self.result.flat(), self._sizes
        for position, c, r, value in self._results(row, column, stage):
            with lego.when((c < n) & (r >= 0) & (r + 1 < m)):
                memory.store(value, position)
            with lego.when((c < n) & (r >= -1) & (r < 0)):
                memory[position + 1] = value[1]
            with lego.when((c < n) & (r >= m - 1) & (r < m)):
                memory[position] = value[0]
