"""Arrays that detect integer overflow.

Python's ints are unbounded; those of arrays and generated code are not: a product beyond 2**63 wraps around silently. A
`Watched` array computes as NumPy does and compares every sum, difference, product, power and left shift with the same
operation in float64. A wrapped result is off by a multiple of 2**64, far more than rounding.

>>> import numpy as np
>>> watch = Watch()
>>> i = watch.over(np.arange(4))
>>> (i * 2**60 % 7).tolist(), watch.wrapped
([0, 1, 2, 3], False)
>>> (i * 2**62).tolist(), watch.wrapped
([0, 4611686018427387904, -9223372036854775808, -4611686018427387904], True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array, IndexLike, IntArray

WATCHED: Final = (np.add, np.subtract, np.multiply, np.power, np.negative)


@dataclass
class Watch:
    """Records whether an integer wrapped around in an array made by `over`, or in any array computed from it."""

    wrapped: bool = False

    def over(self, array: Array) -> Watched:
        """The same values in a watched array."""
        watched = np.asarray(array).view(Watched)
        watched.watch = self
        return watched

    def compare(self, ufunc: np.ufunc, inputs: tuple[Array, ...], result: Array) -> None:
        """Compare a result with the same operation in float64."""
        if self.wrapped or result.dtype.kind not in "iu" or not result.size:
            return
        with np.errstate(all="ignore"):
            floats = [np.asarray(i, dtype=np.float64) for i in inputs]
            exact = np.ldexp(floats[0], np.asarray(inputs[1])) if ufunc is np.left_shift else ufunc(*floats)
            self.wrapped = not bool((np.abs(exact - result) < 2.0 ** (8 * result.dtype.itemsize - 1)).all())


class Watched(np.ndarray[Any, Any]):
    """An array that reports integer overflow to its `Watch`."""

    watch: Watch | None = None

    def __array_finalize__(self, other: object) -> None:
        self.watch = getattr(other, "watch", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = tuple(_plain(i) for i in inputs)
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        watched = method == "__call__" and (ufunc in WATCHED or ufunc is np.left_shift) and self.watch is not None
        # `out` may be one of the inputs.
        before = tuple(np.copy(i) for i in plain) if watched and out is not None else plain
        result = getattr(ufunc, method)(*plain, **options)
        if watched and self.watch is not None:
            self.watch.compare(ufunc, before, np.asarray(result))
        return self._rewatched(result) if out is None else out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # numpy.where, among others, returns a plain array.
        return self._rewatched(super().__array_function__(function, types, args, kwargs))

    def _rewatched(self, result: Any) -> Any:
        watched = isinstance(result, np.ndarray) and self.watch is not None
        return self.watch.over(result) if watched and self.watch is not None else result


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def one_by_one(
    function: Callable[[tuple[IndexLike, ...]], tuple[IndexLike, ...]], arrays: tuple[IndexLike, ...]
) -> tuple[IntArray, ...]:
    """Map a function of ints over arrays that broadcast against each other; each result is an int64 array."""
    spread = np.broadcast_arrays(*arrays)
    rows = [function(tuple(map(int, at))) for at in zip(*(a.reshape(-1) for a in spread), strict=True)]
    return tuple(np.array(column, dtype=np.int64).reshape(spread[0].shape) for column in zip(*rows, strict=True))
