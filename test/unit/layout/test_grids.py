"""Tile orders: validation of arguments, and substitution of sizes."""

import pytest

from lego_mlir import OrderBy, size
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.gallery import grids


def test_a_group_has_at_least_one_row_or_column():
    with pytest.raises(LayoutError, match=r"grids.grouped: rows=0 must be an int >= 1"):
        grids.grouped(4, 4, rows=0)
    with pytest.raises(LayoutError, match=r"grids.columns: width=0 must be an int >= 1"):
        grids.columns(4, 4, width=0)


def test_sizes_of_a_tile_order_are_replaced():
    """The constructor builds the result, unless the groups divide the new grid: then it is not a single GenP."""
    m = size("M")
    order = grids.grouped(m, 3, rows=2)
    assert order.subs(M=5) == grids.grouped(5, 3, rows=2)
    for rows in (4, 5):
        replaced = OrderBy(order).GroupBy([m, 3]).subs(M=rows)
        assert isinstance(replaced.equivalent(grids.grouped(rows, 3, rows=2)), Proved)
