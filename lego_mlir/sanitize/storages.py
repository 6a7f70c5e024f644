"""Arrays and tensors as arguments of a launch: the whole memory of which an argument is a view is one buffer.

Two views of one memory are therefore two pointers into one buffer, as on a device. Anything with `data_ptr()` on the
CPU is taken, such as a PyTorch tensor, and NumPy arrays.

>>> x = np.arange(6, dtype=np.float32)
>>> TensorStorage.of(x).nbytes, TensorStorage.of(x[2:]).offset
(24, 8)
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx.address_spaces import UNWRITTEN, GlobalBuffer, GlobalMemory
from lego_mlir.interp.ptx.ptx_launch import PtxArgument

_unwritten: Final[dict[int, int]] = {}
"""The addresses of memory made by `empty`, and their bytes."""


@dataclass(frozen=True, slots=True)
class TensorStorage:
    """Memory of `nbytes` at `start`; the argument begins `offset` bytes into it and has elements of `item` bytes."""

    start: int
    nbytes: int
    offset: int
    item: int
    keep: object

    @classmethod
    def of(cls, value: PtxArgument) -> TensorStorage:
        """The memory of a NumPy array or a CPU tensor. Raises UsageError for a tensor of another device."""
        if isinstance(value, np.ndarray):
            base = value
            while isinstance(base.base, np.ndarray):
                base = base.base
            start = base.ctypes.data
            return cls(start, base.nbytes, value.ctypes.data - start, value.itemsize, base)
        if not on_cpu(value):
            raise UsageError(f"the emulator takes tensors of the CPU, and this one is on {value.device}; use x.cpu()")
        start, nbytes = int(value.data_ptr()), int(getattr(value, "nbytes", 0))
        item = int(value.element_size()) if hasattr(value, "element_size") else 1
        if hasattr(value, "untyped_storage"):
            storage = value.untyped_storage()
            return cls(int(storage.data_ptr()), int(storage.nbytes()), start - int(storage.data_ptr()), item, value)
        return cls(start, nbytes, 0, item, value)

    def view(self) -> Array:
        """The memory as bytes."""
        if not self.nbytes:
            return np.zeros(0, np.uint8)
        return np.frombuffer(memoryview((ctypes.c_uint8 * self.nbytes).from_address(self.start)), np.uint8)


def on_cpu(value: PtxArgument) -> bool:
    """Whether a tensor's memory is the CPU's: what its storage says, where it has one."""
    owner = value.untyped_storage() if hasattr(value, "untyped_storage") else value
    return bool(getattr(getattr(owner, "device", None), "type", "cpu") == "cpu")


class PlacedStorages:
    """The buffers of one launch, by the address of the memory."""

    def __init__(self) -> None:
        self.placed: dict[int, GlobalBuffer] = {}

    def address(self, storage: TensorStorage, memory: GlobalMemory, name: str, contents: bytes | None = None) -> int:
        """Where the argument begins in the emulator's memory; `contents` are instead of the memory's own."""
        buffer = self.placed.get(storage.start)
        if buffer is None:
            view = storage.view()
            array = view if contents is None else None
            buffer = memory.add(name, view.tobytes() if contents is None else contents, array, storage.item)
            self.placed[storage.start] = buffer
            if storage.start in _unwritten:
                memory.unwritten.append((buffer.start, buffer.start + buffer.nbytes))
        return buffer.address + storage.offset


@dataclass(frozen=True, slots=True)
class StorageArgument:
    """An argument of `emulate` that is a pointer."""

    value: PtxArgument
    placed: PlacedStorages

    def bind(self, memory: GlobalMemory, name: str) -> int:
        """Place the memory, once for all of its views."""
        return self.placed.address(TensorStorage.of(self.value), memory, name)


@dataclass(frozen=True, slots=True)
class StructArgument:
    """A struct passed by value: a NumPy record whose 64-bit fields may be given as arrays, by name."""

    record: Array
    pointers: Mapping[str, PtxArgument]
    placed: PlacedStorages

    def bind(self, memory: GlobalMemory, name: str) -> bytes:
        """The bytes, with the addresses of the arrays."""
        record = np.array(self.record)
        for field, value in self.pointers.items():
            record[field] = self.placed.address(TensorStorage.of(value), memory, f"{name}.{field}")
        return record.tobytes()


def bound(values: Sequence[PtxArgument]) -> list[PtxArgument]:
    """The arguments of a launch for `emulate`: pointers share what they are views of."""
    placed = PlacedStorages()
    found: list[PtxArgument] = []
    for value in values:
        if (isinstance(value, np.ndarray) and value.ndim and value.dtype.names is None) or hasattr(value, "data_ptr"):
            found.append(StorageArgument(value, placed))
        elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping):
            found.append(StructArgument(value[0], value[1], placed))
        elif isinstance(value, (np.void, np.ndarray)) and value.dtype.names is not None:
            found.append(value.tobytes())
        else:
            found.append(value)
    return found


def empty(shape: int | tuple[int, ...], dtype: str | type = "float32") -> Array:
    """An array that nobody has written: a kernel that reads an element before one is stored has a fault."""
    array = np.empty(shape, dtype)
    mark_unwritten(array)
    return array


def mark_unwritten(value: PtxArgument) -> None:
    """Fill the memory of a new array or tensor with a mark, until something is stored there.

    What the CPU or a kernel stores removes it, so nothing else is to be kept up to date. A word that is made to hold
    the mark's own bits is taken for unwritten.
    """
    storage = TensorStorage.of(value)
    if not storage.nbytes or storage.start in _unwritten:
        return
    storage.view()[: storage.nbytes // 4 * 4].view(np.uint32)[:] = UNWRITTEN
    _unwritten[storage.start] = storage.nbytes
    owner = value.untyped_storage() if hasattr(value, "untyped_storage") else storage.keep
    weakref.finalize(owner, _unwritten.pop, storage.start, None)
