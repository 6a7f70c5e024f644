"""Applying a linear layout to ints, arrays and symbols.

Ints combine bases. Arrays go through tables: an input of n bits is cut into pieces of at most 11 bits, and each piece
looks its image up, so that a million indices cost two gathers instead of twenty exclusive ors. Symbols become fields of
bits, the form in `f2.fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lego_mlir.aliases import Array, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import is_array, is_symbolic
from lego_mlir.f2.matrix import combine
from lego_mlir.layout.values import check_range, coerce_indices, restore_kind

if TYPE_CHECKING:
    from lego_mlir.f2.linear import LinearLayout

PIECE_BITS = 11
"""Bits of an input that one table maps: 2048 entries of 8 bytes stay in the first-level cache."""


def apply(layout: LinearLayout, given: Mapping[str, IndexLike]) -> dict[str, IndexLike]:
    """The outputs of one value for each input. Raises LayoutError for a value outside its size."""
    values = coerce_indices(tuple(given.values()), 1 << max(layout.in_bits, layout.out_bits))
    for value, (name, size) in zip(values, layout.in_sizes.items(), strict=True):
        check_range(value, size, name)
    named = dict(zip(given, values, strict=True))
    if any(map(is_symbolic, values)):
        from lego_mlir.f2.fields import fields

        found = fields(layout, named)
        return {name: restore_kind(v, tuple(given.values())) for name, v in found.items()}
    flat: IndexLike = 0
    for name, value in named.items():
        columns = layout.columns_of(name)
        flat = flat ^ (_looked_up(columns, value, layout.out_bits) if is_array(value) else combine(columns, value))
    return _outputs(layout, flat)


def _looked_up(columns: tuple[int, ...], value: Array, out_bits: int) -> Array:
    """The image of an array of input values, piece by piece."""
    import numpy as np

    if out_bits > 63:
        raise LayoutError(f"LinearLayout: {out_bits} output bits are too many for int64 arrays; use Python's ints")
    image = np.zeros(value.shape, np.int64)
    for start in range(0, len(columns), PIECE_BITS):
        piece = columns[start : start + PIECE_BITS]
        table = np.zeros(1, np.int64)
        for column in piece:
            table = np.concatenate([table, table ^ column])
        image ^= table[value >> start & (len(table) - 1)]
    return image


def _outputs(layout: LinearLayout, flat: IndexLike) -> dict[str, IndexLike]:
    """The coordinates of a flat image."""
    outputs, at = {}, 0
    for name, bits in layout.outs:
        outputs[name] = flat >> at & ((1 << bits) - 1)
        at += bits
    return outputs
