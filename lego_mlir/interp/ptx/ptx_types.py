"""PTX types as NumPy dtypes. A register holds bits, an unsigned integer a lane; an instruction views them as its type.

>>> import numpy as np
>>> np.uint32([0x3F800000]).view(NUMPY["f32"])
array([1.], dtype=float32)

Source: PTX ISA, "Types"; the alternate floating-point formats are those of `ml_dtypes`.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from lego_mlir.aliases import Array, Dtype

BITS: Final = {1: np.dtype(np.bool_), 8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32),
               64: np.dtype(np.uint64)}  # fmt: skip
NUMPY: Final[dict[str, Dtype]] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{8 * n}": np.dtype(f"u{n}") for kind in "bu" for n in (1, 2, 4, 8)},
    **{f"s{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "tf32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
PACKED: Final = {
    "f16x2": "f16",
    "bf16x2": "bf16",
    "e4m3x2": "e4m3",
    "e5m2x2": "e5m2",
    "f32x2": "f32",
    "u16x2": "u16",
    "s16x2": "s16",
}
FLOATS: Final = frozenset({"f16", "f32", "f64", "bf16", "tf32", "e4m3", "e5m2"})
TYPE_NAMES: Final = frozenset({*NUMPY, *PACKED})


def bits_of(value: Array, bits: int) -> Array:
    """A value as the bits of a register of this width: sign- or zero-extended, or cut, where the widths differ."""
    want = BITS[bits]
    if value.dtype.itemsize == want.itemsize:
        return value if value.dtype == want else value.view(want)
    if value.dtype.kind not in "biu":
        value = value.view(BITS[value.dtype.itemsize * 8])
    return value.astype(want)


def integer(value: int, dtype: np.dtype[Any]) -> Array:
    """One int, wrapped to the width of an integer dtype, as an array of shape (1,)."""
    wrapped = value & ((1 << (8 * dtype.itemsize)) - 1)
    return np.array([wrapped], BITS[8 * dtype.itemsize]).view(dtype)


def bits_of_type_name(name: str) -> int:
    """The width of a type in bits: 32 for f32 and for f16x2."""
    return 2 * bits_of_type_name(PACKED[name]) if name in PACKED else 8 * NUMPY[name].itemsize
