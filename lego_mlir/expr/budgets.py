"""How much work an expression may need before it is refused, and the refusal.

A budget counts something that is the same on every machine (nodes, nesting, digits, steps of Z3), never seconds. Work
that would exceed one ends in a `BudgetError` that names the budget, or, in a proof, in Unknown with that reason.

Nesting is bounded by Python's recursion limit: expressions are read and rewritten by recursive functions.

>>> with within_recursion_limit("simplified"):
...     (deep := lambda: deep())()  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
lego_mlir.errors.BudgetError: an index expression is nested too deeply to be simplified (Python's recursion limit ...
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lego_mlir.errors import BudgetError


@contextmanager
def within_recursion_limit(done: str) -> Iterator[None]:
    """Around recursive work on an expression that is to be `done`: a RecursionError becomes a BudgetError."""
    try:
        yield
    except RecursionError:
        raise BudgetError(
            f"an index expression is nested too deeply to be {done} (Python's recursion limit is "
            f"{sys.getrecursionlimit()}); a table, lego.gallery.tabulated, says the same without nesting"
        ) from None
