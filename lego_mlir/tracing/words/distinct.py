"""`lego.assume_distinct(order)`: no two elements of a tensor of indices are equal.

Proofs assume it: threads that store to `y[order[i]]` for different i store to different elements. With a range only the
elements in it are distinct, such as slots of a cache, where -1 may stand in many places: a proof then needs that the
condition of the store leaves the others out. A run checks it: input that is drawn is a choice without repetition, and
supplied input is compared, as are arrays of calls with `check=True`. A kernel cannot store to such a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lego_mlir.errors import TraceError
from lego_mlir.tracing.trace.data_ranges import Distinct
from lego_mlir.tracing.trace.trace import Atomic, KernelTrace, Store
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.declared_range import as_exprs, require_range
from lego_mlir.tracing.words.tensor import View


def assume_distinct(tensor: View, range: Sequence[Any] | None = None) -> None:
    """State that the elements of a parameter, a tensor of integers, are distinct, or those in `range=(lo, end)`.

    Raises TraceError for anything else, for an empty range, and for a tensor that the kernel stores to.
    """
    tracer = current("lego.assume_distinct")
    if not isinstance(tensor, View) or tensor.buffer.space != "global" or tensor.dtype.family != "int":
        raise tracer.error(
            f"lego.assume_distinct takes a parameter of the kernel that is a tensor of integers, got {tensor!r}"
        )
    among = None if range is None else as_exprs(require_range("lego.assume_distinct", tensor.dtype, range))
    tracer.distinct.setdefault(tensor.buffer.name, Distinct(tracer.here(), among))


def refuse_stores_to_distinct(trace: KernelTrace) -> None:
    """Raise TraceError for a store to a tensor that is assumed to be distinct."""
    for statement, access in trace.accesses():
        if isinstance(statement, (Store, Atomic)) and access.buffer.name in trace.distinct:
            raise TraceError(
                f"{access.source}: the elements of {access.buffer.name} are assumed to be distinct, which loads rely "
                "on, so the kernel cannot store to it"
            )
