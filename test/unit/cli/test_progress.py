"""Progress: silent for the first second, one line rewritten on a terminal, plain lines in a log."""

import io
import time

import pytest

from lego_mlir.cli import progress
from lego_mlir.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def _fast(monkeypatch):
    for name in ("SILENT_SECONDS", "TERMINAL_PERIOD", "LOG_PERIOD"):
        monkeypatch.setattr(progress, name, 0.01)


def run(stream, seconds):
    with Progress("compiling", stream) as shown:
        shown.update("ptx")
        time.sleep(seconds)
    return stream.getvalue()


def test_what_is_quick_says_nothing():
    assert run(Terminal(), 0) == ""


@pytest.mark.usefixtures("_fast")
def test_a_terminal_s_line_is_rewritten_and_removed():
    text = run(Terminal(), 0.2)
    assert text.startswith("\r\x1b[Kcompiling: ptx (0 s)")
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


@pytest.mark.usefixtures("_fast")
def test_a_log_gets_plain_lines():
    text = run(io.StringIO(), 0.2)
    assert text.startswith("compiling: ptx (0 s)\n")
    assert "\x1b" not in text


@pytest.mark.usefixtures("_fast")
def test_results_take_the_place_of_the_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "TERMINAL_PERIOD", 60)
    stream = Terminal()
    with Progress("checking", stream) as shown:
        time.sleep(0.2)
        shown.print("  proved")
        assert stream.getvalue() == "\r\x1b[Kchecking (0 s)\r\x1b[K"
    assert capsys.readouterr().out == "  proved\n"


def test_the_bar():
    shown = Progress("running blocks", io.StringIO())
    shown.update(done=6, total=24)
    assert shown.line() == "running blocks [######                  ] 6/24 (0 s)"
    shown.update("warm", done=24, total=24)
    assert shown.line() == f"running blocks [{'#' * 24}] 24/24 warm (0 s)"


@pytest.mark.usefixtures("_fast")
def test_an_exception_passes_and_ends_the_line():
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Progress("dividing", stream):
        time.sleep(0.1)
        _ = 1 / 0
    assert stream.getvalue().endswith("\r\x1b[K")
