"""Progress on standard error, for operations that take over a second.

On a terminal, one line is rewritten in place; elsewhere (a log), a plain line is printed every few seconds. Operations
under one second print nothing.

    with Progress("compiling transpose") as progress:
        for stage in stages:
            progress.update(stage.name)
    with Progress("running blocks") as progress:
        for done in range(blocks):
            progress.update(done=done, total=blocks)
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, Self, TextIO

from lego_mlir.cli.terminal import show

SILENT_SECONDS: Final = 1.0
TERMINAL_PERIOD: Final = 0.2
LOG_PERIOD: Final = 5.0
_BAR: Final = 24


class Progress:
    """The current step, the elapsed time and the completed part, displayed by a thread until the block exits."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self.what = what
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._state: tuple[str, int, int | None] = ("", 0, None)
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._lock = threading.Lock()
        self._shown = False

    def update(self, text: str = "", *, done: int = 0, total: int | None = None) -> None:
        """Set the current step, or how many of `total` items are done."""
        self._state = (text, done, total)

    def print(self, text: str) -> None:
        """Clear the progress line and print a result on standard output."""
        with self._lock:
            self._clear()
            show(text)
            if self._shown and sys.stdout is not None:
                sys.stdout.flush()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._clear()

    def _clear(self) -> None:
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self) -> None:
        wait = SILENT_SECONDS
        while not self._over.wait(wait):
            line = self.line()
            with self._lock:
                self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
                self._stream.flush()
                self._shown = True
            wait = TERMINAL_PERIOD if self._terminal else LOG_PERIOD

    def line(self) -> str:
        """The text to display: `running blocks [######      ] 64/256 (2 s)`."""
        text, done, total = self._state
        seconds = f"({time.monotonic() - self._began:.0f} s)"
        if total:
            filled = _BAR * done // total
            return f"{self.what} [{'#' * filled}{' ' * (_BAR - filled)}] {done}/{total} {text} {seconds}".replace(
                "  (", " ("
            )
        return f"{self.what}: {text} {seconds}" if text else f"{self.what} {seconds}"
