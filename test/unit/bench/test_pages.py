"""The pages of Results: written by one command, from the newest results, and not out of date."""

import json
import re
from pathlib import Path

import first_day
import headlines
import launch
import mlir_kernels
import pages
import pytest

ROOT = Path(__file__).resolve().parents[3]

RESULTS = ROOT / "docs" / "results"


def test_the_listing_is_that_of_the_newest_results():
    assert str(pages.listing()) in (RESULTS / "index.md").read_text(), "run python bench/pages.py"


def test_every_benchmark_has_a_page_with_its_device_and_date():
    for _, page, name, _ in pages.BENCHMARKS:
        found = (RESULTS / f"{page}.md").read_text()
        path = mlir_kernels.latest_path(name)
        circumstances = "Not measured yet" if path is None else rf"NVIDIA H\d+, {path.name[:10]}"
        assert re.search(circumstances, found), f"{page}: run python bench/pages.py"


def test_no_page_is_out_of_date():
    pytest.importorskip("altair", reason="needs altair, which draws the plots: pip install 'lego-mlir[docs]'")
    assert pages.stale() == [], "run python bench/pages.py"


def test_a_page_has_one_plot_of_under_20_kb_and_no_long_table():
    for page in headlines.HEADLINES:
        text = (RESULTS / f"{page}.md").read_text()
        (picture,) = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
        assert picture == f"../images/headline-{page}.svg"
        assert (RESULTS / picture).stat().st_size < 20_000
        rows = [len(found.splitlines()) for found in re.findall(r"(?:^\|.*\n)+", text, re.M)]
        assert all(number <= mlir_kernels.SHOWN + 2 for number in rows), page
        assert text.count("index.md#protocol") == 1, f"{page}: the protocol is stated once"


def test_a_plot_takes_the_theme_and_shows_each_row_and_an_empty_column():
    for page, headline in headlines.HEADLINES.items():
        drawn = (RESULTS.parent / "images" / f"headline-{page}.svg").read_text()
        assert "prefers-color-scheme:dark" in drawn and "currentColor" in drawn
        for device, rows in headlines.measured(headline).items():
            assert f">{device}<" in drawn
            assert all(f">{row.text}<" in drawn for row in rows), f"{page}: run python bench/pages.py"
        assert drawn.count(">not measured<") == sum(not rows for rows in headlines.measured(headline).values())


def test_a_headline_has_both_protocols_and_a_column_for_each_device(tmp_path, monkeypatch):
    for folder, faster in (("NVIDIA-H200", 1.0), ("NVIDIA-H100-80GB-HBM3", 2.0)):
        case = {"size": [4096, 4096, 4096], "layouts": "NT", "dtype": "f16"}
        rows = [
            {"kernel": "cuBLAS", "ms": 0.3, "single_ms": 0.4, **case},
            {"kernel": "chosen", "ms": 0.2 / faster, "single_ms": 0.5, **case},
        ]
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "2026-01-02-hopper.json").write_text(json.dumps({"rows": rows}))
        older = [{**row, "ms": 9.0} for row in rows] + [{**row, "size": [8192] * 3} for row in rows]
        (tmp_path / folder / "2026-01-01-hopper.json").write_text(json.dumps({"rows": older}))
    monkeypatch.setattr(mlir_kernels, "RESULTS", tmp_path)
    found = headlines.measured(headlines.HEADLINES["matmul"])
    texts = {device: {row.protocol: row.text for row in rows} for device, rows in found.items()}
    assert texts == {
        "NVIDIA H200": {headlines.SINGLE: "0.80 (0.80 to 0.80)", headlines.SUSTAINED: "1.50 (1.50 to 1.50)"},
        "NVIDIA H100": {headlines.SINGLE: "0.80 (0.80 to 0.80)", headlines.SUSTAINED: "3.00 (3.00 to 3.00)"},
    }


def test_the_ratio_is_of_the_fastest_on_both_sides():
    times = {"ours": 2.0, "ours tuned": 1.0, "theirs": 4.0, "theirs slow": 9.0}
    rows = [{"kernel": kernel, "n": 8, "ms": ms} for kernel, ms in times.items()]
    assert headlines.ratios(rows, "n", ["theirs", "theirs slow"], ["ours", "ours tuned"]) == {8: 4.0}
    assert headlines.ratios(rows[:2], "n", ["theirs"], ["ours"]) == {}


def test_each_figure_of_the_readme_says_how_it_was_timed():
    text = (ROOT / "README.md").read_text().partition("## Measured performance")[2].partition("\n## ")[0]
    assert "docs/results/index.md#protocol" in text
    ways = (headlines.SINGLE, headlines.SUSTAINED, headlines.WARM, "measured counts")
    for point in text.split("\n- ")[1:]:
        assert any(way in " ".join(point.split()).lower() for way in ways), point


def test_a_page_without_its_marks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mlir_kernels, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "index.md").write_text("# Results\n")
    with pytest.raises(SystemExit, match="has no <!-- benchmarks -->"):
        mlir_kernels.put_into("results/index.md", pages.LISTED, "")


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Writes one page from results made up here, and gives its text."""
    monkeypatch.setattr(mlir_kernels, "DOCS", tmp_path)
    monkeypatch.setattr(mlir_kernels, "RESULTS", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "device").mkdir()

    def written(module, name, found):
        path = tmp_path / "results" / f"{name.replace('_', '-')}.md"
        path.write_text(f"<!-- {name} -->\n<!-- end -->\n")
        (tmp_path / "device" / f"2026-01-02-{name}.json").write_text(json.dumps({"device": "NVIDIA Made Up", **found}))
        module.table()
        return path.read_text()

    return written


def test_a_case_of_a_first_day_is_compared_with_the_fastest_other(page):
    row = {"case": ["sum N=8"], "memory": True, "p10": 1.0, "p90": 2.0}
    rows = [{**row, "kernel": k, "ms": ms} for k, ms in (("lego", 0.5), ("CUB", 0.4), ("torch", 0.6))]
    found = page(first_day, "first_day", {"torch": "2", "rows": rows})
    assert "| sum N=8 | 0.5000 (1.0000 to 2.0000) | 0.4000 (1.0000 to 2.0000) | CUB | 0.80 | yes |" in found


def test_a_call_has_a_column_for_each_size(page, monkeypatch):
    rows = [{"name": "call", "size": size, "us": us, "p10": 1.0, "p90": 2.0} for size, us in ((8, 1.5), (4, 1.25))]
    monkeypatch.setattr(mlir_kernels, "SHOWN", 100)
    found = page(launch, "launch", {"versions": {"torch": "2"}, "rows": rows})
    assert "| call | 4 x 4 | 8 x 8 |" in found
    assert "| `k(x, y, z)` | 1.25 (1.00 to 2.00) | 1.50 (1.00 to 2.00) |" in found
