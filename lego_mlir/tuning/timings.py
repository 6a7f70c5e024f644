"""Timings remembered in a file: one line of JSON each, only ever appended, by any number of processes.

    {"schema": 2, "tunable": "transpose", "configuration": {"tile": 32}, "sizes": {"M": 4096}, "kernel": "5f0c..",
     "toolchain": "9a1b..", "device": {"name": "NVIDIA H200", "multiprocessors": 132, "driver": "CUDA 13.0"},
     "us": 41.2, "quartiles": [41.0, 41.6], "repetitions": 160, "when": "2026-11-22T14:00:00+00:00", "failure": ""}

A writer holds a lock while it appends. A line that a crash has cut short is ended by the next writer, and skipped by
readers, who take no lock. `kernel` is the digest of the built text and `toolchain` that of the compiler: a timing whose
digests are not those of today is stale, and is left out where digests are given. Lines of version 1, which had
milliseconds and the device's name alone, are read as well; those of later versions are kept, and not read.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lego_mlir.aliases import Foreign, Json
from lego_mlir.errors import CacheError, DependencyError, UsageError
from lego_mlir.store import default_folder, from_json, make_kept, replace_file
from lego_mlir.tuning.candidates import Configuration, Timing

SCHEMA: Final = 2
FILE: Final = "timings.jsonl"
PACKED: Final = ".timings.jsonl"  # beside a kernel's code in a folder of packed kernels
LOCK_SECONDS: Final = 60.0


def default_path() -> Path:
    """The store of this user, in the folder of the compilation cache."""
    return default_folder() / FILE


class TimingStore:
    """A file of timings. It need not exist yet."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)

    def __repr__(self) -> str:
        return f"TimingStore({str(self.path)!r})"

    def add(self, timings: Iterable[Timing]) -> None:
        """Append timings. Raises CacheError where the file cannot be written."""
        self._append([to_line(timing) for timing in timings])

    def timings(
        self,
        *,
        tunable: str | None = None,
        kernels: Collection[str] | None = None,
        toolchain: str | None = None,
        device: str | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> list[Timing]:
        """The timings with these values, in the order of the file. With `kernels` and `toolchain`, none is stale."""
        wanted = None if sizes is None else dict(sizes)
        return [
            timing
            for timing in self
            if (tunable is None or timing.tunable == tunable)
            and (kernels is None or timing.kernel in kernels)
            and (toolchain is None or timing.toolchain == toolchain)
            and (device is None or timing.device == device)
            and (wanted is None or dict(timing.sizes) == wanted)
        ]

    def stale(self, kernels: Collection[str], toolchain: str | None = None) -> list[Timing]:
        """The timings of other code: their digest is not among `kernels`, or that of their toolchain is another."""
        return [t for t in self if t.kernel not in kernels or toolchain not in (None, t.toolchain)]

    def drop_stale(self, tunable: str, kernels: Collection[str], toolchain: str | None = None) -> int:
        """Rewrite the file without the stale timings of one tunable; how many there were."""
        stale = {to_line(t) for t in self.stale(kernels, toolchain) if t.tunable == tunable}
        with self._locked():
            lines = self._lines()
            kept = [line for line in lines if (t := from_line(line)) is None or to_line(t) not in stale]
            replace_file(self.path, b"".join(line + b"\n" for line in kept))
        return len(lines) - len(kept)

    def __iter__(self) -> Iterator[Timing]:
        return (timing for timing in map(from_line, self._lines()) if timing is not None)

    def unread(self) -> int:
        """How many lines are not read: cut short by a crash, or of a later version."""
        return sum(from_line(line) is None for line in self._lines())

    def merge(self, other: str | Path | TimingStore) -> int:
        """Append the timings of another store that are not here; how many. Lines of later versions come along."""
        source = other if isinstance(other, TimingStore) else TimingStore(other)
        if not source.path.is_file():
            raise UsageError(f"{source.path}: no timings there to merge")
        here, new = set(map(_canonical, self._lines())), {}
        for line in source._lines():
            text = _canonical(line)
            if text is not None and text not in here:
                new[text] = line
        self._append([line.decode() for line in new.values()])
        return len(new)

    def export(self, folder: str | Path, name: str, kernels: Collection[str] | None = None) -> Path:
        """Write the timings of a tunable beside its packed kernel, `NAME.timings.jsonl`; the file.

        `kernels` are the digests that are exported, by default all. Raises UsageError where there is none.
        """
        chosen = self.timings(tunable=name, kernels=kernels)
        if not chosen:
            raise UsageError(f"{self.path} has no timings of {name} to export; tune it first")
        path = Path(folder) / f"{name}{PACKED}"
        path.parent.mkdir(parents=True, exist_ok=True)
        TimingStore(path).add(chosen)
        return path

    def import_pack(self, folder: str | Path) -> int:
        """Append the timings beside the kernels of a folder; how many are new. Raises UsageError without any."""
        files = sorted(Path(folder).glob(f"*{PACKED}"))
        if not files:
            raise UsageError(f"{folder}: no *{PACKED} beside the kernels; export them with the kernels")
        return sum(self.merge(file) for file in files)

    def records(self) -> list[Json]:
        """Flat rows for tables: `tile` of a configuration is `config.tile`, a size is `size.M`."""
        return [record_of(timing) for timing in self]

    def _lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().split(b"\n") if line.strip()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CacheError(
                f"{self.path}: the timings cannot be read ({error.strerror}); choose another file"
            ) from None

    def _append(self, lines: list[str]) -> None:
        """Append whole lines in one write, under the lock; a line that a crash cut short is ended first."""
        if not lines:
            return
        body = "".join(f"{line}\n" for line in lines).encode()
        try:
            make_kept(self.path.parent)
            with self._locked(), self.path.open("a+b") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    body = body if file.read(1) == b"\n" else b"\n" + body
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or str(error)
            raise CacheError(f"{self.path}: timings cannot be written ({reason}); choose another file") from error

    def _locked(self) -> Foreign:
        filelock = _filelock()
        try:
            return filelock.FileLock(f"{self.path}.lock", timeout=LOCK_SECONDS).acquire()
        except filelock.Timeout as error:
            raise CacheError(
                f"{self.path}: another process has held its lock for {LOCK_SECONDS:g} s; end it, or choose another file"
            ) from error


def _filelock() -> Foreign:
    try:
        import filelock
    except ImportError as error:
        raise DependencyError("filelock is needed to write timings; run: pip install filelock") from error
    return filelock


def to_line(timing: Timing) -> str:
    """The line of a timing, of the newest version."""
    measured = math.isfinite(timing.median)
    return json.dumps(
        {
            "schema": SCHEMA, "tunable": timing.tunable, "configuration": timing.configuration.to_data(),
            "sizes": dict(timing.sizes), "kernel": timing.kernel, "toolchain": timing.toolchain,
            "device": {
                "name": timing.device, "multiprocessors": timing.multiprocessors, "driver": timing.driver,
            },
            "us": timing.median if measured else None, "quartiles": list(timing.quartiles) if measured else None,
            "repetitions": timing.repetitions, "when": timing.when, "failure": timing.failure,
        }
    )  # fmt: skip


def from_line(line: bytes) -> Timing | None:
    """The timing of a line; None for a torn one, or one of a later version."""
    try:
        data = from_json(line)
        match data["schema"]:
            case 1:
                return _version_1(data)
            case 2:
                return _version_2(data)
    except (ValueError, KeyError, TypeError, AttributeError):  # cut short, or not of a store
        return None
    return None


def _version_2(data: Json) -> Timing:
    device, quartiles = data["device"], data["quartiles"] or (math.inf, math.inf)
    return Timing(
        data["tunable"], Configuration.from_data(data["configuration"]), dict(data["sizes"]), data["kernel"],
        data["toolchain"], device["name"], device["multiprocessors"], device["driver"],
        math.inf if data["us"] is None else data["us"], (quartiles[0], quartiles[1]), data["repetitions"], data["when"],
        data["failure"],
    )  # fmt: skip


def _version_1(data: Json) -> Timing:
    """Version 1 had milliseconds, and neither the SM count nor the toolchain: those timings are stale everywhere."""
    device = {"name": data["device"], "multiprocessors": 0, "driver": ""}
    found = _version_2(
        {"failure": "", "quartiles": None, **data, "device": device, "toolchain": "", "us": data["ms"]}
    )  # fmt: skip
    low, high = found.quartiles
    return replace(found, median=1000 * found.median, quartiles=(1000 * low, 1000 * high))


def _canonical(line: bytes) -> str | None:
    """A text that is equal for equal lines of JSON; None for a torn one."""
    try:
        return json.dumps(from_json(line), sort_keys=True)
    except ValueError:
        return None


def record_of(timing: Timing) -> Json:
    """One flat row: plain values only."""
    low, high = timing.quartiles
    plain = {
        f"config.{name}": value["text"] if isinstance(value, dict) else str(value) if isinstance(value, list) else value
        for name, value in timing.configuration.to_data().items()
    }
    return {
        "tunable": timing.tunable, **plain, **{f"size.{name}": n for name, n in timing.sizes.items()},
        "us": timing.median, "low": low, "high": high, "repetitions": timing.repetitions, "device": timing.device,
        "multiprocessors": timing.multiprocessors, "driver": timing.driver, "kernel": timing.kernel,
        "toolchain": timing.toolchain, "when": timing.when, "failure": timing.failure,
    }  # fmt: skip
