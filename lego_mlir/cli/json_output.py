"""The object that `--json` prints: the version of its form, the command, and what that command found.

With several specs the objects are gathered, and printed as `results` of one object, in the order of the specs.

>>> print_json("cache", {"bytes": 12})
{
  "schema": 1,
  "command": "cache",
  "bytes": 12
}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

SCHEMA: Final = 1
"""Raised when a key of any command's object is renamed, removed or changes its meaning; new keys leave it."""

_gathered: list[Mapping[str, object]] | None = None


def print_json(command: str, found: Mapping[str, object]) -> None:
    """Print what a command found, or keep it for the object of all specs."""
    if _gathered is not None:
        _gathered.append(found)
    else:
        print(json.dumps({"schema": SCHEMA, "command": command, **found}, indent=2))


@contextmanager
def one_object(command: str) -> Iterator[None]:
    """Within this block, the objects that are printed become the `results` of one, which is printed at its end."""
    global _gathered
    gathered: list[Mapping[str, object]] = []
    _gathered = gathered
    try:
        yield
    finally:
        _gathered = None
        print_json(command, {"results": gathered})
