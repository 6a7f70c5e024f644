"""Compiled kernels of moves (`host_kernels`), bound to arrays and run by several threads.

>>> import numpy as np
>>> from lego_mlir.formats.field_moves import Move
>>> x = np.arange(64 * 64, dtype=np.uint16)
>>> y = np.zeros_like(x)
>>> transposed = Move(((64, 16, 1024), (64, 1024, 16)), 16, (0, 0))
>>> kernel = compiled(planned((transposed,)), streaming=False)
>>> kernel([(x.ctypes.data, y.ctypes.data)], threads=2)
>>> bool((y.reshape(64, 64) == x.reshape(64, 64).T).all())
True
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Final

from lego_mlir.aliases import Foreign
from lego_mlir.errors import DependencyError
from lego_mlir.formats.exchange_tiles import REGISTER_BITS
from lego_mlir.formats.field_moves import Move
from lego_mlir.formats.host_kernels import NAME, HostMoves, kernel_of, kernel_text
from lego_mlir.runtime import cpu
from lego_mlir.store import Cache, default_folder, key

THREADS: Final = 2
ALIGNED: Final = REGISTER_BITS // 8
"""Bytes at which a target begins that is written past the caches."""


@dataclass(frozen=True)
class CompiledMoves:
    """Machine code of one kernel. Called with the addresses of the source and the target of each move."""

    moves: HostMoves
    library: Foreign = field(repr=False)

    def __call__(self, addresses: Sequence[tuple[int, int]], threads: int = THREADS) -> None:
        """Run all turns of the outermost loop, each thread a contiguous part of them; this thread runs the first."""
        count, flat = self.moves.count, [address for pair in addresses for address in pair]
        ends = [count * k // threads for k in range(threads + 1)]
        parts = list(pairwise(ends))
        others = [workers(threads).submit(self._function, *flat, *part) for part in parts[1:]]
        self._function(*flat, *parts[0])
        for other in others:
            other.result()

    @cached_property
    def _function(self) -> Callable[..., None]:
        kinds = [ctypes.c_void_p] * (2 * len(self.moves.moves)) + [ctypes.c_int64] * 2
        return ctypes.CFUNCTYPE(None, *kinds)(self.library.address(NAME))


@cache
def planned(moves: tuple[Move, ...], shared: int = 2) -> HostMoves | None:
    """The kernel of moves, planned once."""
    return kernel_of(moves, shared)


@cache
def compiled(kernel: HostMoves, streaming: bool) -> CompiledMoves | None:
    """The machine code of a kernel; None where MLIR is not installed."""
    try:
        return CompiledMoves(kernel, _library(kernel_text(kernel, streaming)))
    except DependencyError:  # a machine without MLIR has NumPy
        return None


@cache
def _library(text: str) -> Foreign:
    """Loaded code, from the cache on disk where this processor's is there."""
    files = Cache(default_folder())
    digest = key("moves", text.encode(), *cpu.PASSES, cpu.processor())
    code = files.read(digest)
    if code is None:
        code = cpu.assemble(text, (NAME,))
        files.write(digest, code)
    return cpu.load(code, (NAME,))


@cache
def workers(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work, as many."""
    return ThreadPoolExecutor(threads)
