"""Our expressions take no more operations than hand-written ones, and the documented table matches."""

import op_counts
import pytest

CASES = op_counts.cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_takes_no_more_operations_than_by_hand(case):
    assert case.agrees()
    assert op_counts.ours(case) <= case.hand_operations()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_code_shown_takes_the_operations_counted(case):
    """The assignments in the document, tallied as the hand-written ones are."""
    bench = op_counts
    lines = "\n".join(f"{name} = {value}" for name, value in bench.as_code(case))
    assert bench.tallied(lines, case.symbols()) <= bench.ours(case)


def test_documented_table_is_current():
    bench = op_counts
    assert bench.TABLE.read_text() == bench.document(CASES), "run python bench/op_counts.py"


def test_a_tally_counts_an_equal_operation_once():
    bench = op_counts
    assert bench.tallied("x = a * b + 1\ny = b * a + 1\nz = a // 2 % 3", ["a", "b"]) == 2 + 8
