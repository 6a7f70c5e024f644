"""A GPU kernel on this machine's processor: its blocks and threads as loops (`toolchain/host_loops.py`), compiled.

It is a hundred times faster than the interpreter, but detects none of its faults: races and out-of-bounds accesses are
undefined. Arguments are arrays as stored in memory, as for `interp.run_kernel`.

>>> import numpy
>>> text = '''gpu.module @m { gpu.func @double(%x: memref<64xf32>) kernel
...     attributes {known_block_size = array<i32: 32, 1, 1>} {
...   %b = gpu.block_id x
...   %t = gpu.thread_id x
...   %i = affine.apply affine_map<(b, t) -> (32 * b + t)>(%b, %t)
...   %v = memref.load %x[%i] : memref<64xf32>
...   %w = arith.addf %v, %v : f32
...   memref.store %w, %x[%i] : memref<64xf32>
...   gpu.return } }'''
>>> x = numpy.arange(64, dtype=numpy.float32)
>>> compile_kernels(text)["double"]([x], grid=(2,))
>>> x[60:].tolist()
[120.0, 122.0, 124.0, 126.0]
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import UsageError
from lego_mlir.expr.index import is_masked
from lego_mlir.runtime import cpu
from lego_mlir.store import Cache, key
from lego_mlir.tracing.trace.dtypes import dtype_named

if TYPE_CHECKING:
    from lego_mlir.runtime import image
    from lego_mlir.runtime.manifest import KernelEntry

# The passes of cpu, and those for what a structured kernel never holds.
PASSES: Final = (
    "lower-affine",
    "convert-vector-to-scf",
    "arith-expand{include-bf16=true}",
    *cpu.PASSES[:4],
    "convert-math-to-libm",
    *cpu.PASSES[4:],
)
_SCALARS: Final = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "index": ctypes.c_int64,
    "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16, "f8e4m3fn": ctypes.c_uint8, "f8e5m2": ctypes.c_uint8,
    "i1": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
}  # fmt: skip


@dataclass(frozen=True)
class HostKernel:
    """A compiled kernel. Calling it runs its blocks in order, in this thread, or in parts of the grid on several."""

    name: str
    kinds: tuple[str, ...]  # "tensor", or a scalar's element type
    library: cpu.Library | image.Image = field(repr=False)

    def __call__(self, arguments: Sequence[Any], grid: Sequence[int], threads: int = 1) -> None:
        """Run all blocks of a grid on arrays or their addresses, in place, and numbers, in the signature's order.

        With `threads` above 1, each runs a contiguous part of the blocks, so an order of the blocks that reuses data
        does so on every core. Blocks must be independent, as on a GPU; raises UsageError for threads below 1.
        """
        if threads < 1:
            raise UsageError(f"{self.name}: threads={threads} must be at least 1")
        if len(arguments) != len(self.kinds):
            raise UsageError(f"{self.name} takes {len(self.kinds)} arguments, got {len(arguments)}")
        extents = (*grid, 1, 1)[:3]
        passed = [_passed(kind, value) for kind, value in zip(self.kinds, arguments, strict=True)]
        blocks = prod(extents)
        if threads == 1:
            self._function(*passed, extents[0], extents[1], 0, blocks)
            return
        from concurrent.futures import ThreadPoolExecutor

        ends = [blocks * k // threads for k in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:  # ctypes releases Python's lock during a call
            parts = [
                pool.submit(self._function, *passed, extents[0], extents[1], first, last)
                for first, last in pairwise(ends)
            ]
            for part in parts:
                part.result()

    @cached_property
    def _function(self) -> Callable[..., None]:
        types: list[Any] = [ctypes.c_void_p if kind == "tensor" else _SCALARS[kind.lower()] for kind in self.kinds]
        return ctypes.CFUNCTYPE(None, *types, *[ctypes.c_int64] * 4)(self.library.address(self.name))


def compile_kernels(text: str, cache: Cache | None = None) -> dict[str, HostKernel]:
    """Compile all kernels of a module with `gpu.func`s, for this machine; `cache` keeps their machine code."""
    code, signatures = machine_code(text, cache)
    library = cpu.load(code, tuple(signatures))
    return {name: HostKernel(name, kinds, library) for name, kinds in signatures.items()}


def machine_code(text: str, cache: Cache | None = None) -> tuple[bytes, dict[str, tuple[str, ...]]]:
    """An object file of all kernels of a module, and what each takes."""
    from lego_mlir.toolchain import host_loops

    host, signatures = host_loops.to_host(text)
    digest = "" if cache is None else key("host", host.encode(), *PASSES, cpu.processor())
    code = None if cache is None else cache.read(digest)
    if code is None:
        code = cpu.assemble(host, tuple(signatures), passes=PASSES)
        if cache is not None:
            cache.write(digest, code)
    return code, signatures


def loaded(entry: KernelEntry, code: bytes) -> HostKernel:
    """A kernel of an object file, as it is launched; needs no compiler."""
    kinds = ["tensor" if a.kind == "tensor" else a.dtype.replace("u", "i") for a in entry.arguments]
    kinds += ["index"] * len(entry.sizes)
    return HostKernel(entry.entry, tuple(kinds), cpu.load(code, (entry.entry,)))


def _passed(kind: str, value: Any) -> Any:
    """A tensor's address, or a number as C passes it."""
    import numpy

    if kind == "tensor":
        if isinstance(value, int):
            return ctypes.c_void_p(value)
        if not isinstance(value, numpy.ndarray) or is_masked(value) or not value.flags.c_contiguous:
            raise UsageError(f"a tensor is passed as a C-contiguous NumPy array, got {type(value).__name__}")
        return ctypes.c_void_p(value.ctypes.data)
    kind = kind.lower()  # MLIR's f8E4M3FN
    if kind in ("f16", "bf16", "f8e4m3fn", "f8e5m2"):
        dtype = dtype_named(kind)
        value = int(numpy.asarray(value, dtype.numpy).view(f"u{dtype.bytes}"))
    return _SCALARS[kind](value)
