"""A lock on disk, so that processes which need the same kernel at the same time compile it once.

    with only_one(folder, digest):      the first process goes on; others wait until it is ready, then find the entry

The lock is the operating system's, on an open file (`flock`): it ends with the process that holds it, however that
process ends, so no lock is left behind. A holder removes the file; one that was waiting for a removed file takes the
new one. After `PATIENCE` seconds, where files cannot be locked, or where the folder takes none, the block runs without
the lock: the kernel is then compiled twice, and both write the same entry.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lego_mlir.errors import CacheError
from lego_mlir.store import make_kept

FOLDER: Final = "locks"
"""In the folder of the cache."""
PATIENCE: Final = 300.0
"""Seconds; the slowest compilations of this package take a tenth of it."""
_PAUSES: Final = (0.002, 0.05)
"""Seconds between two attempts, the first and the longest."""


@contextmanager
def only_one(cache: Path, name: str, patience: float = PATIENCE) -> Iterator[bool]:
    """Run the block while no other process or thread holds this name; whether it waited for another."""
    place, waited = cache / FOLDER / name, False
    handle: int | None = None
    try:
        make_kept(place.parent)
        handle, waited = _taken(place, patience)
    except (OSError, CacheError):
        pass  # a folder that takes no files, or a file system without locks: nothing is kept there either
    try:
        yield waited
    finally:
        if handle is not None:
            with suppress(OSError):
                place.unlink()
            os.close(handle)


def _taken(place: Path, patience: float) -> tuple[int | None, bool]:
    """The open file that holds the lock, None after the time; and whether another held it first."""
    if sys.platform == "win32":
        return None, False
    import fcntl

    end, pause, waited = time.monotonic() + patience, _PAUSES[0], False
    while True:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(place, handle):
                return handle, waited
        except BlockingIOError:
            waited = True
        except OSError:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() >= end:
            return None, waited
        time.sleep(pause)
        pause = min(2 * pause, _PAUSES[1])


def _is_at(place: Path, handle: int) -> bool:
    """Whether the locked file is still the one of that name: its last holder may have removed it meanwhile."""
    try:
        found, own = place.stat(), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
