"""Stop a kernel's Python function that never ends.

A kernel is traced by running its function, so `while condition:` over Python values may run forever without tracing
anything. Counting its steps would need `sys.settrace`, which slows all of tracing. Instead a second thread samples the
function once a second. If it traces nothing, and runs the user's code rather than a proof or a layout, for PATIENCE
samples, an exception is raised inside it, at its line. Statements have a separate budget in `tracing.trace.tracer`; the
clock only stops a function that would not end otherwise.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final

PATIENCE: Final = 20
"""The number of consecutive samples, one a second, without a traced statement."""
WORKING: Final = ("lego_mlir.tracing.", "lego_mlir.layout.", "lego_mlir.expr.prove", "lego_mlir.expr.simplify")
"""Modules that may run long without tracing a statement, such as the prover."""


class EndlessError(BaseException):
    """Raised inside a function that does not end; `except Exception` does not catch it."""


class IdleWatch:
    """Idle samples of the function with this code; `progress` counts its statements."""

    def __init__(self, code: CodeType, progress: Callable[[], int]) -> None:
        self.code, self.progress = code, progress
        self.idle, self.before = 0, progress()

    def look(self, frame: FrameType | None) -> bool:
        """Sample its thread's innermost frame. True after PATIENCE consecutive idle samples."""
        now = self.progress()
        self.idle = self.idle + 1 if now == self.before and self._in_users_code(frame) else 0
        self.before = now
        return self.idle >= PATIENCE

    def _in_users_code(self, frame: FrameType | None) -> bool:
        """Whether this frame is in the function, outside the modules of WORKING."""
        while frame is not None:
            if frame.f_code is self.code:
                return True
            if frame.f_globals.get("__name__", "").startswith(WORKING):
                return False
            frame = frame.f_back
        return False


@contextmanager
def stopped_if_endless(progress: Callable[[], int], code: CodeType, interval: float = 1.0) -> Iterator[None]:
    """Raise EndlessError in the function with this code if `progress` does not increase."""
    watch, thread, done = IdleWatch(code, progress), threading.get_ident(), threading.Event()

    def look() -> None:
        while not done.wait(interval):
            if watch.look(sys._current_frames().get(thread)):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(EndlessError))
                return

    watcher = threading.Thread(target=look, name="lego: endless?", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
