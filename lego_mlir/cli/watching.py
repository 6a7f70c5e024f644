"""`--watch`: run a command again whenever one of its files changes.

Each run is a process of its own, so that changed modules are read again. The files are those that the command line
names, and the Python files in the folders of its specs, from which a spec may import.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from lego_mlir.errors import UsageError

COMMANDS: Final = ("compile", "check", "explain", "run", "sanitize", "render", "analyze", "show")
OPTION: Final = "--watch"
PERIOD: Final = 0.3
_INPUTS: Final = ("spec", "specs", "transform", "input", "template", "file")


def add_argument(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument(OPTION, action="store_true", help="run again whenever a file of this command changes")


def watch(arguments: Sequence[str], args: argparse.Namespace) -> int:
    """Run the command line `arguments`, again at every change, until it is interrupted."""
    import subprocess

    if "-" in _inputs(args):
        raise UsageError(f"{OPTION} watches files, and - is standard input; give the name of a file")
    command = [sys.executable, "-m", "lego_mlir.cli", *(one for one in arguments if one != OPTION)]
    while True:
        before = times(watched(args))
        subprocess.run(command, check=False)
        print(f"lego-mlir {args.command}: watching {len(before)} files; Ctrl-C ends", file=sys.stderr)
        await_change(lambda: times(watched(args)), before)


def watched(args: argparse.Namespace) -> set[Path]:
    """The files of a command line, and the Python files beside its specs."""
    from lego_mlir.cli.several import expanded

    found = {path for name in expanded(_inputs(args)) if (path := Path(name)).is_file()}
    return found | {near for path in found if path.suffix == ".py" for near in path.parent.glob("*.py")}


def _inputs(args: argparse.Namespace) -> list[str]:
    given = (getattr(args, name, None) for name in _INPUTS)
    return [text for one in given if one for text in ([one] if isinstance(one, str) else one)]


def times(files: Iterable[Path]) -> Mapping[Path, int]:
    """When each file was written last; a file that is gone has 0."""
    return {file: file.stat().st_mtime_ns if file.exists() else 0 for file in files}


def await_change(
    now: Callable[[], Mapping[Path, int]], before: Mapping[Path, int], wait: Callable[[float], None] = time.sleep
) -> None:
    """Return once `now()` differs from `before`, and has settled for one period: editors write in several steps."""
    latest = before
    while latest == before:
        wait(PERIOD)
        latest = now()
    while True:
        wait(PERIOD)
        if (settled := now()) == latest:
            return
        latest = settled
