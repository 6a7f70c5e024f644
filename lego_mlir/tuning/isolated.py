"""A process for each candidate: a crash, a hang or a wild store ends that process, and costs that candidate only.

The processes of a heat open their trials at the same time, and are idle while another one has its turn: on a GPU only
one context is busy at a time. A process that does not answer in time is killed.

    race ── start(trial) ──► process ── open, check ──► ready()
      └──── sample(5) ─────► launches ────────────────► 5 times   (in turns with the other processes)
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from lego_mlir.tuning.child import receive, send
from lego_mlir.tuning.measuring import Failure, Trial

START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from lego_mlir.tuning import child; child.main()"
)
LAST_WORDS: Final = 300  # characters of what a process wrote before it crashed


@dataclass
class IsolatedBench:
    """Trials in processes of this machine. `patience` is in seconds, for opening with its check and for each turn."""

    live: int = 8
    patience: float = 60.0
    environment: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic, init=False)

    def start(self, trial: Trial) -> IsolatedContender:
        """Start a process that opens the trial."""
        return IsolatedContender(trial, self.patience, self.environment)

    def seconds(self) -> float:
        """The time since the bench was made."""
        return time.monotonic() - self.began


class IsolatedContender:
    """One process. After a failure it is gone, and every method returns that failure."""

    def __init__(self, trial: Trial, patience: float, environment: dict[str, str]) -> None:
        self.patience, self.failure = patience, None
        self._opened = False
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps([str(folder) for folder in sys.path])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, env={**os.environ, **environment},
        )  # fmt: skip
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._asked_at = time.monotonic()
        self._send(trial)

    failure: Failure | None

    def ready(self) -> Failure | None:
        """Wait until the trial is open and checked, at most `patience` seconds since the start."""
        if not self._opened and self.failure is None:
            match self._answer():
                case ("open", _):
                    self._opened = True
                case (kind, reason):
                    self._fail(Failure(kind, reason))
        return self.failure

    def sample(self, count: int) -> tuple[float, ...] | Failure:
        """The seconds of `count` launches."""
        if (failure := self.ready()) is not None:
            return failure
        self._asked_at = time.monotonic()
        self._send(count)
        answer = self._answer()
        if isinstance(answer[0], str):
            self._fail(Failure(*answer))
        return answer if self.failure is None else self.failure

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # of what was still to be written to a process that is gone
                assert stream is not None
                stream.close()
        self._words.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while True:
            try:
                self._answers.put(receive(self._process.stdout))
            except (EOFError, OSError, ValueError):  # the process has ended, or `close` was called
                self._answers.put(None)
                return

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the process is gone: the answer is its exit code
            send(self._process.stdin, message)

    def _answer(self) -> tuple[Any, ...]:
        """What the process answers; a time-out or a crash in the form of an answer."""
        left = self.patience - (time.monotonic() - self._asked_at)
        try:
            answer = self._answers.get(timeout=max(left, 0.01))
        except queue.Empty:
            return "timed out", f"no answer within {self.patience:g} s"
        return self._crashed() if answer is None else tuple(answer)

    def _crashed(self) -> tuple[str, str]:
        code = self._process.wait()
        name = f" ({signal.Signals(-code).name})" if code < 0 else ""
        self._words.seek(0)
        said = self._words.read().decode(errors="replace").strip()[-LAST_WORDS:]
        last = said.splitlines()[-1] if said else ""
        return "crashed", f"exit code {code}{name}{f': {last}' if last else ''}"

    def _fail(self, failure: Failure) -> None:
        self.failure = failure
        self._process.kill()
