"""Input and output of commands: files that are replaced whole or left as they were, and messages that name them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.toolchain.cache import replace_file

STANDARD: Final = "-"


def read_bytes(path: str) -> bytes:
    """The bytes of an input file, or of standard input for "-". Raises UsageError where it cannot be read."""
    if path == STANDARD:
        if sys.stdin is None:
            raise UsageError("standard input is closed; give the name of a file")
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def is_named(path: str | None) -> bool:
    """Whether an output is a file of that name: not standard output, and no device or pipe, such as /dev/null."""
    return path is not None and path != STANDARD and (not Path(path).exists() or Path(path).is_file())


def write(path: str | None, body: bytes) -> None:
    """Write an output: to standard output for None and "-", else to a file that is replaced whole or left as it was.

    Raises UsageError, naming the folder, where that is impossible.
    """
    if path is None or path == STANDARD:
        if sys.stdout is None:
            raise UsageError("standard output is closed; give an output file with -o")
        sys.stdout.buffer.write(body)
        return
    target = Path(path)
    if target.is_dir():
        raise UsageError(
            f"{path or 'the empty name'} is a folder; give the output file a name, such as {target / 'kernel.mlir'}"
        )
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no folder {folder}; make it first, or choose another with -o")
    try:
        if is_named(path):
            replace_file(target.resolve() if target.is_symlink() else target, body)
        else:
            target.write_bytes(body)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({os.strerror(error.errno or 0)}: {folder}); choose another folder with -o"
        ) from error
