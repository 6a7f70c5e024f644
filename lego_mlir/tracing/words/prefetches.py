"""`lego.prefetch(x, at=(i, j))`: a line of a tensor into a cache, before it is needed.

In a trace it is a load whose result is not used and whose hint is a level: it reads memory, and claims nothing more. In
the module it is `memref.prefetch`, on a GPU `prefetch.global.L2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lego_mlir.aliases import IndexLike
from lego_mlir.tracing.trace.trace import Load
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.cache_hints import LEVELS
from lego_mlir.tracing.words.scalar import as_value
from lego_mlir.tracing.words.tensor import View


def prefetch(source: View, at: Sequence[IndexLike] | IndexLike, level: Literal["l1", "l2"] = "l2") -> None:
    """Bring the line of an element into the cache, by each thread that runs this; nothing outside of the tensor.

    `at` has one index for each dimension of `source`, a tensor.
    """
    tracer = current("lego.prefetch")
    if not isinstance(source, View) or source.buffer.space != "global":
        raise tracer.error(f"lego.prefetch takes a tensor of the kernel, got {source!r}; shared memory has no cache")
    if level not in LEVELS:
        raise tracer.error(f"lego.prefetch: level is one of {', '.join(LEVELS)}, got {level!r}")
    view = source if source.boundary is not None else source.halo("zero")
    access = view.place(*(at if isinstance(at, tuple | list) else (at,))).access(1)
    other = as_value(0, source.dtype) if access.is_masked else None
    result = tracer.value(source.dtype)
    tracer.append(Load(result, replace(access, hint=LEVELS[level]), other, access.source))
