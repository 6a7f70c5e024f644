"""Tile orders: what they refuse."""

import pytest

from lego_mlir.errors import LayoutError
from lego_mlir.layout.gallery import grids


def test_a_group_has_at_least_one_row_or_column():
    with pytest.raises(LayoutError, match=r"grids.grouped: rows=0 must be an int >= 1"):
        grids.grouped(4, 4, rows=0)
    with pytest.raises(LayoutError, match=r"grids.columns: width=0 must be an int >= 1"):
        grids.columns(4, 4, width=0)
