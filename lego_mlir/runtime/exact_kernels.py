"""Kernels for exactly one size, compiled in the background after some calls, and taken when they are ready.

    a call ── kernel for all sizes ── after `CALLS` calls of a size: another process compiles the exact kernel
        └─ from then on, at every `LOOKED_AT`th call: is it on disk? ── yes: arrays like these are bound to it

`matmul` has kernels of classes, which take all sizes of a tile, `attention` those of a form; one for a size has its
bounds as constants, and in products the tile that is best for it. Later processes find the exact kernel on disk, and
begin with it. Sums may be in another order, so nothing is replaced while PyTorch's deterministic algorithms are on.

One process compiles at a time, at low priority, and at most `MOST` kernels for a program. The environment variable
LEGO_MLIR_EXACT=0 turns this off. The compiling process is this module, run with the problem as its input.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

SWITCH: Final = "LEGO_MLIR_EXACT"
"""The environment variable that turns this off, with the value 0."""
CALLS: Final = 16
LOOKED_AT: Final = 64
MOST: Final = 32
PRIORITY: Final = 10
"""Of the compiling process, less urgent than others."""


def is_on() -> bool:
    """Whether exact kernels are compiled in the background: where this process is Python, and it is not turned off."""
    return os.environ.get(SWITCH) != "0" and Path(sys.executable or "").name.startswith("python")


class ExactProblem(NamedTuple):
    """A problem, and the function of a module that compiles its kernel and keeps it on disk: both can be pickled."""

    compile: Callable[[Any], None]
    problem: Hashable


@dataclass(slots=True)
class ExactKernel:
    """The exact kernel of a problem, which a general one computes meanwhile; `replace` binds its arrays anew."""

    problem: ExactProblem
    replace: Callable[[], None]
    calls: int = 0
    wanted: bool = field(default=False)

    def called(self) -> None:
        """Count a call of the general kernel; ask for the exact one, or take it."""
        self.calls += 1
        if self.calls < CALLS or (self.calls - CALLS) % LOOKED_AT or _is_deterministic():
            return
        if not self.wanted:
            self.wanted = True
            _queue.add(self.problem)
        elif _queue.has_made(self.problem):
            self.replace()


class _Queue:
    """The problems whose kernels are to be compiled, the process that compiles one, and those that are done."""

    def __init__(self) -> None:
        self.waiting: deque[ExactProblem] = deque()
        self.running: tuple[ExactProblem, subprocess.Popen[bytes]] | None = None
        self.made: set[ExactProblem] = set()
        self.count = 0
        self._changing = threading.Lock()

    def add(self, problem: ExactProblem) -> None:
        """Compile a kernel, after those before it; at most MOST of them."""
        with self._changing:
            if self.count < MOST and is_on():
                self.count += 1
                self.waiting.append(problem)
            self._advance()

    def has_made(self, problem: ExactProblem) -> bool:
        """Whether a kernel is on disk."""
        with self._changing:
            self._advance()
            return problem in self.made

    def _advance(self) -> None:
        if self.running is not None:
            problem, process = self.running
            if process.poll() is None:
                return
            self.running = None
            if process.returncode == 0:
                self.made.add(problem)
        if self.waiting:
            problem = self.waiting.popleft()
            with suppress(OSError):  # without another process, the general kernel goes on
                self.running = problem, _compiling(problem)


_queue: Final = _Queue()


def _compiling(problem: ExactProblem) -> subprocess.Popen[bytes]:
    """The process that compiles a kernel; its input is small enough for a pipe."""
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path, SWITCH: "0"},
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(problem))
    process.stdin.close()
    return process


def _is_deterministic() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.are_deterministic_algorithms_enabled())


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(PRIORITY)
    wanted = pickle.loads(sys.stdin.buffer.read())  # of the parent
    wanted.compile(wanted.problem)
