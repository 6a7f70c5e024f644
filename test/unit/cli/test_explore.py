"""`lego-mlir explore`: the page for a spec's layouts, its address, and what is refused."""

import subprocess
import sys
import urllib.request
from pathlib import Path

from lego_mlir.cli.main import BAD_INPUT, DONE, main


def written(tmp_path, text):
    spec = tmp_path / "spec.py"
    spec.write_text("from lego_mlir import GenP, Row, size\n" + text)
    return str(spec)


def test_the_address_serves_the_page(tmp_path):
    spec = written(tmp_path, "A = Row(size('M'), 4)\nB = GenP([2], lambda i: 1 - i, lambda p: (1 - p,))\n")
    command = [sys.executable, "-m", "lego_mlir.cli", "explore", spec, "--size", "M=8", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=60) as reply:
            text = reply.read().decode()
        assert '"A": "Row(8, 4)"' in text and "lambda" not in text  # B has no text that could be edited
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def test_the_shared_tiles_of_kernels_are_offered(tmp_path):
    example = Path(__file__).parents[3] / "examples" / "transpose.py"
    assert main(["explore", str(example), "--export", str(tmp_path / "page.html")]) == DONE
    assert '"transpose.shared0": "gallery.xor_swizzle(32, 32)"' in (tmp_path / "page.html").read_text()


def test_what_cannot_be_explored(tmp_path, capsys):
    assert main(["explore", written(tmp_path, "x = 1\n")]) == BAD_INPUT
    assert (
        "no layout can be explored; this spec has none, and its kernels have no shared tile" in capsys.readouterr().err
    )
    assert main(["explore", written(tmp_path, "A = Row(size('M'), 4)\n")]) == BAD_INPUT
    assert "give a value for M: --size M=N" in capsys.readouterr().err
    assert main(["explore", written(tmp_path, "A = Row(4, 4)\n"), "--port", "99999"]) == BAD_INPUT
    assert "--port 99999 cannot be used" in capsys.readouterr().err
