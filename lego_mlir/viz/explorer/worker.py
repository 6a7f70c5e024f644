"""Answers from a process that is stopped when one takes too long: an expression can be simplified without end.

The process reads a question a line and writes an answer a line, as JSON. A question that exceeds the limit ends it; the
next one starts another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO, Final

from lego_mlir.aliases import Json

SECONDS: Final = 10.0
READY: Final = "ready\n"


class Worker:
    """One process for answers, used by one thread at a time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process now, so that the first answer does not wait for it."""
        with self._lock:
            self._started()

    def ask(self, question: Json) -> Json:
        """The answer, or an error that names the limit."""
        with self._lock:
            process = self._started()
            if process is None:
                return {"error": "the process for answers did not start"}
            late = threading.Event()

            def stop() -> None:
                late.set()
                process.kill()

            timer = threading.Timer(self.seconds, stop)
            timer.start()
            try:
                line = _exchange(process, json.dumps(question))
            finally:
                timer.cancel()
            if line:
                found: Json = json.loads(line)
                return found
            self.close()
            limit = f"no answer within {self.seconds:g} seconds; try a smaller layout, or one of fewer curves"
            return {"error": limit if late.is_set() else "the process for answers ended; try another layout"}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _started(self) -> subprocess.Popen[str] | None:
        """The process, ready for a question: loading its modules does not count against the limit."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lego_mlir.viz.explorer.worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            )  # fmt: skip
            assert self._process.stdout is not None
            if self._process.stdout.readline() != READY:
                self.close()
        return self._process


def _exchange(process: subprocess.Popen[str], question: str) -> str:
    """One line each way; empty if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(question + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except (BrokenPipeError, ValueError):
        return ""


def serve(questions: IO[str], answers: IO[str]) -> None:
    """Answer every line until the questions end."""
    from lego_mlir.viz.explorer.answers import answer

    answers.write(READY)
    answers.flush()
    for line in questions:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
