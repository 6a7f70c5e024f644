"""Which block works on which tile: orders of a grid of tiles, by name or as any layout of it.

>>> walk_of("matmul", "column", (2, 3)).inv(1)
(1, 0)
>>> walk_of("matmul", "morton", (2, 3)).physical_size()     # 2 x 4 places, of which two have no tile
8
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.index import cdiv
from lego_mlir.layout import Col, OrderBy, Padded, RegP, Row, as_layout, gallery

GROUP: Final = 8
"""Rows of tiles, at most, that the grouped order walks down before it moves a column on."""


def _by_rows(m: int, n: int) -> Any:
    return Row(m, n)


def _by_columns(m: int, n: int) -> Any:
    return Col(m, n)


def _grouped(m: int, n: int, most: int = GROUP) -> Any:
    """Groups of as many rows as divide m, `most` to half of that; where none does, the last group is partial."""
    group = next((g for g in range(min(most, m), most // 2 - 1, -1) if m % g == 0), min(most, m))
    groups = cdiv(m, group)
    walk = OrderBy(RegP([groups, group, n], [1, 3, 2])).GroupBy([groups * group, n])
    return walk if groups * group == m else Padded(walk, [m, n])


def _along_morton(m: int, n: int) -> Any:
    rows, columns = (1 << (size - 1).bit_length() for size in (m, n))
    curve = gallery.morton(rows, columns)
    return curve if (rows, columns) == (m, n) else Padded(curve, [m, n])


ORDERS: Final[dict[str, Callable[[int, int], Any]]] = {
    "row": _by_rows,
    "column": _by_columns,
    "grouped": _grouped,
    "morton": _along_morton,
}
"""Named orders of the blocks over an m x n grid of tiles; any layout of that shape is one."""


def walk_of(kernel: str, order: Any, grid: tuple[Any, Any], *, group: int = GROUP) -> Any:
    """The layout that an order is: one of ORDERS, or a layout of the grid of tiles already.

    Raises UsageError for an unknown name, and for one that symbolic sizes do not have; LayoutError for a layout of
    another grid.
    """
    if not isinstance(order, str):
        walk = as_layout(order)
        if walk.dims() != grid:
            raise LayoutError(f"{kernel}: the order of the blocks must be a layout of {grid} tiles, got {walk!r}")
        return walk
    if order not in ORDERS:
        raise UsageError(f"{kernel} has no order {order!r}; there are {', '.join(ORDERS)}, or any layout of {grid}")
    if order not in ("row", "column") and not all(isinstance(n, int) for n in grid):
        raise UsageError(f"{kernel}: the order {order!r} of symbolic sizes is not known; take row, column or a layout")
    return as_layout(_grouped(*grid, group) if order == "grouped" else ORDERS[order](*grid))
