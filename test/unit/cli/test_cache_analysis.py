"""`lego-mlir analyze --cache`: ranked orders as table and JSON, and what it refuses."""

import json

import pytest

from lego_mlir.cli.main import main

SPEC = """
from lego_mlir import Row, f32, schedule
from lego_mlir.kernels import dot_products
rows = dot_products.build(64, 256, 16, f32, threads=64)
narrow = dot_products.build(64, 256, 16, f32, threads=64, order=schedule.columns(64, 256, width=16))
downwards = schedule.columns(1, 256, width=8)
wrong = Row(2, 8)
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.py"
    path.write_text(SPEC)
    return str(path)


def test_json_ranks_kernels_and_orders(spec, capsys):
    assert main(["analyze", spec, "--cache", "--order", "downwards", "--chip", "rtx2080super", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["caches"]
    assert {(row["kernel"], row["order"]) for row in found} == {
        (kernel, order) for kernel in ("rows", "narrow") for order in ("launched", "downwards")
    }
    fetched = [row["levels"][0]["fetched"] for row in found]
    assert fetched == sorted(fetched)
    assert {row["compulsory"] for row in found} == {64 * 16 // 8 + 16 * 256 // 8}
    for row in found:
        l1, l2 = row["levels"]
        assert row["chip"] == "rtx2080super"
        assert l1["fetched"] == l2["reads"] >= row["compulsory"]
        assert l1["reads"] - l1["hits"] == l1["fetched"]
        assert l2["fetched"] == row["compulsory"]


def test_a_table(spec, capsys):
    assert main(["analyze", spec, "--cache", "--kernel", "rows", "--blocks", "40"]) == 0
    out = capsys.readouterr().out
    assert "caches of h200" in out
    assert "rows, launched" in out
    assert "narrow" not in out


@pytest.mark.parametrize("order", [[], ["--order", "downwards"]])
def test_a_diagram(spec, tmp_path, order):
    path = tmp_path / "rows.svg"
    assert main(["analyze", spec, "--cache", "--kernel", "rows", *order, "--diagram", str(path)]) == 0
    text = path.read_text()
    assert f"dot_products, {order[-1] if order else 'launched'}, on h200" in text
    assert "read from L1" in text and "fetched from memory" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--order", "columns:8"], "--order applies to the simulation of caches; add --cache"),
        (["--chip", "h200"], "--chip applies to the simulation of caches; add --cache"),
        (["--diagram", "a.svg"], "--diagram applies to the simulation of caches; add --cache"),
        (["--cache", "--diagram", "a.pdf"], "a.pdf: a diagram is written as .svg or .png, got '.pdf'"),
        (
            ["--cache", "--diagram", "a.svg", "--order", "row", "--order", "morton"],
            "--diagram draws one order of one kernel, got kernels: 1, orders: 2; choose with --kernel NAME",
        ),
        (["--cache", "--layout", "wrong"], "--layout applies to a layout, and --cache simulates kernels"),
        (["--cache", "--html", "page.html"], "--html writes the counts of lines, which --cache does not make"),
        (["--cache", "--chip", "b200"], "no constants were fitted for chip 'b200'; there are h200, rtx2080super"),
        (["--cache", "--order", "spiral"], "has no order 'spiral'; there are row, column"),
        (["--cache", "--order", "morton:4"], "--order morton:4: a number follows columns, zigzag, grouped"),
        (["--cache", "--order", "columns:0"], "--order columns:0: a number follows columns, zigzag, grouped"),
        (["--cache", "--order", "wrong"], "--order wrong: the grid has 1 x 256 blocks, wrong is"),
    ],
)
def test_refusals(spec, capsys, options, message):
    assert (
        main(
            ["analyze", spec, "--kernel", "rows", *options]
            if "--layout" not in options
            else ["analyze", spec, *options]
        )
        == 2
    )
    assert message in capsys.readouterr().err
