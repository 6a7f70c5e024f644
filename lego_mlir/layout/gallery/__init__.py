"""Named permutations: each a `GenP` (or `RegP`) with its inverse, its source, and a repr that rebuilds it.

They are ordinary permutations. Use one to order a tile, `OrderBy(RegP([2, 2], [2, 1]), antidiagonal(3))`, or
use it as a whole layout, `lego.shared(f32, gallery.xor_swizzle(32, 32))`.
"""

from lego_mlir.layout.gallery.antidiagonal import antidiagonal
from lego_mlir.layout.gallery.curves import hilbert, morton
from lego_mlir.layout.gallery.plain import block_cyclic, padded, reverse
from lego_mlir.layout.gallery.swizzle import xor_swizzle
from lego_mlir.layout.gallery.tables import table, tabulated

__all__ = [
    "antidiagonal",
    "block_cyclic",
    "hilbert",
    "morton",
    "padded",
    "reverse",
    "table",
    "tabulated",
    "xor_swizzle",
]
