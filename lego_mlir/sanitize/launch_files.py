"""Many launches in one TOML file: kernels, extents and arguments; arrays may go from one launch to the next.

    [[launch]]
    file = "kernels.cu"
    entry = "saxpy"
    grid = 64
    block = 256
    args = { x = "f32[16384]:normal", y = "f32[16384]:normal", a = 2.0, n = 16384 }

    [[launch]]
    file = "kernels.cu"
    entry = "sum"
    grid = 64
    block = 256
    args = { y = "@y", out = "f32[1]:zeros", n = 16384 }

`@y` is the argument y of the last launch before that has one. Paths are relative to the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.errors import UsageError, did_you_mean

KEYS: Final = ("file", "entry", "grid", "block", "cluster", "shared", "args")


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A launch by text: arguments by name, in the order of the kernel's parameters."""

    file: Path
    grid: Sequence[int]
    block: Sequence[int] | None
    entry: str | None = None
    cluster: Sequence[int] | None = None
    shared: int = 0
    arguments: Mapping[str, str] = field(default_factory=dict)


def read_launches(path: Path) -> list[LaunchRequest]:
    """The launches of a file. Raises UsageError with what is wrong and where."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    launches = document.get("launch", [])
    if not launches:
        raise UsageError(f"{path}: there is no [[launch]]")
    return [_request(path, number, row) for number, row in enumerate(launches, 1)]


def _request(path: Path, number: int, row: Json) -> LaunchRequest:
    where = f"{path}, launch {number}"
    for key in row:
        if key not in KEYS:
            raise UsageError(f"{where}: no key {key}{did_you_mean(key, KEYS)}; there are {', '.join(KEYS)}")
    for key in ("file", "grid"):
        if key not in row:
            raise UsageError(f"{where}: {key} is missing")
    return LaunchRequest(
        path.parent / row["file"], _extents(row["grid"]), _extents(row["block"]) if "block" in row else None,
        row.get("entry"), _extents(row["cluster"]) if "cluster" in row else None, int(row.get("shared", 0)),
        {name: str(value) for name, value in row.get("args", {}).items()},
    )  # fmt: skip


def _extents(given: int | Sequence[int]) -> Sequence[int]:
    return [given] if isinstance(given, int) else list(given)
