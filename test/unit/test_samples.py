"""Samples of the cases of slow tests: which cases a push leaves out, and the file of durations."""

import json
from itertools import product
from types import SimpleNamespace

import pytest
import samples

ENTRIES = json.loads(samples.FILE.read_text())
GRID = [{"a": i, "b": j} for i, j in product(range(4), range(3))]
NAME = "test/unit/test_samples.py::test_without_entry"


def kept(indices, *entry):
    """The parameters of the cases of a test that a push runs, beside a test without parameters."""
    cases = [
        SimpleNamespace(nodeid=f"{NAME}[{k}]", callspec=SimpleNamespace(indices=values))
        for k, values in enumerate(indices)
    ]
    left_out = list(samples.left_out([SimpleNamespace(nodeid=NAME), *cases], {NAME: list(entry)} if entry else {}))
    reason = f"{len(cases) - len(left_out)} of {len(cases)} cases run; all with --all-cases"
    assert {why for _, why in left_out} <= {reason}
    return [values for case, values in zip(cases, indices, strict=True) if case not in [item for item, _ in left_out]]


def test_a_test_without_entry_runs_whole():
    assert kept(GRID) == GRID


@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.2, 0.25, 0.5])
def test_as_many_cases_run_as_fit_and_each_value_occurs(seconds):
    found = kept(GRID, seconds)
    assert len(found) == min(len(GRID), int(samples.BUDGET / seconds)) and found == kept(GRID, seconds)
    for name, values in (("a", 4), ("b", 3)):
        assert len({case[name] for case in found}) == min(values, len(found))


def test_of_slow_cases_the_one_that_takes_least_runs():
    assert kept(GRID, 3.0, "7") == [GRID[7]]
    assert len(kept(GRID, 3.0, "a case that is no more")) == 1


def test_durations_are_recorded_of_tests_above_the_budget(monkeypatch):
    monkeypatch.setattr(samples, "exists", lambda name: name != "gone")
    report = """
0.75s call     a.py::test_slow[x-y[0]]
0.25s setup    a.py::test_slow[x-y[0]]
3.00s call     a.py::test_slow[z z]
0.40s call     a.py::test_many[0]
0.40s call     a.py::test_many[1]
0.40s call     a.py::test_many[2]
0.40s call     a.py::test_cheap[0]
0.40s call     a.py::test_cheap[1]
9.00s call     a.py::test_single
12 passed in 9.00s"""
    known = {"gone": [2.0, "0"], "a.py::test_cheap": [1.0, "0"], "z": [0.2]}
    found = samples.recorded(report.splitlines(), known)
    assert found == {"a.py::test_many": [0.4], "a.py::test_slow": [2.0, "x-y[0]"], "z": [0.2]}


@pytest.mark.parametrize(("name", "found"), [
    ("test/unit/test_samples.py::test_a_test_without_entry_runs_whole", True),
    ("test/unit/templates/test_cuda_kernels.py::TestWithNvcc", True),
    ("test/unit/test_samples.py::test_a_test", False), ("test/unit/test_sample.py::kept", False),
])  # fmt: skip
def test_names_are_looked_up_in_files(name, found):
    assert samples.exists(name) == found


def test_every_entry_is_of_a_test():
    missing = [name for name in ENTRIES if not samples.exists(name)]
    assert not missing, "record durations anew: see the head of test/samples.py"
