"""Register tiles: what to load, multiply and store for each small block of a result.

A result is cut into tiles of `rows` x (`vectors` * `width`) elements that are kept in registers while a product is
summed. For each tile the tables of `views.py` give, step by step of k, which rows of the left factor are not zero
and which lanes of the right factor may be loaded; steps that agree become one counted run. All patterns are fixed
values, all positions integers, so that `roll.py` can turn equal tiles into loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.structured import views
from lego_mlir.structured.roll import Code
from lego_mlir.structured.structures import ONE, STORED, ZERO
from lego_mlir.structured.views import View

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
    """How a vector is read: masked loads, one after the other into the same register, and lanes that are one."""

    masks: tuple[Mask, ...]
    ones: Mask | None


# Instructions of a tile. Each says how many integers it uses.
@dataclass(frozen=True, slots=True)
class Begin:
    """A new tile; the accumulators named (row, vector) are in use. No integers."""

    active: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Add:
    """accumulators from (row, vector) down += scale * a block; `columns` are vectors down a column, to be turned.

    Integers: one base for each mask, rows first."""

    scale: Scale
    buffer: str
    row: int
    vector: int
    rows: tuple[Segment, ...]
    columns: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """accumulators += scale * (column of the left factor) * (row of the right one), `count` times.

    `left` has the kind of each row. Integers: count, positions of the stored left elements, bases of the right
    masks, then the steps of all of these from one k to the next."""

    scale: Scale
    left_buffer: str
    right_buffer: str
    left: tuple[int, ...]
    right: tuple[Segment, ...]
    arity: int


@dataclass(frozen=True, slots=True)
class Dot:
    """lane sums += scale * (vector of the left factor along k) * (vector of each lane's column along k), `count` times.

    Integers: count, base of the left vector's masks, bases of the lanes' masks, then their steps."""

    scale: Scale
    left_buffer: str
    right_buffer: str
    left: Segment
    lanes: tuple[Segment, ...]
    arity: int


@dataclass(frozen=True, slots=True)
class FoldDots:
    """Add the lane sums to accumulator (0, 0) and clear them. No integers."""


@dataclass(frozen=True, slots=True)
class Multiply:
    """accumulators *= scale. No integers."""

    scale: Scale


@dataclass(frozen=True, slots=True)
class SolveRows:
    """Solve with a small triangle against the tile's rows. Integers: positions of its stored elements, row by row."""

    buffer: str
    kinds: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SolveLanes:
    """Solve with a small triangle against the lanes of accumulator (0, 0). Integers: positions of the diagonal, then
    the bases of the block whose row c is the triangle's column c."""

    buffer: str
    width: int
    diagonal: tuple[int, ...]
    order: tuple[int, ...]
    rows: tuple[Segment, ...]
    columns: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Store accumulator (row, vector). Integers: one base for each mask."""

    buffer: str
    row: int
    vector: int
    masks: tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A scaled product of two views, both as the tile grid sees them."""

    scale: Scale
    left: View
    right: View


@dataclass(frozen=True, slots=True)
class Element:
    """A scaled view, added element by element."""

    scale: Scale
    view: View


class Writer:
    """Instructions and integers as they are made."""

    def __init__(self) -> None:
        self.instructions: list[Any] = []
        self.integers: list[int] = []

    def add(self, instruction: Any, integers: Sequence[int] = ()) -> None:
        self.instructions.append(instruction)
        self.integers.extend(integers)

    def code(self) -> Code:
        return Code(tuple(self.instructions), tuple(self.integers))


def segment(view: View, row: int, column: int, width: int) -> tuple[Segment, list[int]]:
    """How to read the row's lanes from `column` on, and where."""
    found = views.pieces(view, row, column, width)
    ones = next((piece.lanes for piece in found if piece.ones), None)
    runs = [piece for piece in found if not piece.ones]
    return Segment(tuple(piece.lanes for piece in runs), ones), [piece.base for piece in runs]


def block(part: View, width: int) -> tuple[Add, list[int]] | None:
    """How to read a block of at most `width` rows: by rows, by columns that are then turned, or by both.

    Both are needed on the diagonal of a symmetric matrix, whose rows are neighbours up to the diagonal only.
    """
    if not (part.kinds != ZERO).any():
        return None
    rows = part.rows
    upright, bases = _segments(part, rows, width)
    if len(bases) <= rows or width == 1:
        return Add(UNSCALED, part.buffer, 0, 0, upright, ()), bases
    turned, turned_bases = _segments(part.T, width, width)
    along = long_runs(part)
    first, first_bases = _segments(part.masked(along), rows, width)
    second, second_bases = _segments(part.masked(~along).T, width, width)
    turning = 3 * width
    ways = [
        (len(bases), upright, (), bases),
        (len(turned_bases) + turning, (), turned, turned_bases),
        (len(first_bases) + len(second_bases) + turning, first, second, first_bases + second_bases),
    ]
    _, by_rows, by_columns, integers = min(ways, key=lambda way: way[0])
    return Add(UNSCALED, part.buffer, 0, 0, by_rows, by_columns), integers


def long_runs(part: View) -> NDArray[np.bool_]:
    """The longest run of neighbours of every row that has one of two or more, and the ones."""
    runs = part.kinds == ONE
    for r in range(part.rows):
        longest = views.pieces(part, r, 0, part.columns)
        if longest and not longest[0].ones and sum(longest[0].lanes) > 1:
            runs[r] |= longest[0].lanes
    return runs


def _segments(view: View, rows: int, width: int) -> tuple[tuple[Segment, ...], list[int]]:
    padded = view.padded(width) if view.columns < width else view
    found = [segment(padded, row, 0, width) for row in range(rows)]
    return tuple(one for one, _ in found), [base for _, bases in found for base in bases]


class Steps:
    """All k of one product for one grid of tiles, prepared once: patterns by number, positions as arrays."""

    def __init__(self, product: Product, shape: Shape, row_starts: Sequence[int], column_starts: Sequence[int]) -> None:
        self.product = product
        self.left = {i: _left_patterns(product.left, i, shape.rows) for i in row_starts}
        self.right = {j: _right_patterns(product.right, j, shape) for j in column_starts}

    def between(self, i: int, j: int, low: int, high: int, counted: bool) -> Iterator[tuple[Step, list[int]]]:
        """The steps of tile (i, j) with low <= k < high; alike neighbours as one if `counted`."""
        left, right = self.left[i], self.right[j]
        key = left.numbers * len(right.patterns) + right.numbers
        useful = (left.useful & right.useful)[low:high]
        ks = low + np.flatnonzero(useful)
        if not len(ks):
            return
        cuts = [0, *(np.flatnonzero((key[ks][1:] != key[ks][:-1]) | (np.diff(ks) != 1)) + 1).tolist(), len(ks)]
        if not counted:
            cuts = list(range(len(ks) + 1))
        for start, end in pairwise(cuts):
            first = int(ks[start])
            pattern, segments = left.patterns[left.numbers[first]], right.patterns[right.numbers[first]]
            positions = np.array([[*left.at(k), *right.bases[k]] for k in map(int, ks[start:end])])
            step = Step(
                self.product.scale,
                self.product.left.buffer,
                self.product.right.buffer,
                pattern,
                segments,
                positions.shape[1],
            )
            for run in _runs(positions):
                yield step, run


def _runs(positions: NDArray[np.int64]) -> Iterator[list[int]]:
    """Rows of positions as counted runs: count, first row, step."""
    at, total = 0, len(positions)
    while at < total:
        count = 1
        step = np.zeros_like(positions[at])
        if at + 1 < total:
            steps = np.diff(positions[at:], axis=0)
            step = steps[0]
            same = (steps == step).all(axis=1)
            count = 1 + (len(same) if same.all() else int(np.argmin(same)))
        if count == 1:
            step = np.zeros_like(positions[at])
        yield [count, *positions[at].tolist(), *step.tolist()]
        at += count


@dataclass(frozen=True)
class _Left:
    numbers: NDArray[np.int64]
    patterns: list[tuple[int, ...]]
    useful: NDArray[np.bool_]
    positions: NDArray[np.int64]

    def at(self, k: int) -> list[int]:
        kinds = self.patterns[self.numbers[k]]
        return [int(p) for p, kind in zip(self.positions[:, k], kinds, strict=True) if kind == STORED]


@dataclass(frozen=True)
class _Right:
    numbers: NDArray[np.int64]
    patterns: list[tuple[Segment, ...]]
    useful: NDArray[np.bool_]
    bases: list[list[int]]


def _left_patterns(left: View, i: int, rows: int) -> _Left:
    kinds = left.kinds[i : i + rows]
    found, numbers = np.unique(kinds, axis=1, return_inverse=True)
    patterns = [tuple(int(kind) for kind in column) for column in found.T]
    return _Left(numbers.ravel(), patterns, (kinds != ZERO).any(axis=0), left.at[i : i + rows])


def _right_patterns(right: View, j: int, shape: Shape) -> _Right:
    patterns: dict[tuple[Segment, ...], int] = {}
    numbers, bases = [], []
    columns = range(j, min(j + shape.width * shape.vectors, right.columns), shape.width)
    for k in range(right.rows):
        segments, at = zip(*(segment(right, k, column, shape.width) for column in columns), strict=True)
        numbers.append(patterns.setdefault(segments, len(patterns)))
        bases.append([base for part in at for base in part])
    useful = (right.kinds[:, j : j + shape.width * shape.vectors] != ZERO).any(axis=1)
    return _Right(np.array(numbers), list(patterns), useful, bases)


def dots(product: Product, column: int, width: int, low: int, high: int, counted: bool) -> list[tuple[Dot, list[int]]]:
    """The same product for one vector of a single row, as sums along k: for columns that are neighbours downwards."""
    found: list[tuple[Dot, list[int]]] = []
    right = product.right
    for k in range(low - low % width, high, width):
        rows = slice(max(k, low), min(k + width, high))
        part = right.part(rows, slice(column, column + width))
        left = product.left.part(slice(0, 1), rows)
        needed = (part.kinds != ZERO).any(axis=1) & (left.kinds[0] != ZERO)
        if not needed.any():
            continue
        part, left = part.masked(needed[:, None]), left.masked(needed[None, :])
        (one,), left_bases = _segments(left, 1, width)
        lanes, bases = _segments(part.T, width, width)
        integers = [*left_bases, *bases]
        dot = Dot(product.scale, product.left.buffer, right.buffer, one, lanes, len(integers))
        if counted and found and found[-1][0] == dot and _continues(found[-1][1], integers):
            count, *rest = found[-1][1]
            step = [now - then for now, then in zip(integers, _last(found[-1][1]), strict=True)]
            found[-1] = dot, [count + 1, *rest[: len(integers)], *step]
        else:
            found.append((dot, [1, *integers, *([0] * len(integers))]))
    return found


def _last(run: list[int]) -> list[int]:
    """The integers of a counted run's last round."""
    count, half = run[0], len(run) // 2
    return [first + (count - 1) * step for first, step in zip(run[1 : half + 1], run[half + 1 :], strict=True)]


def _continues(run: list[int], integers: list[int]) -> bool:
    step = [now - then for now, then in zip(integers, _last(run), strict=True)]
    return run[0] == 1 or step == run[len(run) // 2 + 1 :]


def split_line(right: View, width: int) -> NDArray[np.bool_]:
    """For a product with a single row on the left: True where the right factor is read along its rows, False where
    down its columns. A symmetric matrix with one half stored needs both."""
    along = np.ones(right.kinds.shape, bool)
    if width == 1:
        return along
    for k in range(0, right.rows, width):
        for j in range(0, right.columns, width):
            where = (slice(k, k + width), slice(j, j + width))
            part = right.part(*where)
            if part.smooth and part.neighbours >= part.T.neighbours:
                continue
            along[where] = False if part.T.smooth else long_runs(part)
    return along
