"""Which family computes a product: what warpgroups can, and the quicker one by the model where both can."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.choices import warp_tiles, warpgroup_tiles
from lego_mlir.choices.families import can, warpgroups_compute
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE_DEVICE
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warpgroup_tiles import Wanted
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES


@pytest.mark.parametrize(
    ("size", "layouts", "dtype", "result", "possible"),
    [
        ((1, 64, 64), "NT", "f16", "f16", True),
        ((1, 64, 64), "TN", "f16", "f16", False),  # rows of A have one element
        ((8, 60, 64), "NT", "f16", "f16", False),
        ((8, 60, 64), "NT", "f16", "f32", True),
        ((8, 64, 60), "TN", "f16", "f16", True),
        ((8, 64, 60), "NN", "f16", "f16", False),
        ((8, 64, 64), "NN", "f8e4m3fn", "bf16", False),
        ((8, 64, 72), "NT", "f8e4m3fn", "bf16", False),
    ],
)
def test_what_warpgroups_can_compute(size, layouts, dtype, result, possible):
    assert can(size, layouts, dtype, result) == possible
    if not possible:
        assert not warpgroups_compute(size, layouts, dtype, result, REFERENCE_DEVICE, always=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9000), st.integers(8, 600), st.integers(8, 600))
def test_the_quicker_choice_computes(m, n, k):
    n, k = 8 * n, 8 * k
    product = ProductSize(m, n, k, "NT", 2)
    theirs = warp_tiles.choose(product, LARGEST_SHARED_BYTES)
    if m <= 64 and k >= 512:
        product = ProductSize(m, n, k, "NT")
        theirs = warp_tiles.choose_parts(product)
    time = product_time(product, theirs, launches="steady").microseconds
    quicker = Wanted(m, n, k).microseconds(warpgroup_tiles.choose(m, n, k)) <= time
    assert warpgroups_compute((m, n, k), "NT", "f16", "f16", REFERENCE_DEVICE) == quicker


def test_types_that_nothing_else_computes_and_sizes_that_were_not_measured():
    assert warpgroups_compute((16, 16, 16), "NT", "f8e4m3fn", "bf16", REFERENCE_DEVICE)
    assert warpgroups_compute((16, 16, 16), "NT", "f16", "f16", REFERENCE_DEVICE, always=True)
    assert not warpgroups_compute((4096, 56, 4096), "NT", "f16", "f16", REFERENCE_DEVICE)
    assert warpgroups_compute((16, 4096, 4096), "NT", "f16", "f32", REFERENCE_DEVICE)
    assert warpgroups_compute((16, 4096, 4096), "NT", "f16", "f16", REFERENCE_DEVICE)
