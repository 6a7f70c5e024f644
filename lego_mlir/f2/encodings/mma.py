"""NVIDIA's tensor-core fragments: results and operands of `mma.sync` and `wgmma` (proposition 4.7).

All of them are one pattern, the 8x8 block of the PTX ISA (matrix fragments of mma.m16n8k16): four lanes along a row,
each with a few neighbouring elements, eight rows of lanes, then further registers. A result has two neighbours per
lane, an operand as many as fill 32 bits.

>>> MmaSync((2, 2)).layout((16, 8)).bases["register"], MmaSync((1, 1)).layout((16, 8)).bases["lane"]
([(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import LayoutError
from lego_mlir.f2.boxed import boxed
from lego_mlir.f2.encodings.blocked import Blocked
from lego_mlir.f2.encodings.tiles import (
    Blocks,
    fitted,
    product_of,
    require_box,
    require_rank,
    require_shape,
    require_sizes,
)
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims

RESULT_NEIGHBOURS = 2
"""Elements of a row that one lane holds side by side in a result fragment, of any type (PTX ISA, mma.m16n8k16)."""


@dataclass(frozen=True)
class MmaSync:
    """The 16x8 result of `mma.sync`, `warps` along each dimension (batch first for rank 3)."""

    warps: tuple[int, ...]
    instruction: tuple[int, int] = (16, 8)
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        _require("MmaSync", self.warps, self.instruction)

    @property
    def rank(self) -> int:
        return len(self.warps)

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, ..`; M and N are the last two dimensions."""
        wide = require_box("MmaSync", shape, self.rank)
        names = standard_dims(self.rank)
        m, n = self.instruction
        tile = _fragment(names[-1], names[-2], m, n, RESULT_NEIGHBOURS)
        return boxed(fitted(tile * self.warp_layout(names), wide, self.blocks), shape)

    def warp_layout(self, names: Sequence[str], missing: str = "") -> LinearLayout:
        """The warps of a block: N fastest, then M, then the batch; along `missing` they hold copies."""
        return _warps(names, self.warps, range(self.rank - 1, -1, -1), missing)


@dataclass(frozen=True)
class Wgmma:
    """The 64xN result of `wgmma` as four 16xN parts, one per warp of a group (PTX ISA, wgmma)."""

    warps: tuple[int, ...]
    n: int
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        _require("Wgmma", self.warps, (16, self.n))

    @property
    def rank(self) -> int:
        return len(self.warps)

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, dim1`."""
        require_shape("Wgmma", shape, self.rank)
        names = standard_dims(self.rank)
        tile = _fragment(names[-1], names[-2], 16, self.n, RESULT_NEIGHBOURS)
        return fitted(tile * self.warp_layout(names), shape, self.blocks)

    def warp_layout(self, names: Sequence[str], missing: str = "") -> LinearLayout:
        """The warps of a block: M fastest; along `missing` they hold copies."""
        order = (*range(self.rank - 2, self.rank), *range(self.rank - 3, -1, -1))
        return _warps(names, self.warps, order, missing)


@dataclass(frozen=True)
class MmaOperand:
    """An operand of a product in registers: A (index 0, MxK) or B (index 1, KxN) of the result in `parent`.

    `k_width` is the number of neighbours along K in one lane: 32 bits of elements for `mma.sync` (2 for f16). Of a
    blocked parent, every thread holds all of K.
    """

    index: int
    parent: MmaSync | Wgmma | Blocked
    k_width: int = 2

    def __post_init__(self) -> None:
        if self.index not in (0, 1) or (isinstance(self.parent, Wgmma) and self.index == 1):
            which = "0: wgmma reads B from shared memory" if isinstance(self.parent, Wgmma) else "0 (A) or 1 (B)"
            raise LayoutError(f"MmaOperand: index={self.index!r} must be {which}")
        require_sizes("MmaOperand", k_width=(self.k_width,))

    @property
    def rank(self) -> int:
        return self.parent.rank

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, ..`, of the operand."""
        tile, shape = shape, require_box("MmaOperand", shape, self.rank)
        return boxed(self._padded(shape), tile)

    def _padded(self, shape: Sequence[int]) -> LinearLayout:
        names = standard_dims(self.rank)
        k_axis = self.rank - 1 if self.index == 0 else self.rank - 2
        outer_axis = self.rank - 2 if self.index == 0 else self.rank - 1
        blocks = [[0 if axis == k_axis else v for axis, v in enumerate(basis)] for basis in self.parent.blocks]
        if isinstance(self.parent, Blocked):
            return fitted(_blocked_operand(self.parent, shape, k_axis), shape, blocks)
        rows = 16 if self.index == 0 else 8
        tile = _fragment(names[k_axis], names[outer_axis], rows, 8 * self.k_width, self.k_width)
        return fitted(tile * self.parent.warp_layout(names, missing=names[k_axis]), shape, blocks)


@dataclass(frozen=True)
class MmaMetadata:
    """The metadata of `mma.sp`, whose A keeps two of each four neighbours: 16 bits for 16 columns of a row of A.

    An element of the M x K / 16 tile has the places of eight kept elements, two bits each. With operands of 16 bits two
    lanes of four hold the words of one instruction (rows r and r + 8), and the other two those of the next one along K;
    with operands of 8 bits all four do (rows r, r + 8; two neighbours along K). PTX ISA, "Sparse matrix storage".
    """

    parent: MmaSync
    bits: int = 16

    def __post_init__(self) -> None:
        if self.bits not in (8, 16) or self.parent.rank != 2:
            raise LayoutError(
                f"MmaMetadata: operands of {self.bits!r} bits; mma.sp here takes 8 or 16, of two dimensions"
            )

    @property
    def rank(self) -> int:
        return 2

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp -> `dim0, dim1`, of the metadata."""
        require_shape("MmaMetadata", shape, 2)
        rows, columns = standard_dims(2)
        tile = LinearLayout(_METADATA[self.bits], {rows: 16, columns: 4})
        return fitted(tile * self.parent.warp_layout((rows, columns), missing=columns), shape, self.parent.blocks)


