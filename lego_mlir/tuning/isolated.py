"""A process for each candidate: a crash, a hang or a wild store ends that process, and costs that candidate only.

The processes of a heat open their trials at the same time, and are idle while another one has its turn: on a GPU only
one context is busy at a time. A process that does not answer in time is killed. One whose trial ended well may open
the next trial: no two trials are open in it at the same time.

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
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from lego_mlir.tuning.child import receive, send
from lego_mlir.tuning.measuring import Failure, Trial

START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from lego_mlir.tuning import child; child.main()"
)
LIVE: Final = 6
"""Processes at a time. The driver opens contexts one after the other, on all GPUs of a machine: with 8 a GPU, 40 races
took 29.7 s on one GPU and 20.6 s on two, with 6 they took 31.6 s and 17.1 s (docs/how-to/tuning-measuring.md)."""
LAST_WORDS: Final = 300  # characters of what a process wrote before it crashed


class ChildProcess:
    """A process that opens trials, one after the other, and the messages to it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps([str(folder) for folder in sys.path])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words, env={**os.environ, **environment},
        )  # fmt: skip
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, message: object) -> None:
        """Send a trial or a number of samples."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # the process is gone: the answer is its exit code
            send(self.process.stdin, message)

    def answer(self, patience: float, left: float) -> tuple[Any, ...]:
        """What the process answers; a time-out or a crash in the form of an answer."""
        try:
            answer = self._answers.get(timeout=max(left, 0.01))
        except queue.Empty:
            return "timed out", f"no answer within {patience:g} s"
        return self._crashed() if answer is None else tuple(answer)

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # of what was still to be written to a process that is gone
                assert stream is not None
                stream.close()
        self.words.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while True:
            try:
                self._answers.put(receive(self.process.stdout))
            except (EOFError, OSError, ValueError):  # the process has ended, or `close` was called
                self._answers.put(None)
                return

    def _crashed(self) -> tuple[str, str]:
        code = self.process.wait()
        name = f" ({signal.Signals(-code).name})" if code < 0 else ""
        self.words.seek(0)
        said = self.words.read().decode(errors="replace").strip()[-LAST_WORDS:]
        last = said.splitlines()[-1] if said else ""
        return "crashed", f"exit code {code}{name}{f': {last}' if last else ''}"


@dataclass
class IsolatedBench:
    """Trials in processes of this machine. `patience` is in seconds, for opening with its check and for each turn.

    With `kept`, a process whose trial was closed without a failure opens the next one: it has imported what it needs,
    and has a context on its device. Such processes end with the bench.
    """

    live: int = LIVE
    patience: float = 60.0
    environment: dict[str, str] = field(default_factory=dict)
    kept: bool = False
    began: float = field(default_factory=time.monotonic, init=False)
    idle: list[ChildProcess] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        weakref.finalize(self, _close_all, self.idle)

    def start(self, trial: Trial) -> IsolatedContender:
        """Start a process that opens the trial, or take one that has ended its last trial well."""
        process = self.idle.pop() if self.idle else ChildProcess(self.environment)
        return IsolatedContender(trial, self.patience, process, self.idle.append if self.kept else ChildProcess.close)

    def seconds(self) -> float:
        """The time since the bench was made."""
        return time.monotonic() - self.began


def _close_all(processes: list[ChildProcess]) -> None:
    while processes:
        processes.pop().close()


class IsolatedContender:
    """A trial in a process. After a failure the process is gone, and every method returns that failure."""

    failure: Failure | None

    def __init__(
        self, trial: Trial, patience: float, child: ChildProcess, ended: Callable[[ChildProcess], None]
    ) -> None:
        self.patience, self.failure, self.child = patience, None, child
        self._opened, self._ended = False, ended
        self._asked_at = time.monotonic()
        child.send(trial)

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
        self.child.send(count)
        answer = self._answer()
        if isinstance(answer[0], str):
            self._fail(Failure(*answer))
        return answer if self.failure is None else self.failure

    def close(self) -> None:
        """End the process, or keep it for the next trial if this one was opened and did not fail."""
        if self._opened and self.failure is None:
            self._ended(self.child)
        else:
            self.child.close()

    def _answer(self) -> tuple[Any, ...]:
        return self.child.answer(self.patience, self.patience - (time.monotonic() - self._asked_at))

    def _fail(self, failure: Failure) -> None:
        self.failure = failure
        self.child.kill()
