"""Arguments as text: `f32[1024,512]:normal`, `512`, `2.5`, `input.npz:x`, in the order of the kernel's parameters.

>>> drawn("f32[2,3]:ones", np.random.default_rng(0))
array([[1., 1., 1.],
       [1., 1., 1.]], dtype=float32)
>>> drawn("512", np.random.default_rng(0))
512
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from lego_mlir.aliases import Array, Dtype
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx.ptx_launch import PtxArgument
from lego_mlir.sanitize.storages import mark_unwritten

DTYPES: Final[dict[str, Any]] = {
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "bool": "bool",
}  # fmt: skip
_ARRAY: Final = re.compile(r"(\w+)\[([\d, ]*)\](?::(\w+))?$")
LARGEST_DRAWN: Final = 100
FILLS: Final[dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]]] = {
    "zeros": lambda random, shape: np.zeros(shape),
    "ones": lambda random, shape: np.ones(shape),
    "arange": lambda random, shape: np.arange(int(np.prod(shape))).reshape(shape),
    "normal": lambda random, shape: random.standard_normal(shape),
    "uniform": lambda random, shape: random.random(shape),
    "integers": lambda random, shape: random.integers(0, LARGEST_DRAWN, shape),
    "empty": lambda random, shape: np.zeros(shape),
}


def drawn(text: str, random: np.random.Generator) -> PtxArgument:
    """The value of an argument. Raises UsageError for text that is none."""
    found = _ARRAY.match(text)
    if found is not None:
        return _array(found[1], found[2], found[3], random, text)
    if re.fullmatch(r"[^:]+\.npz:\w+", text):
        path, _, key = text.rpartition(":")
        return _from_file(Path(path), key)
    try:
        return int(text, 0)
    except ValueError:
        with contextlib.suppress(ValueError):
            return float(text)
    raise UsageError(
        f"{text!r} is no argument: give an array such as f32[1024,512]:normal ({', '.join(FILLS)}), a number, or "
        "FILE.npz:NAME"
    )


def _array(name: str, shape_text: str, fill: str | None, random: np.random.Generator, text: str) -> Array:
    if name not in DTYPES:
        raise UsageError(f"{text!r}: no type {name}; there are {', '.join(DTYPES)}")
    dtype: Dtype = np.dtype(DTYPES[name])
    shape = tuple(int(n) for n in shape_text.replace(" ", "").split(",") if n)
    chosen = fill or ("integers" if dtype.kind in "iub" else "normal")
    if chosen not in FILLS:
        raise UsageError(f"{text!r}: no fill {chosen}; there are {', '.join(FILLS)}")
    array = np.asarray(FILLS[chosen](random, shape)).astype(dtype, order="C")
    if chosen == "empty":
        mark_unwritten(array)
    return array


def _from_file(path: Path, key: str) -> Array:
    try:
        with np.load(path) as file:
            if key not in file:
                raise UsageError(f"{path}: no array {key}; it has: {', '.join(file) or 'none'}")
            return np.ascontiguousarray(file[key])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
