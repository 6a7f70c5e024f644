"""Tables and colours: plain text to files and pipes, rich on a terminal, and `NO_COLOR`."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from lego_mlir.cli import terminal
from lego_mlir.cli.main import main
from lego_mlir.cli.terminal import ResultTable, is_styled, show

ROWS = [("t.py:12 read of x", 4, "2-way"), ("t.py:9 write of shared0", 128, "")]
PLAIN = """\
kernel copy
  access                   requests  conflict
  t.py:12 read of x               4     2-way
  t.py:9 write of shared0       128          
  remedy at line 9: Col(32, 32)
"""  # noqa: W291  columns are padded


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown():
    show("kernel copy", ResultTable(("access", "requests", "conflict"), ROWS), "  remedy at line 9: Col(32, 32)")


@pytest.fixture
def screen(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def drawn(screen, call, *args):
    with redirect_stdout(screen):
        result = call(*args)
    return result, screen.getvalue()


def test_what_is_no_terminal_gets_plain_text(capsys):
    shown()
    assert capsys.readouterr().out == PLAIN


def test_a_terminal_gets_a_table_and_colours(screen):
    pytest.importorskip("rich")
    _, text = drawn(screen, shown)
    assert "─" in text
    assert "\x1b[36m  remedy\x1b[0m at line 9: Col(32, 32)" in text
    assert all(str(cell) in text for row in ROWS for cell in row)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_variables_that_ask_for_plain_text(screen, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert drawn(screen, shown) == (None, PLAIN)


def test_without_rich_a_terminal_gets_plain_text(screen, monkeypatch):
    monkeypatch.setattr(terminal.util, "find_spec", lambda name: None)
    assert drawn(screen, shown) == (None, PLAIN)


def test_brackets_are_text_and_long_lines_are_not_wrapped(screen):
    pytest.importorskip("rich")
    line = f"  proved   [bold]x[i, 0][/bold]{', y' * 100}"
    assert drawn(screen, show, line)[1] == f"\x1b[32m  proved\x1b[0m{line.removeprefix('  proved')}\n"


def test_closed_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert not is_styled()
    show("nothing")


def test_json_is_never_styled(screen):
    code, text = drawn(screen, main, ["doctor", "--json"])
    assert code == 0
    assert "\x1b" not in text
    assert text.startswith("{\n")


def test_a_command_on_a_terminal(screen):
    pytest.importorskip("rich")
    code, text = drawn(screen, main, ["doctor"])
    assert code == 0
    assert "\x1b[32m  ok\x1b[0m       numpy" in text


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_a_real_terminal():
    pytest.importorskip("rich")
    above, below = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    code = "from lego_mlir.cli.terminal import show; show('  proved   x')"
    subprocess.run([sys.executable, "-c", code], stdout=below, env={**environment, "TERM": "xterm"}, check=True)
    assert b"\x1b[32m  proved" in os.read(above, 200)
    os.close(above)
    os.close(below)
