"""`lego-mlir analyze --html`: each line with its counts and remarks, and drawings where it accesses memory."""

import json
import re
from pathlib import Path

import pytest

from lego_mlir.cli.main import BAD_INPUT, DONE, main

TRANSPOSE = Path("examples/transpose.py")


@pytest.fixture
def conflicting(tmp_path):
    path = tmp_path / "conflicting.py"
    path.write_text(TRANSPOSE.read_text().replace("gallery.xor_swizzle(T, T)", "Row(T, T)"))
    return path


def line_of(text):
    return next(n for n, line in enumerate(TRANSPOSE.read_text().splitlines(), 1) if text in line)


def row(page, number):
    return re.search(rf'<tr[^>]* id="L{number}">.*', page)[0]


def test_counts_stand_beside_their_lines(conflicting, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["analyze", str(conflicting), "--html", str(page)]) == DONE
    capsys.readouterr()
    assert main(["analyze", str(conflicting), "--json"]) == DONE
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    text, number = page.read_text(), line_of("= tile[tx, ty + r]")
    (read,) = [s for s in kernel["sites"] if s["line"] == number and s["space"] == "shared"]
    assert f"read of shared0: {read['wavefronts']} wavefronts, {read['wavefronts'] - read['conflicts']} at best" in text
    assert 'class="costly"' in row(text, number) and "costly" not in row(text, line_of("tile[ty + r, tx] ="))
    assert "32-way bank conflict" in text and "gallery.xor_swizzle(32, 32)" in text
    assert text.count("<details>") == 3 and text.count("draw the repair of the tile at line") == 1
    assert "32 wavefronts, 1 at best, 32-way" in text
    assert "8 of 2048 blocks counted" in text


def test_the_source_is_escaped(tmp_path):
    spec, page = tmp_path / "spec.py", tmp_path / "page.html"
    spec.write_text(TRANSPOSE.read_text() + "\nx = '<script>alert(1)</script>'\n")
    assert main(["analyze", str(spec), "--html", str(page)]) == DONE
    assert "<script>" not in page.read_text()


def test_a_spec_without_kernels(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text("from lego_mlir import Row\nA = Row(32, 32)\n")
    assert main(["analyze", str(spec), "--html", str(tmp_path / "page.html")]) == BAD_INPUT
    assert "--html shows the lines of kernels" in capsys.readouterr().err
    assert main(["analyze", str(spec), "--html", str(spec)]) == BAD_INPUT
