"""`lego-mlir`: one command line, one module per command.

The registry below lists the commands. Only the module of the command in use is imported, so that `--help` is fast. A
command module has

    HELP: str                                    one sentence, the same as in the registry
    EXAMPLE: str                                 a command line that works
    add_arguments(parser) -> None
    run(args) -> int                             0 done, 1 the check failed; once for each spec, as args.spec, if
                                                 the arguments are those of `several.add_specs`
    finish(args) -> None                         optional: after all specs

Any LegoError that it raises becomes one message and exit code 2.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

from lego_mlir.cli import INTERRUPTED, watching
from lego_mlir.errors import CacheWarning, LegoError, RegisterWarning, did_you_mean

DONE: Final = 0
CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2
NOT_PROVED: Final = 3
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the registry."""

    name: str
    module: str
    help: str
    runs_spec: bool = True


COMMANDS: Final[dict[str, Command]] = {
    row.name: row
    for row in (
        Command("compile", "lego_mlir.cli.compile", "Compile the kernels of a spec to MLIR, PTX or a cubin."),
        Command(
            "check",
            "lego_mlir.cli.check",
            "Prove or refute the layouts, kernels and templates of a spec, or the kernels of a module.",
        ),
        Command("explain", "lego_mlir.cli.explain", "Show how each index expression of a spec was derived and proved."),
        Command("run", "lego_mlir.cli.run", "Run the kernels of a spec, and compare with its references."),
        Command(
            "sanitize",
            "lego_mlir.cli.sanitize",
            "Check a CUDA, Triton, PTX or MLIR kernel without a GPU: bounds, races, deadlocks, bank conflicts.",
            False,
        ),
        Command("render", "lego_mlir.cli.render", "Render a Triton or CUDA template with the layouts of a spec."),
        Command("analyze", "lego_mlir.cli.analyze", "Count bank conflicts and memory sectors, and suggest repairs."),
        Command("show", "lego_mlir.cli.show", "Draw layouts, accesses and the requests of a kernel's line."),
        Command("explore", "lego_mlir.cli.explore", "Edit layouts and accesses on a page in the browser."),
        Command(
            "tune", "lego_mlir.cli.tune", "Measure the configurations of a tunable kernel that no model rules out."
        ),
        Command("bench", "lego_mlir.cli.bench", "Time one configuration against the references and rivals of a spec."),
        Command("convert", "lego_mlir.cli.convert", "Convert a model file between the formats of engines.", False),
        Command(
            "new",
            "lego_mlir.cli.new",
            "Begin a spec from one that works: a layout, a transpose, a product, a reduction.",
            False,
        ),
        Command("pack", "lego_mlir.cli.pack", "Compile kernels into a folder for machines that only launch."),
        Command("cache", "lego_mlir.cli.cache", "Show the cache of compiled stages, trim it, or clear it.", False),
        Command(
            "doctor", "lego_mlir.cli.doctor", "Report what is installed, what is missing, and how to get it.", False
        ),
        Command("completion", "lego_mlir.cli.completion", "Print a completion script for bash, zsh or fish.", False),
    )
}

_SPEC_NOTE: Final = "A spec is a Python file, and it is executed: use only specs that you trust."


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that points to `--help`."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see: {self.prog} --help", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((a for a in arguments if not a.startswith("-")), None)
    try:
        _require_command(name)
        parser, loaded = parser_of(COMMANDS.keys() & {name})
        chosen = next(iter(loaded.values()), None)
        if chosen is not None:
            _set_defaults(chosen.parser, str(name))
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            used = parser if chosen is None else chosen.parser
            used.error(f"unrecognized arguments: {' '.join(unknown)}{_guess(unknown[0], used)}")
    except SystemExit as stop:
        return int(stop.code or 0)
    if chosen is None:
        parser.print_help()
        return DONE if not arguments else BAD_INPUT
    return _run(chosen.module, args, arguments)


