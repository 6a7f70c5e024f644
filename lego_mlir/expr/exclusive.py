"""One lock around symbolic work, so that any number of threads may derive and prove at once.

Neither SymPy nor Z3 is made for threads. SymPy marks a fact of an expression as unknown while it works it out, and the
expression is shared by all that write it; Z3 crashes where two threads meet in one of its contexts. So the entry
points of this package (`simplify`, `prove`, `bounds`, `evaluate` and what they give out) run one at a time. The lock is
reentrant, since proofs simplify and simplification proves.

A fork copies only the thread that calls it, and with it whatever state the other threads' work is in. `os.fork` waits
for the lock, which every proof's step budget bounds: the child finds Z3 and the tables at rest.

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
