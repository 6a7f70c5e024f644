"""Tile code for steps on views: sums of products, triangular solves and factorisations.

The tile order is column by column of the grid, which keeps the right factor's panel in cache; with `rolled`, equal
tiles are rolled into loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.structured.structures import ONE, STORED, ZERO
from lego_mlir.structured.vector import register_tiles, views
from lego_mlir.structured.vector.register_tiles import (
    Add,
    Begin,
    CholeskyRows,
    Element,
    EliminateRows,
    FoldDots,
    Multiply,
    Shape,
    SolveLanes,
    SolveRight,
    SolveRows,
    Steps,
    StoreAccumulator,
    ViewProduct,
)
from lego_mlir.structured.vector.roll import Code, join, placed, roll, share
from lego_mlir.structured.vector.views import OperandView

if TYPE_CHECKING:
    from numpy.typing import NDArray


BUSY = 8  # independent multiply-adds: two issue per cycle, with a latency of four


@dataclass(frozen=True)
class Grid:
    """A result, its elements to store, and its tiles; a last row of tiles may be taller if `registers` hold it."""

    target: OperandView
    stored: NDArray[np.bool_]
    shape: Shape
    registers: int = 0

    @cached_property
    def row_starts(self) -> tuple[int, ...]:
        """The first rows of the tiles. A last tile too small to keep the multipliers busy joins the previous one."""
        starts = tuple(range(0, self.target.rows, self.shape.rows))
        last = self.target.rows - starts[-1]
        width = self.shape.vectors
        fits = (self.shape.rows + last + 1) * width < self.registers
        return starts[:-1] if len(starts) > 1 and last * width < BUSY and fits else starts

    @property
    def column_starts(self) -> range:
        return range(0, self.target.columns, self.shape.width * self.shape.vectors)

    def vectors(self, j: int) -> list[int]:
        """The first columns of the tile's vectors."""
        width = self.shape.width
        return list(range(j, min(j + width * self.shape.vectors, self.target.columns), width))

    def rows(self, i: int) -> int:
        return self.target.rows - i if i == self.row_starts[-1] else self.shape.rows

    def active(self, i: int, j: int) -> tuple[tuple[int, int], ...]:
        """The accumulators with elements to store."""
        first = j // self.shape.width
        held = self._held[i : i + self.rows(i), first : first + self.shape.vectors]
        return tuple((r, v) for r, v in np.argwhere(held).tolist())

    @cached_property
    def _held(self) -> NDArray[np.bool_]:
        """Which vectors of each row have elements to store."""
        vectors = self.stored.reshape(self.target.rows, -1, self.shape.width)
        return np.logical_or.reduce(vectors, axis=2)


