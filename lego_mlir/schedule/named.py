"""Orders of the blocks by name, or as any layout of the grid.

A named order may pad the grid: `holds` is false for a block without a tile.

>>> tile_order("matmul", "column", (2, 3)).inv(1)
(1, 0)
>>> tile_order("matmul", "morton", (2, 3)).physical_size()     # 2 x 4 positions, of which two have no tile
8
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.chain import OrderBy, as_layout
from lego_mlir.layout.padded import at_most
from lego_mlir.layout.permutations import Col, RegP, Row
from lego_mlir.schedule.orders import columns, grouped
from lego_mlir.schedule.rectangles import hilbert, morton

GROUP: Final = 8
"""The most rows of tiles in a group of the named order "grouped", and the width of "columns" and "zigzag"."""


def _balanced(m: Size, n: Size, most: int = GROUP) -> Layout:
    """Groups of equal height, the largest from `most` / 2 to `most` that divides m; otherwise the last is lower.

    Without padding, persistent blocks get equal numbers of tiles, plus or minus one. With sizes that are known at
    launch only, groups are `most` high, and the last one may be lower.
    """
    if not (isinstance(m, int) and isinstance(n, int)):
        return as_layout(grouped(m, n, rows=most))
    height = next((g for g in range(min(most, m), most // 2 - 1, -1) if m % g == 0), None)
    if height is None:
        return as_layout(grouped(m, n, rows=min(most, m)))
    return OrderBy(RegP([m // height, height, n], [1, 3, 2])).GroupBy([m, n])


ORDERS: Final[dict[str, Callable[..., Layout]]] = {
    "row": Row,
    "column": Col,
    "grouped": _balanced,
    "morton": morton,
    "columns": lambda m, n: columns(m, n, width=GROUP),
    "zigzag": lambda m, n: columns(m, n, width=GROUP, zigzag=True),
    "hilbert": hilbert,
}
"""Named orders of the blocks over an m x n grid of tiles; any layout of that shape is one."""
SYMBOLIC: Final = ("row", "column", "grouped", "columns", "zigzag")
"""The named orders that do not need concrete sizes."""


def _is(n: Size, m: Size) -> bool:
    """Whether two sizes are the same expression."""
    return bool(as_expr(n) == as_expr(m))


def tile_order(
    kernel: str, order: object, grid: tuple[Size, Size], *, group: int = GROUP, larger: bool = False
) -> Layout:
    """The layout of an order: a name of ORDERS, or a layout of the grid of tiles. `kernel` starts the messages.

    If `larger`, a layout may have rows and columns of tiles beyond the grid. Raises UsageError for an unknown name, and
    for a name that needs concrete sizes; LayoutError for a layout of another grid.
    """
    if not isinstance(order, str):
        layout = as_layout(order)
        dims = layout.dims()
        same = len(dims) == len(grid)
        for n, d in zip(grid, dims, strict=False):
            same = same and (_is(n, d) or (larger and isinstance(at_most(n, d), Proved)))
        if not same:
            least = "at least " if larger else ""
            raise LayoutError(
                f"{kernel}: the order of the blocks must be a layout of {least}{grid} tiles, got {layout!r}"
            )
        return layout
    if order not in ORDERS:
        raise UsageError(f"{kernel} has no order {order!r}; there are {', '.join(ORDERS)}, or any layout of {grid}")
    m, n = grid
    if order == "grouped":
        return _balanced(m, n, group)
    if order in SYMBOLIC:
        return as_layout(ORDERS[order](m, n))
    if not (isinstance(m, int) and isinstance(n, int)):
        names = f"{', '.join(SYMBOLIC[:-1])}, {SYMBOLIC[-1]}"
        raise UsageError(f"{kernel}: the order {order!r} needs concrete sizes; take {names} or a layout")
    return as_layout(ORDERS[order](m, n))
