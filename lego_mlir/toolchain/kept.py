"""Inputs of failed stages, kept so that a failure can be seen again: the newest ones, in the cache's folder.

The same failure of the same input has one file, and the oldest files go when there are more than `LIMIT`.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

from lego_mlir.errors import CacheError
from lego_mlir.store import default_folder, make_kept, replace_file

LIMIT: Final = 20
_DIGITS: Final = 12


def folder() -> Path:
    """Where the inputs of failed stages are kept. Raises CacheError without a place for a cache."""
    return default_folder() / "failed"


def keep(name: str, body: bytes) -> Path | None:
    """The path at which these bytes are kept, under a file's name; None where nothing can be written."""
    wanted = Path(name)
    digest = hashlib.sha256(body).hexdigest()[:_DIGITS]
    try:
        place = folder() / f"{wanted.stem}-{digest}{wanted.suffix}"
        make_kept(place.parent)
        replace_file(place, body)
        _remove_oldest(place)
    except (OSError, CacheError):
        return _keep_aside(wanted.name, body)
    return place


def _remove_oldest(latest: Path) -> None:
    others = [(path.stat().st_mtime_ns, path) for path in latest.parent.iterdir() if path != latest]
    for _, path in sorted(others, reverse=True)[LIMIT - 1 :]:
        path.unlink(missing_ok=True)


def _keep_aside(name: str, body: bytes) -> Path | None:
    """In the folder for temporary files, where the cache's folder cannot be used."""
    try:
        place = Path(tempfile.mkdtemp(prefix="lego-mlir-failed-"), name)
        place.write_bytes(body)
    except OSError:
        return None
    return place