def grid(target: OperandView, stored: NDArray[np.bool_], shape: Shape, registers: int = 0) -> Grid:
    """The grid of a result, with columns padded to whole vectors."""
    columns = -(-target.columns // shape.width) * shape.width
    wide = np.pad(stored, ((0, 0), (0, columns - target.columns)))
    return Grid(target.padded(columns), wide, shape, registers)


def update(out: Grid, terms: Sequence[ViewProduct | Element], rolled: bool) -> list[Code]:
    """target = sum of terms."""
    columns = out.target.columns
    products = [replace(t, right=t.right.padded(columns)) for t in terms if isinstance(t, ViewProduct)]
    elements = [replace(t, view=t.view.padded(columns)) for t in terms if isinstance(t, Element)]
    # one scaled product is summed before everything else, and scaled once
    products.sort(key=_unscaled)
    apart = 1 if products and not _unscaled(products[0]) else 0
    sums = [(_summation(product, out, rolled), product.right.rows) for product in products]
    found = []
    for j in out.column_starts:
        for i in out.row_starts:
            active = out.active(i, j)
            if not active:
                continue
            codes = [Code((Begin(active),), ())]
            for summed, inner in sums[:apart]:
                summed(codes, i, j, 0, inner, True)
            for element in elements:
                _add(codes, out, element, i, j)
            for summed, inner in sums[apart:]:
                summed(codes, i, j, 0, inner, False)
            _store(codes, out, i, j)
            found.append((i, j, join(codes)))
    return _arranged(out, found, rolled)


def _arranged(out: Grid, found: Sequence[tuple[int, int, Code]], rolled: bool) -> list[Code]:
    """The tiles in order: unrolled, or as calls of shared functions, rolled into loops."""
    if not rolled:
        return [code for _, _, code in found]
    rows, columns = out.shape.rows, out.shape.width * out.shape.vectors
    shared = share([(i // rows, j // columns, code) for i, j, code in found])
    panels: dict[int, list[Code]] = {}
    for (_, j, _), code in zip(found, shared, strict=True):
        panels.setdefault(j, []).append(code)
    return roll([join(roll(codes)) for codes in panels.values()])


def _unscaled(product: ViewProduct) -> bool:
    number, scalars = product.scale
    return abs(number) == 1 and not scalars


Summed = Callable[[list[Code], int, int, int, int, bool], None]


def _summation(product: ViewProduct, out: Grid, rolled: bool) -> Summed:
    """A function that emits the product's sum over low <= k < high for tile (i, j)."""
    width = out.shape.width
    line = out.target.rows == 1
    along = register_tiles.split_line(product.right, width) if line else np.ones(product.right.kinds.shape, bool)
    rows = replace(product, right=product.right.masked(along))
    down = replace(product, right=product.right.masked(~along))
    heights = {i: out.rows(i) for i in out.row_starts}
    whole = Steps(rows, out.shape, heights, out.column_starts)
    sign = -1.0 if product.scale[0] < 0 else 1.0
    plain = whole
    if not _unscaled(product):
        plain = Steps(replace(rows, scale=(sign, ())), out.shape, heights, out.column_starts)

    def summed(codes: list[Code], i: int, j: int, low: int, high: int, alone: bool) -> None:
        once = alone and not line
        codes.extend((plain if once else whole).between(i, j, low, high, rolled))
        if once:
            codes.append(Code((Multiply(product.scale),), ()))
        found = list(register_tiles.dots(down, j, width, low, high, rolled)) if line else []
        codes.extend([*found, Code((FoldDots(sign),), ())] if found else [])

    return summed


def _add(codes: list[Code], out: Grid, element: Element, i: int, j: int) -> None:
    width = out.shape.width
    for vector, column in enumerate(out.vectors(j)):
        for row in range(0, out.rows(i), width if width > 1 else out.rows(i)):
            rows = min(width, out.rows(i) - row) if width > 1 else out.rows(i)
            wanted = out.stored[i + row : i + row + rows, column : column + width]
            if not wanted.any():
                continue
            part = element.view.part(slice(i + row, i + row + rows), slice(column, column + width))
            found = register_tiles.block(part.masked(wanted), width)
            if found is not None:
                add, by_rows, by_columns = found
                add = replace(add, scale=element.scale, row=row, vector=vector)
                codes.append(placed(add, [by_rows, by_columns]))


def _store(codes: list[Code], out: Grid, i: int, j: int) -> None:
    width = out.shape.width
    rows = slice(i, i + out.rows(i))
    masked = out.target.part(rows, slice(None)).masked(out.stored[rows])
    for r, v in out.active(i, j):
        runs = views.pieces(masked, r, j + v * width, width)
        store = StoreAccumulator(out.target.buffer, r, v, tuple(run.lanes for run in runs))
        codes.append(placed(store, [[run.base for run in runs]]))


def solve_rows(out: Grid, triangle: OperandView, kind: str, rolled: bool) -> list[Code]:
    """target = triangle \\ target for several right-hand sides, along the rows of the target."""
    n = out.target.rows
    outside = np.zeros((n, n), bool)
    starts = list(out.row_starts)
    for i in starts:
        ks = slice(0, i) if kind == "L" else slice(i + out.rows(i), n)
        outside[i : i + out.rows(i), ks] = kind != "D"
    product = ViewProduct((-1.0, ()), triangle.masked(outside), out.target)
    summed = _summation(product, out, rolled)
    found = []
    for j in out.column_starts:
        for i in starts if kind != "U" else reversed(starts):
            active = out.active(i, j)
            if not active:
                continue
            codes = [Code((Begin(active),), ())]
            _add(codes, out, Element(register_tiles.UNSCALED, out.target), i, j)
            summed(codes, i, j, 0, n, False)
            codes.append(_solved_by(triangle, kind, i, out.rows(i), False))
            _store(codes, out, i, j)
            found.append((i, j, join(codes)))
    return _arranged(out, found, rolled)


def solve_lanes(out: Grid, triangle: OperandView, kind: str, rolled: bool) -> list[Code]:
    """target = triangle \\ target for one right-hand side along the lanes: the target is a single row."""
    width, n = out.shape.width, out.target.columns
    extra = ((0, n - triangle.rows), (0, n - triangle.columns))
    square = OperandView(triangle.buffer, np.pad(triangle.kinds, extra), np.pad(triangle.at, extra, constant_values=-1))
    transposed = square.T  # row k, lane j: what x[k] is multiplied by for x[j]
    k, j = np.indices((n, n))
    outside = (k // width < j // width) if kind == "L" else (k // width > j // width)
    inside = (k // width == j // width) & (k != j)
    product = ViewProduct((-1.0, ()), out.target, transposed.masked(outside & (kind != "D")))
    summed = _summation(product, out, rolled)
    found = []
    starts = list(out.column_starts)
    for column in starts if kind != "U" else reversed(starts):
        codes = [Code((Begin(((0, 0),)),), ())]
        _add(codes, out, Element(register_tiles.UNSCALED, out.target), 0, column)
        summed(codes, 0, column, 0, n, False)
        lanes = [c for c in range(width) if square.kinds[column + c, column + c] != ZERO]
        here = slice(column, column + width)
        read = register_tiles.block(transposed.part(here, here).masked(inside[here, here]), width)
        add, by_rows, by_columns = read or (Add(register_tiles.UNSCALED, triangle.buffer, 0, 0, (), ()), [], [])
        diagonal = tuple(int(square.kinds[column + c, column + c]) for c in range(width))
        order = tuple(lanes) if kind != "U" else tuple(reversed(lanes))
        at = [int(square.at[column + c, column + c]) for c in lanes if diagonal[c] == STORED]
        solve = SolveLanes(triangle.buffer, width, diagonal, order, add.rows, add.columns)
        codes.append(placed(solve, [at, by_rows, by_columns]))
        _store(codes, out, 0, column)
        found.append((0, column, join(codes)))
    return _arranged(out, found, rolled)


def cholesky(out: Grid, rolled: bool) -> list[Code]:
    """The upper factor U with U' * U = target (given by its upper half), in place, by rows of tiles.

    Tiles are square. Each row of tiles is reduced by all rows above it; then its diagonal tile is factored, and the
    tiles to its right are solved with that factor.
    """
    width, n = out.shape.width, out.target.rows
    target = out.target
    square = OperandView(target.buffer, target.kinds[:, :n], target.at[:, :n])
    rows = np.arange(n)
    earlier = (rows[:, None] // width) < (rows[None, :] // width)
    product = ViewProduct((-1.0, ()), square.masked(earlier).T, target)
    summed = _summation(product, out, rolled)
    found = []
    for i in out.row_starts:
        for j in (start for start in out.column_starts if start >= i):
            codes = _loaded(out, i, j)
            if not codes:
                continue
            summed(codes, i, j, 0, i, False)
            if i == j:
                codes.append(placed(CholeskyRows(target.buffer, out.rows(i)), []))
            else:
                codes.append(_solved_by(square.T, "L", i, out.rows(i), False))
            _store(codes, out, i, j)
            found.append((i, j, join(codes)))
    return _in_rows(out, found, rolled)


def eliminate(out: Grid, rolled: bool) -> list[Code]:
    """LU without pivoting, in place: by rows of tiles, each from left to right."""
    n = out.target.rows
    target = out.target
    square = OperandView(target.buffer, target.kinds[:, :n], target.at[:, :n])
    product = ViewProduct((-1.0, ()), square, target)
    summed = _summation(product, out, rolled)
    found = []
    for i in out.row_starts:
        for j in out.column_starts:
            codes = _loaded(out, i, j)
            if not codes:
                continue
            summed(codes, i, j, 0, min(i, j), False)
            here = slice(j, j + out.shape.width)
            if i == j:
                codes.append(placed(EliminateRows(target.buffer, out.rows(i)), []))
            elif j < i:
                block = target.part(here, here)
                order = tuple(range(block.rows))
                pivots = [int(block.at[c, c]) for c in order]
                rows, bases = register_tiles.upper_rows(block, out.shape.width)
                codes.append(placed(SolveRight(target.buffer, order, rows), [pivots, bases]))
            else:
                codes.append(_solved_by(square, "L", i, out.rows(i), True))
            _store(codes, out, i, j)
            found.append((i, j, join(codes)))
    return _in_rows(out, found, rolled)


def _loaded(out: Grid, i: int, j: int) -> list[Code]:
    """A tile initialized from the target; empty if it stores nothing."""
    active = out.active(i, j)
    if not active:
        return []
    codes = [Code((Begin(active),), ())]
    _add(codes, out, Element(register_tiles.UNSCALED, out.target), i, j)
    return codes


def _solved_by(triangle: OperandView, kind: str, i: int, rows: int, unit: bool) -> Code:
    """Solve with the triangle's diagonal block at i, with a unit diagonal if `unit`."""
    part = triangle.part(slice(i, i + rows), slice(i, i + rows))
    kinds = np.where(np.tri(rows, dtype=bool) if kind == "L" else np.tri(rows, dtype=bool).T, part.kinds, ZERO)
    if unit:
        np.fill_diagonal(kinds, ONE)
    order = tuple(range(rows)) if kind != "U" else tuple(reversed(range(rows)))
    solve = SolveRows(triangle.buffer, tuple(tuple(map(int, row)) for row in kinds), order)
    return placed(solve, [[int(p) for p in part.at[kinds == STORED]]])


def _in_rows(out: Grid, found: Sequence[tuple[int, int, Code]], rolled: bool) -> list[Code]:
    """Tiles in the given order, rolled by rows of tiles."""
    if not rolled:
        return [code for _, _, code in found]
    shared = share([(i // out.shape.rows, j // out.shape.width, code) for i, j, code in found])
    lines: dict[int, list[Code]] = {}
    for (i, _, _), code in zip(found, shared, strict=True):
        lines.setdefault(i, []).append(code)
    return roll([join(roll(codes)) for codes in lines.values()])
