"""Memory of a kernel in Triton's interpreter: bounds-checked copies of its arrays.

The interpreter loads and stores at raw addresses: an invalid one reads unrelated memory or crashes the process. So the
arrays are copied into one reservation with wide gaps between them, and every accessed address is checked. An address
outside all arrays raises an error that names the nearest; one that falls into another array is not detected.

>>> import numpy as np
>>> memory = Memory({"x_ptr": np.arange(4, dtype=np.float32)})
>>> first = np.uint64(memory.copies["x_ptr"].ctypes.data)
>>> memory.require("reads", first + np.array([0, 12], np.uint64), True, 4)
>>> memory.require("reads", first + np.array([0, 16], np.uint64), True, 4)
Traceback (most recent call last):
    ...
lego_mlir.templates.run.triton_memory.OutsideError: reads element 4 of x_ptr, which has 4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array

GAP: Final = 2**20  # bytes on each side of an array, never accessed; a larger array has gaps of its size
ALIGNED: Final = 128  # bytes, the least alignment of a CUDA allocation


class OutsideError(Exception):
    """A kernel accessed an address outside its arguments."""


class Memory:
    """The array arguments of a launch: `copies` maps each parameter's name to its copy.

    A list of arrays becomes an array of their addresses. An array passed twice has one copy.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        tables = {name: np.zeros(len(value), np.int64) for name, value in given.items() if isinstance(value, list)}
        parts = {f"{name}[{k}]": part for name in tables for k, part in enumerate(given[name])}
        arrays = {**given, **tables, **parts}
        self._copies: dict[int, Any] = {}
        self.copies: dict[str, Any] = dict(zip(arrays, self._placed(arrays.values()), strict=True))
        for name in tables:
            self.copies[name][...] = [self.copies[f"{name}[{k}]"].ctypes.data for k in range(len(given[name]))]
        self._areas = sorted(((copy.ctypes.data, name) for name, copy in self.copies.items()), key=lambda area: area[0])
        self._starts = np.array([start for start, _ in self._areas], np.uint64)
        self._stops = np.array([start + self.copies[name].nbytes for start, name in self._areas], np.uint64)

    def _placed(self, arrays: Iterable[Array]) -> list[Array]:
        """Copies of the arrays, with gaps around each."""
        given = list(arrays)
        room = sum(array.nbytes + 2 * _gap(array) + ALIGNED for array in given)
        arena, at = np.empty(room, np.uint8), 0
        for array in given:
            if id(array) in self._copies:
                continue
            at += _gap(array)
            at += -(arena.ctypes.data + at) % ALIGNED
            copy: Any = np.ndarray(array.shape, array.dtype, buffer=arena, offset=at)
            copy[...] = array
            self._copies[id(array)] = copy
            at += array.nbytes + _gap(array)
        return [self._copies[id(array)] for array in given]

    def held(self, argument: Any) -> Any:
        """The current contents of an argument."""
        if isinstance(argument, list):
            return [self.held(part) for part in argument]
        return self._copies.get(id(argument), argument)

    def require(self, verb: str, addresses: Array, mask: Array | bool, itemsize: int) -> None:
        """Raise OutsideError for the first active address outside all arrays."""
        chosen = addresses[np.broadcast_to(mask, addresses.shape).astype(bool)]
        if not chosen.size:
            return
        if not self._areas:
            raise OutsideError(f"{verb} memory, and none of its arguments is an array")
        place = np.searchsorted(self._starts, chosen, side="right") - 1
        inside = (place >= 0) & (chosen + np.uint64(itemsize) <= self._stops[place])
        if not inside.all():
            raise OutsideError(f"{verb} {self._described(int(chosen[~inside][0]))}")

    def _described(self, address: int) -> str:
        """Describe an address as an element of the nearest array."""
        ends = ((start, start + self.copies[name].nbytes, name) for start, name in self._areas)
        start, _, name = min(ends, key=lambda area: max(area[0] - address, address - area[1]))
        copy = self.copies[name]
        return f"element {(address - start) // copy.itemsize} of {name}, which has {copy.size}"

    @contextmanager
    def guards(self, interpreter: Any) -> Iterator[None]:
        """Within this context every access of Triton's interpreter is checked first."""
        native = interpreter._interpreter
        interpreter._interpreter = _Guarded(native, self)
        try:
            yield
        finally:
            interpreter._interpreter = native


def _gap(array: Array) -> int:
    return max(GAP, int(array.nbytes))


def _truth(mask: Array) -> Array:
    """A mask as Booleans: Triton 3.9's interpreter gives a scalar condition the operands' type."""
    return mask if mask.dtype == np.bool_ else mask.astype(np.bool_)


class _Guarded:
    """The compiled half of the interpreter, after a check of every address."""

    def __init__(self, native: Any, memory: Memory) -> None:
        self._native = native
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def load(self, addresses: Array, mask: Array, other: Array | None, dtype: np.dtype[Any]) -> Array:
        self._memory.require("reads", addresses, mask, np.dtype(dtype).itemsize)
        return self._native.load(addresses, _truth(mask), other, dtype)

    def store(self, addresses: Array, value: Array, mask: Array) -> None:
        self._memory.require("writes", addresses, mask, value.dtype.itemsize)
        return self._native.store(addresses, value, _truth(mask))

    def atomic_rmw(self, operation: object, addresses: Array, value: Array, mask: Array, order: object) -> Array:
        self._memory.require("updates", addresses, mask, value.dtype.itemsize)
        return self._native.atomic_rmw(operation, addresses, value, _truth(mask), order)

    def atomic_cas(self, addresses: Array, expected: Array, value: Array, order: object) -> Array:
        self._memory.require("updates", addresses, True, value.dtype.itemsize)
        return self._native.atomic_cas(addresses, expected, value, order)
