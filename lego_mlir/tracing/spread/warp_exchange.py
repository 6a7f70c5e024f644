"""Values that threads of several warps exchange through shared memory: each stores its own, and reads those of others.

Value v of thread t is at v * threads + t, so that the lanes of a warp access neighbours. Where one lane stores for its
warp, value v of warp w is at v * warps + w.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import cast

from lego_mlir.expr.index import Condition, Index
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.spread.coordinates import thread_ids
from lego_mlir.tracing.spread.scratch import scratch_in_turn
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words import warps
from lego_mlir.tracing.words.control import when
from lego_mlir.tracing.words.scalar import Scalar


def thread_number(tracer: Tracer) -> Index:
    """The number of this thread in its block or role."""
    ids = thread_ids(tracer)
    return ids["thread"] if "thread" in ids else ids["warp"] * WARP + ids["lane"]


def exchanged(
    tracer: Tracer,
    values: Sequence[tuple[Scalar, ...]],
    thread: Index,
    places: Sequence[Index],
    storing: Condition | None = None,
) -> list[list[tuple[Scalar, ...]]]:
    """For each tuple of values those of the threads at `places`, in this order; all threads of the block take part.

    Where one lane of a warp is `storing`, its values are those of the warp, and `thread` and `places` number the warps.
    """
    threads = cast(int, warps.threads(tracer)) // (1 if storing is None else WARP)
    columns = list(zip(*values, strict=True))
    kinds = {column[0].dtype: [k for k, c in enumerate(columns) if c[0].dtype == column[0].dtype] for column in columns}
    tiles = {kind: scratch_in_turn(tracer, kind, threads * len(values) * len(held)) for kind, held in kinds.items()}
    for tile in tiles.values():
        tile.before_stores()

    def start(component: int, number: int) -> Index:
        held = kinds[columns[component][0].dtype]
        tile = tiles[columns[component][0].dtype]
        return Index(tile.first + (held.index(component) * len(values) + number) * threads)

    with nullcontext() if storing is None else when(storing):
        for component, column in enumerate(columns):
            for number, value in enumerate(column):
                tiles[value.dtype].view[start(component, number) + thread] = value
    next(iter(tiles.values())).before_loads()
    found = [
        [
            tuple(tiles[c[0].dtype].view[start(component, number) + place] for component, c in enumerate(columns))
            for place in places
        ]
        for number in range(len(values))
    ]
    for tile in tiles.values():
        tile.after_loads()
    return found
