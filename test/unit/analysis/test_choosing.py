"""Layouts of one tile, ranked by the cost of its accesses."""

import numpy as np
import pytest

from lego_mlir import OrderBy, Row, gallery
from lego_mlir.analysis.choosing import index_operations, ranked
from lego_mlir.analysis.patterns import AccessPattern
from lego_mlir.analysis.repair import TileAccess
from lego_mlir.errors import UsageError

COLUMNS = [TileAccess.of(AccessPattern("columns", lambda lane, j: (lane, j), {"j": 32}))]
ROWS = [TileAccess.of(AccessPattern("rows", lambda lane, i: (i, lane), {"i": 32}))]


def test_wavefronts_come_first():
    found = ranked({"plain": Row(32, 32), "swizzled": gallery.xor_swizzle(32, 32)}, COLUMNS, 4)
    assert [(c.name, c.wavefronts) for c in found] == [("swizzled", 32), ("plain", 32 * 32)]


def test_of_equal_wavefronts_the_cheaper_index_then_the_smaller_tile():
    tiles = {"diagonal": gallery.antidiagonal(32), "padded": gallery.padded(32, 32), "plain": Row(32, 32)}
    nothing = [TileAccess("idle", (np.zeros((1, 32), int),) * 2, 1, np.zeros((1, 32), bool))]
    found = ranked(tiles, nothing, 4)
    assert [c.name for c in found] == ["plain", "padded", "diagonal"]
    assert found[0].operations == found[1].operations == 2 < found[2].operations
    assert found[0].bytes == 4096 < found[1].bytes


def test_inactive_lanes_cost_nothing():
    half = TileAccess(
        "half", (np.arange(32).reshape(1, 32), np.zeros((1, 32), int)), 1, np.arange(32).reshape(1, 32) < 16
    )
    assert ranked({"plain": Row(32, 32)}, [half], 4)[0].wavefronts == 16


def test_an_index_is_counted_in_its_simplest_form():
    assert index_operations(OrderBy(Row(32, 32)).GroupBy([32, 32])) == 2


def test_layouts_of_different_sizes_are_refused():
    with pytest.raises(UsageError, match=r"same logical sizes, got a \(32, 32\), b \(16, 64\)"):
        ranked({"a": Row(32, 32), "b": Row(16, 64)}, ROWS, 4)
