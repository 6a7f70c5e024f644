"""Work budgets for symbolic expressions, and the errors raised when one is exceeded.

A budget counts something that is the same on every machine (nodes, nesting, digits, Z3 steps), never seconds.
Exceeding one raises a `BudgetError` that names the budget, makes a proof Unknown with that reason, or selects a cheaper
method: a sum too long to factor keeps its original form.

Nesting is bounded by Python's recursion limit, because expressions are traversed by recursive functions.

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
from typing import Final

from lego_mlir.errors import BudgetError

CHARACTERS: Final = 200_000
"""Longest text of one printed expression."""


class Budget:
    """A number of steps; `spend` returns whether any are left.

    >>> budget = Budget(2)
    >>> budget.spend(), budget.spend(), budget.spend()
    (True, True, False)
    """

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> bool:
        """Take steps from the budget. Returns False once it is exhausted, and from then on."""
        self.left -= steps
        return self.left >= 0


def require_characters(target: str, text: str) -> None:
    """Raise BudgetError for a text too long to read or compile."""
    if len(text) > CHARACTERS:
        raise BudgetError(
            f"{target}: the text of an expression exceeds its budget of {CHARACTERS} characters, because it repeats "
            "shared parts; name them with assign(..) in a template or printers.cuda.function in C, or use a table "
            "(lego.gallery.tabulated)"
        )


@contextmanager
def within_recursion_limit(done: str) -> Iterator[None]:
    """Turn a RecursionError into a BudgetError; `done` names the work in the message ("simplified", "printed")."""
    try:
        yield
    except RecursionError:
        raise BudgetError(
            f"an index expression is nested too deeply to be {done} (Python's recursion limit is "
            f"{sys.getrecursionlimit()}); use a table, lego.gallery.tabulated, which needs no nesting"
        ) from None
