"""Our expressions take no more operations than hand-written ones, and the documented table matches."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "op_counts.py"


def load():
    if "op_counts" not in sys.modules:
        sys.path.insert(0, str(BENCH.parent))
        spec = importlib.util.spec_from_file_location("op_counts", BENCH)
        module = importlib.util.module_from_spec(spec)
        sys.modules["op_counts"] = module
        spec.loader.exec_module(module)
    return sys.modules["op_counts"]


CASES = load().cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_takes_no_more_operations_than_by_hand(case):
    assert case.agrees()
    assert load().ours(case) <= case.hand_operations()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_code_shown_takes_the_operations_counted(case):
    """The assignments in the document, tallied as the hand-written ones are."""
    bench = load()
    lines = "\n".join(f"{name} = {value}" for name, value in bench.as_code(case))
    assert bench.tallied(lines, case.symbols()) <= bench.ours(case)


def test_documented_table_is_current():
    bench = load()
    assert bench.TABLE.read_text() == bench.document(CASES), "run python bench/op_counts.py"


def test_a_tally_counts_an_equal_operation_once():
    bench = load()
    assert bench.tallied("x = a * b + 1\ny = b * a + 1\nz = a // 2 % 3", ["a", "b"]) == 2 + 8
