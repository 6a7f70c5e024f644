"""`lego.load(s.repeat(1, 32), layout, at=..)`: the scales of a tile's blocks, in the places of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.f2.boxed import boxed, linear
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import shape_of
from lego_mlir.tracing.spread.accesses import load
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.repeated_views import RepeatedView

if TYPE_CHECKING:
    from lego_mlir.tracing.words.cache_hints import Cache, Evict


def load_repeated(
    source: RepeatedView,
    layout: LinearLayout,
    at: Sequence[IndexLike] | None,
    other: Operand,
    cache: Cache | None,
    evict: Evict | None,
) -> Spread:
    """The element of `source` for each element of a tile in `layout`. Register r of the tile has that of register r."""
    shape, rank = shape_of(layout), len(layout.outs)
    first = (at,) if isinstance(at, int) else tuple(at) if at is not None else (0,) * len(source.counts)
    blocks = source.blocks_at(current("lego.load"), first, shape)
    scales = load(source.view, block_layout(layout, source.counts[-rank:]), blocks, other, cache, evict)
    return Spread(layout, scales.dtype, scales.registers)


def block_layout(layout: LinearLayout, counts: Sequence[int]) -> LinearLayout:
    """Where a tile's layout places the blocks of `counts` elements: its bits without the lowest of each axis.

    >>> from lego_mlir import f2
    >>> tile = f2.Blocked((1, 8), (4, 8), (1, 1), order=(1, 0)).layout((4, 64))
    >>> block_layout(tile, (1, 32)).bases["lane"]
    [(0, 0), (0, 0), (0, 1), (1, 0), (2, 0)]
    """
    whole = linear(layout)
    bases = {
        place: [tuple(n // count for n, count in zip(basis, counts, strict=True)) for basis in found]
        for place, found in whole.bases.items()
    }
    sizes = {name: max(1, n // count) for (name, n), count in zip(whole.out_sizes.items(), counts, strict=True)}
    shape = [max(1, -(-n // count)) for n, count in zip(shape_of(layout), counts, strict=True)]
    return boxed(LinearLayout(bases, sizes), shape)
