"""A linear layout as an index expression: fields of bits, each masked, shifted and combined.

All columns of one input that move a bit by the same distance form one field: `(lane & 3) << 1` moves two bits. The mask
is omitted where the shift alone keeps exactly these bits. Fields whose images are disjoint are joined by `|`, others by
`^`.

>>> from lego_mlir import symbols
>>> from lego_mlir.f2.linear import LinearLayout
>>> thread, = symbols("thread")
>>> L = LinearLayout({"thread": [4, 8, 16, 1, 2]}, {"offset": 32})
>>> L.apply(thread)["offset"]
((thread & 7) << 2) | (thread >> 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lego_mlir.aliases import IndexLike
from lego_mlir.f2.matrix import bits_of, combine

if TYPE_CHECKING:
    from lego_mlir.f2.linear import LinearLayout


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
