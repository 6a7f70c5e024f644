"""The tables, plots and choices that the benchmarks make, from results made up here; nothing is written to docs."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import attention  # noqa: E402
import matmul  # noqa: E402  (bench/ is a folder of scripts, not a package)
import mlir_kernels  # noqa: E402
import plots  # noqa: E402
import transpose  # noqa: E402


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Empty pages, and results in the static folder of the repository."""
    docs = tmp_path / "docs"
    (docs / "results").mkdir(parents=True)
    markers = {
        "results/matmul-mma.md": ("static", "measured", "study"),
        "results/transpose.md": ("static", "measured", "odd", "small", "words"),
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
    return docs


def measured(folder, name, rows):
    pytest.importorskip("altair", reason="needs altair, which draws the plots: pip install 'lego-mlir[docs]'")
    device = folder.parent / "results" / "NVIDIA-Made-Up"
    device.mkdir()
    (device / f"2026-01-02-{name}.json").write_text(json.dumps({"device": "NVIDIA Made Up", "rows": rows}))


def test_without_measurements_the_cells_are_empty(pages):
    matmul.table([])
    transpose.table([])
    product, turned = (pages / "results/matmul-mma.md").read_text(), (pages / "results/transpose.md").read_text()
    assert product.count("| 4096 x 4096 x 4096 | NN |  |  |  |  |  |") == 1
    assert "| 128x256x64, 2x4, 4 | NN | f16 to f16 |" in product
    assert turned.count("| f32 | ours vectorised |  |  |  |  |  |") == 1
    assert all(
        "Not measured yet" in page and "old" not in page and page.endswith("last\n") for page in (product, turned)
    )


def test_measured_products_become_a_table_and_a_plot(pages):
    facts = {"size": [4096, 4096, 4096], "layouts": "NN", "p10": 0.9, "p90": 1.1}
    tile = {"tile": [128, 256, 64], "warps": [2, 4], "stages": 4, "order": "grouped"}
    measured(pages, "matmul", [
        {"kernel": "cuBLAS", "ms": 0.2, **facts},
        {"kernel": "4096x4096x4096-NN-slow", "ms": 0.5, **tile, **facts},
        {"kernel": "4096x4096x4096-NN-fast", "ms": 0.3, **tile, **facts},
    ])  # fmt: skip
    matmul.table([])
    page = (pages / "results/matmul-mma.md").read_text()
    assert "NVIDIA Made Up, 2026-01-02." in page
    assert "| 0.2000 (0.9000 to 1.1000) | 0.3000 (0.9000 to 1.1000) |  | 0.667 | fast |" in page
    assert page.endswith("| fast | 0.3000 (0.9000 to 1.1000) | 0.667 |\n| slow | 0.5000 (0.9000 to 1.1000) | 0.400 |\n"
                         "<!-- end -->\nlast\n")  # fmt: skip
    assert (pages / "images" / "matmul.svg").read_text().count('aria-roledescription="point"') == 1


def test_measured_transposes_become_a_table_and_plots(pages):
    facts = {"dtype": "f16", "size": 4096}
    rows = [{"kernel": "copy", "ms": 0.981, **facts}, {"kernel": "ours vectorised", "ms": 1.0, **facts}]
    measured(pages, "transpose", rows)
    transpose.table([])
    assert "| f16 | ours vectorised |  |  | 0.981 |  |  |" in (pages / "results/transpose.md").read_text()
    assert {p.name for p in (pages / "images").iterdir()} == {"transpose-f32.svg", "transpose-f16.svg"}


def test_the_model_ranks_large_tiles_for_large_products_and_small_ones_for_small():
    known = matmul.figures()
    large, small = (matmul.tried(known, (n, n, n), "NN")[0].tiling for n in (8192, 512))
    assert large.m * large.n > small.m * small.n
    studied = matmul.tried(known, matmul.STUDIED, "NN")
    assert {choice.order for choice in studied} == set(matmul.ORDERS)
    assert len({choice.stages for choice in studied if choice.tiling == studied[0].tiling}) == 3


def test_sizes_on_the_command_line():
    assert matmul.size_of("512") == (512, 512, 512)
    assert matmul.size_of("32x4096x64") == (32, 4096, 64)


def test_every_way_to_transpose_has_a_colour_of_its_own():
    assert len(set(plots.COLOURS)) == len(plots.COLOURS)
    drawn = [*transpose.VARIANTS, *transpose.BY_HAND, "Triton", "torch", "CuPy"]
    assert len(drawn) <= len(plots.COLOURS)


def test_every_line_has_its_name_at_its_end():
    pytest.importorskip("altair", reason="needs altair, which draws the plots: pip install 'lego-mlir[docs]'")
    drawn, names = plots.specification("of N", ["1", "2"], {"a": [0.5, 1.0], "b": [0.4, None]})["layer"]
    assert [(row["name"], row["size"]) for row in drawn["data"]["values"]] == [("a", "1"), ("a", "2"), ("b", "1")]
    assert {row["name"]: row["value"] for row in names["data"]["values"]} == {"a": 1.0, "b": 0.4}


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12), st.floats(0.01, 1))
def test_names_are_moved_apart_in_their_order(values, least):
    found = plots.apart(values, least)
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert all(found[b] - found[a] >= least * (1 - 1e-6) for a, b in pairwise(order))
    if all(values[b] - values[a] >= least for a, b in pairwise(order)):
        assert found == pytest.approx(values)


def test_a_plot_escapes_its_labels():
    pytest.importorskip("altair", reason="needs altair, which draws the plots: pip install 'lego-mlir[docs]'")
    assert "a &lt; b" in plots.lines("a < b", ["1"], {"x": [1.0]})


def test_the_table_of_attention_has_a_ratio_for_each_rival(pages):
    (pages / "results/attention.md").write_text("<!-- attention_spread -->\nold\n<!-- end -->\n")
    times = {"lego": 2.0, "Triton": 1.5, "Triton sm_80": 3.0, "torch flash": 2.2}
    case = {"features": 64, "length": 4096, "mask": "causal", "config": "64-causal", "p10": 1.0, "p90": 4.0}
    rows = [{"kernel": kernel, "ms": ms, **case} for kernel, ms in times.items()]
    device = pages.parent / "results" / "NVIDIA-Made-Up"
    device.mkdir()
    about = {"device": "NVIDIA Made Up", "torch": "2", "triton": "3", "rows": rows}
    (device / "2026-01-02-attention_spread.json").write_text(json.dumps(about))
    attention.table()
    text = (pages / "results/attention.md").read_text()
    assert "| 64 | 4096 | causal | 2.0000 (1.0000 to 4.0000) | 137 | 1.50 | 1.10 | 0.75 |  | 64-causal |" in text
    assert "old" not in text
