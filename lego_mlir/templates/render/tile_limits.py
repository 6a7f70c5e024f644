"""Upper bounds of tile sizes that are `tl.constexpr` parameters.

A size without a maximum would make every product with it 64 bits wide. But a size that is the length of a `tl.arange`
is a block's, and Triton rejects blocks of more than 2**20 elements, so the other axes of the block bound it further.
Where `{{ hints }}` can assert it at compile time, an axis of a multi-axis block is assumed to be at most `LONGEST`
unless its size declares a maximum: then offsets within a tile fit in int32.

>>> from lego_mlir.expr.sizes import size
>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, index
>>> B, C = size("B"), size("C", min=16)
>>> text = "def f(x{{ sizes }}):\\n    return x + {{ A[m, 0, :, :] }}"
>>> rendered = Template.of(text, "f.py.jinja", A=Row(64 * B, C).tile_by([64, 1], [B, C]), m=index("m")).render()
>>> {str(tile): capped.max for tile, capped in rendered.tiles.items()}
{'B': 65536, 'C': 1048576}
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from lego_mlir.expr.nodes import Size
from lego_mlir.printers.triton import MOST_ELEMENTS
from lego_mlir.templates.render.placeholder_marks import HINTS, SIZES

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling


LONGEST: Final = 4096


def tile_sizes(filling: Filling, text: str) -> dict[Size, Size]:
    """The tile sizes of a rendered template, each with its upper bound as maximum.

    `text` still contains its marks; it has hints in every kernel if it has as many of them as lists of sizes.
    """
    hinted = 0 < text.count(SIZES) <= text.count(HINTS)
    tiles = {}
    for name in sorted(filling.constexprs):
        size = filling.sizes[name]
        shapes = [shape for shape in filling.shapes if name in shape]
        most = min([_room(name, shape, filling) for shape in shapes], default=MOST_ELEMENTS)
        if hinted and size.max is None and size.least <= LONGEST and shapes and min(map(len, shapes)) > 1:
            most = min(most, LONGEST)
        most = max(size.least, most if size.max is None else min(most, size.max))
        tiles[size] = Size(name, size.min, most, size.multiple_of)
    return tiles


def _room(name: str, shape: tuple[int | str, ...], filling: Filling) -> int:
    """The largest length of the axis of this name in a block, with all other axes at their minimum."""
    others = [n if isinstance(n, int) else max(1, filling.sizes[n].least) for n in shape if n != name]
    return MOST_ELEMENTS // prod(others)
