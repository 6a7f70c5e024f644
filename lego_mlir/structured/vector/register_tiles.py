"""Register tiles: what to load, multiply and store for each small block of a result.

A result is partitioned into tiles of `rows` x (`vectors` * `width`) elements, held in registers while a product
accumulates. For each tile and each k, the tables of `views.py` give the nonzero rows of the left factor and the
loadable lanes of the right factor; equal consecutive steps become one counted instruction. Patterns are constants and
positions integers, so `roll.py` can roll equal tiles into loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.structured.structures import ONE, STORED, ZERO
from lego_mlir.structured.vector import views
from lego_mlir.structured.vector.roll import Code, counted
from lego_mlir.structured.vector.views import OperandView

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mask = tuple[bool, ...]
Scale = tuple[float, tuple[str, ...]]
UNSCALED: Scale = (1.0, ())


@dataclass(frozen=True, slots=True)
class Shape:
    """The tile's size in registers: `rows` accumulators high, `vectors` of `width` elements wide."""

    width: int
    rows: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Segment:
    """How a vector is read: successive masked loads into one register, and lanes that are one."""

    masks: tuple[Mask, ...]
    ones: Mask | None


# Instructions of a tile. Each documents the groups of positions it takes.
@dataclass(frozen=True, slots=True)
class Begin:
    """Start a tile; the accumulators (row, vector) in `active` are in use."""

    active: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Add:
    """accumulators from (row, vector) down += scale * a block; `columns` are vectors down a column, to be transposed.

    Positions: the bases of the rows' masks, then those of the columns'."""

    scale: Scale
    buffer: str
    row: int
    vector: int
    rows: tuple[Segment, ...]
    columns: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class LeftColumn:
    """A column of one part of the left factor: the kind of each row, and the part's number, 1 or -1."""

    buffer: str
    number: float
    kinds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OuterProduct:
    """accumulators += scale * (column of the left factor, the sum of its parts) * (row of the right one).

    Positions: the stored elements of each part; the bases of the right masks."""

    scale: Scale
    left: tuple[LeftColumn, ...]
    right_buffer: str
    right: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """lane sums += |scale| * (vector of the left factor along k) * (vector of each lane's column along k).

    Positions: the bases of the left vector's masks; the bases of the lanes' masks."""

    scale: Scale
    left_buffer: str
    right_buffer: str
    left: Segment
    lanes: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class FoldDots:
    """accumulator (0, 0) += sign * lane sums; clears the lane sums."""

    sign: float


@dataclass(frozen=True, slots=True)
class Multiply:
    """accumulators *= scale."""

    scale: Scale


@dataclass(frozen=True, slots=True)
class SolveRows:
    """Solve with a small triangle against the tile's rows. Positions: its stored elements, row by row."""

    buffer: str
    kinds: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SolveLanes:
    """Solve with a small triangle against the lanes of accumulator (0, 0). Positions: the stored diagonal;
    the bases of the block whose row c is the triangle's column c, by rows; the same by columns."""

    buffer: str
    width: int
    diagonal: tuple[int, ...]
    order: tuple[int, ...]
    rows: tuple[Segment, ...]
    columns: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class CholeskyRows:
    """Replace the tile's square by its upper Cholesky factor; lanes left of the diagonal are undefined."""

    buffer: str
    rows: int


@dataclass(frozen=True, slots=True)
class EliminateRows:
    """LU of the tile's square: L below the diagonal (its unit diagonal implicit), U on and above it."""

    buffer: str
    rows: int


@dataclass(frozen=True, slots=True)
class SolveRight:
    """The tile's rows times the inverse of an upper triangle. Positions: its stored diagonal; the bases of its rows,
    which have the lanes above the diagonal."""

    buffer: str
    order: tuple[int, ...]
    rows: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class StoreAccumulator:
    """Store accumulator (row, vector). Positions: the bases of the masks."""

    buffer: str
    row: int
    vector: int
    masks: tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class ViewProduct:
    """A scaled product of two views, in the orientation of the tile grid; `others` are added to the left one."""

    scale: Scale
    left: OperandView
    right: OperandView
    others: tuple[tuple[float, OperandView], ...] = ()

    @property
    def parts(self) -> tuple[tuple[float, OperandView], ...]:
        """The parts of the left factor, with their numbers."""
        return ((1.0, self.left), *self.others)


@dataclass(frozen=True, slots=True)
class Element:
    """A scaled view, added elementwise."""

    scale: Scale
    view: OperandView


Bases = list[int]


def segment(view: OperandView, row: int, column: int, width: int) -> tuple[Segment, list[int]]:
    """How to read the row's lanes from `column` on, and the bases."""
    found, first = views.pattern_at(view, row, column, width)
    return Segment(found.runs, found.ones), [first + base for base in found.bases]


