"""The one import of Numba: functions that run as machine code, compiled on their first call and kept on disk.

The simulator makes a decision for every access, and each depends on the last; NumPy cannot express that in bulk. Numba
compiles such loops over arrays (docs/reference/schedule-caches.md has the reasons). Compiled functions release Python's
global lock, so that two threads simulate two halves of a GPU at once.

Numba checks the file of a kept function, but not the files of the functions that it calls. So the folder is named after
a digest of every file of this room: after a change, nothing old is found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

from lego_mlir import store
from lego_mlir.errors import CacheError, DependencyError

try:
    import numba
except ImportError as error:
    raise DependencyError("the cache simulator needs Numba: pip install numba") from error

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """`function` as machine code. It may use integers, floats, tuples, NumPy arrays and other compiled functions."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _folder()
    try:
        made = numba.njit(cache=bool(_folder()), nogil=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = before
    return cast(Function, made)


@cache
def _folder() -> str:
    """Where machine code is kept; empty if nothing can be written there, and functions are compiled in each process."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    try:
        folder = store.default_folder() / "numba" / digest.hexdigest()[:16]
        store.make_kept(folder)
    except (OSError, CacheError):
        return ""
    return str(folder)
