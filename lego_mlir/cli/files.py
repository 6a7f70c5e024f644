"""Input and output of commands: outputs are replaced atomically, and errors name the file or folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.store import replace_file

if TYPE_CHECKING:
    from lego_mlir.spec import Spec

STANDARD: Final = "-"


def read_bytes(path: str) -> bytes:
    """The bytes of an input file, or of standard input for "-". Raises UsageError if it cannot be read."""
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


def read_text(path: str) -> str:
    """The text of an input file, or of standard input for "-". Raises UsageError if it is not UTF-8."""
    body = read_bytes(path)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: byte {body[error.start]:#04x} at {error.start}") from error


def load_spec(path: str) -> Spec:
    """The spec in a file, or on standard input for "-". Raises SpecError and UsageError."""
    from lego_mlir import spec

    return spec.load("<stdin>", read_bytes(path)) if path == STANDARD else spec.load(path)


def is_named(path: str | None) -> bool:
    """Whether an output is a regular file: not standard output, a device or a pipe, such as /dev/null."""
    return path is not None and path != STANDARD and (not Path(path).exists() or Path(path).is_file())


def emitted_by_suffix(output: str | None, stages: Mapping[str, str | None]) -> str | None:
    """The stage that an output's suffix selects. Raises UsageError for a suffix outside the table."""
    suffix = Path(output or "").suffix
    if suffix not in stages:
        known = ", ".join(s for s in stages if s)
        raise UsageError(
            f"-o {output}: no stage has the suffix {suffix}; the suffixes are {known}, or add --emit STAGE"
        )
    return stages[suffix]


def require_not_an_input(output: str | None, inputs: Mapping[str, str | None]) -> None:
    """Reject an output that would overwrite an input, also through another path or a link.

    `inputs` maps the role of each input ("spec", "template") to its path.
    """
    if output is None or not is_named(output) or not Path(output).exists():
        return
    for what, path in inputs.items():
        if path is not None and Path(path).exists() and Path(path).samefile(output):
            raise UsageError(f"-o {output} is the {what} itself; choose another output file")


def require_place(path: str, option: str = "-o") -> Path:
    """The path of an output file. Raises UsageError for a folder, and for a file in a folder that does not exist."""
    target = Path(path)
    if target.is_dir():
        raise UsageError(
            f"{path or 'the empty name'} is a folder; give the output file a name, such as {target / 'kernel.mlir'}"
        )
    if not target.parent.is_dir():
        raise UsageError(
            f"{path}: the folder {target.parent} does not exist; create it, or choose another with {option}"
        )
    return target


def write(path: str | None, body: bytes) -> None:
    """Write an output: to standard output for None and "-", otherwise to a file, which is replaced atomically.

    Raises UsageError, naming the folder, if that fails.
    """
    if path is None or path == STANDARD:
        if sys.stdout is None:
            raise UsageError("standard output is closed; give an output file with -o")
        sys.stdout.buffer.write(body)
        return
    target = require_place(path)
    try:
        if is_named(path):
            replace_file(target.resolve() if target.is_symlink() else target, body)
        else:
            target.write_bytes(body)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({os.strerror(error.errno or 0)}: {target.parent}); "
            "choose another folder with -o"
        ) from error
