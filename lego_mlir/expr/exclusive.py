"""One lock around symbolic work, so that any number of threads may simplify and prove.

Neither SymPy nor Z3 is thread-safe. SymPy marks a fact of an expression as unknown while it computes it, and equal
expressions are one shared object; Z3 crashes when two threads use the same context. So the entry points of this package
(`simplify`, `prove`, `bounds`, `evaluate`, and lazy properties of their results) run one at a time. The lock is
reentrant, since proofs simplify and simplification proves.

A fork copies only the calling thread, together with whatever state the other threads' work is in. `os.fork` therefore
waits for the lock, for at most one proof's step budget, and the child starts with Z3 and the tables idle.

>>> @exclusive
... def nested(depth):
...     return depth and 1 + nested(depth - 1)
>>> nested(3)
3
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LOCK = threading.RLock()

if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def exclusive(function: Callable[P, T]) -> Callable[P, T]:
    """The function, run by one thread at a time."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        with LOCK:
            return function(*args, **kwargs)

    return alone
