"""How large a tile size can be that is a `tl.constexpr` parameter: as large as Triton's blocks, or as its author says.

A size without a maximum would make every product with it 64 bits wide. But a size that `tl.arange` runs to is a
block's, and Triton refuses blocks of more than 2**20 elements: what lies along the block's other axes divides that
further.
Where `{{ hints }}` can assert it when the kernel is compiled, an axis of a block that has several is taken to be no
longer than `LONGEST`, unless its size says so: then offsets within a tile fit in int32.

>>> from lego_mlir.expr.index import size
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
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.expr.nodes import Size
from lego_mlir.printers.triton import MOST_ELEMENTS
from lego_mlir.templates.render.marks import HINTS, SIZES

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling


LONGEST: Final = 4096


def tile_sizes(filling: Filling, text: str) -> dict[Any, Any]:
    """The tile sizes of a filled-in template, each as a size with the largest maximum that it can have.

    `text` has its marks; every kernel in it has hints where there are as many of these as of lists of sizes.
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


def _room(name: str, shape: tuple[Any, ...], filling: Filling) -> int:
    """How many elements a block leaves to the axis of this name, at least, for the others' least sizes."""
    others = [n if isinstance(n, int) else max(1, filling.sizes[n].least) for n in shape if n != name]
    return MOST_ELEMENTS // prod(others)
