"""AMD's matrix-core fragments: results and operands of `mfma` and `wmma`.

An MFMA result gives each lane four neighbours along one dimension (one for f64) and its lanes along the other; the
`transposed` form exchanges the two. A WMMA result has 16 lanes along a dimension, the two halves of the wave along the
other (AMD matrix instruction calculator; CDNA3 ISA, section 7.1).

>>> Mfma((16, 16, 16), warps=(1, 1)).layout((16, 16)).bases["register"]
[(1, 0), (2, 0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.errors import LayoutError
from lego_mlir.f2.encodings.tiles import (
    Blocks,
    fitted,
    part_of_a_block,
    product_of,
    require_rank,
    require_shape,
    require_sizes,
)
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims

WAVE = 64
"""Lanes of a wave of a CDNA processor."""
MFMA_NEIGHBOURS = {32: 4, 64: 1}
"""Bits of a result's element -> neighbours in one lane (CDNA3 ISA, section 7.1)."""
MFMA_SHAPES = ((32, 32), (16, 16), (64, 4), (4, 64))


@dataclass(frozen=True)
class Mfma:
    """The result of `mfma`: instruction (M, N, K), warps and tiles of a warp along each dimension (batch first)."""

    instruction: tuple[int, int, int]
    warps: tuple[int, ...]
    transposed: bool = False
    bits: int = 32
    tiles: tuple[int, ...] = ()
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        if tuple(self.instruction[:2]) not in MFMA_SHAPES:
            raise LayoutError(f"Mfma: instruction={self.instruction!r} must begin with one of {list(MFMA_SHAPES)}")
        if self.bits not in MFMA_NEIGHBOURS:
            raise LayoutError(f"Mfma: bits={self.bits!r} of the result must be 32 or 64")
        if len(self.warps) not in (2, 3):
            raise LayoutError(f"Mfma: warps={list(self.warps)} must have 2 entries, or 3 for a batch of products")
        if self.tiles:
            require_rank("Mfma", self.rank, tiles=self.tiles)
        require_sizes("Mfma", warps=self.warps, tiles=self.tiles)

    @property
    def rank(self) -> int:
        return len(self.warps)

    def tiles_along(self, axis: int) -> int:
        """The number of neighbouring tiles of one warp along an axis."""
        return self.tiles[axis] if self.tiles else 1

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, ..`; M and N are the last two dimensions."""
        require_shape("Mfma", shape, self.rank)
        names = standard_dims(self.rank)
        m_axis, n_axis = self.rank - 2, self.rank - 1
        sizes = {m_axis: self.instruction[0], n_axis: self.instruction[1]}
        across, along = (m_axis, n_axis) if self.transposed else (n_axis, m_axis)
        neighbours, lanes = MFMA_NEIGHBOURS[self.bits], min(WAVE, sizes[across])
        tile = product_of(
            LinearLayout.identity(neighbours, "register", names[along]),
            LinearLayout.identity(lanes, "lane", names[across]),
            LinearLayout.identity(WAVE // lanes, "lane", names[along]),
            LinearLayout.identity(max(1, sizes[along] * lanes // (neighbours * WAVE)), "register", names[along]),
        )
        tile = tile.transpose_outs([names[n_axis], names[m_axis]])
        # Triton repeats the tile along all of N, even where a block holds a part of it.
        lengths = {m_axis: part_of_a_block(shape, self.blocks)[m_axis], n_axis: shape[n_axis]}
        for axis in (n_axis, m_axis):
            tiles = self.tiles_along(axis)
            tile = tile * LinearLayout.identity(tiles, "register", names[axis])
            tile = tile * LinearLayout.identity(self.warps[axis], "warp", names[axis])
            left = lengths[axis] // (sizes[axis] * tiles * self.warps[axis])
            tile = tile * LinearLayout.identity(max(1, left), "register", names[axis])
        for axis in range(m_axis):
            tile = tile * LinearLayout.identity(self.warps[axis], "warp", names[axis])
        return fitted(tile, shape, self.blocks)


@dataclass(frozen=True)
class MfmaOperand:
    """An operand of `mfma`: A (index 0, MxK) or B (index 1, KxN), `k_width` neighbours along K in a lane."""

    index: int
    parent: Mfma
    k_width: int

    def __post_init__(self) -> None:
        if self.index not in (0, 1):
            raise LayoutError(f"MfmaOperand: index={self.index!r} must be 0 (A) or 1 (B)")
        require_sizes("MfmaOperand", k_width=(self.k_width,))

    @property
    def rank(self) -> int:
        return self.parent.rank

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, ..`, of the operand."""
        require_shape("MfmaOperand", shape, self.rank)
        names, parent, k = standard_dims(self.rank), self.parent, self.k_width
        k_axis, other = (self.rank - 1, self.rank - 2) if self.index == 0 else (self.rank - 2, self.rank - 1)
        lanes = min(WAVE, parent.instruction[self.index])
        tile_k = 16 * k if 4 in parent.instruction[:2] else k * WAVE // lanes
        tile = product_of(
            LinearLayout.identity(k, "register", names[k_axis]),
            LinearLayout.identity(lanes, "lane", names[other]),
            LinearLayout.identity(WAVE // lanes, "lane", names[k_axis]),
            LinearLayout.identity(tile_k * lanes // (k * WAVE), "register", names[k_axis]),
        )
        held = tile.out_sizes[names[k_axis]]
        tile = tile * LinearLayout.identity(max(1, shape[k_axis] // held), "register", names[k_axis])
        tile = tile * LinearLayout.identity(parent.tiles_along(other), "register", names[other])
        for axis in range(self.rank - 1, -1, -1):
            place = LinearLayout.zeros if axis == k_axis else LinearLayout.identity
            tile = tile * place(parent.warps[axis], "warp", names[axis])
        return fitted(tile, shape, parent.blocks)


@dataclass(frozen=True)
class Wmma:
    """The result of `wmma` of RDNA3 (version 1), RDNA4 (2) or CDNA5 (3).

    `warp_bases` and `register_bases` place warps and repetitions in units of one instruction's tile.
    """

    version: int
    warp_bases: tuple[tuple[int, ...], ...]
    register_bases: tuple[tuple[int, ...], ...] = ()
    instruction: tuple[int, int, int] = (16, 16, 16)
    transposed: bool = False
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        if self.version not in (1, 2, 3):
            raise LayoutError(f"Wmma: version={self.version!r} must be 1 (RDNA3), 2 (RDNA4) or 3 (CDNA5)")
        if tuple(self.instruction[:2]) not in ((16, 16), (32, 16)):
            raise LayoutError(f"Wmma: instruction={self.instruction!r} must begin with (16, 16) or (32, 16)")
        for basis in (*self.warp_bases, *self.register_bases):
            require_rank("Wmma", 2, basis=basis)

    @property
    def rank(self) -> int:
        return 2

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, dim1`."""
        require_shape("Wmma", shape, 2)
        across, along = ("dim0", "dim1") if self.transposed else ("dim1", "dim0")
        registers = LinearLayout.identity(8, "register", along)
        lanes = LinearLayout.identity(16, "lane", across), LinearLayout.identity(2, "lane", along)
        tile = product_of(*lanes, registers) if self.version == 1 else product_of(registers, *lanes)
        if self.instruction[0] == 32:
            tile = tile * LinearLayout.identity(2, "register", along)
        whole = tile.transpose_outs(["dim1", "dim0"]) * self.placed(("dim0", "dim1"))
        return fitted(whole, shape, self.blocks)

    def placed(self, names: Sequence[str], missing: str = "") -> LinearLayout:
        """Repetitions and warps in units of a tile; along `missing` warps hold copies and registers are dropped."""
        axes = [axis for axis, name in enumerate(names) if name != missing]
        bases = {
            "register": [b for b in self.register_bases if not missing or any(b[axis] for axis in axes)],
            "warp": list(self.warp_bases),
        }
        kept = {
            place: [tuple(v if names[axis] != missing else 0 for axis, v in enumerate(b)) for b in images]
            for place, images in bases.items()
        }
        reach = [max((b[axis] for images in kept.values() for b in images), default=0) for axis in range(len(names))]
        sizes = {name: 1 << value.bit_length() for name, value in zip(names, reach, strict=True)}
        return LinearLayout(kept, sizes).transpose_outs(list(names)[::-1])


