"""Rules common to the readers of emitted C and Triton: values by name, division that truncates, tables, helpers.

The readers differ in grammar, in types and in shapes; what is the same in both languages is here.

>>> import numpy as np
>>> [part.tolist() for part in truncated(np.array([-7, 7]), np.array([2, 2]), "i / 2")]
[[-3, 3], [-1, 1]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import TemplateError
from lego_mlir.expr.integer_operations import OPERATIONS
from lego_mlir.printers.target_functions import FUNCTIONS

T = TypeVar("T")


def value_of(name: str, values: Mapping[str, T]) -> T:
    """The value of a name. Raises TemplateError for a name without one."""
    if name not in values:
        raise TemplateError(f"the text uses {name}, which has no value here; it has: {', '.join(values)}")
    return values[name]


def column(values: Array) -> Array:
    """Values as an int64 array with an axis of samples."""
    return np.atleast_1d(np.asarray(values, dtype=np.int64))


def truncated(a: Array, b: Array, text: str) -> tuple[Array, Array]:
    """Quotient rounded toward zero, and remainder. Raises TemplateError for a division by zero in `text`."""
    quotient, remainder = floored(a, b, text)
    quotient = quotient + ((remainder != 0) & ((a < 0) != (b < 0)))
    return quotient, a - quotient * b


def floored(a: Array, b: Array, text: str) -> tuple[Array, Array]:
    """Quotient rounded down, and remainder. Raises TemplateError for a division by zero in `text`."""
    if np.any(b == 0):
        raise TemplateError(f"{text} divides by zero")
    quotient = a // b
    return quotient, a - quotient * b


def entries(name: str, index: Array, tables: Mapping[str, Sequence[int]], text: str) -> tuple[Array, Array]:
    """The entries of a run-time table at an index, and the whole table. Raises TemplateError outside of it."""
    table = np.asarray(tables[name], dtype=np.int64)
    if index.size and (index.min() < 0 or index.max() >= table.size):
        raise TemplateError(f"{text} reads outside the {table.size} entries of {name}")
    return table[index], table


def called(target: str, function: str, parts: Sequence[Array], text: str) -> Array:
    """The value of a function that printed code calls. Raises TemplateError for another, and where it has no value."""
    operation = FUNCTIONS_READ[target].get(function)
    if operation is None:
        raise TemplateError(f"cannot read the call of {function} in {text!r}")
    if operation.undefined is not None and np.any(operation.undefined.where(*parts)):
        raise TemplateError(f"{text}: {operation.undefined.reason}")
    return operation.of_arrays(*parts)


FUNCTIONS_READ: Final = {
    target: {function.name: OPERATIONS[node] for node, function in functions.items()}
    for target, functions in FUNCTIONS.items()
}
"""The operations of the functions that printed texts call."""
