"""The tables and choices that the benchmarks make, from results made up here; nothing is written to docs."""

import json
from pathlib import Path

import mlir_kernels
import product_tables
import products
import pytest
import spread_attention
import transpose

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Empty pages, and results in the static folder of the repository."""
    docs = tmp_path / "docs"
    (docs / "results").mkdir(parents=True)
    markers = {
        "results/matmul-mma.md": ("static", "measured", "study"),
        "results/transpose.md": ("static", "measured", "odd"),
    }
    for page, names in markers.items():
        places = "".join(f"<!-- {name} -->\nold\n<!-- end -->\n" for name in names)
        (docs / page).write_text(f"# A\n{places}last\n")
    results = tmp_path / "results"
    (results / "static").mkdir(parents=True)
    for source in (ROOT / "bench" / "results" / "static").glob("*.json"):
        (results / "static" / source.name).write_text(source.read_text())
    monkeypatch.setattr(mlir_kernels, "DOCS", docs)
    monkeypatch.setattr(mlir_kernels, "RESULTS", results)
    monkeypatch.setattr(mlir_kernels, "SHOWN", 1000)  # the tables stay on the pages
    return docs


def measured(folder, name, rows):
    device = folder.parent / "results" / "NVIDIA-Made-Up"
    device.mkdir()
    (device / f"2026-01-02-{name}.json").write_text(json.dumps({"device": "NVIDIA Made Up", "rows": rows}))


def test_without_measurements_the_cells_are_empty(pages):
    product_tables.matmul()
    transpose.table()
    product, turned = (pages / "results/matmul-mma.md").read_text(), (pages / "results/transpose.md").read_text()
    assert product.count("| 4096 x 4096 x 4096 | NN |  |  |  |  |  |") == 1
    assert "| 128x256x64, 2x4, 4 | NN | f16 to f16 |" in product
    assert turned.count("| f32 | ours vectorised |  |  |  |  |  |") == 1
    assert all(
        "Not measured yet" in page and "old" not in page and page.endswith("last\n") for page in (product, turned)
    )


def test_measured_products_become_a_table(pages):
    facts = {"size": [4096, 4096, 4096], "layouts": "NN", "p10": 0.9, "p90": 1.1}
    tile = {"tile": [128, 256, 64], "warps": [2, 4], "stages": 4, "order": "grouped"}
    measured(pages, "matmul", [
        {"kernel": "cuBLAS", "ms": 0.2, **facts},
        {"kernel": "4096x4096x4096-NN-slow", "ms": 0.5, **tile, **facts},
        {"kernel": "4096x4096x4096-NN-fast", "ms": 0.3, **tile, **facts},
    ])  # fmt: skip
    product_tables.matmul()
    page = (pages / "results/matmul-mma.md").read_text()
    assert "NVIDIA Made Up, 2026-01-02." in page
    assert "| 0.2000 (0.9000 to 1.1000) | 0.3000 (0.9000 to 1.1000) |  | 0.667 | fast |" in page
    assert page.endswith("| fast | 0.3000 (0.9000 to 1.1000) | 0.667 |\n| slow | 0.5000 (0.9000 to 1.1000) | 0.400 |\n"
                         "<!-- end -->\nlast\n")  # fmt: skip


def test_measured_transposes_become_a_table(pages):
    facts = {"dtype": "f16", "size": 4096}
    rows = [{"kernel": "copy", "ms": 0.981, **facts}, {"kernel": "ours vectorised", "ms": 1.0, **facts}]
    measured(pages, "transpose", rows)
    transpose.table()
    assert "| f16 | ours vectorised |  |  | 0.981 |  |  |" in (pages / "results/transpose.md").read_text()


def test_a_long_table_of_a_page_of_results_is_a_file(pages, monkeypatch):
    monkeypatch.setattr(mlir_kernels, "SHOWN", 1)
    page, long, short = "results/transpose.md", mlir_kernels.table("a|b", [["1, 2", "3"], ["4", "5"]]), ["6", "7"]
    mlir_kernels.put_into(page, "odd", "About.\n\n", long, mlir_kernels.table("c|d", [short]))
    text = (pages / page).read_text()
    assert "About.\n\n[2 rows](data/transpose-odd.csv): a, b.\n\n| c | d |\n|---|---|\n| 6 | 7 |\n<!-- end -->" in text
    assert (pages / "results/data/transpose-odd.csv").read_text() == 'a,b\n"1, 2",3\n4,5\n'
    (pages / "how-to.md").write_text("<!-- small -->\n<!-- end -->\n")
    mlir_kernels.put_into("how-to.md", "small", long)
    assert "| 4 | 5 |" in (pages / "how-to.md").read_text(), "only pages of results have data files"


def test_the_model_ranks_large_tiles_for_large_products_and_small_ones_for_small():
    ways = [products.synchronous(products.Product((n, n, n), "NN")) for n in (8192, 512)]
    large, small = (next(iter(found.values())).facts["tile"] for found in ways)
    assert large[0] * large[1] > small[0] * small[1]
    facts = [way.facts for way in products.synchronous(products.STUDIED_SYNC).values()]
    assert {one["order"] for one in facts} == set(products.ORDERS)
    assert len({one["stages"] for one in facts if one["tile"] == facts[0]["tile"]}) == 3


def test_the_table_of_attention_has_a_ratio_for_each_rival(pages):
    (pages / "results/attention.md").write_text("<!-- attention_spread -->\nold\n<!-- end -->\n")
    times = {"lego": 2.0, "Triton": 1.5, "Triton sm_80": 3.0, "torch flash": 2.2}
    case = {"case": ["64", "4096", "causal"], "config": "64-causal", "p10": 1.0, "p90": 4.0}
    rows = [{"kernel": kernel, "ms": ms, **case} for kernel, ms in times.items()]
    device = pages.parent / "results" / "NVIDIA-Made-Up"
    device.mkdir()
    about = {"device": "NVIDIA Made Up", "torch": "2", "triton": "3", "rows": rows}
    (device / "2026-01-02-attention_spread.json").write_text(json.dumps(about))
    spread_attention.spread_table()
    text = (pages / "results/attention.md").read_text()
    assert "| 64 | 4096 | causal | 2.0000 (1.0000 to 4.0000) | 137 | 1.50 | 1.10 | 0.75 |  | 64-causal |" in text
    assert "old" not in text
