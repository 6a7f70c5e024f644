"""The runtime representation of an SSA value: one NumPy array for all lanes of all blocks of a batch.

A value of a scalar type is an array of shape `(blocks, threads)`; one of type `vector<4x8xf16>` has shape
`(blocks, threads, 4, 8)`. Either of the first two axes has length 1 if the value is uniform along it: a constant is
`(1, 1)`, a thread id `(1, threads)`, a block id `(blocks, 1)`. NumPy's broadcasting keeps uniform values small through
arithmetic, so the address of a shared tile, which depends only on the thread, is computed once for all blocks.

>>> import numpy as np
>>> block, thread = np.arange(3).reshape(3, 1), np.arange(4).reshape(1, 4)
>>> (block * 4).shape, (thread + 1).shape, (block * 4 + thread).shape
((3, 1), (1, 4), (3, 4))
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import Type
from lego_mlir.errors import InterpreterError

if TYPE_CHECKING:
    import numpy.typing as npt


Array = np.ndarray[Any, Any]
DType: TypeAlias = np.dtype[Any]
SlotValue: TypeAlias = Any
"""The value of a slot: an `Array` for numbers, a `MemRef` for a memref, or None for a token."""

# tf32 keeps 19 of an f32's bits; only tensor core operations truncate it, so it is stored as f32.
ELEMENT_DTYPES: Final[dict[str, DType]] = {
    "index": np.dtype(np.int64),
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "tf32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "i6": np.dtype(np.int8),  # codes of f6 and f4, without a sign
    "i4": np.dtype(np.int8),
}
UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def element_dtype(type_: Type) -> DType:
    """The NumPy dtype of a scalar type, or of the elements of a vector, memref or tensor type."""
    text = str(getattr(type_, "element_type", type_))
    try:
        return ELEMENT_DTYPES[re.sub(r"^[su]i(?=\d)", "i", text)]
    except KeyError:
        raise InterpreterError(f"no NumPy dtype for the type {text}; supported: {', '.join(ELEMENT_DTYPES)}") from None


def vector_shape(type_: Type) -> tuple[int, ...]:
    """The trailing axes that a value of this type has: `()` for a scalar, `(4, 8)` for `vector<4x8xf16>`."""
    if isinstance(type_, bindings.load().ir.VectorType):
        if type_.scalable:
            raise InterpreterError(f"{type_}: scalable vectors are not supported on GPUs")
        return tuple(type_.shape)
    return ()


SMALL: Final = 4096
"""Elements up to which a copy takes less time than a call of `broadcast_to`."""


def is_memref(type_: Type) -> bool:
    """Whether a value of this type is a window on memory."""
    return isinstance(type_, bindings.load().ir.MemRefType)


def uniform(value: float | np.generic, dtype: npt.DTypeLike = np.int64) -> Array:
    """One value for all lanes."""
    return np.full((1, 1), value, dtype)


def is_uniform(value: Array) -> bool:
    """Whether the value has one scalar for all lanes."""
    return value.shape[:2] == (1, 1)


def only(value: Array, what: str) -> int:
    """The int that is the same for all lanes. Raises InterpreterError if the lanes differ."""
    first = value.flat[0]
    if value.size > 1 and not (value == first).all():
        raise InterpreterError(f"{what} must be the same for all lanes, got {np.unique(value)[:4].tolist()}...")
    return int(first)


def like_vector(lanes: Array, value_ndim: int) -> Array:
    """A per-lane array with axes of length 1 appended, so that it broadcasts against a vector value."""
    return lanes.reshape(lanes.shape + (1,) * (value_ndim - lanes.ndim))


def spread(value: Array, shape: tuple[int, ...]) -> Array:
    """The value broadcast to a shape, to be read only: NumPy's `broadcast_to`, which takes 5 us, for large arrays."""
    if value.shape == shape:
        return value
    if math.prod(shape) > SMALL:
        return np.broadcast_to(value, shape)
    full = np.empty(shape, value.dtype)
    full[...] = value
    return full


def unsigned(value: Array) -> Array:
    """The same bits as unsigned integers."""
    return value.view(UNSIGNED[value.dtype.itemsize])


def bits_of(dtype: DType) -> int:
    """The width of the type in MLIR, which for `i1` differs from NumPy's."""
    return 1 if dtype == np.bool_ else dtype.itemsize * 8


def is_float(dtype: DType) -> bool:
    """Whether the dtype is floating point, including the narrow types of ml_dtypes."""
    return dtype.kind == "f" or dtype in NARROW_FLOATS


NARROW_FLOATS: Final = frozenset(d for name, d in ELEMENT_DTYPES.items() if name in ("bf16",) or name.startswith("f8"))
