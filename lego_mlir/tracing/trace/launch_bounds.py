"""Limits that a kernel sets on its registers: `@lego.kernel(.., max_registers=64)`, `@lego.kernel(.., min_blocks=4)`.

| written | CUDA | PTX |
|---|---|---|
| `max_registers=n` | `__maxnreg__(n)` | `.maxnreg n`: a thread has at most n registers |
| `min_blocks=n` | `__launch_bounds__(threads, n)` | `.minnctapersm n`: few enough that n blocks fit a multiprocessor |

With both, a thread has at most n registers and few enough for the blocks: `.maxnreg` of the smaller number. ptxas keeps
them by spilling registers to local memory. They change no result. PTX ISA, "Performance-Tuning Directives". Kernels
that load tiles without a layout have as many `min_blocks` as their values leave room for, where neither is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from lego_mlir.errors import TraceError
from lego_mlir.hardware.limits import BLOCKS_PER_SM, REGISTERS_PER_SM, THREADS_PER_SM, WARP

REGISTERS: Final = range(1, 256)
"""Registers of a thread; ptxas raises a number below what its calling convention needs (nvcc, `--maxrregcount`)."""
REGISTER_UNIT: Final = 8
"""Registers of a thread are granted in multiples of this, for whole warps (that guide, "Hardware Multithreading")."""


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """At most `max_registers` for a thread, or as few as `min_blocks` blocks need; None for what ptxas finds best."""

    max_registers: int | None = None
    min_blocks: int | None = None

    def attributes(self) -> dict[str, int]:
        """The attributes of the kernel's function."""
        given = {"nvvm.maxnreg": self.max_registers, "nvvm.minctasm": self.min_blocks}
        return {name: value for name, value in given.items() if value is not None}


NO_BOUNDS: Final = LaunchBounds()


def launch_bounds(max_registers: object, min_blocks: object, block: Sequence[object], where: object) -> LaunchBounds:
    """The bounds of a kernel of this block. Raises TraceError for those that no launch can have."""
    if max_registers is not None and not (type(max_registers) is int and max_registers in REGISTERS):
        raise TraceError(
            f"{where}: max_registers={max_registers!r} is an int from {REGISTERS.start} to {REGISTERS[-1]}, the "
            "registers of a thread"
        )
    threads = prod(n if isinstance(n, int) else 1 for n in block)
    fitting = min(BLOCKS_PER_SM, THREADS_PER_SM // max(1, threads))
    if min_blocks is not None and not (type(min_blocks) is int and 1 <= min_blocks <= fitting):
        raise TraceError(
            f"{where}: min_blocks={min_blocks!r} is an int from 1 to {fitting}, the blocks of {threads} threads that a "
            "multiprocessor may run at once"
        )
    if isinstance(max_registers, int) and isinstance(min_blocks, int):
        warps = -(-threads // WARP)
        shared_out = REGISTERS_PER_SM // (min_blocks * warps * WARP) // REGISTER_UNIT * REGISTER_UNIT
        max_registers = min(max_registers, shared_out)
    return LaunchBounds(max_registers, min_blocks)
