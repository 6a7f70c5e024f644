"""How much work an expression may need before it is refused, and the refusal.

A budget counts something that is the same on every machine (nodes, nesting, digits, steps of Z3), never seconds. Work
that would exceed one ends in a `BudgetError` that names the budget, in a proof in Unknown with that reason, or takes a
cheaper way: a sum that is too long to be factored stays as it was written.

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
from typing import Final

from lego_mlir.errors import BudgetError

CHARACTERS: Final = 200_000
"""Of one printed text."""


class Budget:
    """A number of steps; `spend` tells whether there are any left.

    >>> budget = Budget(2)
    >>> budget.spend(), budget.spend(), budget.spend()
    (True, True, False)
    """

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> bool:
        """Take steps from the budget. False once it has ended, and from then on."""
        self.left -= steps
        return self.left >= 0


def require_characters(target: str, text: str) -> None:
    """Refuse a text that is longer than anyone reads or compiles."""
    if len(text) > CHARACTERS:
        raise BudgetError(
            f"{target}: the text of an expression exceeds its budget of {CHARACTERS} characters, because it repeats "
            "shared parts; name them with assign(..) in a template or printers.cuda.function in C, or use a table "
            "(lego.gallery.tabulated)"
        )


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
