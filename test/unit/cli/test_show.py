"""`lego-mlir show`: layouts and the requests of a kernel's line, as text and as files."""

import re
from pathlib import Path

import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli.main import DONE, main

TRANSPOSE = Path("examples/transpose.py")
LINE = next(n for n, line in enumerate(TRANSPOSE.read_text().splitlines(), 1) if "= tile[tx, ty + r]" in line)


@pytest.fixture
def conflicting(tmp_path):
    path = tmp_path / "conflicting.py"
    path.write_text(TRANSPOSE.read_text().replace("gallery.xor_swizzle(T, T)", "Row(T, T)"))
    return path


def test_a_line_with_a_bank_conflict(conflicting, capsys):
    out = output_of(capsys, ["show", str(conflicting), "--kernel", "transpose", "--line", str(LINE)])
    assert "32 wavefronts, 1 at best, 32-way" in out and "4 sectors of 32 bytes, 4 at best" in out
    assert re.search(r"^3968\s+\[31\]$", out, re.MULTILINE)


def test_the_swizzle_removes_it(capsys):
    out = output_of(capsys, ["show", str(TRANSPOSE), "--line", str(LINE)])
    assert "1 wavefront, 1 at best, 1-way" in out and "[" not in out


def test_a_layout_as_a_file(tmp_path):
    spec, picture = tmp_path / "spec.py", tmp_path / "picture.svg"
    spec.write_text("from lego_mlir import Row, size\nA = Row(size('M'), 4)\nB = Row(8, 8)\n")
    assert main(["show", str(spec), "--layout", "A", "--size", "M=3", "-o", str(picture)]) == DONE
    assert "grid of 3 by 4 cells" in picture.read_text()


def test_the_repair_of_a_line_s_tile(conflicting, capsys):
    out = output_of(capsys, ["show", str(conflicting), "--line", str(LINE), "--by", "repair"])
    assert f"lanes of the worst request at line {LINE}" in out and "[31]" in out
    assert "32 wavefronts, 1 at best" in out and "1 wavefront, 1 at best" in out
    assert re.search(r"gallery.xor_swizzle\(32, 32\) +64 +64 +0 +3", out)


def test_text_is_written_to_standard_output(capsys):
    text = output_of(capsys, ["show", str(TRANSPOSE), "--line", str(LINE)])
    assert main(["show", str(TRANSPOSE), "--line", str(LINE), "-o", "-"]) == DONE
    assert capsys.readouterr().out == text and text


def test_a_kernel_without_a_line_is_drawn_by_its_accesses(capsys):
    assert "store shared0[" in output_of(capsys, ["show", str(TRANSPOSE), "--kernel", "transpose"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--line", "1"], "line 1 has no such access in kernel transpose; lego-mlir analyze lists the lines"),
        (["--kernel", "transpose", "--by", "time"], "by='time' needs line=N, a line of the spec that loads or stores"),
        (["--line", "3", "--by", "bank"], "by='bank' is for layouts; a kernel is drawn by access, request, time"),
        (
            ["--line", "3", "--access", "lane"],
            "--access applies to layouts, not to a kernel; omit it, or omit --kernel",
        ),
        (["--kernel", "transpose", "--by", "repair"], "kernel transpose: no tile with bank conflicts"),
        (["--layout", "A"], "no layout named 'A'"),
        ([], "has no layout; draw a line of a kernel with --kernel NAME --line N"),
        (["--layout", "A", "-o", "a.gif"], "-o a.gif: a picture ends in .svg, .html, .png, .txt"),
    ],
)
def test_messages(options, message, capsys):
    assert message in refusal_of(capsys, ["show", str(TRANSPOSE), *options])
