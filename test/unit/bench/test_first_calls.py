"""The benchmark of first calls: its cases, and the words that choose among those of the host."""

import first_calls
import launch
import pytest


def test_the_page_names_every_case():
    assert set(first_calls.CASES) | set(first_calls.HOST) == set(first_calls.SHOWN)
    assert len(set(first_calls.HOST)) == len(first_calls.HOST)


def test_words_choose_the_cases_of_the_host(monkeypatch):
    monkeypatch.setattr(launch, "BATCHES", launch.BATCHES)
    monkeypatch.setattr(first_calls, "calls", lambda name, rival: (name, rival))
    monkeypatch.setattr(launch, "timed", lambda given: [{"name": name, "us": call} for name, call in given])
    rows = list(first_calls.host(["odd", "short backward"]))
    assert [(row["case"], row["us"]) for row in rows] == [
        (name, (name, rival)) for name in ("odd", "short backward") for rival in (False, True)
    ]
    assert {row["case"] for row in first_calls.host()} == set(first_calls.HOST)


def test_other_words_are_refused():
    with pytest.raises(SystemExit, match=r"short backward.*got \['od'\]"):
        first_calls.measure(["host", "od"])
