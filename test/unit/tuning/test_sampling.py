"""Small spaces are tried whole; large ones are sampled well, within their conditions, and go on from their journal."""

import sys

import pytest

from lego_mlir.errors import DependencyError
from lego_mlir.tuning.candidates import SearchSpace
from lego_mlir.tuning.sampling import ExhaustiveSearch, OptunaSearch, search

LARGE = SearchSpace({name: list(range(10)) for name in "abcd"}, where=["a + b < 15"])


def cost(configuration):
    return 10 + (configuration["a"] - 7) ** 2 + (configuration["b"] - 2) ** 2 + (configuration["c"] - 5) ** 2


def run(searched, count, batch=10):
    found = {}
    while len(found) < count:
        for configuration in searched.ask(batch):
            assert configuration not in found
            found[configuration] = cost(configuration)
            searched.tell(configuration, found[configuration])
    return found


def test_a_space_with_few_configurations_left_is_tried_whole():
    searched = search(LARGE, allowed=lambda c: c["c"] == 5 and c["d"] < 4)
    assert isinstance(searched, ExhaustiveSearch)
    found = searched.ask(1000)
    assert len(found) == len([c for c in LARGE if c["c"] == 5 and c["d"] < 4])
    assert searched.ask(1) == []


def test_conditions_on_sizes_count():
    space = SearchSpace({"tile": [16, 32, 64]}, where=["tile <= M"], sizes=["M"])
    assert [c["tile"] for c in search(space, {"M": 32}).ask(9)] == [16, 32]


def test_a_large_space_is_sampled_without_repetition_within_its_conditions():
    searched = search(LARGE, allowed=lambda c: c["d"] != 3)
    assert isinstance(searched, OptunaSearch)
    found = run(searched, 150)
    assert all(c["a"] + c["b"] < 15 and c["d"] != 3 for c in found)
    assert min(found.values()) <= 12  # of 10 to 109, after one in sixty of all


def test_an_interrupted_search_goes_on_from_its_journal(tmp_path):
    journal = tmp_path / "journal" / "study.log"
    first = run(search(LARGE, journal=journal), 40)
    again = search(LARGE, journal=journal)
    assert again.known == set(first)
    assert not set(again.ask(10)) & set(first)


def test_failures_and_times_from_elsewhere_can_be_told():
    searched = search(LARGE)
    (asked,) = searched.ask(1)
    searched.tell(asked, None)
    other = LARGE.find("a=7 b=2 c=5 d=0")
    searched.tell(other, 10.0)
    searched.tell(other, 10.0)
    assert searched.study.best_value == 10
    assert asked in searched.known


def test_without_optuna_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        DependencyError, match=r"more than 500 configurations are sampled by Optuna, .*pip install optuna"
    ):
        search(LARGE)
