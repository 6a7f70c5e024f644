"""The layout algebra: proved bijections between logical indices and physical positions.

`RegP` and `GenP` permute a tile, `OrderBy` nests tiles, a chain of them reorders a box, and `GroupBy` gives it a
logical view (LEGO, figure 5). `Padded` and `Tiled` handle sizes that tiles do not divide.

Sections:

- layouts: `base`, `permutations`, `chain`, `group`, `tiled`, `padded`, `strided`, `shifted`, `transposed`,
  `packed_bytes`, `slices`, `substitute`, `gallery/`
- indices: `canonical`, `values`, `boundaries`, `wrapping`, `contiguity`, `counting`
- proofs: `checking`, `proving`, `python_ints`, `enumeration`, `enumeration_limit`, `strided_proofs`, `equivalence`
- names and text: `naming`, `named_maps`, `notation`, `notation_parser`
"""

from lego_mlir.layout import gallery
from lego_mlir.layout.base import Layout
from lego_mlir.layout.chain import Chain, GroupBy, OrderBy, TileBy, TileOrderBy, as_layout, tile_sigma
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import Col, GenP, RegP, Row
from lego_mlir.layout.slices import Slice
from lego_mlir.layout.strided import Strided
from lego_mlir.layout.tiled import Tiled

__all__ = [
    "Chain",
    "Col",
    "GenP",
    "GroupBy",
    "Layout",
    "OrderBy",
    "Padded",
    "RegP",
    "Row",
    "Slice",
    "Strided",
    "TileBy",
    "TileOrderBy",
    "Tiled",
    "as_layout",
    "gallery",
    "tile_sigma",
]
