"""Applying a linear layout to ints, arrays and symbols.

Ints combine bases. Arrays go through tables: an input of n bits is cut into pieces of at most 11 bits, and each piece
looks its image up, so that a million indices cost two gathers instead of twenty exclusive ors. Symbols become fields of
bits, the form in `f2.fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from lego_mlir.aliases import Array, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import is_array, is_symbolic
from lego_mlir.f2.dims import split
from lego_mlir.f2.matrix import combine
from lego_mlir.layout.values import check_range, coerce_indices, restore_kind

if TYPE_CHECKING:
    from lego_mlir.f2.linear import LinearLayout

PIECE_BITS = 11
"""Bits of an input that one table maps: 2048 entries of 8 bytes stay in the first-level cache."""
BLOCK = 2**14
"""Indices mapped at a time."""


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
    if any(map(is_array, values)):
        return _apply_arrays(layout, named)
    flat = 0
    for name, value in named.items():
        flat ^= combine(layout.columns_of(name), value)
    return dict(zip(layout.out_sizes, split(flat, layout.outs), strict=True))


def _apply_arrays(layout: LinearLayout, given: Mapping[str, IndexLike]) -> dict[str, IndexLike]:
    """The outputs of arrays and ints, in blocks whose temporaries fit into the cache."""
    import numpy as np

    if layout.out_bits > 63:
        raise LayoutError(
            f"LinearLayout: {layout.out_bits} output bits are too many for int64 arrays; use Python's ints"
        )
    shape = np.broadcast_shapes(*(np.shape(v) for v in given.values()))
    start, pieces = 0, []
    for name, value in given.items():
        if is_array(value):
            pieces += _pieces(layout.columns_of(name), np.broadcast_to(value, shape).reshape(-1))
        else:
            start ^= combine(layout.columns_of(name), value)
    found = {name: np.empty(prod(shape), np.int64) for name in layout.out_sizes}
    for first in range(0, prod(shape), BLOCK):
        block = slice(first, first + BLOCK)
        flat = np.full(len(range(*block.indices(prod(shape)))), start, np.int64)
        for value, shift, table in pieces:
            # The index is in range: `wrap` only keeps NumPy from checking it again through a copy.
            flat ^= table.take((value[block] >> shift) & (len(table) - 1), mode="wrap")
        for name, bits in layout.outs:
            np.bitwise_and(flat, (1 << bits) - 1, out=found[name][block])
            flat >>= bits
    return {name: values.reshape(shape) for name, values in found.items()}


def _pieces(columns: tuple[int, ...], value: Array) -> list[tuple[Array, int, Array]]:
    """An input as (values, first bit, table of images) for each piece of its bits."""
    import numpy as np

    pieces = []
    for start in range(0, len(columns), PIECE_BITS):
        table = np.zeros(1, np.int64)
        for column in columns[start : start + PIECE_BITS]:
            table = np.concatenate([table, table ^ column])
        pieces.append((value, start, table))
    return pieces
