"""The page of the paper's tables 2 and 3 is what its script makes today."""

import layout_tables as tables
import pytest

PAGE = tables.PAGE.read_text()


def test_table_2_is_up_to_date():
    assert "\n".join(tables.table_2()) in PAGE, "run python bench/layout_tables.py"


@pytest.mark.parametrize("family", tables.TABLE_3)
def test_table_3_is_up_to_date(family):
    row = tables.row_3(family)
    assert row in PAGE.splitlines(), "run python bench/layout_tables.py"
    passed, cases = row.split("|")[4].strip().split("/")
    assert passed == cases == tables.TABLE_3[family][1].partition("/")[2]


def test_the_page_has_the_rest_of_the_text():
    assert PAGE.startswith(tables.HEAD) and tables.MIDDLE in PAGE
    beside = [tables.BESIDE, *tables.beside_triton(), tables.MIXED_PRODUCTS, *tables.table_4()]
    assert PAGE.endswith("\n".join(beside) + "\n"), "run python bench/layout_tables.py"


@pytest.mark.parametrize("family", tables.TABLE_3)
def test_no_sum_is_above_tritons(family):
    found = tables.kept_counts()[family]
    for kind in ("instructions", "exchanges", "wavefronts", "barriers"):
        assert found["ours"][kind] <= found["Triton"][kind], kind


def test_our_loads_are_at_least_as_wide_as_the_papers():
    for (columns, dtype), (_, linear) in tables.TABLE_2.items():
        assert max(tables.load_bits(columns, dtype, warps) for warps in (4, 2)) >= linear