def block(part: OperandView, width: int) -> tuple[Add, Bases, Bases] | None:
    """How to read a block of at most `width` rows: by rows, by columns that are then transposed, or by both.

    A diagonal block of a symmetric matrix needs both: its rows are contiguous only up to the diagonal.
    """
    if not (part.kinds != ZERO).any():
        return None
    rows = part.rows
    upright, bases = _segments(part, rows, width)
    if len(bases) <= rows or width == 1:
        return Add(UNSCALED, part.buffer, 0, 0, upright, ()), bases, []
    transposed, transposed_bases = _segments(part.T, width, width)
    along = long_runs(part)
    first, first_bases = _segments(part.masked(along), rows, width)
    second, second_bases = _segments(part.masked(~along).T, width, width)
    turning = rows * (width.bit_length() - 1)  # shuffles of two vectors
    joining = len(bases) - rows  # every further load into a row costs a shuffle
    ways = [
        (len(bases) + joining, upright, (), bases, []),
        (len(transposed_bases) + turning, (), transposed, [], transposed_bases),
        (len(first_bases) + len(second_bases) + turning, first, second, first_bases, second_bases),
    ]
    _, by_rows, by_columns, row_bases, column_bases = min(ways, key=lambda way: way[0])
    return Add(UNSCALED, part.buffer, 0, 0, by_rows, by_columns), row_bases, column_bases


def upper_rows(square: OperandView, width: int) -> tuple[tuple[Segment, ...], Bases]:
    """The rows of a tile's triangle without its diagonal."""
    return _segments(square.masked(np.triu(np.ones(square.kinds.shape, bool), 1)), square.rows, width)


def long_runs(part: OperandView) -> NDArray[np.bool_]:
    """The longest contiguous segment (of at least two) of every row, and the ones."""
    runs = part.kinds == ONE
    for r in range(part.rows):
        longest = views.pieces(part, r, 0, part.columns)
        if longest and not longest[0].ones and sum(longest[0].lanes) > 1:
            runs[r] |= longest[0].lanes
    return runs


def _segments(view: OperandView, rows: int, width: int) -> tuple[tuple[Segment, ...], list[int]]:
    padded = view.padded(width) if view.columns < width else view
    found = [segment(padded, row, 0, width) for row in range(rows)]
    return tuple(one for one, _ in found), [base for _, bases in found for base in bases]


class Steps:
    """All k of one product for a grid of tiles, precomputed: numbered patterns, and positions as arrays."""

    def __init__(
        self, product: ViewProduct, shape: Shape, heights: Mapping[int, int], column_starts: Sequence[int]
    ) -> None:
        self.product = product
        self.left = {i: _left_patterns(product.parts, i, rows) for i, rows in heights.items()}
        self.right = {j: _right_patterns(product.right, j, shape) for j in column_starts}

    def between(self, i: int, j: int, low: int, high: int, count_runs: bool) -> Iterator[Code]:
        """The steps of tile (i, j) with low <= k < high; equal consecutive ones merged if `count_runs`."""
        left, right = self.left[i], self.right[j]
        useful = (left.useful & right.useful)[low:high]
        ks = low + np.flatnonzero(useful)
        if not len(ks):
            return
        key = (left.numbers * len(right.patterns) + right.numbers)[ks]
        cuts = [0, *(np.flatnonzero((key[1:] != key[:-1]) | (np.diff(ks) != 1)) + 1).tolist(), len(ks)]
        for start, end in pairwise(cuts if count_runs else range(len(ks) + 1)):
            first, last = int(ks[start]), int(ks[end - 1])
            pattern, segments = left.patterns[left.numbers[first]], right.patterns[right.numbers[first]]
            step = OuterProduct(self.product.scale, pattern, self.product.right.buffer, segments)
            rows = left.bases[first : last + 1]
            yield from _runs(step, [[*a, b] for a, b in zip(rows, right.bases[first : last + 1], strict=True)])


def _runs(what: OuterProduct | Dot, rounds: Sequence[Sequence[Sequence[int]]]) -> Iterator[Code]:
    """Iterations of an instruction, each with its groups of positions, as counted instructions of equal steps."""
    if len(rounds) == 1:
        yield counted(what, 1, rounds[0], [[0] * len(group) for group in rounds[0]])
        return
    ends = np.cumsum([len(group) for group in rounds[0]])[:-1]
    table = np.array([[position for group in one for position in group] for one in rounds], np.int64)
    steps = np.diff(table, axis=0)
    same = (steps[1:] == steps[:-1]).all(axis=1).tolist()
    at = 0
    while at < len(rounds):
        end = at + 1
        while end < len(same) + 1 and same[end - 1]:
            end += 1
        end = min(end, len(rounds) - 1)
        step = steps[at] if end > at else np.zeros(table.shape[1], np.int64)
        yield counted(what, end - at + 1, rounds[at], [group.tolist() for group in np.split(step, ends)])
        at = end + 1


