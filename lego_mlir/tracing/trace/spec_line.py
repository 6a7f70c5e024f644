"""Lines of users' files, which messages and modules name."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's spec."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


OUR_PACKAGES = (
    *(f"lego_mlir.{room}." for room in ("tracing", "expr", "layout", "f2", "engine", "schedule", "runtime", "formats")),
    "sympy.",
    "contextlib",
)
"""Modules whose lines are not the user's: those that trace, and those that call them back."""


def line_in(error: BaseException) -> Source | None:
    """The innermost line of a spec in an error's traceback."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(OUR_PACKAGES):
            found = Source(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def user_line() -> Source | None:
    """The innermost line on the stack of a spec, outside the modules that trace."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(OUR_PACKAGES):
            return Source(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
