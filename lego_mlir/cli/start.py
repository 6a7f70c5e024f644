"""Entry point of the `lego-mlir` program: from the first import on, SIGINT prints one line and exits with code 130.

Loading SymPy, Z3 and the MLIR bindings takes most of the first second. A KeyboardInterrupt in that time may propagate
to `main`; or be raised in a callback of the import machinery, where Python prints it and continues; or arrive during
shutdown. This module therefore imports only what Python itself has already loaded, or has built in.

A third of the time of a short command went to the cycle collector, which searched through the modules while they were
loaded and again at shutdown, and found nothing. Here it runs rarely, and not at all at the end.
"""

from __future__ import annotations

import gc
import os
import sys

from lego_mlir.cli import INTERRUPTED

# Objects made since the last collection, less those freed, before the collector runs: some 100 MB. Loading the
# libraries and compiling a kernel make fewer.
_COLLECT_AFTER = 500_000
_MESSAGE = b"lego-mlir: interrupted\n"


def main() -> int:
    """Run the command line as a program, and return its exit code."""
    gc.set_threshold(_COLLECT_AFTER, 10, 10)
    python = sys.unraisablehook
    try:
        sys.unraisablehook = lambda lost: _end() if isinstance(lost.exc_value, KeyboardInterrupt) else python(lost)
        from lego_mlir.cli.main import main as run

        code = run()
        gc.freeze()  # the process ends: what is left needs no search for cycles
        _ignore_from_now_on()
    except KeyboardInterrupt:
        _end()
    return code


def _end() -> None:
    """Exit at once: code that still runs would only report the interruption again."""
    if sys.stderr is not None:
        os.write(2, _MESSAGE)
    os._exit(INTERRUPTED)


def _ignore_from_now_on() -> None:
    """Ignore SIGINT once all output is written: only Python's shutdown remains."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
