"""Checks that an array holds what a kernel declares: integers of a range, distinct ones, or a permutation.

`lego.Tensor(.., range=(0, M))` declares a range, `lego.assume_distinct(order)` that no two elements are equal.

>>> import numpy as np
>>> require_values("order", np.array([0, 3]), (0, 4))
>>> require_values("order", np.array([[0, 4]]), (0, 4))
Traceback (most recent call last):
    ...
lego_mlir.errors.UsageError: order[0, 1] = 4, and the kernel declares 0 <= order < 4

`gallery.table(.., runtime=True)` makes a layout whose entries are kernel arguments. That it is a bijection is a claim
about these arrays, so a launch compares each with a permutation, and a table with its inverse, once for each array
object; an array that is written after that is not compared again.

>>> require_permutation("order", np.array([2, 0, 1]))
>>> require_permutation("order", np.array([2, 0, 2]))
Traceback (most recent call last):
    ...
lego_mlir.errors.UsageError: order[0] and order[2] are both 2, and the kernel takes a permutation of 0..2
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import AnyArray, Array, Given
from lego_mlir.errors import UsageError
from lego_mlir.runtime.manifest import KernelEntry, evaluate

if TYPE_CHECKING:
    from lego_mlir.runtime.data import Elements
    from lego_mlir.runtime.manifest import KernelEntry


Ends = tuple[float, float]
"""The least value of a range and its end, which is not part of it."""


def require_arguments(entry: KernelEntry, sizes: Sequence[int], arrays: Sequence[Given]) -> None:
    """Raise UsageError for an integer outside the range that a kernel declares for one of its tensors."""
    named = dict(zip((size.name for size in entry.sizes), sizes, strict=True))
    for argument, array in zip(entry.arguments, arrays, strict=True):
        if argument.values is not None:
            lo, end = (evaluate(extent, named) for extent in argument.values)
            require_values(argument.name, array, (lo, end))


def require_distinct(name: str, array: Array, among: Ends | None) -> None:
    """Raise UsageError for an array with two equal elements, of those in a range if one is given, naming both."""
    import numpy

    shape = numpy.asarray(array).shape
    _require_distinct(name, array, among, lambda number: map(int, numpy.unravel_index(number, shape)))


def require_distinct_elements(name: str, memory: Array, among: Ends | None, elements: Elements) -> None:
    """The same for a tensor in memory: only what its layout names is compared."""
    _require_distinct(name, memory[elements.at], among, elements.index)


def _require_distinct(name: str, array: Array, among: Ends | None, index_of: Callable[[int], Iterable[int]]) -> None:
    import numpy

    flat = numpy.asarray(array).reshape(-1)
    order = numpy.argsort(flat, kind="stable")
    equal = flat[order][1:] == flat[order][:-1]
    if among is not None:
        equal &= (flat[order][1:] >= among[0]) & (flat[order][1:] < among[1])
    repeated = numpy.flatnonzero(equal)
    if repeated.size:
        one, other = ([*index_of(int(order[repeated[0] + k]))] for k in (0, 1))
        raise UsageError(
            f"{name}{one} and {name}{other} are both {flat[order[repeated[0]]]}, and the kernel assumes that the "
            f"elements of {name}{'' if among is None else f' from {among[0]} to below {among[1]}'} are distinct "
            "(lego.assume_distinct)"
        )


def require_values(name: str, array: Array, within: Ends | None) -> None:
    """Raise UsageError with the first element outside the range; its end is not part of it."""
    if within is None:
        return
    import numpy

    values = numpy.asarray(array)
    lo, hi = within
    outside = ~((values >= lo) & (values < hi))
    if outside.any():
        index = [int(i) for i in numpy.unravel_index(int(numpy.argmax(outside)), values.shape)]
        shown = f"{name}{index}" if index else name
        raise UsageError(f"{shown} = {values[tuple(index)]}, and the kernel declares {lo} <= {name} < {hi}")


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
