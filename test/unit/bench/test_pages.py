"""The pages of Results: written by one command, from the newest results, and not out of date."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import mlir_kernels  # noqa: E402  (bench/ is a folder of scripts, not a package)
import pages  # noqa: E402
import recorded  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def test_the_listing_is_that_of_the_newest_results():
    assert pages.listing() in (RESULTS / "index.md").read_text(), "run python bench/pages.py"


def test_every_benchmark_has_a_page_with_its_device_and_date():
    for _, page, name, _ in (*pages.BENCHMARKS, *recorded.TABLES):
        found = (RESULTS / f"{page}.md").read_text()
        path = mlir_kernels.latest_path(name)
        circumstances = "Not measured yet" if path is None else rf"NVIDIA H\d+, {path.name[:10]}"
        assert re.search(circumstances, found), f"{page}: run python bench/pages.py"


def test_no_page_is_out_of_date():
    pytest.importorskip("altair", reason="needs altair, which draws the plots: pip install 'lego-mlir[docs]'")
    assert pages.stale() == [], "run python bench/pages.py"


def test_a_page_without_its_marks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mlir_kernels, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "index.md").write_text("# Results\n")
    with pytest.raises(SystemExit, match="has no <!-- benchmarks -->"):
        mlir_kernels.put_into("results/index.md", pages.LISTED, "")


def test_a_case_of_a_first_day_is_compared_with_the_fastest_other():
    row = {"case": "sum", "memory": True, "p10": 1.0, "p90": 2.0}
    rows = [{**row, "kernel": k, "ms": ms} for k, ms in (("lego", 0.5), ("CUB", 0.4), ("torch", 0.6))]
    table = recorded.first_day({"device": "NVIDIA Made Up", "torch": "2", "rows": rows})
    assert "| sum | 0.5000 (1.0000 to 2.0000) | 0.4000 (1.0000 to 2.0000) | CUB | 0.80 | yes |" in table


def test_a_call_has_a_column_for_each_size():
    rows = [{"name": "call", "size": size, "us": us, "p10": 1.0, "p90": 2.0} for size, us in ((8, 1.5), (4, 1.25))]
    table = recorded.launch({"device": "NVIDIA Made Up", "versions": {"torch": "2"}, "rows": rows})
    assert "| call | 4 x 4 | 8 x 8 |" in table
    assert "| `k(x, y, z)` | 1.25 (1.00 to 2.00) | 1.50 (1.00 to 2.00) |" in table
