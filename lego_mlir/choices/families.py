"""Choose between `mma.sync` and `wgmma` kernels on sm_90a: the family whose best tile is predicted quicker.

Warpgroups need rows of whole 16-byte words in all matrices, and K contiguous for types of other than 16 bits, which
nothing else computes. Where both families can, the model of the time of all products compares the two choices
(`product_time`): no limit of size decides.

>>> [warpgroups_compute((n, n, n), "NN", "f16", "f16") for n in (64, 4096)]
[False, True]
>>> warpgroups_compute((4096, 4095, 4096), "NN", "f16", "f16")
False
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lego_mlir.choices import warp_tiles, warpgroup_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE_DEVICE, ProductDevice
from lego_mlir.choices.product_tile import BYTES
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warpgroup_tiles import Wanted
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import CHUNK

Sizes = tuple[int, int, int]
LEAST_SIDE: Final = 64
"""N and K below which warpgroups were not measured."""
KEPT: Final = 1024
"""Choices that a process keeps."""


def can(size: Sizes, layouts: str, dtype: str = "f16", result: str = "f16") -> bool:
    """Whether warpgroups can compute a product: its rows are whole 16-byte words, its types those of the units."""
    m, n, k = size
    bytes_ = ELEMENT_BYTES[dtype]
    rows = (
        (k if layouts[0] == "N" else m, bytes_),
        (n if layouts[1] == "N" else k, bytes_),
        (n, ELEMENT_BYTES[result]),
    )
    return all(row * of_one % CHUNK == 0 for row, of_one in rows) and (bytes_ == BYTES or layouts == "NT")


@lru_cache(KEPT)
def warpgroups_compute(
    size: Sizes, layouts: str, dtype: str, result: str, device: ProductDevice = REFERENCE_DEVICE, always: bool = False,
    fused: bool = False, operands: int = 0,
) -> bool:  # fmt: skip
    """Whether warpgroups compute a product: they can, and nothing else does, or it is not predicted quicker.

    `always` is for products that only they compute, such as those with promoted sums. The others are arguments of
    `warpgroup_tiles.choose`.
    """
    m, n, k = size
    if not can(size, layouts, dtype, result):
        return False
    if always or ELEMENT_BYTES[dtype] != BYTES:
        return True
    if min(n, k) < LEAST_SIDE:
        return False
    wide = fused or ELEMENT_BYTES[result] != BYTES
    tile = warpgroup_tiles.choose(m, n, k, device, layouts, fused=wide, operands=operands)
    element = ELEMENT_BYTES["f32" if fused else result]
    if warp_tiles.is_parted(m, k) and not fused:
        other = warp_tiles.choose_parts(ProductSize(m, n, k, "NT"), device)
        element = ELEMENT_BYTES["f32"]
    else:
        other = warp_tiles.choose(ProductSize(m, n, k, layouts, element), LARGEST_SHARED_BYTES, device)
    theirs = product_time(ProductSize(m, n, k, layouts, element), other, device, "steady")
    return Wanted(m, n, k, device, layouts).microseconds(tile) <= theirs.microseconds
