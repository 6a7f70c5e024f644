"""The space from which the defaults of `kernels.transpose` are judged, for sizes that a vector of 16 bytes divides.

    lego-mlir tune bench/recipes/transposes.json

It needs a GPU; the table is written beside the recipe. Until then, `test/unit/tuning/test_shipped_recipes.py` judges
the defaults by the whole spaces that bench/tuning_spaces.py recorded.
"""

import lego_mlir as lego
from lego_mlir import f32
from lego_mlir.kernels import transpose


@lego.tune(
    space={
        "tile": [(32, 32), (64, 32), (64, 64), (128, 64), (128, 128)],
        "threads": [64, 128, 256],
        "width": [2, 4],
        "order": ["row", "column"],
    },
    where=lambda tile, threads, width: tile[0] * tile[1] // width**2 % threads == 0,
    key=["M", "N"],
)
def vectorised(tile: tuple[int, int], threads: int, width: int, order: str, M: int, N: int) -> lego.Kernel:
    """The kernel of one configuration."""
    return transpose.build("vectorised", M, N, f32, tile=tile, threads=threads, width=width, order=order)