def _set_defaults(parser: argparse.ArgumentParser, name: str) -> None:
    """Take the defaults of the project; a fault in them ends the program."""
    from lego_mlir.cli import configuration

    try:
        configuration.apply(parser, name, COMMANDS, Path.cwd())
    except LegoError as error:
        print(f"lego-mlir {name}: {error}", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from error


def _require_command(name: str | None) -> None:
    """Reject an unknown command with one line that suggests the closest one."""
    if name is not None and name not in COMMANDS:
        meant = did_you_mean(name, COMMANDS) or f"; the commands are {', '.join(COMMANDS)}"
        _Parser(prog="lego-mlir").error(f"unknown command {name!r}{meant}")


def _guess(unknown: str, parser: argparse.ArgumentParser) -> str:
    """The end of a message about an unknown option: the closest known one, or where the option belongs."""
    options = [option for action in parser._actions for option in action.option_strings]
    if unknown.partition("=")[0] in options:  # before the command
        return f"; give {unknown.partition('=')[0]} after the command"
    return did_you_mean(unknown.partition("=")[0], options) if unknown.startswith("-") else ""


@dataclass(frozen=True, slots=True)
class LoadedCommand:
    """A command whose module is imported, and its subparser."""

    module: ModuleType
    parser: argparse.ArgumentParser


def parser_of(names: Collection[str]) -> tuple[argparse.ArgumentParser, dict[str, LoadedCommand]]:
    """The parser, with the arguments of the named commands; the others have their name and help only."""
    parser = _Parser(
        prog="lego-mlir",
        description="Data layouts as proved bijections, compiled through MLIR to GPU kernels.",
        epilog=f"example: lego-mlir compile examples/transpose.py -o kernel.mlir\n\n{_SPEC_NOTE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lego-mlir {version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    loaded: dict[str, LoadedCommand] = {}
    for row in COMMANDS.values():
        if row.name not in names:
            commands.add_parser(row.name, help=row.help)
            continue
        module = importlib.import_module(row.module)
        command = commands.add_parser(
            row.name,
            help=row.help,
            description=f"{module.HELP}\n\n{_SPEC_NOTE}" if row.runs_spec else module.HELP,
            epilog=f"example: {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        if row.name in watching.COMMANDS:
            watching.add_argument(command)
        command.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
        loaded[row.name] = LoadedCommand(module, command)
    return parser, loaded


def version() -> str:
    """The version of this package."""
    try:
        return metadata.version("lego-mlir")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _run(module: ModuleType, args: argparse.Namespace, arguments: Sequence[str]) -> int:
    try:
        with _shown_warnings(args.command):
            code = _code(module, args, arguments)
        if sys.stdout is not None:  # None if the parent process closed it
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output, such as `head`, closed the pipe: stop without a message.
        _discard_output()
        return DONE
    except KeyboardInterrupt:
        return _interrupted(args)
    except Exception as error:
        if _ended_by_interruption(error):
            return _interrupted(args)
        if args.debug:
            raise
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            _discard_output()
        print(f"lego-mlir {args.command}: {_message(error)}", file=sys.stderr)
        return BAD_INPUT
    return code


def _code(module: ModuleType, args: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command: once, for each of its specs, or at every change of a file."""
    if getattr(args, "watch", False):
        return watching.watch(arguments, args)
    if hasattr(args, "specs"):
        from lego_mlir.cli import several  # which the command has loaded

        return several.run_each(module, args)
    code: int = module.run(args)
    return code


OUR_WARNINGS = (CacheWarning, RegisterWarning)


@contextmanager
def _shown_warnings(command: str) -> Iterator[None]:
    """Print each of our warnings as one line; leave other warnings to Python."""
    with warnings.catch_warnings():
        for ours in OUR_WARNINGS:
            warnings.simplefilter("default", ours)
        show_as_python = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, OUR_WARNINGS):
                print(f"lego-mlir {command}: warning: {message}", file=sys.stderr)
            else:
                show_as_python(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _interrupted(args: argparse.Namespace) -> int:
    print(f"lego-mlir {args.command}: interrupted", file=sys.stderr)
    return INTERRUPTED


def _ended_by_interruption(error: BaseException) -> bool:
    """Whether an interruption is among the causes: a library interrupted while loading reports an ImportError."""
    found, left = {id(error): error}, [error]  # causes and contexts can form a cycle
    while left:
        latest = left.pop()
        for cause in (latest.__cause__, latest.__context__):
            if cause is not None and id(cause) not in found:
                found[id(cause)] = cause
                left.append(cause)
    return any(isinstance(cause, KeyboardInterrupt) for cause in found.values())


def _message(error: Exception) -> str:
    """One message for any error; `--debug` shows the traceback."""
    if isinstance(error, LegoError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}; use smaller sizes"
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        place = error.filename or "standard output or a temporary file"
        return f"{place} cannot be written: {error.strerror}"
    return (
        f"internal error: {type(error).__name__}: {error}\n"
        "  this is a bug in lego-mlir; rerun with --debug for a traceback to report"
    )


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that neither we nor the interpreter's exit flush the buffer."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    raise SystemExit(main())