_METADATA: Final = {
    16: {"register": [(8, 0)], "lane": [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]},
    8: {"register": [(0, 1)], "lane": [(8, 0), (0, 2), (1, 0), (2, 0), (4, 0)]},
}
"""The bases of 16 rows and 64 columns of A."""


def _fragment(inner: str, outer: str, rows: int, columns: int, neighbours: int) -> LinearLayout:
    """One instruction's fragment: `inner` runs along the four lanes of a row, `outer` along the eight rows of lanes."""
    return product_of(
        LinearLayout.identity(neighbours, "register", inner),
        LinearLayout.identity(4, "lane", inner),
        LinearLayout.identity(8, "lane", outer),
        LinearLayout.identity(rows // 8, "register", outer),
        LinearLayout.identity(columns // (4 * neighbours), "register", inner),
    )


def _warps(names: Sequence[str], warps: Sequence[int], order: Sequence[int], missing: str) -> LinearLayout:
    return product_of(
        *(
            LinearLayout.zeros(warps[axis], "warp", names[axis])
            if names[axis] == missing
            else LinearLayout.identity(warps[axis], "warp", names[axis])
            for axis in order
        )
    )


def _blocked_operand(parent: Blocked, shape: Sequence[int], k_axis: int) -> LinearLayout:
    """The operand of a scalar product: all of K in each thread, lanes and warps along K hold copies."""
    names = standard_dims(parent.rank)

    def box(place: str, sizes: Sequence[int]) -> LinearLayout:
        return product_of(
            *(
                LinearLayout.zeros(sizes[axis], place, names[axis])
                if axis == k_axis and place != "register"
                else LinearLayout.identity(shape[axis] if axis == k_axis else sizes[axis], place, names[axis])
                for axis in parent.order
            )
        )

    return product_of(
        box("register", parent.size_per_thread), box("lane", parent.threads_per_warp), box("warp", parent.warps)
    )


def _require(encoding: str, warps: Sequence[int], instruction: Sequence[int]) -> None:
    require_sizes(encoding, warps=warps, instruction=instruction)
    if len(warps) not in (2, 3):
        raise LayoutError(f"{encoding}: warps={list(warps)} must have 2 entries, or 3 for a batch of products")
    require_rank(encoding, 2, instruction=instruction)
    if instruction[0] % 8 or instruction[1] % 8:
        raise LayoutError(f"{encoding}: instruction={list(instruction)} must be multiples of 8")
