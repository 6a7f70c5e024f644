"""The tables of docs/results, from results made up here; nothing is written to docs."""

import doctest
import json
from pathlib import Path

import bricks
import comparison
import mlir_kernels
import nw
import pytest
import template_rows
import triton_templates

ROOT = Path(__file__).resolve().parents[3]

BENCHMARKS = [*triton_templates.BENCHMARKS.values(), nw.BENCHMARKS["nw"], bricks.BENCHMARK]


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """The real pages, and the static results of the repository, where tables can be written."""
    docs, results = tmp_path / "docs", tmp_path / "results"
    (docs / "results").mkdir(parents=True)
    for source in (ROOT / "docs" / "results").glob("*.md"):
        (docs / "results" / source.name).write_text(source.read_text())
    (results / "static").mkdir(parents=True)
    for source in (ROOT / "bench" / "results" / "static").glob("*.json"):
        (results / "static" / source.name).write_text(source.read_text())
    monkeypatch.setattr(mlir_kernels, "DOCS", docs)
    monkeypatch.setattr(mlir_kernels, "RESULTS", results)
    monkeypatch.setattr(mlir_kernels, "SHOWN", 1000)  # the tables stay on the pages
    return docs / "results"


def measured(pages, name, rows):
    device = pages.parents[1] / "results" / "NVIDIA-Made-Up"
    device.mkdir(exist_ok=True)
    spread = [{"p10": row["ms"] * 0.9, "p90": row["ms"] * 1.1, **row} for row in rows]
    (device / f"2026-01-02-{name}.json").write_text(json.dumps({"device": "NVIDIA Made Up", "rows": spread}))


def text_of(pages):
    return "".join(source.read_text() for source in sorted(pages.glob("*.md")))


def lines_of(pages, start):
    return [line for line in text_of(pages).splitlines() if line.startswith(start)]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_case_has_a_line_and_without_results_its_cells_are_empty(pages, benchmark):
    benchmark.table()
    between = text_of(pages).partition(f"<!-- {benchmark.name} measured -->\n")[2].partition("<!-- end -->")[0]
    heading, _, *lines = [line for line in between.splitlines() if line.startswith("|")]
    assert between.startswith("Not measured yet") and heading.count("|") == lines[0].count("|")
    assert len(lines) == {
        "triton_matmul": 3 * 8 * 4, "triton_grouped": 11, "triton_softmax": 14, "triton_layer_norm": 2 * 7,
        "triton_attention": 2 * 6, "nw": 5 * 4, "bricks": 3 * 4,
    }[benchmark.name]  # fmt: skip
    assert all(line.endswith("|  |  |  |") for line in lines)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_what_was_counted_without_a_gpu(pages, benchmark):
    benchmark.table()
    between = text_of(pages).partition(f"<!-- {benchmark.name} static -->\n")[2].partition("<!-- end -->")[0]
    names = {row["kernel"] for row in mlir_kernels.static_results(benchmark.name, "sm_90")}
    assert {line.split(" | ")[0].removeprefix("| ") for line in between.splitlines()[2:]} == names


def test_a_product_is_taken_with_its_copy_where_that_is_faster(pages):
    facts = {"dtype": "e4m3", "n": 2048, "layout": "TN"}
    config = [[128, 256, 128], 8, 3, "descriptors"]
    measured(pages, "triton_matmul", [
        {"kernel": "rendered", "ms": 0.4, "config": config, **facts}, {"kernel": "by hand", "ms": 0.5, **facts},
        {"kernel": "rendered, copied first", "ms": 0.1, "config": config, **facts},
    ])  # fmt: skip
    triton_templates.product_table()
    (line,) = lines_of(pages, "| e4m3 | 2048 | TN | 0.1000 (0.0900 to 0.1100) | 0.5000")
    assert line.endswith("|  | 5.00 |  | 128x256x128 8 3 descriptors, copied first |")
    assert "NVIDIA Made Up, 2026-01-02." in text_of(pages)


def test_ratios_are_of_the_rivals_times(pages):
    rows = [("rendered", 0.02), ("by hand", 0.021), ("torch", 0.03)]
    measured(pages, "triton_softmax", [{"kernel": k, "columns": 1024, "ms": ms, "config": [2, 4]} for k, ms in rows])
    template_rows.softmax_table()
    (line,) = lines_of(pages, "| 1024 | 0.0200")
    assert line.endswith("| 1.05 | 1.50 | 2 4 |")


