"""Where the `lego-mlir` program begins: an interruption is one line and exit code 130 from the first import on.

Loading SymPy, Z3 and the MLIR bindings takes most of the first second, and an interruption meets it in one of three
places: as an exception on its way here, inside a callback of the import machinery, where Python prints it and goes on,
or while Python shuts down. So this module imports nothing that Python has not loaded by itself.
"""

from __future__ import annotations

import os
import sys
from typing import Any

INTERRUPTED = 130  # 128 + SIGINT, what a shell expects
_MESSAGE = b"lego-mlir: interrupted\n"


def main() -> int:
    """Run the command line as a program of its own, and return its exit code."""
    python = sys.unraisablehook
    try:
        sys.unraisablehook = lambda lost: _end() if _is_interruption(lost.exc_value) else python(lost)
        from lego_mlir.cli.main import main as run

        code = run()
        _ignore_from_now_on()
    except KeyboardInterrupt:
        _end()
    return code


def _is_interruption(error: Any) -> bool:
    return isinstance(error, KeyboardInterrupt)


def _end() -> None:
    """End at once: whatever still runs would only report the interruption again."""
    if sys.stderr is not None:
        os.write(2, _MESSAGE)
    os._exit(INTERRUPTED)


def _ignore_from_now_on() -> None:
    """All output is written; what is left is Python's own exit."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
