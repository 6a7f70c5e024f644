"""Block-sparse matrices: the dense blocks that are stored, as a bijection onto the places of a matrix that hold one.

The array has the shape (blocks, rows of a block, columns of a block), as BSR stores its values; a place is a row and a
column of the matrix. So `place` is where a stored value belongs, `inv` where an entry of the matrix is stored, and
`holds` whether it is; products, refinements and sharded blocks come with the algebra.

>>> D = BlockSparse((4, 6), (2, 2), [(0, 1), (1, 0), (1, 2)])
>>> D.place(2, 1, 0), D.inv(row=3, column=4), D.holds(row=0, column=0)
({'row': 3, 'column': 4}, (2, 1, 0), False)
>>> BlockSparse.from_rows((4, 6), (2, 2), [0, 1, 3], [1, 0, 2]) == D
True
>>> BlockSparse((4, 6), (2, 2), [(0, 1), (1, 0), (0, 1)])
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: BlockSparse: blocks 0 and 2 are both [0, 1]; each is stored once
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Cond, IndexLike, IntArray
from lego_mlir.distributions.base import Distribution, Index
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import is_array, is_symbolic
from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.layout.canonical import Size

if TYPE_CHECKING:
    import numpy.typing as npt


class BlockSparse(Distribution):
    """The blocks of a matrix, in the order in which they are stored, at (block row, block column) each.

    Raises LayoutError for sizes that blocks do not divide, a block outside of the matrix, and one that is listed twice.
    """

    __slots__ = ("_number", "_rows_columns", "block", "blocks", "matrix")
    matrix: tuple[int, int]
    block: tuple[int, int]
    blocks: tuple[tuple[int, int], ...]
    _rows_columns: IntArray
    _number: IntArray

    def __init__(self, matrix: tuple[int, int], block: tuple[int, int], blocks: npt.ArrayLike) -> None:
        import numpy as np

        at = np.asarray(blocks, np.int64).reshape(-1, 2)
        if any(n < 1 or b < 1 or n % b for n, b in zip(matrix, block, strict=True)):
            raise LayoutError(f"BlockSparse: blocks of {list(block)} do not divide a matrix of {list(matrix)}")
        grid = tuple(n // b for n, b in zip(matrix, block, strict=True))
        outside = ((at < 0) | (at >= grid)).any(1)
        if outside.any():
            k = int(outside.argmax())
            raise LayoutError(f"BlockSparse: block {k} is {at[k].tolist()}, outside of the {list(grid)} blocks")
        number = np.full(grid, len(at))
        number[at[:, 0], at[:, 1]] = np.arange(len(at))
        twice = number[at[:, 0], at[:, 1]] != np.arange(len(at))
        if twice.any():
            k = int(twice.argmax())
            raise LayoutError(
                f"BlockSparse: blocks {k} and {number[tuple(at[k])]} are both {at[k].tolist()}; each is stored once"
            )
        self._set(
            matrix=tuple(map(int, matrix)), block=tuple(map(int, block)), blocks=tuple(map(tuple, at.tolist())),
            _rows_columns=at, _number=number.reshape(-1),
        )  # fmt: skip

    @classmethod
    def from_rows(
        cls, matrix: tuple[int, int], block: tuple[int, int], pointers: npt.ArrayLike, columns: npt.ArrayLike
    ) -> BlockSparse:
        """BSR: the blocks of block row r have the block columns `columns[pointers[r] : pointers[r + 1]]`.

        Raises LayoutError for pointers that do not rise from 0 to the number of columns.
        """
        import numpy as np

        ends, inside = np.asarray(pointers, np.int64), np.asarray(columns, np.int64)
        if ends[0] != 0 or ends[-1] != inside.size or (np.diff(ends) < 0).any():
            raise LayoutError(f"BlockSparse: pointers must rise from 0 to {inside.size}, got {ends.tolist()}")
        rows = np.repeat(np.arange(ends.size - 1), np.diff(ends))
        return cls(matrix, block, np.stack([rows, inside], 1))

    def _arguments(self) -> tuple[object, ...]:
        return self.matrix, self.block, self.blocks

    @property
    def shape(self) -> tuple[Size, ...]:
        return (len(self.blocks), *self.block)

    @property
    def axes(self) -> dict[str, Size]:
        return dict(zip(("row", "column"), self.matrix, strict=True))

    def _looked_up(self, what: str, entries: IntArray, index: IndexLike, end: int) -> IndexLike:
        """An entry of one of the tables: of an int, an array or a symbol."""
        if is_symbolic(index):
            from lego_mlir.expr.index import Index as Symbolic
            from lego_mlir.expr.nodes import Table

            name = f"{what}_{hashlib.sha256(entries.tobytes()).hexdigest()[:8]}"
            return Symbolic(Table(name, Symbolic(index).expr, len(entries), end, tuple(entries.tolist())))
        return entries[index] if is_array(index) else int(entries[index])

    def _number_at(self, place: Index) -> IndexLike:
        """The number of the block at a place; that of the blocks where there is none."""
        across = self.matrix[1] // self.block[1]
        cell = place[0] // self.block[0] * across + place[1] // self.block[1]
        return self._looked_up("blocks", self._number, cell, len(self.blocks) + 1)

    def _place(self, index: Index, copy: Index) -> Index:
        found = []
        for axis, what in enumerate(("block_rows", "block_columns")):
            entries = self._rows_columns[:, axis].copy()
            at = self._looked_up(what, entries, index[0], self.matrix[axis] // self.block[axis])
            found.append(at * self.block[axis] + index[1 + axis])
        return tuple(found)

    def _element(self, place: Index) -> tuple[Index, Index]:
        return (self._number_at(place), place[0] % self.block[0], place[1] % self.block[1]), ()

    def _holds(self, place: Index) -> Cond:
        held: Cond = self._number_at(place) < len(self.blocks)
        return held

    def check(self) -> Verdict:
        return Proved(f"{len(self.blocks)} blocks, each once, by comparison")

    def __repr__(self) -> str:
        listed: Sequence[tuple[int, int]] | str = self.blocks if len(self.blocks) <= 16 else f"<{len(self.blocks)}>"
        return f"BlockSparse({self.matrix}, {self.block}, {listed})"
