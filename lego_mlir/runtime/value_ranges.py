"""Checks that an array holds what a kernel declares: integers of a range, or distinct ones.

`lego.Tensor(.., range=(0, M))` declares a range, `lego.assume_distinct(order)` that no two elements are equal.

>>> import numpy as np
>>> require_values("order", np.array([0, 3]), (0, 4))
>>> require_values("order", np.array([[0, 4]]), (0, 4))
Traceback (most recent call last):
    ...
lego_mlir.errors.UsageError: order[0, 1] = 4, and the kernel declares 0 <= order < 4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Array, Given
from lego_mlir.errors import UsageError
from lego_mlir.runtime.manifest import KernelEntry, evaluate

if TYPE_CHECKING:
    from lego_mlir.runtime.data import Elements


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