@dataclass(frozen=True)
class _Left:
    numbers: NDArray[np.int64]
    patterns: list[tuple[LeftColumn, ...]]
    useful: NDArray[np.bool_]
    bases: list[list[Bases]]


@dataclass(frozen=True)
class _Right:
    numbers: NDArray[np.int64]
    patterns: list[tuple[Segment, ...]]
    useful: NDArray[np.bool_]
    bases: list[list[int]]


def _left_patterns(parts: Sequence[tuple[float, OperandView]], i: int, rows: int) -> _Left:
    kinds = np.stack([view.kinds[i : i + rows] for _, view in parts])
    found, numbers = np.unique(kinds.reshape(-1, kinds.shape[2]), axis=1, return_inverse=True)
    patterns = [
        tuple(
            LeftColumn(view.buffer, number, tuple(map(int, column)))
            for (number, view), column in zip(parts, columns.reshape(len(parts), -1), strict=True)
        )
        for columns in found.T
    ]
    at = np.stack([view.at[i : i + rows] for _, view in parts])
    bases = [
        [positions[there].tolist() for positions, there in zip(at[:, :, k], kinds[:, :, k] == STORED, strict=True)]
        for k in range(kinds.shape[2])
    ]
    return _Left(numbers.ravel(), patterns, (kinds != ZERO).any(axis=(0, 1)), bases)


def _right_patterns(right: OperandView, j: int, shape: Shape) -> _Right:
    """`views.pattern_at` for all rows of a panel at once; each distinct pattern is split only once."""
    width = shape.width
    panel = (slice(None), slice(j, j + width * shape.vectors))
    kinds = right.kinds[panel].reshape(right.rows, -1, width)
    at = right.at[panel].reshape(kinds.shape)
    there = kinds == STORED
    first = np.take_along_axis(at, there.argmax(axis=2)[..., None], axis=2)
    keys = [(a.tobytes(), b.tobytes()) for a, b in zip(kinds, (at - first) * there, strict=True)]
    known: dict[tuple[bytes, bytes], int] = {}
    numbers = [known.setdefault(key, len(known)) for key in keys]
    patterns, offsets = [], []
    for key in known:
        vectors = range(kinds.shape[1])
        parts = [[key[0][v * width : (v + 1) * width], key[1][8 * v * width : 8 * (v + 1) * width]] for v in vectors]
        found = [views.pattern(*part, width) for part in parts]
        patterns.append(tuple(Segment(pattern.runs, pattern.ones) for pattern in found))
        offsets.append([(v, base) for v, pattern in enumerate(found) for base in pattern.bases])
    starts = first[..., 0].tolist()
    bases = [[row[v] + base for v, base in offsets[number]] for row, number in zip(starts, numbers, strict=True)]
    return _Right(np.array(numbers), patterns, (kinds != ZERO).any(axis=(1, 2)), bases)


def dots(product: ViewProduct, column: int, width: int, low: int, high: int, count_runs: bool) -> Iterator[Code]:
    """The product for one vector of a single row, as sums along k: for contiguous columns."""
    right = product.right
    found: list[tuple[int, Dot, list[Bases]]] = []
    for k in range(low - low % width, high, width):
        rows = slice(max(k, low), min(k + width, high))
        part = right.part(rows, slice(column, column + width))
        left = product.left.part(slice(0, 1), rows)
        needed = (part.kinds != ZERO).any(axis=1) & (left.kinds[0] != ZERO)
        if not needed.any():
            continue
        (one,), left_bases = _segments(left.masked(needed[None, :]), 1, width)
        lanes, bases = _segments(part.masked(needed[:, None]).T, width, width)
        found.append((k, Dot(product.scale, product.left.buffer, right.buffer, one, lanes), [left_bases, bases]))
    at = 0
    while at < len(found):
        end = at + 1
        while count_runs and end < len(found) and found[end][1] == found[at][1]:
            end += 1
        yield from _runs(found[at][1], [groups for _, _, groups in found[at:end]])
        at = end


def split_line(right: OperandView, width: int) -> NDArray[np.bool_]:
    """For a product with a single left row: True where the right factor is read along rows, False where down columns. A
    symmetric matrix with one stored half needs both."""
    along = np.ones(right.kinds.shape, bool)
    if width == 1:
        return along
    for k in range(0, right.rows, width):
        for j in range(0, right.columns, width):
            where = (slice(k, k + width), slice(j, j + width))
            part = right.part(*where)
            if part.contiguous_rows and part.contiguous_pairs >= part.T.contiguous_pairs:
                continue
            along[where] = False if part.T.contiguous_rows else long_runs(part)
    return along
