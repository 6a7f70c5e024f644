"""Orders of program ids: the layouts that a Triton kernel asks, with `inv`, which tile a program works on.

Programs that run at the same time should share what they read. `grouped` walks down `rows` rows of tiles before it
moves on to the next column (Triton's own order for matmul), `columns` walks across `width` columns before it moves on
to the next row, and `gallery.morton` follows a Z-curve where the grid is a power of two. Where the groups do not divide
the grid, the last one is narrower: a `GenP`, proved a bijection like any other.

>>> [grouped(3, 2, rows=2).inv(pid) for pid in range(6)]
[(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
>>> [columns(2, 3, width=2).inv(pid) for pid in range(6)]
[(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
"""

from __future__ import annotations

from typing import Any

from lego_mlir.expr.index import Index, as_expr, maximum, minimum
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import as_sizes
from lego_mlir.layout.chain import TileOrderBy
from lego_mlir.layout.permutations import Col, GenP, Row


def grouped(m: Any, n: Any, *, rows: int) -> Layout:
    """Groups of `rows` rows of an m-by-n grid, each group column by column."""
    as_sizes("grids.grouped: rows", [rows])
    if _divides(rows, m):
        return TileOrderBy(Row(m // rows, 1), Col(rows, n)).GroupBy([m, n])

    def position(i: Any, j: Any) -> Any:
        first = i // rows * rows
        return first * n + j * minimum(m - first, rows) + (i - first)

    def tile(p: Any) -> tuple[Any, Any]:
        group, within = p // (rows * n), p % (rows * n)
        height = _what_is_left(m - group * rows, rows)
        return group * rows + within % height, within // height

    return GenP([m, n], position, tile, text=f"grids.grouped({m}, {n}, rows={rows})")


def columns(m: Any, n: Any, *, width: int) -> Layout:
    """Groups of `width` columns of an m-by-n grid, each group row by row."""
    as_sizes("grids.columns: width", [width])
    if _divides(width, n):
        return TileOrderBy(Row(1, n // width), Row(m, width)).GroupBy([m, n])

    def position(i: Any, j: Any) -> Any:
        first = j // width * width
        return first * m + i * minimum(n - first, width) + (j - first)

    def tile(p: Any) -> tuple[Any, Any]:
        group, within = p // (width * m), p % (width * m)
        breadth = _what_is_left(n - group * width, width)
        return within // breadth, group * width + within % breadth

    return GenP([m, n], position, tile, text=f"grids.columns({m}, {n}, width={width})")


def _what_is_left(left: Any, part: int) -> Any:
    """How wide a group is, the last one less than the others. (It is never below 1; so said, no proof is needed.)"""
    return maximum(minimum(left, part), 1)


def _divides(part: int, whole: Any) -> bool:
    """Whether the groups are proved to divide the grid."""
    if not isinstance(whole, Index):
        return bool(whole % part == 0)
    from lego_mlir.expr.intervals import bounds

    return bounds(as_expr(whole), {}).multiple_of % part == 0