@dataclass(frozen=True)
class WmmaOperand:
    """An operand of `wmma`: A (index 0, MxK) or B (index 1, KxN), `k_width` neighbours along K in a lane."""

    index: int
    parent: Wmma
    k_width: int

    def __post_init__(self) -> None:
        if self.index not in (0, 1):
            raise LayoutError(f"WmmaOperand: index={self.index!r} must be 0 (A) or 1 (B)")
        require_sizes("WmmaOperand", k_width=(self.k_width,))

    @property
    def rank(self) -> int:
        return 2

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, dim1`, of the operand."""
        require_shape("WmmaOperand", shape, 2)
        k, other = ("dim1", "dim0") if self.index == 0 else ("dim0", "dim1")
        parent = self.parent
        half = LinearLayout.zeros if parent.version == 1 else LinearLayout.identity
        tile = product_of(
            LinearLayout.identity(self.k_width, "register", k),
            LinearLayout.identity(16, "lane", other),
            half(2, "lane", k),
        )
        if parent.version != 1:
            tile = tile * LinearLayout.identity(max(1, parent.instruction[2] // tile.out_sizes[k]), "register", k)
        if parent.instruction[0] == 32 and self.index == int(parent.transposed):
            tile = tile * LinearLayout.identity(2, "register", other)
        whole = tile.transpose_outs([k, other]) * parent.placed(("dim0", "dim1"), missing=k)
        axis = 1 if self.index == 0 else 0
        blocks = [[0 if d == axis else v for d, v in enumerate(basis)] for basis in parent.blocks]
        return fitted(whole, shape, blocks)
