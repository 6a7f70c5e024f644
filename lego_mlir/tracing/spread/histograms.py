"""`x.histogram(bins)`: how many elements of a spread value have each number, by atomic additions in shared memory."""

from __future__ import annotations

from typing import cast

from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.f2.encodings import Blocked
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.spread.accesses import load
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.filled import zeros
from lego_mlir.tracing.spread.scratch import scratch_in_turn
from lego_mlir.tracing.trace.dtypes import i32
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import warps
from lego_mlir.tracing.words.reductions import require_uniform


def histogram(x: Spread, bins: int, mask: Spread | None, layout: LinearLayout | None) -> Spread:
    """The method `Spread.histogram`."""
    tracer, x = current("histogram"), x.get()
    if x.dtype.family != "int":
        raise tracer.error(f"histogram counts integers, got {x!r}; convert it, for example with .to(lego.i32)")
    if type(bins) is not int or bins < 1 or bins & (bins - 1):
        raise tracer.error(
            f"histogram: bins={bins!r} is a power of two; take the next one, whose last counts are 0", LayoutError
        )
    require_uniform(tracer, "the histogram of a spread value")
    placed = layout or ((bins,) if x.is_open else _layout(bins, cast(int, warps.threads(tracer)) // WARP))
    inside = (x < bins) if x.dtype.is_unsigned else (x >= 0) & (x < bins)
    tile = scratch_in_turn(tracer, i32, bins)
    tile.before_stores()
    zeros(i32, placed).store(tile.view, at=(tile.first,))
    tile.before_loads()
    place = x.map(lambda value: Index(value) + tile.first, x)
    tile.view.atomic_add(1, place, scope="block", mask=inside if mask is None else inside & mask)
    tile.before_loads()
    counts = load(tile.view, placed, at=(tile.first,))
    tile.after_loads()
    return counts


def _layout(bins: int, count: int) -> LinearLayout:
    """Bins over a power of two of the warps; of three warps the third holds copies."""
    dividing = 1 << (count.bit_length() - 1)
    layout = Blocked((1,), (WARP,), (dividing,), order=(0,)).layout((bins,))
    return layout if count == dividing else layout * LinearLayout.zeros(2, "warp", "dim0")
