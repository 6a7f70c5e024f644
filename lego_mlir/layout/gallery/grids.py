"""Tile orders: layouts of a grid of tiles whose `inv` maps a program id or block number to its tile.

Programs that run at the same time should share what they read. `grouped` visits `rows` rows of tiles column by column
before the next rows (Triton's order for matmul), `columns` visits `width` columns row by row before the next columns,
and `gallery.morton` follows a Z-curve. Where the groups do not divide the grid the last one is narrower: a `GenP`,
proved a bijection like any other.

>>> [grouped(3, 2, rows=2).inv(pid) for pid in range(6)]
[(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
>>> [columns(2, 3, width=2).inv(pid) for pid in range(6)]
[(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]

The kernels of the package take an order by name (`ORDERS`) or as any layout of the grid. A named order may pad the
grid instead: `holds` is false for a block without a tile.

>>> tile_order("matmul", "column", (2, 3)).inv(1)
(1, 0)
>>> tile_order("matmul", "morton", (2, 3)).physical_size()     # 2 x 4 positions, of which two have no tile
8
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.index import Index, as_expr, cdiv, maximum, minimum
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size, as_count
from lego_mlir.layout.chain import OrderBy, TileOrderBy, as_layout
from lego_mlir.layout.gallery.curves import morton
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import Col, GenP, RegP, Row

GROUP: Final = 8
"""The most rows of tiles in a group of the named order "grouped"."""


def grouped(m: Size, n: Size, *, rows: int) -> Layout:
    """Groups of `rows` rows of an m-by-n grid, each group column by column."""
    as_count("grids.grouped", rows=rows)
    if _divides(rows, m):
        return TileOrderBy(Row(m // rows, 1), Col(rows, n)).GroupBy([m, n])

    def position(i: IndexLike, j: IndexLike) -> IndexLike:
        first = i // rows * rows
        return first * n + j * minimum(m - first, rows) + (i - first)

    def tile(p: IndexLike) -> tuple[IndexLike, IndexLike]:
        group, within = p // (rows * n), p % (rows * n)
        height = _remaining(m - group * rows, rows)
        return group * rows + within % height, within // height

    text = f"grids.grouped({m}, {n}, rows={rows})"
    return GenP([m, n], position, tile, text=text, made=(partial(grouped, rows=rows), (m, n)))


def columns(m: Size, n: Size, *, width: int) -> Layout:
    """Groups of `width` columns of an m-by-n grid, each group row by row."""
    as_count("grids.columns", width=width)
    if _divides(width, n):
        return TileOrderBy(Row(1, n // width), Row(m, width)).GroupBy([m, n])

    def position(i: IndexLike, j: IndexLike) -> IndexLike:
        first = j // width * width
        return first * m + i * minimum(n - first, width) + (j - first)

    def tile(p: IndexLike) -> tuple[IndexLike, IndexLike]:
        group, within = p // (width * m), p % (width * m)
        breadth = _remaining(n - group * width, width)
        return within // breadth, group * width + within % breadth

    text = f"grids.columns({m}, {n}, width={width})"
    return GenP([m, n], position, tile, text=text, made=(partial(columns, width=width), (m, n)))


def _remaining(left: IndexLike, part: int) -> IndexLike:
    """The width of a group; the last one may be narrower. (`maximum` shows that the divisor is positive.)"""
    return maximum(minimum(left, part), 1)


def _divides(part: int, whole: Size) -> bool:
    """Whether the groups are proved to divide the grid."""
    if not isinstance(whole, Index):
        return bool(whole % part == 0)
    from lego_mlir.expr.intervals import bounds

    return bounds(as_expr(whole), {}).multiple_of % part == 0


def _balanced(m: int, n: int, most: int = GROUP) -> Layout:
    """Groups of equal height, the largest from `most` / 2 to `most` that divides m; otherwise the grid is padded."""
    group = next((g for g in range(min(most, m), most // 2 - 1, -1) if m % g == 0), min(most, m))
    groups = int(cdiv(m, group))
    order = OrderBy(RegP([groups, group, n], [1, 3, 2])).GroupBy([groups * group, n])
    return order if groups * group == m else Padded(order, [m, n])


def _along_morton(m: int, n: int) -> Layout:
    rows, columns = (1 << (size - 1).bit_length() for size in (m, n))
    curve = morton(rows, columns)
    return curve if (rows, columns) == (m, n) else Padded(curve, [m, n])


ORDERS: Final[dict[str, Callable[..., Layout]]] = {
    "row": Row,
    "column": Col,
    "grouped": _balanced,
    "morton": _along_morton,
}
"""Named orders of the blocks over an m x n grid of tiles; any layout of that shape is one."""


def tile_order(kernel: str, order: object, grid: tuple[Size, Size], *, group: int = GROUP) -> Layout:
    """The layout of an order: a name of ORDERS, or a layout of the grid of tiles. `kernel` starts the messages.

    Raises UsageError for an unknown name, and for a name that needs concrete sizes; LayoutError for a layout of another
    grid.
    """
    if not isinstance(order, str):
        layout = as_layout(order)
        if layout.dims() != grid:
            raise LayoutError(f"{kernel}: the order of the blocks must be a layout of {grid} tiles, got {layout!r}")
        return layout
    if order not in ORDERS:
        raise UsageError(f"{kernel} has no order {order!r}; there are {', '.join(ORDERS)}, or any layout of {grid}")
    m, n = grid
    if order in ("row", "column"):
        return as_layout(ORDERS[order](m, n))
    if not (isinstance(m, int) and isinstance(n, int)):
        raise UsageError(f"{kernel}: the order {order!r} needs concrete sizes; take row, column or a layout")
    return as_layout(_balanced(m, n, group) if order == "grouped" else ORDERS[order](m, n))