def test_the_chosen_buffer_stands_beside_all(pages):
    times = {"by hand": 5.0, "by hand, padded": 3.0, "row-major": 2.5, "anti-diagonal": 2.6, "padded": 1.6}
    measured(pages, "nw", [
        {"kernel": k, "n": 8192, "b": 64, "ms": ms, "chosen": k == "row-major"} for k, ms in times.items()
    ])  # fmt: skip
    nw.table()
    (line,) = lines_of(pages, "| 8192 | 64 | 2.5000")
    assert line.endswith(
        "| 2.00 | 1.20 | 2.5000 (2.2500 to 2.7500) | 2.6000 (2.3400 to 2.8600) | "
        "1.6000 (1.4400 to 1.7600) | row-major | 0.64 |"
    )


def test_groups_and_batches_have_their_own_baselines(pages):
    batch = {"shape": [16, 512, 512, 512]}
    measured(pages, "triton_grouped", [
        {"kernel": "grouped rendered", "group": "mixed", "ms": 0.04, "config": [[64, 128, 64], 4, 4, "pointers"]},
        {"kernel": "grouped torch, captured loop", "group": "mixed", "ms": 0.036},
        {"kernel": "batched rendered", "ms": 0.01, **batch}, {"kernel": "batched torch.bmm", "ms": 0.02, **batch},
    ])  # fmt: skip
    triton_templates.group_table()
    (group,) = lines_of(pages, "| grouped mixed |")
    assert group.endswith("|  | 0.90 |  | 64x128x64 4 4 pointers |")
    (single,) = lines_of(pages, "| batched 16 of 512x512x512 |")
    assert single.endswith("|  |  | 2.00 |  |")


def test_bricks_are_compared_with_rows(pages):
    facts = {"stencil": "7-point", "n": 512}
    measured(
        pages, "bricks", [{"kernel": "bricks 4x4x32", "ms": 0.3, **facts}, {"kernel": "row-major", "ms": 0.27, **facts}]
    )
    bricks.table()
    (line,) = lines_of(pages, "| 7-point | 512 | 0.3000")
    assert line.endswith("|  |  | 0.90 |  |  |")


def test_both_ways_of_layer_norm_and_both_masks_of_attention(pages):
    measured(pages, "triton_layer_norm", [
        {"kernel": f"{way} {who}", "columns": 1024, "ms": ms}
        for way, who, ms in (("forward", "rendered", 0.1), ("forward", "torch", 0.2), ("backward", "rendered", 0.4))
    ])  # fmt: skip
    template_rows.norm_table()
    assert lines_of(pages, "| forward | 1024 | 0.1000")[0].endswith("|  | 2.00 |  |")
    measured(pages, "triton_attention", [
        {"kernel": "rendered", "positions": 4096, "causal": True, "ms": 0.3},
        {"kernel": "by hand", "positions": 4096, "causal": True, "ms": 0.6},
    ])  # fmt: skip
    template_rows.attention_table()
    assert lines_of(pages, "| causal | 4096 | 0.3000")[0].endswith("| 2.00 |  |  |")


def test_the_example_of_a_table():
    assert doctest.testmod(comparison).failed == 0


@pytest.mark.parametrize("b", nw.BLOCKS)
def test_the_buffer_with_the_fewest_wavefronts_is_chosen(b):
    found = nw.ranked(b)
    assert [candidate.name for candidate in found] == ["padded", "anti-diagonal", "row-major"]
    assert found[0].wavefronts < found[1].wavefronts < found[2].wavefronts


def test_a_table_names_the_device_the_date_and_the_versions(pages):
    measured(pages, "triton_softmax", [])
    results = {"device": "NVIDIA Made Up", "triton": "1.2", "torch": "3.4"}
    known = mlir_kernels.circumstances("triton_softmax", results, "triton", "torch")
    assert known == "NVIDIA Made Up, 2026-01-02, Triton 1.2, PyTorch 3.4"
    assert mlir_kernels.circumstances("nw", results) == "NVIDIA Made Up"
