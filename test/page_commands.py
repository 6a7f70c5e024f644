"""Blocks of a page that are no doctests: files, commands with their output, and code that is only read.

A block whose title names a file (```python title="saxpy.py") is written to the page's folder. In a `console` block the
lines after `$` are commands, run there in the order of the page, and what follows is their output; `...` stands for
text that is left out, and line breaks may differ. The commands of `sh` blocks must succeed.
"""

import contextlib
import doctest
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120  # a command that takes longer waits for something; name it in LEFT_OUT
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(r"^ *```(?P<language>[\w+-]*) *(?P<rest>.*)$")
_TITLE = re.compile(r'title="(?P<name>[^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that its title names, its first line in the page, and its text."""

    language: str
    title: str | None
    line: int
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page shows as its output; None where it shows none."""

    line: int
    text: str
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    opened: tuple[str, str | None, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif opened is None:
            title = _TITLE.search(fence["rest"])
            opened, lines = (fence["language"], title and title["name"], number + 1), []
        else:
            yield Block(*opened, "\n".join(lines) + "\n")
            opened = None


def commands(block: Block) -> list[Command]:
    """The commands of a block of `console` or `sh`; those that end in a backslash or inside quotes continue."""
    found: list[Command] = []
    prompt = "$ " if block.language == "console" else ""
    text, start, output = "", 0, []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if text.endswith("\\"):
            text = text[:-1] + line.strip()
        elif text.count("'") % 2:
            text += " " + line.strip()
        elif line.startswith(prompt) and line.strip():
            if text:
                found.append(Command(start, text, "\n".join(output) + "\n" if prompt else None))
            text, start, output = line.removeprefix(prompt), number, []
        else:
            output.append(line)
    if text:
        found.append(Command(start, text, "\n".join(output) + "\n" if prompt else None))
    return found


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a command in a folder: the exit code and standard output. `lego-mlir` and `python FILE` run in here."""
    words = shlex.split(command, comments=True)
    words[0] = words[0].removeprefix(".venv/bin/")
    plain = not set("|<>&;") & set(re.sub(r"'[^']*'|\"[^\"]*\"", "", command.partition(" #")[0]))
    if plain and words[0] == "lego-mlir":
        return _inside(folder, lambda: _command_line(words[1:]))
    if plain and words[0] == "python" and words[1].endswith(".py"):
        return _inside(folder, lambda: _script(words[1:]))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail; {command}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        timeout=SECONDS,
    )  # fmt: skip
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def _inside(folder: Path, action) -> tuple[int, str]:
    shown = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()) as told:
        code = action()
    return code, shown.getvalue() + (told.getvalue() if code else "")


def _command_line(words: list[str]) -> int:
    from lego_mlir.cli.main import main

    return main(words)


def _script(words: list[str]) -> int:
    before, path, here = sys.argv, list(sys.path), Path.cwd()
    sys.argv, sys.path = words, [str(here), *sys.path]
    try:
        runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.argv, sys.path = before, path
        for name, module in list(sys.modules.items()):  # those of this folder: another page has others of their names
            if here in Path(getattr(module, "__file__", None) or "/").parents:
                del sys.modules[name]
    return 0


def differs(want: str, got: str) -> bool:
    """Whether an output is not what a page shows."""
    return not doctest.OutputChecker().check_output(want, got, FLAGS)
