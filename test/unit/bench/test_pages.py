"""The pages of Results: written by one command, from the newest results, and not out of date."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import mlir_kernels  # noqa: E402  (bench/ is a folder of scripts, not a package)
import pages  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def test_the_listing_is_that_of_the_newest_results():
    assert pages.listing() in (RESULTS / "index.md").read_text(), "run python bench/pages.py"


def test_every_benchmark_has_a_page_with_its_device_and_date():
    for _, page, name, _ in pages.BENCHMARKS:
        found = (RESULTS / f"{page}.md").read_text()
        date = mlir_kernels.latest_path(name).name[:10]
        assert re.search(rf"NVIDIA H\d+, {date}", found), f"{page}: run python bench/pages.py"


def test_no_page_is_out_of_date():
    pytest.importorskip("altair", reason="needs altair, which draws the plots: pip install 'lego-mlir[docs]'")
    assert pages.stale() == [], "run python bench/pages.py"


def test_a_page_without_its_marks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mlir_kernels, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "index.md").write_text("# Results\n")
    with pytest.raises(SystemExit, match="has no <!-- benchmarks -->"):
        mlir_kernels.put_into("results/index.md", pages.LISTED, "")
