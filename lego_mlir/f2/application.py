"""Applying a linear layout to ints, arrays and symbols.

Ints combine bases. Arrays go through tables: an input of n bits is cut into pieces of at most 11 bits, and each piece
looks its image up, so that a million indices cost two gathers instead of twenty exclusive ors. Symbols become fields of
bits, each masked, shifted and combined: all columns of one input that move a bit by the same distance form one field:
`(lane & 3) << 1` moves two bits. The mask is omitted where the shift alone keeps exactly these bits. Fields whose
images are disjoint are joined by `|`, others by `^`.

>>> from lego_mlir import symbols
>>> from lego_mlir.f2.linear import LinearLayout
>>> thread, = symbols("thread")
>>> L = LinearLayout({"thread": [4, 8, 16, 1, 2]}, {"offset": 32})
>>> L.apply(thread)["offset"]
((thread & 7) << 2) | (thread >> 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from lego_mlir.aliases import Array, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import is_array, is_symbolic
from lego_mlir.f2.dims import split
from lego_mlir.f2.matrix import bits_of, combine
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


def fields(layout: LinearLayout, given: Mapping[str, IndexLike]) -> dict[str, IndexLike]:
    """Each output as fields of the inputs; constant inputs are folded."""
    outputs, at = {}, 0
    for name, bits in layout.outs:
        shifts, constant = _diagonals(layout, given, at, bits)
        outputs[name] = _joined(layout, given, shifts, constant)
        at += bits
    return outputs


def _diagonals(
    layout: LinearLayout, given: Mapping[str, IndexLike], at: int, bits: int
) -> tuple[dict[tuple[str, int], int], int]:
    """For one output: (input, distance) -> mask of the input bits moved by that distance, and the constant part."""
    shifts: dict[tuple[str, int], int] = {}
    constant = 0
    for name, _ in layout.ins:
        columns = [c >> at & ((1 << bits) - 1) for c in layout.columns_of(name)]
        value = given[name]
        if isinstance(value, int):
            constant ^= combine(columns, value)
            continue
        for k, column in enumerate(columns):
            for bit in bits_of(column):
                shifts[name, bit - k] = shifts.get((name, bit - k), 0) | 1 << k
    return shifts, constant


def _joined(
    layout: LinearLayout, given: Mapping[str, IndexLike], shifts: Mapping[tuple[str, int], int], constant: int
) -> IndexLike:
    """The fields as one expression, constants last."""
    sizes = dict(layout.ins)
    result: IndexLike = None
    covered = 0
    order = list(sizes)
    for (name, distance), mask in sorted(
        shifts.items(), key=lambda item: (order.index(item[0][0]), item[1] & -item[1], item[0][1])
    ):
        term, image = _field(given[name], sizes[name], distance, mask), _shifted(mask, distance)
        result = term if result is None else result ^ term if covered & image else result | term
        covered |= image
    if result is None:
        return constant
    if not constant:
        return result
    return result ^ constant if covered & constant else result | constant


def _shifted(mask: int, distance: int) -> int:
    return mask << distance if distance >= 0 else mask >> -distance


def _field(value: IndexLike, bits: int, distance: int, mask: int) -> IndexLike:
    """The masked bits of a value, moved by a distance."""
    whole = (1 << bits) - 1
    kept = whole if distance >= 0 else whole >> -distance << -distance
    moved = value if mask == kept else value & mask
    return moved << distance if distance > 0 else moved >> -distance if distance < 0 else moved
