"""`lego.fence()`: a thread's accesses before it are visible to other threads before those after it.

    y[i] = x                               data.atomic_load(..) sees the flag
    lego.fence()                           lego.fence()
    flag.atomic_store(1, b)                z = y[i]

Between the threads of a block `lego.barrier()` does this. Across blocks the flag is updated atomically, and a fence on
each side orders the data (PTX ISA, "fence"; CUDA's __threadfence). The interpreter knows the order of barriers only: it
reports plain data that blocks pass to each other as a race. Updated with `atomic_store` and `atomic_load`, it is none.
"""

from __future__ import annotations

from typing import Final

from lego_mlir.errors import did_you_mean
from lego_mlir.tracing.trace.trace import MlirOperation
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.atomics import SCOPES

_ACQUIRE_RELEASE: Final = "6 : i64"  # llvm::AtomicOrdering


def fence(scope: str = "device") -> None:
    """Order this thread's accesses for the threads of the device, or of the "block"."""
    tracer = current("lego.fence")
    if scope not in SCOPES:
        raise tracer.error(
            f"lego.fence: the scope {scope!r} must be {' or '.join(SCOPES)}{did_you_mean(str(scope), SCOPES)}"
        )
    attributes = (("ordering", _ACQUIRE_RELEASE), ("syncscope", f'"{scope}"'))
    tracer.append(MlirOperation((), "llvm.fence", (), attributes, tracer.here()))
