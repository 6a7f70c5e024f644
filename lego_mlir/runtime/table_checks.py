"""Run-time tables: arrays that a launch takes as permutations, each checked the first time that it is given.

`gallery.table(.., runtime=True)` makes a layout whose entries are kernel arguments. That it is a bijection is a claim
about these arrays, so a launch compares each with a permutation, and a table with its inverse, once for each array
object; an array that is written after that is not compared again.

>>> import numpy as np
>>> require_permutation("order", np.array([2, 0, 1]))
>>> require_permutation("order", np.array([2, 0, 2]))
Traceback (most recent call last):
    ...
lego_mlir.errors.UsageError: order[0] and order[2] are both 2, and the kernel takes a permutation of 0..2
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import AnyArray, Array, Given
from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.runtime.manifest import KernelEntry

INVERSE: Final = "_inv"
"""What the name of a table's inverse ends in."""


class CheckedTables:
    """The run-time tables of one kernel: their positions, and the arrays that were compared."""

    def __init__(self, entry: KernelEntry) -> None:
        self.names = {i: argument.name for i, argument in enumerate(entry.arguments) if argument.permutation}
        self._compared: dict[tuple[int, ...], list[weakref.ref[AnyArray]]] = {}

    def require(self, arrays: Sequence[Given]) -> None:
        """Raise UsageError for arrays that are no permutations, or not inverse to each other."""
        given = [arrays[i] for i in self.names]
        key = tuple(map(id, given))
        known = self._compared.get(key)
        if known is not None and all(ref() is array for ref, array in zip(known, given, strict=True)):
            return
        tables = {name: _on_host(array) for name, array in zip(self.names.values(), given, strict=True)}
        for name, table in tables.items():
            require_permutation(name, table)
        for name, table in tables.items():
            if name + INVERSE in tables:
                _require_inverse(name, table, tables[name + INVERSE])
        self._compared[key] = [weakref.ref(array) for array in given]


def require_permutation(name: str, table: Array) -> None:
    """Raise UsageError, naming an entry or two equal ones, for an array that is no permutation of its indices."""
    import numpy as np

    flat = np.asarray(table).reshape(-1)
    outside = (flat < 0) | (flat >= flat.size)
    if outside.any():
        k = int(outside.argmax())
        raise UsageError(f"{name}[{k}] = {flat[k]}, and the kernel takes a permutation of 0..{flat.size - 1}")
    last = np.zeros(flat.size, np.int64)
    last[flat] = np.arange(flat.size)
    again = last[flat] != np.arange(flat.size)
    if again.any():
        k = int(again.argmax())
        raise UsageError(
            f"{name}[{k}] and {name}[{int(last[flat[k]])}] are both {flat[k]}, and the kernel takes a permutation of "
            f"0..{flat.size - 1}"
        )


def _require_inverse(name: str, table: Array, inverse: Array) -> None:
    import numpy as np

    back = inverse.reshape(-1)[table.reshape(-1)]
    wrong = back != np.arange(back.size)
    if wrong.any():
        k = int(wrong.argmax())
        raise UsageError(
            f"{name}[{k}] = {table.reshape(-1)[k]}, and {name}{INVERSE}[{table.reshape(-1)[k]}] = {back[k]}: the "
            "second is not the inverse of the first"
        )


def _on_host(array: AnyArray) -> Array:
    """The elements of an array of any library."""
    import numpy as np

    if hasattr(array, "get") and not isinstance(array, np.ndarray):  # CuPy
        return array.get()
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    return np.asarray(array)
