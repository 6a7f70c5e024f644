"""Encodings of shared memory: swizzled by exclusive or, and the tiles of the tensor-copy engine (section 4.3).

A memory encoding maps offsets, counted in elements, to the elements of a tensor. The swizzle of definition 4.11 is its
own inverse, so the map from offsets to coordinates has the same form.

>>> SwizzledShared(vec=2, per_phase=1, max_phase=4, order=(1, 0)).layout((4, 8)).bases["offset"]
[(0, 1), (0, 2), (0, 4), (1, 2), (2, 4)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.errors import LayoutError
from lego_mlir.f2.dims import log2
from lego_mlir.f2.encodings.blocked import require_order
from lego_mlir.f2.encodings.tiles import (
    MEMORY,
    Blocks,
    fitted,
    part_of_a_block,
    product_of,
    repeated,
    require_shape,
    require_sizes,
)
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import reshape, standard_dims, trans

BOX_ELEMENTS = 256
"""The most elements of a tensor copy's box along one dimension (PTX ISA, cp.async.bulk.tensor, boxDim)."""
SWIZZLE_ROWS = 8
"""Rows after which the tensor copy's swizzle patterns repeat (PTX ISA, swizzling modes)."""


@dataclass(frozen=True)
class SwizzledShared:
    """Definition 4.11: groups of `vec` columns exclusive-ored with `row / per_phase mod max_phase`.

    `order[0]` is the axis of columns, `order[1]` that of rows; 1 for all three parameters is unswizzled.
    """

    vec: int
    per_phase: int
    max_phase: int
    order: tuple[int, ...]
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        require_sizes("SwizzledShared", vec=(self.vec,), per_phase=(self.per_phase,), max_phase=(self.max_phase,))
        require_order("SwizzledShared", self.order)

    @property
    def rank(self) -> int:
        return len(self.order)

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """offset, block -> `dim0, ..`."""
        require_shape("SwizzledShared", shape, self.rank)
        names = standard_dims(self.rank)
        part = part_of_a_block(shape, self.blocks)
        if self.rank == 1:
            return fitted(LinearLayout.identity(part[0], "offset", names[0]), shape, self.blocks, MEMORY)
        columns, rows = part[self.order[0]], part[self.order[1]]
        swizzled = [
            (1 << j, self.vec * ((1 << j) // self.per_phase % self.max_phase) % columns) for j in range(log2(rows))
        ]
        tile = LinearLayout(
            {"offset": [*((0, 1 << i) for i in range(log2(columns))), *swizzled]},
            {names[self.order[1]]: rows, names[self.order[0]]: columns},
        )
        outer = (LinearLayout.identity(part[axis], "offset", names[axis]) for axis in self.order[2:])
        return fitted(product_of(tile, *outer), shape, self.blocks, MEMORY)


@dataclass(frozen=True)
class TensorCopyShared:
    """A box of the tensor-copy engine: rows of `swizzle` bytes (0, 32, 64 or 128), 16-byte groups exclusive-ored.

    `transposed`: the first dimension is contiguous. `fp4_padded`: 8 bytes of packed f4 pairs, 8 bytes of padding.
    Raises LayoutError for a shape smaller than eight rows of one swizzle's width. PTX ISA, cp.async.bulk.tensor.
    """

    swizzle: int
    bits: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        if self.swizzle not in (0, 32, 64, 128):
            raise LayoutError(f"TensorCopyShared: swizzle={self.swizzle!r} must be 0, 32, 64 or 128 bytes")
        if self.bits not in (8, 16, 32, 64):
            raise LayoutError(f"TensorCopyShared: bits={self.bits!r} must be 8, 16, 32 or 64 bits an element")
        if self.fp4_padded and self.bits != 8:
            raise LayoutError(f"TensorCopyShared: padded f4 pairs are bytes, not {self.bits} bits")
        if self.transposed and self.rank > 2:
            raise LayoutError(f"TensorCopyShared: only matrices can be transposed, not rank={self.rank!r}")

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """offset, block -> `dim0, ..`."""
        require_shape("TensorCopyShared", shape, self.rank)
        part = part_of_a_block(shape, self.blocks)
        names = standard_dims(self.rank)
        if self.swizzle == 0:
            axes = range(self.rank) if self.transposed else range(self.rank - 1, -1, -1)
            rows = product_of(*(LinearLayout.identity(min(part[k], BOX_ELEMENTS), "offset", names[k]) for k in axes))
            return fitted(rows, shape, self.blocks, MEMORY)
        box = self._box(part)
        tile = self._swizzled_rows(box)
        tile = repeated(tile, dict(zip(names, part, strict=True)), "offset")
        return fitted(tile, shape, self.blocks, MEMORY)

    def _box(self, part: Sequence[int]) -> tuple[int, ...]:
        """The shape of one copy's box: the contiguous dimension is one swizzle wide."""
        inner = 0 if self.transposed else self.rank - 1
        width = 8 * self.swizzle // self.bits // (2 if self.fp4_padded else 1)
        if self.rank < 2 or part[inner] < width:
            raise LayoutError(
                f"TensorCopyShared: the contiguous dimension of {list(part)} must have at least the {width} elements "
                f"of a {self.swizzle}-byte swizzle"
            )
        return tuple(width if k == inner else min(n, BOX_ELEMENTS) for k, n in enumerate(part))

    def _packed(self, column: int) -> int:
        """The element of a byte column: of padded f4 pairs, the upper 8 of 16 bytes repeat the lower ones."""
        return column // 16 * 8 + column % 8 if self.fp4_padded else column

    def _swizzled_rows(self, box: Sequence[int]) -> LinearLayout:
        """One box: all outer dimensions counted together as rows of one swizzle's width."""
        width = 8 * self.swizzle // self.bits
        group = 128 // self.bits
        per_phase, max_phase = {32: (4, 2), 64: (2, 4), 128: (1, 8)}[self.swizzle]
        bases = [
            *((0, self._packed(1 << i)) for i in range(log2(width))),
            *((1 << j, self._packed(group * ((1 << j) // per_phase % max_phase))) for j in range(log2(SWIZZLE_ROWS))),
        ]
        inner = box[0] if self.transposed else box[-1]
        rows = 1
        for n in box:
            rows *= n
        rows //= inner
        if rows < SWIZZLE_ROWS:
            raise LayoutError(f"TensorCopyShared: a box of {rows} rows; the swizzle pattern has {SWIZZLE_ROWS}")
        tile = LinearLayout({"offset": bases}, {"dim0": SWIZZLE_ROWS, "dim1": inner})
        whole = repeated(tile, {"dim0": rows, "dim1": inner}, "offset")
        if self.transposed:
            return trans(whole, (1, 0))
        return reshape(whole, box)
