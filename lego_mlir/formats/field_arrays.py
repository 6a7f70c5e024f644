"""The fields of buffers as logical arrays, and back.

A logical array has the shape of its field, row-major; elements below a byte take one byte each.

>>> import numpy as np
>>> from lego_mlir.formats.catalog import FORMATS
>>> marlin = FORMATS["vllm.marlin"](rows=64, columns=128)
>>> q = np.arange(64 * 128).reshape(64, 128).astype(np.uint8) % 16
>>> buffers = write(marlin, {"q": q, "scale": np.ones((64, 1), np.float16)})
>>> bool((read(marlin, buffers)["q"] == q).all()), buffers["qweight"].dtype, buffers["qweight"].shape
(True, dtype('int32'), (8, 128))
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError
from lego_mlir.formats.codings import numpy_type
from lego_mlir.formats.compiled_moves import ALIGNED
from lego_mlir.formats.field_moves import move
from lego_mlir.formats.host_moves import execute
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import BITS, PlaceDigit, StoredField
from lego_mlir.layout.canonical import product
from lego_mlir.layout.values import show

Arrays = Mapping[str, Array]
"""Arrays by the names of buffers or fields."""


def in_rows(field: StoredField) -> StoredField:
    """The same elements in row-major order, at least a byte each."""
    stride, axes = max(8, field.bits), []
    for n in reversed([int(n) for n in field.shape]):
        axes.append((PlaceDigit(n, stride),))
        stride *= n
    return StoredField(field.name, field.dtype, tuple(reversed(axes)), 0, field.name)


def as_bytes(array: Array) -> Array:
    """A contiguous array as one of bytes, without a copy where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def empty_buffers(format_: StorageFormat) -> dict[str, Array]:
    """A zeroed array for each buffer, of the type and shape that the format gives it, aligned to a cache line."""
    found = {}
    for name, (dtype, shape) in format_.buffers.items():
        kind, sizes = np.dtype(numpy_type(dtype)), [int(n) for n in shape]
        size = int(product(sizes)) * kind.itemsize
        memory = np.zeros(size + ALIGNED, np.uint8)
        first = -memory.ctypes.data % ALIGNED
        found[name] = memory[first : first + size].view(kind).reshape(sizes)
    return found


def require_buffers(format_: StorageFormat, buffers: Arrays) -> dict[str, Array]:
    """The bytes of each buffer. Raises UsageError for one that is missing, unknown, or of another number of bytes."""
    if buffers.keys() != format_.buffers.keys():
        raise UsageError(f"{format_.name} has the buffers {list(format_.buffers)}, got {list(buffers)}")
    for name, array in buffers.items():
        if array.nbytes != format_.bytes_of(name):
            dtype, shape = format_.buffers[name]
            raise UsageError(
                f"{format_.name}: {name} is {dtype}{show(shape)}, {format_.bytes_of(name)} bytes; got "
                f"{array.dtype}{show(array.shape)}, {array.nbytes} bytes"
            )
    return {name: as_bytes(array) for name, array in buffers.items()}


def read_field(field: StoredField, buffer: Array) -> Array:
    """A field of a buffer of bytes as a logical array."""
    rows = in_rows(field)
    found = np.zeros(int(product(rows.shape)) * max(8, BITS[field.dtype]) // 8, np.uint8)
    execute(move(field, rows), buffer, found)
    return found.view(numpy_type(field.dtype)).reshape([int(n) for n in field.shape])


def write_field(field: StoredField, values: Array, buffer: Array) -> None:
    """Store a logical array into a buffer of bytes, whose bits below a byte are 0 before."""
    if list(values.shape) != [int(n) for n in field.shape]:
        raise UsageError(f"{field!r} cannot hold an array of shape {list(values.shape)}")
    rows = np.ascontiguousarray(values, numpy_type(field.dtype))
    execute(move(in_rows(field), field), as_bytes(rows), buffer)


def read(format_: StorageFormat, buffers: Arrays) -> dict[str, Array]:
    """All fields of a format's buffers."""
    given = require_buffers(format_, buffers)
    return {field.name: read_field(field, given[field.buffer]) for field in format_.fields}


def write(format_: StorageFormat, fields: Arrays) -> dict[str, Array]:
    """Buffers that hold these fields. Raises UsageError for a field that is missing or unknown."""
    names = [field.name for field in format_.fields]
    if set(fields) != set(names):
        raise UsageError(f"{format_.name} has the fields {names}, got {list(fields)}")
    buffers = empty_buffers(format_)
    for field in format_.fields:
        write_field(field, fields[field.name], as_bytes(buffers[field.buffer]))
    return buffers
