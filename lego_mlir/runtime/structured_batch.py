"""Kernels over arrays whose last dimension is the batch: one matrix in each lane (see structured/batch.py).

>>> import numpy as np
>>> kernel = compile_batch_last("x = Vector(3); L = LowerTriangular(3); x = L \\\\ x;", cache=None)
>>> L = np.tril(np.random.default_rng(0).uniform(1, 2, (11, 3, 3)))
>>> x = np.ones((11, 3))
>>> lanes_of_x = np.ascontiguousarray(np.moveaxis(x, 0, -1))
>>> kernel(lanes_of_x, np.ascontiguousarray(np.moveaxis(L, 0, -1)))
>>> bool(np.allclose(np.einsum("bij,jb->ib", L, lanes_of_x), 1))
True
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from lego_mlir.runtime import cpu, structured
from lego_mlir.structured import batch, driver, sets
from lego_mlir.structured.lower import lower
from lego_mlir.structured.syntax import Program
from lego_mlir.toolchain.cache import Cache, default_folder


class BatchKernel:
    """A compiled program for arrays of shape (*shape of one matrix, batch)."""

    def __init__(self, program: Program, name: str, element: str, code: bytes) -> None:
        self.program = program
        self.name = name
        self.dtype = structured.DTYPES[element]
        self._library = cpu.load(code, (name,))
        pointers = [ctypes.c_void_p] * len(program.operands)
        self._run = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(self._library.address(name))

    def __call__(self, *arrays: Any) -> None:
        """Run on all matrices. Raises ArgumentError on arrays that do not fit."""
        operands = self.program.operands
        if len(arrays) != len(operands):
            names = ", ".join(operand.name for operand in operands)
            raise structured.ArgumentError(f"{self.name} takes {names}; got {len(arrays)} arrays")
        count = arrays[0].shape[-1] if getattr(arrays[0], "ndim", 0) else 0
        for operand, array in zip(operands, arrays, strict=True):
            wanted = (*driver.array_shape(operand), count)
            if not isinstance(array, np.ndarray) or array.dtype != self.dtype or array.shape != wanted:
                got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise structured.ArgumentError(f"{operand.name} must be {self.dtype} of shape {wanted}, got {got}")
            if not array.flags.c_contiguous or (operand.name in self.program.written and not array.flags.writeable):
                raise structured.ArgumentError(f"{operand.name} must be C-contiguous, and writeable if it is written")
        self._run(*(array.ctypes.data for array in arrays), count)


def compile_batch_last(
    given: Any, *, dtype: Any = np.float64, name: str = "kernel", cache: Cache | str | None = "default", **operands: Any
) -> BatchKernel:
    """A kernel for matrices of sizes up to 8 whose batch is the last dimension. Arguments as of `compile`."""
    if isinstance(cache, str):
        cache = Cache(default_folder() if cache == "default" else Path(cache))
    source = structured.source_of(given, dtype=dtype, name=name, **operands)
    lanes = source.isa.lanes(source.element)
    entry = structured.digest(source.program, np.dtype(dtype), name, "host", f"batch last, {lanes} lanes")
    code = cache.read(entry) if cache is not None else None
    if code is None:
        with sets.LOCK:
            text = batch.emit(lower(source.program), name, source.element, lanes)
        code = cpu.assemble(text, (name,))
        if cache is not None:
            cache.write(entry, code)
    return BatchKernel(source.program, name, source.element, code)
