"""Which family computes a product on sm_90a, `mma.sync` or warpgroups: the one whose best tile is predicted quicker.

Warpgroups need rows of whole 16-byte words in all matrices, and K contiguous for types of other than 16 bits, which
nothing else computes. Where both families can, the model of the time of all products compares the two choices
(`product_time`): no limit of size decides.

>>> [warpgroups_compute((n, n, n), "NN", "f16", "f16", 132) for n in (64, 4096)]
[False, True]
>>> warpgroups_compute((4096, 4095, 4096), "NN", "f16", "f16", 132)
False
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels import choices, split_choices, warpgroup_choices
from lego_mlir.kernels.product_counts import BYTES, BlockTile, ProductSize
from lego_mlir.kernels.product_time import H200, product_time

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
    size: Sizes, layouts: str, dtype: str, result: str, multiprocessors: int, always: bool = False,
    fused: bool = False, operands: int = 0,
) -> bool:  # fmt: skip
    """Whether warpgroups compute a product: they can, and nothing else does, or it is not predicted quicker.

    `always` is for products that only they compute, such as those with promoted sums. The others are arguments of
    `warpgroup_choices.choose`.
    """
    m, n, k = size
    if not can(size, layouts, dtype, result):
        return False
    if always or ELEMENT_BYTES[dtype] != BYTES:
        return True
    wide = fused or ELEMENT_BYTES[result] != BYTES
    if min(n, k) < LEAST_SIDE:
        return False
    tile = warpgroup_choices.choose(m, n, k, multiprocessors, layouts, fused=wide, operands=operands)
    product, other = ProductSize(m, n, k, layouts), other_choice(size, layouts, result, multiprocessors, fused)
    device = replace(H200, sms=multiprocessors)
    ours = warpgroup_choices.microseconds(size, tile, multiprocessors, layouts)
    return ours <= product_time(product, other, device, "steady").microseconds


def other_choice(size: Sizes, layouts: str, result: str, multiprocessors: int, fused: bool) -> BlockTile:
    """The tile of mma.sync, K in parts where there are few rows."""
    m, n, k = size
    if split_choices.applies(m, k) and not fused:
        return split_choices.choose(m, n, k, multiprocessors).block_tile
    element = ELEMENT_BYTES["f32" if fused else result]
    return choices.choose(m, n, k, layouts, LARGEST_SHARED_BYTES, element, multiprocessors).block_tile(element)
