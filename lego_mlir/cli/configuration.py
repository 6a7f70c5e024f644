"""Defaults of a project: the tables `[tool.lego-mlir.COMMAND]` of the nearest pyproject.toml.

    [tool.lego-mlir.check]
    specs = ["kernels/*.py"]
    sarif = "check.sarif"

    [tool.lego-mlir.compile]
    target = "sm_90a"
    param = ["stages=3"]

A key is an option without its dashes, or the positional argument; a value is text, a number, true for a flag, or a list
for an option that may be repeated. What the command line gives replaces a default, or adds to it if the option may be
repeated. Options that decide what is trusted (`cache-dir`, `trust`) are for the command line only: the file comes with
the project, which may be a stranger's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lego_mlir.errors import UsageError, did_you_mean

FILE: Final = "pyproject.toml"
TABLE: Final = "lego-mlir"
_REFUSED: Final = frozenset({"cache_dir", "trust", "debug", "help"})


def nearest(folder: Path) -> Path | None:
    """The pyproject.toml of a folder, or of the closest one above it."""
    return next((found for one in (folder, *folder.parents) if (found := one / FILE).is_file()), None)


def apply(parser: argparse.ArgumentParser, command: str, known: Mapping[str, object], folder: Path) -> None:
    """Set the defaults of a command's parser. Raises UsageError with the file, the key and the remedy.

    `known` has the names of all commands.
    """
    path = nearest(folder)
    if path is None:
        return
    import tomllib

    try:
        tables = tomllib.loads(path.read_text()).get("tool", {}).get(TABLE, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as TOML: {error}") from error
    for name, table in tables.items():
        if name not in known or not isinstance(table, dict):
            meant = did_you_mean(name, known)
            raise UsageError(f"{path}: [tool.{TABLE}] has tables of commands only, not {name}{meant}")
    actions = {action.dest: action for action in parser._actions}
    for key, value in tables.get(command, {}).items():
        where = f"{path}: [tool.{TABLE}.{command}] {key}"
        action = actions.get(key.replace("-", "_")) or actions.get(_ALIASES.get(key, ""))
        if action is None:
            names = [dest.replace("_", "-") for dest in actions]
            raise UsageError(f"{where}: {command} has no such option{did_you_mean(key, names)}")
        if action.dest in _REFUSED:
            raise UsageError(f"{where}: this is for the command line only; remove it from the file")
        default = _value(action, value, where)
        parser.set_defaults(**{action.dest: default})
        if not action.option_strings:
            action.nargs, action.default = "*", default
        action.required = False


_ALIASES: Final = {"spec": "specs"}


def _value(action: argparse.Action, value: object, where: str) -> object:
    """The default that a value of TOML means for an action."""
    if isinstance(action, argparse._StoreTrueAction):
        if not isinstance(value, bool):
            raise UsageError(f"{where} = {value!r}: a flag is true or false")
        return value
    if isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*"):
        values = value if isinstance(value, list) else [value]
        return [_one(action, one, where) for one in values]
    return _one(action, value, where)


def _one(action: argparse.Action, value: object, where: str) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{where} = {value!r}: give text or a number")
    text = str(value)
    try:
        made = action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"{where} = {value!r}: {error}") from error
    if action.choices is not None and made not in action.choices:
        raise UsageError(f"{where} = {value!r}: the choices are {', '.join(map(str, _names(action)))}")
    return made


def _names(action: argparse.Action) -> Iterator[object]:
    yield from action.choices or ()
