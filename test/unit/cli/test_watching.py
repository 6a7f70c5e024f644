"""`--watch`: which files are watched, when a change counts, and that a second run sees it."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from lego_mlir.cli import watching
from lego_mlir.cli.main import BAD_INPUT, main

TILE = "from shapes import ROWS\nfrom lego_mlir import Row\ntile = Row(ROWS, 8)\n"


def test_the_files_of_a_command_line_and_the_modules_beside_them(tmp_path):
    for name in ("a.py", "shapes.py", "script.mlir", "data.npz", "notes.txt"):
        (tmp_path / name).touch()
    args = argparse.Namespace(
        specs=[str(tmp_path / "a.py")], transform=str(tmp_path / "script.mlir"), input=None, kernel="notes.txt"
    )
    assert {path.name for path in watching.watched(args)} == {"a.py", "shapes.py", "script.mlir"}


def test_a_change_counts_once_it_has_settled():
    states = iter([{"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}, {"a": 4}])
    waited = []
    watching.await_change(lambda: next(states), {"a": 1}, waited.append)
    assert next(states) == {"a": 4}
    assert waited == [watching.PERIOD] * 4


def test_a_file_that_goes_is_a_change(tmp_path):
    file = tmp_path / "a.py"
    file.touch()
    before = watching.times([file])
    file.unlink()
    assert watching.times([file]) == {file: 0} != before


def test_standard_input_is_refused(capsys):
    assert main(["check", "-", "--watch"]) == BAD_INPUT
    assert "--watch watches files, and - is standard input" in capsys.readouterr().err


def test_a_change_of_an_imported_module_runs_again(tmp_path):
    (tmp_path / "a.py").write_text(TILE)
    (tmp_path / "shapes.py").write_text("ROWS = 4\n")
    command = [sys.executable, "-m", "lego_mlir.cli", "check", "a.py", "--watch"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3]), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            lines = iter(process.stdout.readline, "")
            assert next(line for line in lines if "layout tile" in line) == "layout tile = Row(4, 8)\n"
            (tmp_path / "shapes.py").write_text("ROWS = 16\n")
            os.utime(tmp_path / "shapes.py", (time.time() + 5,) * 2)
            assert next(line for line in lines if "layout tile" in line) == "layout tile = Row(16, 8)\n"
        finally:
            process.kill()
