"""Several specs in one call: a command runs for each, and an error in one does not keep the others from running.

`lego-mlir check kernels/*.py` works in any shell: a pattern that the shell left alone is expanded here. The exit code
is the worst: bad input, then a claim that is refuted, then by `--strict` one that is unknown. `--json` prints one
object with the `results` of all specs.
"""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Final

from lego_mlir.cli.json_output import one_object
from lego_mlir.cli.terminal import show
from lego_mlir.errors import LegoError, UsageError

_WORSE: Final = (0, 3, 1, 2)
"""Exit codes, each worse than the one before."""


def add_specs(parser: argparse.ArgumentParser, text: str) -> None:
    """The positional argument of a command that takes several specs; `text` says what each may be."""
    parser.add_argument(
        "specs", nargs="+", metavar="spec", help=f"{text}; several, and patterns such as 'kernels/*.py'"
    )


def expanded(names: Sequence[str]) -> list[str]:
    """The specs that names and patterns mean, each once, in their order. Raises UsageError for a pattern of no file."""
    found: dict[str, None] = {}
    for name in names:
        matches = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (absolute)
        if not matches and glob.has_magic(name):
            raise UsageError(f"{name}: no file has such a name; check the pattern and the folder")
        found.update(dict.fromkeys(matches or [name]))
    return list(found)


def run_each(command: ModuleType, args: argparse.Namespace) -> int:
    """Run a command for each of its specs, and return the worst exit code."""
    specs = expanded(args.specs)
    several, as_json = len(specs) > 1, getattr(args, "json", False)
    code = 0
    with one_object(args.command) if several and as_json else nullcontext():
        for spec in specs:
            args.spec = spec
            if several and not as_json:
                show(f"== {spec}")
            try:
                code = max(code, command.run(args), key=_WORSE.index)
            except LegoError as error:
                if not several or args.debug:
                    raise
                print(f"lego-mlir {args.command}: {error}", file=sys.stderr)
                code = _WORSE[-1]
    if hasattr(command, "finish"):
        command.finish(args)
    return code
