"""The comparison of the interpreter's counts with a GPU's: what is read of ncu's output, and the table made of it."""

import json

import counters  # bench/ is a folder of scripts, not a package
import mlir_kernels
import pytest


def test_a_cell_says_both_numbers_only_where_they_differ(tmp_path, monkeypatch):
    page = tmp_path / counters.PAGE
    page.parent.mkdir()
    page.write_text("<!-- counters -->\nold\n<!-- end -->\n")
    predicted = dict.fromkeys(counters.PREDICTED, 0) | {"shared loads": 8, "ldmatrix": 5}
    measured = dict.fromkeys(counters.METRICS, 0) | {"shared loads": 8, "ldmatrix": 4, "sectors read": 2}
    results = tmp_path / "Made-Up" / "2026-01-01-counters.json"
    results.parent.mkdir()
    row = {"kernel": "k", "predicted": predicted, "measured": measured}
    results.write_text(json.dumps({"device": "Made Up", "rows": [row]}))
    monkeypatch.setattr(mlir_kernels, "RESULTS", tmp_path)
    monkeypatch.setattr(mlir_kernels, "DOCS", tmp_path)
    counters.table()
    assert "| k | 8 |  | 5, not 4 |  | 0, not 2 |  |" in page.read_text()


def test_what_is_counted_needs_the_step_before(tmp_path, monkeypatch):
    monkeypatch.setattr(counters.harness, "ARTIFACTS", tmp_path)
    with pytest.raises(SystemExit, match="run the step `render`"):
        counters.expected()
