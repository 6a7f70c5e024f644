"""The space from which the defaults of `kernels.transpose` are judged, for sizes that a vector of 16 bytes divides.

    lego-mlir tune bench/recipes/transposes.json

The kernels have one size each. Their table was measured on a machine without a compiler, from candidates that compute
their checks there:

    lego-mlir tune bench/recipes/transposes.json --pack FOLDER --target sm_90
    lego-mlir tune FOLDER --trust --gpus 2 --store bench/recipes/transposes_timings.jsonl \\
        --export bench/recipes/transposes-choices.json

`test/unit/tuning/test_shipped_recipes.py` judges the defaults by these timings.
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
